// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds, installs and (in tests) interprets seccomp filters: programs that judge some system
//! calls and allow all others.
//!
//! # Rules
//! R1. The kernel runs programs of several architectures, and a call has a number on each. Each
//!     number is judged.
//! R2. Other calls are allowed by their number alone, so that the kernel caches the answer and does
//!     not run the filter for them.

use openpath_sync::{BpfInstruction, install_seccomp_filter};
use rustix::io::Errno;
use std::io;

/// Numbers of calls on each architecture (`AUDIT_ARCH_*`). All these architectures store the low
/// half of an argument first.
pub(super) type Calls = &'static [(u32, &'static [u32])];

/// x86-64 and x32, i386, AArch64, ARM, RISC-V of 64 bits.
pub(super) const X86_64: u32 = 0xC000_003E;
pub(super) const I386: u32 = 0x4000_0003;
pub(super) const AARCH64: u32 = 0xC000_00B7;
pub(super) const ARM: u32 = 0x4000_0028;
pub(super) const RISCV64: u32 = 0xC000_00F3;
/// `__X32_SYSCALL_BIT`
pub(super) const X32: u32 = 0x4000_0000;

/// Offsets in `struct seccomp_data`: number and architecture.
const NR: u32 = 0;
const ARCH: u32 = 4;

/// `BPF_LD | BPF_W | BPF_ABS`, `BPF_JMP | BPF_JEQ | BPF_K`, `BPF_RET | BPF_K`
pub(super) const LOAD: u16 = 0x20;
pub(super) const EQUAL: u16 = 0x15;
const RETURN: u16 = 0x06;
/// `SECCOMP_RET_ALLOW`, `SECCOMP_RET_ERRNO`
const ALLOWED: u32 = 0x7FFF_0000;
const FAILS: u32 = 0x0005_0000;

/// Allows the call.
pub(super) const ALLOW: BpfInstruction = (RETURN, 0, 0, ALLOWED);

/// Fails the call with this error.
pub(super) fn fail(errno: Errno) -> BpfInstruction {
    (RETURN, 0, 0, FAILS | errno.raw_os_error().cast_unsigned())
}

/// A filter that runs `judgement` for these calls: a block for each architecture, an instruction
/// that allows the rest, and the judgement.
pub(super) fn program(calls: Calls, judgement: &[BpfInstruction]) -> Vec<BpfInstruction> {
    // Besides its numbers a block has three instructions.
    let blocks: usize = calls.iter().map(|(_, numbers)| 3 + numbers.len()).sum();
    let judged = 1 + blocks + 1;
    let far = |from: usize, to: usize| u8::try_from(to - from - 1).expect("a short program");
    let mut program = vec![(LOAD, 0, 0, ARCH)];
    for (arch, numbers) in calls {
        let next = program.len() + 3 + numbers.len();
        program.push((EQUAL, 0, far(program.len(), next), *arch));
        program.push((LOAD, 0, 0, NR));
        for number in *numbers {
            program.push((EQUAL, far(program.len(), judged), 0, *number));
        }
        program.push(ALLOW);
    }
    program.push(ALLOW);
    debug_assert_eq!(program.len(), judged);
    program.extend(judgement);
    program
}

/// Confines the calling thread by a filter.
pub(super) fn install(program: &[BpfInstruction]) -> io::Result<()> {
    super::with_privilege(|| install_seccomp_filter(program))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The answer of a filter, by interpreting it; `low` is the word at `place`.
    pub(in crate::confine) fn answer(
        program: &[BpfInstruction],
        (arch, number): (u32, u32),
        (place, low): (u32, u32),
    ) -> Result<(), u32> {
        let (mut at, mut loaded) = (0, 0);
        loop {
            let (code, jt, jf, k) = program[at];
            at += 1;
            match code {
                LOAD if k == NR => loaded = number,
                LOAD if k == ARCH => loaded = arch,
                LOAD if k == place => loaded = low,
                EQUAL => at += usize::from(if loaded == k { jt } else { jf }),
                RETURN if k == ALLOWED => return Ok(()),
                RETURN => return Err(k - FAILS),
                _ => panic!("operation {code} of {k}"),
            }
        }
    }
}
