// SPDX-License-Identifier: MIT OR Apache-2.0
//! A further command in a view that runs.
//!
//! The process that was started becomes the command, so terminal, signals, job control and exit
//! status are its own. It belongs to the view from then on, with all that it leaves behind: when
//! the view's first command is gone, the server asks what is still there to end, and makes it.
//!
//! # Kernel analogue
//! setns(2), as nsenter(1) uses it.
//!
//! # Rules
//! R1. The superuser enters another user's view as that user, with his group and no other, before
//!     anything of his is touched: who serves a view shows its programs as he likes.
//! R2. His terminal stays outside then: the command has one of its own ([`relay`]).

use crate::live::Live;
use crate::{JOIN, Refusal, relay};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::UCred;
use rustix::thread::LinkNameSpaceType;
use std::convert::Infallible;
use std::ffi::OsString;

/// Becomes `command` in the view that `which` means: its name, directory or process. The process
/// must have one thread. In another user's view it runs the command instead (R2); its exit status.
///
/// # Errors
/// Nothing runs that is called so; it is a mount, or lets nobody in; the view has no such working
/// directory; the command cannot be executed.
pub fn exec(which: &str, command: &[OsString]) -> Result<u8, Refusal> {
    let live = Live::find(which)?;
    let (namespaces, server) = live.namespaces()?;
    if server.uid == rustix::process::geteuid() {
        let Err(refusal) = enter(namespaces, server, command);
        return Err(refusal);
    }
    drop(namespaces);
    let words = [JOIN, which, "--"].map(OsString::from);
    relay::run(&[&words, command].concat(), server.uid)
}

/// Becomes `command` in another user's view, for [`exec`].
///
/// # Errors
/// As `exec`; the process leads a process group.
pub fn exec_relayed(which: &str, command: &[OsString]) -> Result<Infallible, Refusal> {
    relay::begin_session()?;
    let (namespaces, server) = Live::find(which)?.namespaces()?;
    enter(namespaces, server, command)
}

fn enter(
    namespaces: Vec<OwnedFd>,
    server: UCred,
    command: &[OsString],
) -> Result<Infallible, Refusal> {
    let cwd = std::env::current_dir().map_err(|why| Refusal::step("working directory", why))?;
    // Else processes in the view could trace this one before it becomes the command.
    crate::confine::protect()?;
    become_user(server).map_err(|why| Refusal::step("cannot become the view's user", why))?;
    let kinds: &[_] = match namespaces.len() {
        1 => &[LinkNameSpaceType::Mount],
        _ => &[LinkNameSpaceType::User, LinkNameSpaceType::Mount],
    };
    for (namespace, kind) in namespaces.iter().zip(kinds) {
        rustix::thread::move_into_link_name_space(namespace.as_fd(), Some(*kind))
            .map_err(|why| Refusal::step("cannot enter the view", why))?;
    }
    // Whoever holds one keeps the view from ending.
    drop(namespaces);
    rustix::process::chdir(&cwd).map_err(|why| {
        let text = format!("the view has no directory {}", cwd.display());
        Refusal::step(&text, why)
    })?;
    crate::inherited::execute(command)
}

/// R1
fn become_user(server: UCred) -> rustix::io::Result<()> {
    if rustix::process::geteuid() == server.uid {
        return Ok(());
    }
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_gid(server.gid)?;
    rustix::thread::set_thread_uid(server.uid)
}
