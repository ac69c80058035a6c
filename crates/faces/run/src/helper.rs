// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the helper, the process that makes the namespaces, starts the first processes in them
//! and mounts the view.
//!
//! It stays outside the view's pid namespace, and ends when the view is the root. Its children then
//! become children of the front, which is a subreaper.

use crate::child::{Child, Start};
use crate::kernel_overlay::mounts::{UpperTree, memory};
use crate::namespaces::Namespaces;
use crate::plan::{FromHelper, Mounted, Plan, ToHelper, Upper};
use crate::stage;
use crate::verbs::ENTER;
use crate::view::half_of_memory;
use crate::wire::Wire;
use openpath_commit::Refusal;
use openpath_overlay::Marks;
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{CWD, Mode, OFlags};
use rustix::thread::CapabilitySet;
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// Prepares the view that the front, at standard input, describes, and a process that will become
/// `command` in it. Returns an exit status if it cannot; the front prints why.
///
/// # Errors
/// There is no front.
pub fn enter(command: &[OsString]) -> Result<ExitCode, Refusal> {
    prepare(command).map(ExitCode::from)
}

/// Starts the helper.
pub(crate) fn start(command: &[OsString]) -> Result<Child, Refusal> {
    let start = Start {
        verb: ENTER,
        rest: command,
        has_output: true,
        at_root: false,
        lent: CapabilitySet::empty(),
    };
    Child::fork(&start, || prepare(command))
}

fn prepare(command: &[OsString]) -> Result<u8, Refusal> {
    let wire = Wire::inherited().map_err(|why| Refusal::step("standard input", why))?;
    let (message, code) = match attempt(&wire, command) {
        Ok(no_proc) => (FromHelper::Entered { no_proc }, 0),
        Err(refusal) => {
            let code = refusal.exit_code();
            (FromHelper::Refused(refusal), code)
        }
    };
    let told = wire.send(&message, None);
    told.map(|()| code)
        .map_err(|why| Refusal::step("lost the front", why))
}

fn attempt(wire: &Wire, command: &[OsString]) -> Result<Option<String>, Refusal> {
    let Some((ToHelper::Mount(plan), _)) = wire.recv().map_err(lost)? else {
        return Err(Refusal::usage("this verb is for openpath itself"));
    };
    // Where the kernel serves a part, the tree for it comes before the namespaces.
    let mut early = match plan.part {
        Some(_) => upper(wire)?,
        None => None,
    };
    // Root's tree is attached nowhere.
    let is_root = rustix::process::geteuid().is_root();
    if let Some(tree) = early.as_ref().filter(|_| !is_root) {
        // The working directory moves with this process into the new mount namespace, where the
        // kernel takes no layer from another one.
        rustix::process::fchdir(&tree.tree)
            .map_err(|why| Refusal::step("the directory of the view", why))?;
    }
    let (namespaces, stage) = Namespaces::make(&plan, || stage::start(command, plan.has_secrets))?;
    if let Some(tree) = early.as_mut().filter(|_| !is_root) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        tree.tree = rustix::fs::openat(CWD, ".", flags, Mode::empty())
            .map_err(|why| Refusal::step("the directory of the view", why))?;
    }
    crate::confine::protect()?;
    let entered = set_up_view(wire, (&plan, early), namespaces, &stage);
    if entered.is_err() {
        // The first process of a pid namespace ends when its socket closes, and this one follows.
        stage.kill();
    }
    entered
}

fn set_up_view(
    wire: &Wire,
    (plan, early): (&Plan, Option<UpperTree>),
    mut namespaces: Namespaces,
    stage: &Child,
) -> Result<Option<String>, Refusal> {
    let send =
        |message: &FromHelper, fd: BorrowedFd<'_>| wire.send(message, Some(fd)).map_err(lost);
    if let Some(init) = namespaces.init() {
        let number = init.child.pid.as_raw_nonzero().get();
        send(&FromHelper::Init(number), init.child.wire.as_fd())?;
    }
    let number = stage.pid.as_raw_nonzero().get();
    send(&FromHelper::Stage(number), stage.wire.as_fd())?;
    for (kind, namespace) in namespaces.own() {
        send(&FromHelper::Namespace(*kind), namespace.as_fd())?;
    }
    let upper = match (early, &plan.part, &plan.upper) {
        (_, None, _) => upper(wire)?,
        (None, Some(_), Upper::Memory { size }) => {
            let size = size.unwrap_or_else(half_of_memory);
            let tree = memory(size);
            let tree = tree.map_err(|why| Refusal::step("the changes cannot be kept", why))?;
            send(&FromHelper::Memory, tree.as_fd())?;
            let Some((ToHelper::Lent, _)) = wire.recv().map_err(lost)? else {
                return Err(Refusal::system("the front is gone"));
            };
            let marks = Marks::User;
            Some(UpperTree { tree, marks })
        }
        (early, ..) => early,
    };
    let (fuse, device) = match (upper, &plan.part) {
        (Some(upper), None) => namespaces.mount_overlays(plan, &upper)?,
        (upper, part) => {
            // Before the view covers the real tree.
            if let (Some(upper), Some(part)) = (upper, part) {
                namespaces.make_part(part, &upper)?;
            }
            namespaces.mount()?
        }
    };
    let mapped = namespaces.is_mapped();
    let mounted = FromHelper::Mounted(Mounted {
        mapped,
        device,
        more_devices: namespaces.layer_devices(),
    });
    send(&mounted, fuse.as_fd())?;
    // An open copy of it would keep the view alive after the server.
    drop(fuse);
    let Some((ToHelper::Enter, _)) = wire.recv().map_err(lost)? else {
        return Err(Refusal::system("the front is gone"));
    };
    let (unenforced, no_proc) = namespaces.enter(plan)?;
    if !unenforced.is_empty() {
        wire.send(&FromHelper::Unenforced(unenforced), None)
            .map_err(lost)?;
        let Some((ToHelper::Enter, _)) = wire.recv().map_err(lost)? else {
            return Err(Refusal::system("the front is gone"));
        };
    }
    Ok(no_proc)
}

/// Waits for the tree for the kernel's overlays; none if they do not serve the view.
fn upper(wire: &Wire) -> Result<Option<UpperTree>, Refusal> {
    let Some((ToHelper::Upper { trusted }, tree)) = wire.recv().map_err(lost)? else {
        return Err(Refusal::system("the front is gone"));
    };
    let marks = match trusted {
        true => Marks::Trusted,
        false => Marks::User,
    };
    Ok(tree.map(|tree| UpperTree { tree, marks }))
}

fn lost(why: io::Error) -> Refusal {
    Refusal::step("lost the front", why)
}
