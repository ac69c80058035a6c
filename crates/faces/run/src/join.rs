// SPDX-License-Identifier: MIT OR Apache-2.0
//! A further command in a view that runs.
//!
//! The command is a child in the view's namespaces. This process stays outside, waits for it,
//! passes signals on, stops with it and ends as it ends. The command belongs to the view with all
//! that it leaves behind: when the view's first command is gone, what is still there is ended.
//!
//! # Kernel analogue
//! setns(2), as nsenter(1) uses it; a pid namespace holds for children alone.
//!
//! # Rules
//! R1. The superuser enters another user's view as that user, with his group and no other, before
//!     anything of his is touched: who serves a view shows its programs as he likes.
//! R2. Nothing of the superuser's goes in then but the standard streams. The command has a terminal
//!     of its own ([`relay`]), a session keyring of its own, an environment of a few variables and
//!     no other open file, and shares nothing with the host, whatever the view's server says.
//! R3. This process never enters the view's mounts. It has capabilities in the view's user
//!     namespace and cannot be traced, so that no process of the view looks through its
//!     `/proc/PID/root`. A change of credentials takes that back where the kernel is set so
//!     (`fs.suid_dumpable`), so it is set again after each.
//! R4. The command has a Landlock domain of its own, for no process can enter another's: abstract
//!     sockets and tracing end at it. It sends signals to all processes of the view, which must be
//!     able to be ended from here.

use crate::child::{Child, lend};
use crate::live::{Live, WayIn};
use crate::plan::{Go, ToStage};
use crate::share::Share;
use crate::signals::{End, Held, Signals};
use crate::space::Space;
use crate::verbs::JOIN;
use crate::{front, relay, stage};
use openpath_commit::Refusal;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::UCred;
use rustix::thread::CapabilitySet;
use std::ffi::OsString;
use std::io;

/// Runs `command` in the view that `which` means: its name, directory or process, and dies by the
/// signal that the command died by, or gives its exit status. This process must have one thread.
///
/// # Errors
/// Nothing runs that is called so; it is a mount, or lets nobody in; the view has no such working
/// directory; the command cannot be executed.
pub fn exec(which: &str, command: &[OsString]) -> Result<u8, Refusal> {
    let live = Live::find(which)?;
    let way = live.way_in()?;
    if way.server.uid == rustix::process::geteuid() {
        let share = way.share.clone();
        return enter(way, command, share);
    }
    let uid = way.server.uid;
    drop(way);
    let words = [JOIN, which, "--"].map(OsString::from);
    relay::run(&[&words, command].concat(), uid)
}

/// Runs `command` in another user's view, for [`exec`].
///
/// # Errors
/// As `exec`; the process leads a process group.
pub fn exec_relayed(which: &str, command: &[OsString]) -> Result<u8, Refusal> {
    relay::begin_session()?;
    crate::confine::leave_session_keyring()?;
    enter(Live::find(which)?.way_in()?, command, Vec::new())
}

fn enter(way: WayIn, command: &[OsString], share: Vec<Share>) -> Result<u8, Refusal> {
    let cwd = std::env::current_dir().map_err(|why| Refusal::step("working directory", why))?;
    // R3
    crate::confine::protect()?;
    become_user(way.server).map_err(|why| Refusal::step("cannot become the view's user", why))?;
    crate::confine::protect()?;
    let go = Go {
        cwd: cwd.as_path().into(),
        share,
        is_first: false,
        keep_fds: Vec::new(),
    };
    let (stage, held) = start(way, command, go)?;
    let end = attend(&stage, held).map_err(|why| Refusal::step("cannot wait for the command", why));
    Ok(front::leave(end?))
}

/// Starts the command: it runs when this returns, and signals wait.
fn start(way: WayIn, command: &[OsString], go: Go) -> Result<(Child, Held), Refusal> {
    let group = way.group;
    let (outer, inner): (Vec<_>, Vec<_>) = way
        .namespaces
        .into_iter()
        .partition(|(kind, _)| matches!(kind, Space::User | Space::Pid));
    // The user namespace gives the right to enter the other.
    for kind in [Space::User, Space::Pid] {
        for (_, namespace) in outer.iter().filter(|(other, _)| *other == kind) {
            stage::enter(kind, namespace)?;
        }
    }
    // R3
    crate::confine::protect()?;
    let entering = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_CHROOT;
    let stage = lend(entering, || stage::start(command))?;
    let admitted = group.map_or(Ok(()), |group| group.admit(stage.pid));
    match admitted.and_then(|()| lead_in(&stage, inner, go)) {
        Ok(held) => Ok((stage, held)),
        Err(refusal) => {
            stage.kill();
            Err(refusal)
        }
    }
}

/// Has it enter the rest of the namespaces, the mounts last, and become the command.
fn lead_in(stage: &Child, mut inner: Vec<(Space, OwnedFd)>, go: Go) -> Result<Held, Refusal> {
    inner.sort_by_key(|(kind, _)| *kind == Space::Mount);
    for (kind, namespace) in &inner {
        let sent = stage
            .wire
            .send(&ToStage::Space(*kind), Some(namespace.as_fd()));
        sent.map_err(|why| Refusal::step("lost the command's process", why))?;
    }
    // A process that holds one keeps the view from ending.
    drop(inner);
    let held = Held::new().map_err(|why| Refusal::step("cannot hold signals", why))?;
    stage::go(&stage.wire, go)?;
    Ok(held)
}

/// Waits for the command and does what it does.
fn attend(stage: &Child, held: Held) -> io::Result<End> {
    let mut signals = Signals::take(true)?;
    drop(held);
    let (_, end) = signals.wait(stage.pid, stage.pid)?;
    Ok(end)
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
