// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the process that becomes the command once it has entered all its namespaces, and
//! starts it on behalf of its parent.
//!
//! # States
//! Started (in the view's user and pid namespaces) -> has entered the others, if any were sent ->
//! told to start -> the command.
//!
//! # Rules
//! R1. A namespace is entered by its kind.
//! R2. Until it has entered the view's mounts it holds capabilities that no other process of the
//!     view's user has, so none of these can look through its `/proc/PID/root`. Afterwards it drops
//!     them.
//! R3. The kernel kills it if the process that waits for it dies, unless that process asks for the
//!     contrary.

use crate::child::{Child, Start, drop_capabilities};
use crate::namespace_kind::NamespaceKind;
use crate::plan::{CommandStart, FromStage, ToStage};
use crate::wire::Wire;
use openpath_commit::Refusal;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::Signal;
use rustix::thread::CapabilitySet;
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// Starts it, in the pid namespace that this process has for its children, as the first command
/// there. `has_secrets`: this process knows what is hidden from commands, of which one of
/// `openpath exec` may read the memory of the new process, so that is no fork.
pub(crate) fn start(command: &[OsString], has_secrets: bool) -> Result<Child, Refusal> {
    let start = how(command, CapabilitySet::empty());
    match has_secrets {
        true => Child::execute(&start),
        false => Child::fork(&start, || turn_into(command)),
    }
}

/// Starts it where other commands run, with these capabilities. They may read its memory, so it is
/// no fork.
pub(crate) fn start_among_others(
    command: &[OsString],
    lent: CapabilitySet,
) -> Result<Child, Refusal> {
    Child::execute(&how(command, lent))
}

fn how(command: &[OsString], lent: CapabilitySet) -> Start<'_> {
    Start {
        verb: crate::verbs::COMMAND,
        rest: command,
        has_output: true,
        at_root: true,
        lent,
    }
}

/// Tells it to become the command, with this process's standard input; returns when it has.
pub(crate) fn go(wire: &Wire, go: CommandStart) -> Result<(), Refusal> {
    let lost = |why: io::Error| Refusal::step("lost the command's process", why);
    let stdin = io::stdin();
    wire.send(&ToStage::Start(go), Some(stdin.as_fd()))
        .map_err(lost)?;
    match wire.recv().map_err(lost)? {
        Some((FromStage::Refused(refusal), _)) => Err(refusal),
        // Its end of the socket closed when it became the command.
        None => Ok(()),
    }
}

/// Becomes `command`; if it cannot, tells the front why and returns an exit status.
///
/// # Errors
/// There is no front.
pub fn become_command(command: &[OsString]) -> Result<ExitCode, Refusal> {
    turn_into(command).map(ExitCode::from)
}

fn turn_into(command: &[OsString]) -> Result<u8, Refusal> {
    let wire = Wire::inherited().map_err(|why| Refusal::step("standard input", why))?;
    let Err(refusal) = attempt(&wire, command);
    let code = refusal.exit_code();
    let told = wire.send(&FromStage::Refused(refusal), None);
    told.map(|()| code)
        .map_err(|why| Refusal::step("lost the front", why))
}

fn attempt(wire: &Wire, command: &[OsString]) -> Result<Infallible, Refusal> {
    crate::confine::protect()?;
    let (go, stdin) = prepare(wire)?;
    drop_capabilities().map_err(|why| Refusal::step("capabilities", why))?;
    rustix::stdio::dup2_stdin(stdin).map_err(|why| Refusal::step("standard input", why))?;
    let cwd = go.cwd.path();
    rustix::process::chdir(cwd).map_err(|why| {
        let text = format!("the view has no directory {}", cwd.display());
        Refusal::step(&text, why)
    })?;
    // R3. Not earlier: a change of capabilities resets the setting.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|why| Refusal::step("death signal", why))?;
    if wire.is_closed() {
        return Err(Refusal::system("the front is gone"));
    }
    crate::inherited::execute(command, &go)
}

/// Enters the namespaces that are sent, until it is told to start.
fn prepare(wire: &Wire) -> Result<(CommandStart, OwnedFd), Refusal> {
    let lost = |why: io::Error| Refusal::step("lost the front", why);
    loop {
        match wire.recv().map_err(lost)? {
            Some((ToStage::Namespace(kind), Some(space))) => enter(kind, &space)?,
            Some((ToStage::Start(go), Some(stdin))) => return Ok((go, stdin)),
            Some(_) => return Err(Refusal::system("unexpected message from the front")),
            None => return Err(Refusal::system("the front is gone")),
        }
    }
}

/// Enters a namespace. R1
pub(crate) fn enter(kind: NamespaceKind, space: &OwnedFd) -> Result<(), Refusal> {
    rustix::thread::move_into_link_name_space(space.as_fd(), Some(kind.setns_type()))
        .map_err(|why| Refusal::step("cannot enter the view", why))
}
