// SPDX-License-Identifier: MIT OR Apache-2.0
//! The helper: makes the namespaces, mounts the view and becomes the command.

use crate::Refusal;
use crate::namespaces::Namespaces;
use crate::plan::{FromHelper, Mounted, ToHelper};
use crate::wire::Wire;
use rustix::fd::AsFd as _;
use std::convert::Infallible;
use std::ffi::OsString;
use std::process::ExitCode;

/// Becomes `command` in the view that the front, at standard input, tells; gives an exit status if
/// it cannot, and the front says why.
///
/// # Errors
/// There is no front.
pub fn enter(command: &[OsString]) -> Result<ExitCode, Refusal> {
    let wire = Wire::inherited().map_err(|why| Refusal::step("standard input", why))?;
    let Err(refusal) = attempt(&wire, command);
    let code = ExitCode::from(refusal.code);
    let told = wire.send(&FromHelper::Refused(refusal), None);
    told.map(|()| code)
        .map_err(|why| Refusal::step("lost the front", why))
}

fn attempt(wire: &Wire, command: &[OsString]) -> Result<Infallible, Refusal> {
    let lost = |why| Refusal::step("lost the front", why);
    let Some((ToHelper::Mount(plan), Some(stdin))) = wire.recv().map_err(lost)? else {
        return Err(Refusal::new("this verb is for openpath itself"));
    };
    let front = rustix::process::getppid();
    rustix::stdio::dup2_stdin(stdin).map_err(|why| Refusal::step("standard input", why))?;
    let cwd = std::env::current_dir().map_err(|why| Refusal::step("working directory", why))?;
    let namespaces = Namespaces::make(&plan)?;
    crate::confine::protect()?;
    let (fuse, device) = namespaces.mount()?;
    for namespace in namespaces.own() {
        let sent = wire.send(&FromHelper::Namespace, Some(namespace.as_fd()));
        sent.map_err(lost)?;
    }
    let mapped = namespaces.is_mapped();
    let mounted = FromHelper::Mounted(Mounted { mapped, device });
    wire.send(&mounted, Some(fuse.as_fd())).map_err(lost)?;
    // Whoever holds it keeps the view from ending with the server.
    drop(fuse);
    let Some((ToHelper::Enter, _)) = wire.recv().map_err(lost)? else {
        return Err(Refusal::new("the front is gone"));
    };
    let unheld = namespaces.enter(&plan, &cwd)?;
    if !unheld.is_empty() {
        wire.send(&FromHelper::Unheld(unheld), None).map_err(lost)?;
        let Some((ToHelper::Enter, _)) = wire.recv().map_err(lost)? else {
            return Err(Refusal::new("the front is gone"));
        };
    }
    // Not earlier: to gain the capabilities of a user namespace takes the setting back.
    let killed = Some(rustix::process::Signal::KILL);
    rustix::process::set_parent_process_death_signal(killed)
        .map_err(|why| Refusal::step("death signal", why))?;
    if rustix::process::getppid() != front {
        return Err(Refusal::new("the front is gone"));
    }
    crate::inherited::execute(command)
}
