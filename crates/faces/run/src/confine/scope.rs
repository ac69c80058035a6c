// SPDX-License-Identifier: MIT OR Apache-2.0
//! Puts a Landlock domain around the command: it cannot reach abstract UNIX sockets and processes
//! outside.
//!
//! Abstract sockets belong to the network namespace, which is the caller's by default. The command
//! is in the caller's process group, so that job control works; `kill -9 0` would end the program
//! that started the run.
//!
//! # Kernel analogue
//! landlock(7): `LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET` and `LANDLOCK_SCOPE_SIGNAL`, of Linux 6.12.
//!
//! # Rules
//! R1. No access to files is handled, because a domain that handles one forbids all mounts.
//! R2. A process cannot enter a domain that another process made. Each command of `openpath exec`
//!     has a domain of its own that scopes abstract sockets only, so that it can signal the
//!     processes of the view.
//! R3. Processes outside a domain, such as the front, can signal and trace those inside as before.
//! R4. A kernel without scopes runs the command without them, and `openpath doctor` says so.

use crate::plan::CommandStart;
use crate::share::Share;
use openpath_commit::Refusal;
use openpath_sync::{LandlockScope, enter_landlock_domain, landlock_version};
use rustix::io::Errno;

/// The first version of Landlock that has scopes.
const SCOPES: u32 = 6;

/// What a command cannot reach.
fn scope_of(go: &CommandStart) -> LandlockScope {
    LandlockScope {
        abstract_sockets: !go.share.contains(&Share::Abstract),
        // R2
        signals: go.is_first && !go.share.contains(&Share::Pid),
    }
}

/// Confines the calling thread.
///
/// # Errors
/// The kernel has scopes and refuses the domain.
pub(super) fn apply(go: &CommandStart) -> Result<(), Refusal> {
    let scope = scope_of(go);
    // R4
    if scope == LandlockScope::default() || !has_scopes() {
        return Ok(());
    }
    super::with_privilege(|| enter_landlock_domain(scope)).map_err(|why| {
        let text = if Errno::from_io_error(&why) == Some(Errno::TOOBIG) {
            "the command is in 16 Landlock domains already, and a further one is refused: use \
             `--share pid,abstract`"
        } else {
            "the kernel refuses a Landlock domain: use `--share pid,abstract`"
        };
        Refusal::step(text, why)
    })
}

fn has_scopes() -> bool {
    landlock_version().is_some_and(|version| version >= SCOPES)
}

/// Says what the kernel scopes here, for `doctor`.
///
/// # Errors
/// What a command can reach because the kernel has no scopes.
pub(crate) fn check() -> Result<String, String> {
    match landlock_version() {
        Some(SCOPES..) => {
            let text =
                "a command reaches no abstract sockets and signals no processes outside (Landlock)";
            Ok(text.to_owned())
        }
        version => {
            let found = version.map_or_else(
                || "no Landlock".to_owned(),
                |version| format!("Landlock version {version}"),
            );
            Err(format!(
                "a command reaches abstract sockets of the host, and `kill 0` the caller's process \
                 group: the kernel has {found}, and needs version {SCOPES}, of Linux 6.12, turned \
                 on by `lsm=` at boot"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn shared_resources_are_out_of_scope_and_signals_of_exec_too() {
        let scope = |share: &[Share], is_first| {
            let scope = scope_of(&CommandStart {
                cwd: Path::new("/").into(),
                share: share.to_vec(),
                is_first,
                keep_fds: Vec::new(),
            });
            (scope.abstract_sockets, scope.signals)
        };
        assert_eq!(scope(&[], true), (true, true));
        assert_eq!(scope(&[Share::Ipc, Share::Shm], true), (true, true));
        assert_eq!(scope(&[Share::Pid], true), (true, false));
        assert_eq!(scope(&[Share::Abstract], true), (false, true));
        assert_eq!(scope(&[], false), (true, false));
        assert_eq!(scope(&[Share::Abstract], false), (false, false));
    }
}
