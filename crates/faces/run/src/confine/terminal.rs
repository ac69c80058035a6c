// SPDX-License-Identifier: MIT OR Apache-2.0
//! No input into the caller's terminal: a seccomp filter refuses `TIOCSTI` and `TIOCLINUX`.
//!
//! The command shares the terminal of the shell that started it. `TIOCSTI` puts bytes into the
//! input of a terminal, and `TIOCLINUX` pastes into a virtual console: what the shell reads next
//! would be a command line of the guest's, run outside.
//!
//! # Kernel analogue
//! The sysctl `dev.tty.legacy_tiocsti`, whose answer for `TIOCSTI` (`EIO`) this is.
//!
//! # Rules
//! R1. ioctl(2) has several numbers: one for each architecture whose programs the kernel runs. Each
//!     is filtered, and every other call of every architecture is allowed.
//! R2. The kernel takes the low 32 bits of the request, so these alone are compared.
//! R3. Calls other than ioctl(2) are allowed by their number alone: the kernel then finds that out
//!     once, and not at each call.

use crate::Refusal;
use openpath_sync::{BpfInstruction, install_seccomp_filter};
use rustix::io::Errno;

/// Architectures (`AUDIT_ARCH_*`) and their numbers of ioctl(2).
const CALLS: &[(u32, &[u32])] = &[
    // x86-64 and x32. Older kernels take 514 without the bit as well.
    (0xC000_003E, &[16, 514, X32 | 16, X32 | 514]),
    // i386
    (0x4000_0003, &[54]),
    // AArch64 and ARM
    (0xC000_00B7, &[29]),
    (0x4000_0028, &[54]),
    // RISC-V, 64 bits
    (0xC000_00F3, &[29]),
];
/// `__X32_SYSCALL_BIT`
const X32: u32 = 0x4000_0000;
/// Requests, and what they answer.
const REQUESTS: [(u32, Errno); 2] = [(0x5412, Errno::IO), (0x541C, Errno::PERM)];

/// Places in `struct seccomp_data`: number, architecture, low half of the second argument. All of
/// [`CALLS`] store the low half first.
const NR: u32 = 0;
const ARCH: u32 = 4;
const REQUEST: u32 = 16 + 8;

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_RET | BPF_K`
const LOAD: u16 = 0x20;
const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// `SECCOMP_RET_ALLOW`, `SECCOMP_RET_ERRNO`
const ALLOW: u32 = 0x7FFF_0000;
const FAIL: u32 = 0x0005_0000;

/// Confines the calling thread.
///
/// # Errors
/// The kernel has no seccomp filters.
pub(super) fn apply() -> Result<(), Refusal> {
    let program = program();
    super::with_privilege(|| install_seccomp_filter(&program)).map_err(|why| {
        let text = "the terminal cannot be protected from the command: the kernel needs \
            CONFIG_SECCOMP_FILTER, and a container around it must allow seccomp(2)";
        Refusal::step(text, why)
    })
}

/// The filter: a block for each architecture, what allows, and the test of the request.
fn program() -> Vec<BpfInstruction> {
    // Beside its numbers a block has three instructions.
    let blocks: usize = CALLS.iter().map(|(_, numbers)| 3 + numbers.len()).sum();
    let test = 1 + blocks + 1;
    let far = |from: usize, to: usize| u8::try_from(to - from - 1).expect("a short program");
    let mut program = vec![(LOAD, 0, 0, ARCH)];
    for (arch, numbers) in CALLS {
        let next = program.len() + 3 + numbers.len();
        program.push((EQUAL, 0, far(program.len(), next), *arch));
        program.push((LOAD, 0, 0, NR));
        for number in *numbers {
            program.push((EQUAL, far(program.len(), test), 0, *number));
        }
        program.push((RETURN, 0, 0, ALLOW));
    }
    program.push((RETURN, 0, 0, ALLOW));
    debug_assert_eq!(program.len(), test);
    program.push((LOAD, 0, 0, REQUEST));
    for (request, errno) in REQUESTS {
        program.push((EQUAL, 0, 1, request));
        program.push((RETURN, 0, 0, FAIL | errno.raw_os_error().cast_unsigned()));
    }
    program.push((RETURN, 0, 0, ALLOW));
    program
}

/// What protects terminals here, for `doctor`. Confines the calling thread.
pub(crate) fn check() -> Result<String, Refusal> {
    apply()?;
    let setting = std::fs::read_to_string("/proc/sys/dev/tty/legacy_tiocsti").unwrap_or_default();
    let kernel = match setting.trim() {
        "0" => "the kernel refuses it to ordinary users everywhere",
        "1" => "the kernel itself allows it (dev.tty.legacy_tiocsti is 1)",
        _ => "the kernel itself allows it",
    };
    Ok(format!(
        "a command cannot put input into the terminal (TIOCSTI, TIOCLINUX); {kernel}"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the filter answers, by interpreting it.
    fn answer(arch: u32, number: u32, request: u64) -> u32 {
        let program = program();
        let low = u32::try_from(request & 0xFFFF_FFFF).unwrap();
        let (mut at, mut loaded) = (0, 0);
        loop {
            let (code, jt, jf, k) = program[at];
            at += 1;
            match code {
                LOAD => {
                    loaded = match k {
                        NR => number,
                        ARCH => arch,
                        REQUEST => low,
                        _ => panic!("loads {k}"),
                    }
                }
                EQUAL => at += usize::from(if loaded == k { jt } else { jf }),
                RETURN => return k,
                _ => panic!("operation {code}"),
            }
        }
    }

    #[test]
    fn filter_refuses_terminal_input_of_every_architecture_and_nothing_else() {
        let (input, paste) = (FAIL | 5, FAIL | 1);
        for (arch, numbers) in CALLS {
            for number in *numbers {
                for high in [0, 1 << 32, 0xFFFF_FFFF << 32] {
                    assert_eq!(answer(*arch, *number, high | 0x5412), input);
                    assert_eq!(answer(*arch, *number, high | 0x541C), paste);
                    assert_eq!(answer(*arch, *number, high | 0x5413), ALLOW);
                }
            }
            // write(2) of some, with the same number as second argument.
            for other in [0, 1, 4, 15, 17, 53, 55, 64, 513, X32 | 1] {
                assert_eq!(answer(*arch, other, 0x5412), ALLOW);
            }
        }
        assert_eq!(answer(0xC000_0015, 54, 0x5412), ALLOW);
    }
}
