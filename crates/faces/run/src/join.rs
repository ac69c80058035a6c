// SPDX-License-Identifier: MIT OR Apache-2.0
//! Joins a running view with one more command (`openpath exec`).
//!
//! The command is a child of this process, in the namespaces of the view. This process stays
//! outside, waits for it, forwards signals, stops with it and ends as it ends. The command belongs
//! to the view, with all processes that it leaves behind: they are ended when the view's first
//! command is gone.
//!
//! # Kernel analogue
//! setns(2), as nsenter(1) uses it; a pid namespace applies to children only.
//!
//! # Rules
//! R1. Root enters another user's view as that user, with the user's group and no other, before it
//!     touches anything of the view: the server of the view may show any programs.
//! R2. Then nothing of root's goes in but the standard streams. The command has a terminal of its
//!     own ([`relay`]), a session keyring of its own, an environment of a few variables and no
//!     other open file. It shares nothing with the host, whatever the view's server says.
//! R3. This process never enters the view's mounts. It has capabilities in the view's user
//!     namespace and cannot be traced, so that no process of the view can look through its
//!     `/proc/PID/root`. A change of credentials can reset that (`fs.suid_dumpable`), so it is set
//!     again after each.
//! R4. The command has a Landlock domain of its own, because a process cannot enter one that
//!     another made. Abstract sockets and tracing end at it. Signals do not: by a command of
//!     `openpath exec`, all processes of the view can be ended.

use crate::child::Child;
use crate::live::{LiveServer, ViewEntry};
use crate::namespace_kind::NamespaceKind;
use crate::plan::{CommandStart, ToStage};
use crate::share::Share;
use crate::signals::{BlockedSignals, CommandExit, Signals};
use crate::verbs::JOIN;
use crate::{front, relay, stage};
use openpath_commit::Refusal;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::net::UCred;
use rustix::thread::CapabilitySet;
use std::ffi::OsString;
use std::io;

/// Runs `command` in the view that `which` names, by its name, directory or process (see
/// [`LiveServer::find`]). Dies by the
/// signal that killed the command, or returns its exit status. This process must have one thread.
///
/// # Errors
/// No such view runs; it is a mount, or refuses entry; the view has no such working directory; the
/// command cannot be executed.
pub fn exec(which: &str, command: &[OsString]) -> Result<u8, Refusal> {
    let live = LiveServer::find(which)?;
    let entry = live.view_entry()?;
    if entry.server.uid == rustix::process::geteuid() {
        let share = entry.share.clone();
        return enter(entry, command, share);
    }
    let uid = entry.server.uid;
    drop(entry);
    // Nothing else that runs by then has this name.
    let which = live.unique_name();
    let words = [JOIN, &which, "--"].map(OsString::from);
    relay::run(&[&words, command].concat(), uid)
}

/// Runs `command` in another user's view, for [`exec`].
///
/// # Errors
/// As `exec`; the process leads a process group.
pub fn exec_relayed(which: &str, command: &[OsString]) -> Result<u8, Refusal> {
    relay::begin_session()?;
    crate::confine::leave_session_keyring()?;
    enter(LiveServer::find(which)?.view_entry()?, command, Vec::new())
}

fn enter(entry: ViewEntry, command: &[OsString], share: Vec<Share>) -> Result<u8, Refusal> {
    let cwd = std::env::current_dir().map_err(|why| Refusal::step("working directory", why))?;
    // R3
    crate::confine::protect()?;
    become_user(entry.server).map_err(|why| Refusal::step("cannot become the view's user", why))?;
    crate::confine::protect()?;
    let go = CommandStart {
        cwd: cwd.as_path().into(),
        share,
        is_first: false,
        keep_fds: Vec::new(),
    };
    let (stage, blocked) = start(entry, command, go)?;
    let end =
        attend(&stage, blocked).map_err(|why| Refusal::step("cannot wait for the command", why));
    Ok(front::exit_like(end?))
}

/// Starts the command, which runs when this returns, with signals blocked.
fn start(
    entry: ViewEntry,
    command: &[OsString],
    go: CommandStart,
) -> Result<(Child, BlockedSignals), Refusal> {
    let group = entry.group;
    let (outer, inner): (Vec<_>, Vec<_>) = entry
        .namespaces
        .into_iter()
        .partition(|(kind, _)| matches!(kind, NamespaceKind::User | NamespaceKind::Pid));
    // The user namespace gives the right to enter the other.
    for kind in [NamespaceKind::User, NamespaceKind::Pid] {
        for (_, namespace) in outer.iter().filter(|(other, _)| *other == kind) {
            stage::enter(kind, namespace)?;
        }
    }
    // R3
    crate::confine::protect()?;
    let entering = CapabilitySet::SYS_ADMIN | CapabilitySet::SYS_CHROOT;
    let stage = stage::start_among_others(command, entering)?;
    let admitted = group.map_or(Ok(()), |group| group.admit(stage.pid));
    match admitted.and_then(|()| lead_in(&stage, inner, go)) {
        Ok(blocked) => Ok((stage, blocked)),
        Err(refusal) => {
            stage.kill();
            Err(refusal)
        }
    }
}

/// Sends it the rest of the namespaces to enter, the mounts last, and tells it to become the
/// command.
fn lead_in(
    stage: &Child,
    mut inner: Vec<(NamespaceKind, OwnedFd)>,
    go: CommandStart,
) -> Result<BlockedSignals, Refusal> {
    inner.sort_by_key(|(kind, _)| *kind == NamespaceKind::Mount);
    for (kind, namespace) in &inner {
        let sent = stage
            .wire
            .send(&ToStage::Namespace(*kind), Some(namespace.as_fd()));
        sent.map_err(|why| Refusal::step("lost the command's process", why))?;
    }
    // An open descriptor would keep the view from ending.
    drop(inner);
    let blocked = BlockedSignals::new().map_err(|why| Refusal::step("cannot hold signals", why))?;
    stage::go(&stage.wire, go)?;
    Ok(blocked)
}

/// Waits for the command, and stops and continues with it.
fn attend(stage: &Child, blocked: BlockedSignals) -> io::Result<CommandExit> {
    let mut signals = Signals::install(true)?;
    drop(blocked);
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
