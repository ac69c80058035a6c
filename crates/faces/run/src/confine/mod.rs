// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a process gives up right before it becomes the command.
//!
//! Namespaces decide what the command can name. The modules here take away what it could reach
//! without a namespace in between: the caller's terminal, the processes of the caller's group,
//! abstract sockets, keys, and this program's own processes.

mod filter;
mod keyring;
mod own;
mod scope;
mod terminal;

use crate::plan::Go;
use openpath_commit::Refusal;
use std::io;

pub(crate) use keyring::{check as check_keyring, leave as leave_session_keyring};
pub(crate) use own::{outlive_limits, protect};
pub(crate) use scope::check as check_scope;
pub(crate) use terminal::check as check_terminal;

/// Confines the calling process, which must have one thread, and all that it starts.
///
/// # Errors
/// The kernel cannot do one of the steps: the command must not run then.
pub(crate) fn apply(go: &Go) -> Result<(), Refusal> {
    terminal::apply()?;
    keyring::apply(go)?;
    scope::apply(go)
}

/// Takes a step that needs `CAP_SYS_ADMIN` or `no_new_privs`, which is set only if the kernel asks
/// for it: set-user-ID programs go on working in root's view.
fn with_privilege(step: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match step() {
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            rustix::thread::set_no_new_privs(true)?;
            step()
        }
        done => done,
    }
}
