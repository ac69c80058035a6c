// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the caller's keys from the command: a new session keyring, and a seccomp filter that
//! refuses add_key(2), request_key(2) and keyctl(2).
//!
//! Kerberos tickets, keys of file systems and the like are in the session keyring, which processes
//! inherit, and in the user's keyring, which all processes of a user share. Neither belongs to a
//! namespace in a run by root. Keys can also be named by number, and the owner of a keyring may
//! link it into another one: a new session keyring alone protects nothing.
//!
//! # Kernel analogue
//! A kernel without CONFIG_KEYS, which answers `ENOSYS` as well.
//!
//! # Rules
//! R1. The session keyring is joined first. The kernel itself looks keys up for the command: keys
//!     of network file systems, and keys by number for sockets of its crypto API.
//! R2. Where the kernel or an outer filter refuses keyctl(2) already, there is nothing to join and
//!     nothing to reach.
//! R3. `/proc/keys` still lists names of keys. It is not covered by a mount: the kernel would then
//!     refuse a further `/proc`, and a run inside this one could have none of its own.

use super::filter::{self, AARCH64, ARM, Calls, I386, RISCV64, X32, X86_64};
use crate::plan::CommandStart;
use crate::share::Share;
use openpath_commit::Refusal;
use openpath_sync::{BpfInstruction, join_new_session_keyring};
use rustix::io::Errno;
use std::io;

/// add_key(2), request_key(2) and keyctl(2).
const CALLS: Calls = &[
    (X86_64, &[248, 249, 250, X32 | 248, X32 | 249, X32 | 250]),
    (I386, &[286, 287, 288]),
    (AARCH64, &[217, 218, 219]),
    (ARM, &[309, 310, 311]),
    (RISCV64, &[217, 218, 219]),
];

/// Confines the calling thread.
///
/// # Errors
/// No new session keyring can be made; the kernel has no seccomp filters.
pub(super) fn apply(go: &CommandStart) -> Result<(), Refusal> {
    if go.share.contains(&Share::Keyring) {
        return Ok(());
    }
    join().map_err(refusal)?;
    filter::install(&program()).map_err(|why| {
        let text = "keys cannot be kept from the command (CONFIG_SECCOMP_FILTER): use \
            `--share keyring`";
        Refusal::step(text, why)
    })
}

/// Replaces the caller's session keyring by a new one, for a process that becomes another user.
///
/// # Errors
/// No new session keyring can be made.
pub(crate) fn leave() -> Result<(), Refusal> {
    join().map(drop).map_err(refusal)
}

/// Whether a keyring could be joined. R1, R2
fn join() -> io::Result<bool> {
    match join_new_session_keyring() {
        Ok(()) => Ok(true),
        Err(why) => match Errno::from_io_error(&why) {
            Some(Errno::NOSYS | Errno::PERM) => Ok(false),
            _ => Err(why),
        },
    }
}

fn refusal(why: io::Error) -> Refusal {
    let text = "no new session keyring for the command: raise kernel.keys.maxkeys as root, or use \
        `--share keyring`";
    Refusal::step(text, why)
}

fn program() -> Vec<BpfInstruction> {
    filter::program(CALLS, &[filter::fail(Errno::NOSYS)])
}

/// Says what protects keys here, for `doctor`. Changes the session keyring of the calling thread.
pub(crate) fn check() -> Result<String, Refusal> {
    let text = match join().map_err(refusal)? {
        true => "a command has a session keyring of its own, and reads no keys",
        false => "keys cannot be used here, neither by a command",
    };
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::confine::filter::tests::answer;

    #[test]
    fn filter_refuses_keys_on_every_architecture_and_nothing_else() {
        let program = program();
        let answer = |arch, number| answer(&program, (arch, number), (u32::MAX, 0));
        for (arch, numbers) in CALLS {
            for number in *numbers {
                assert_eq!(answer(*arch, *number), Err(38));
            }
            let (first, last) = (numbers[0], numbers[2]);
            for other in [0, 1, first - 1, last + 1] {
                assert_eq!(answer(*arch, other), Ok(()));
            }
        }
        assert_eq!(answer(0xC000_0015, 271), Ok(()));
    }
}
