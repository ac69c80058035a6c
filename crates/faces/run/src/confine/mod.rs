// SPDX-License-Identifier: MIT OR Apache-2.0
//! Takes away what a process must give up right before it becomes the command.
//!
//! Namespaces decide what the command can name. These modules take away what it could reach without
//! a namespace in between: the caller's terminal, the processes of the caller's group, abstract
//! sockets, keys, and this program's own processes.

mod filter;
mod keyring;
mod scope;
mod self_protection;
mod terminal;

use crate::plan::CommandStart;
use openpath_commit::Refusal;
use std::io;

pub(crate) use keyring::{check as check_keyring, leave as leave_session_keyring};
pub(crate) use scope::check as check_scope;
pub(crate) use self_protection::{
    outlive_limits, protect, raise_fd_limit, raise_limits, unprotect,
};
pub(crate) use terminal::check as check_terminal;

/// Confines the calling process, which must have one thread, and all processes that it starts.
///
/// # Errors
/// The kernel cannot do one of the steps, so the command must not run.
pub(crate) fn apply(go: &CommandStart) -> Result<(), Refusal> {
    terminal::apply()?;
    keyring::apply(go)?;
    scope::apply(go)
}

/// Takes a step that needs `CAP_SYS_ADMIN` or `no_new_privs`. The latter is set only if the kernel
/// asks for it, so that set-user-ID programs keep working in root's view.
fn with_privilege(step: impl Fn() -> io::Result<()>) -> io::Result<()> {
    match step() {
        Err(why) if why.kind() == io::ErrorKind::PermissionDenied => {
            rustix::thread::set_no_new_privs(true)?;
            step()
        }
        done => done,
    }
}
