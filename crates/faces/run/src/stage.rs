// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process that becomes the command, in all of its namespaces.
//!
//! # States
//! Started (in the view's user and pid namespaces) -> entered the others, if any were sent -> told
//! to go -> the command.
//!
//! # Rules
//! R1. A namespace is entered by its kind.
//! R2. Until it has entered the view's mounts it holds capabilities that no other process of the
//!     view's user has, so none of these can look through its `/proc/PID/root`. Afterwards it gives
//!     them up.
//! R3. It is killed with the process that waits for it, unless that asks for the contrary.

use crate::child::{Child, give_up};
use crate::plan::{FromStage, Go, ToStage};
use crate::space::Space;
use crate::wire::Wire;
use openpath_commit::Refusal;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::Signal;
use std::convert::Infallible;
use std::ffi::OsString;
use std::io;
use std::process::{ExitCode, Stdio};

/// Starts it, in the pid namespace that this process has for its children.
pub(crate) fn start(command: &[OsString]) -> Result<Child, Refusal> {
    Child::start(crate::verbs::COMMAND, command, Stdio::inherit(), true)
}

/// Has it become the command, with this process's standard input; returns when it has.
pub(crate) fn go(wire: &Wire, go: Go) -> Result<(), Refusal> {
    let lost = |why: io::Error| Refusal::step("lost the command's process", why);
    let stdin = io::stdin();
    wire.send(&ToStage::Go(go), Some(stdin.as_fd()))
        .map_err(lost)?;
    match wire.recv().map_err(lost)? {
        Some((FromStage::Refused(refusal), _)) => Err(refusal),
        // Its end of the socket closed as it became the command.
        None => Ok(()),
    }
}

/// Becomes `command`; gives an exit status if it cannot, and tells the front why.
///
/// # Errors
/// There is no front.
pub fn become_command(command: &[OsString]) -> Result<ExitCode, Refusal> {
    let wire = Wire::inherited().map_err(|why| Refusal::step("standard input", why))?;
    let Err(refusal) = attempt(&wire, command);
    let code = ExitCode::from(refusal.code);
    let told = wire.send(&FromStage::Refused(refusal), None);
    told.map(|()| code)
        .map_err(|why| Refusal::step("lost the front", why))
}

fn attempt(wire: &Wire, command: &[OsString]) -> Result<Infallible, Refusal> {
    crate::confine::protect()?;
    let (go, stdin) = prepare(wire)?;
    give_up().map_err(|why| Refusal::step("capabilities", why))?;
    rustix::stdio::dup2_stdin(stdin).map_err(|why| Refusal::step("standard input", why))?;
    let cwd = go.cwd.path();
    rustix::process::chdir(cwd).map_err(|why| {
        let text = format!("the view has no directory {}", cwd.display());
        Refusal::step(&text, why)
    })?;
    // R3. Not earlier: a change of capabilities takes the setting back.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|why| Refusal::step("death signal", why))?;
    if wire.is_over() {
        return Err(Refusal::new("the front is gone"));
    }
    crate::inherited::execute(command, &go)
}

/// Enters the namespaces that are sent, until it is told to go.
fn prepare(wire: &Wire) -> Result<(Go, OwnedFd), Refusal> {
    let lost = |why: io::Error| Refusal::step("lost the front", why);
    loop {
        match wire.recv().map_err(lost)? {
            Some((ToStage::Space(kind), Some(space))) => enter(kind, &space)?,
            Some((ToStage::Go(go), Some(stdin))) => return Ok((go, stdin)),
            Some(_) => return Err(Refusal::new("unexpected message from the front")),
            None => return Err(Refusal::new("the front is gone")),
        }
    }
}

/// Enters a namespace. R1
pub(crate) fn enter(kind: Space, space: &OwnedFd) -> Result<(), Refusal> {
    rustix::thread::move_into_link_name_space(space.as_fd(), Some(kind.link()))
        .map_err(|why| Refusal::step("cannot enter the view", why))
}
