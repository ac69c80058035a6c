// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the command from putting input into the caller's terminal: a seccomp filter refuses
//! `TIOCSTI` and `TIOCLINUX`.
//!
//! The command shares the terminal of the shell that started it. `TIOCSTI` puts bytes into the
//! input of a terminal, and `TIOCLINUX` pastes into a virtual console. The shell would read a
//! command line of the guest and run it outside.
//!
//! # Kernel analogue
//! The sysctl `dev.tty.legacy_tiocsti`, which answers `EIO` to `TIOCSTI` as well.
//!
//! # Rules
//! R1. The kernel reads only the low 32 bits of the request, so only these are compared.

use super::filter::{self, AARCH64, ARM, Calls, EQUAL, I386, LOAD, RISCV64, X32, X86_64};
use openpath_commit::Refusal;
use openpath_sync::BpfInstruction;
use rustix::io::Errno;

/// ioctl(2). On x86-64 older kernels accept 514 even without the bit of x32.
const CALLS: Calls = &[
    (X86_64, &[16, 514, X32 | 16, X32 | 514]),
    (I386, &[54]),
    (AARCH64, &[29]),
    (ARM, &[54]),
    (RISCV64, &[29]),
];
/// Requests, and the error for each.
const REQUESTS: [(u32, Errno); 2] = [(0x5412, Errno::IO), (0x541C, Errno::PERM)];

/// The low half of the second argument, in `struct seccomp_data`.
const REQUEST: u32 = 16 + 8;

/// Confines the calling thread.
///
/// # Errors
/// The kernel has no seccomp filters.
pub(super) fn apply() -> Result<(), Refusal> {
    filter::install(&program()).map_err(|why| {
        let text = "the terminal cannot be protected from the command: the kernel needs \
            CONFIG_SECCOMP_FILTER, and a container around it must allow seccomp(2)";
        Refusal::step(text, why)
    })
}

fn program() -> Vec<BpfInstruction> {
    let mut judgement = vec![(LOAD, 0, 0, REQUEST)];
    for (request, errno) in REQUESTS {
        judgement.push((EQUAL, 0, 1, request));
        judgement.push(filter::fail(errno));
    }
    judgement.push(filter::ALLOW);
    filter::program(CALLS, &judgement)
}

/// Says what protects terminals here, for `doctor`. Confines the calling thread.
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
    use crate::confine::filter::tests::answer;

    #[test]
    fn filter_refuses_terminal_input_of_every_architecture_and_nothing_else() {
        let program = program();
        let answer = |call, request| answer(&program, call, (REQUEST, request));
        for (arch, numbers) in CALLS {
            for number in *numbers {
                assert_eq!(answer((*arch, *number), 0x5412), Err(5));
                assert_eq!(answer((*arch, *number), 0x541C), Err(1));
                assert_eq!(answer((*arch, *number), 0x5413), Ok(()));
            }
            // Other calls with the same number as second argument, such as write(2).
            for other in [0, 1, 4, 15, 17, 53, 55, 64, 513, X32 | 1] {
                assert_eq!(answer((*arch, other), 0x5412), Ok(()));
            }
        }
        assert_eq!(answer((0xC000_0015, 54), 0x5412), Ok(()));
    }
}
