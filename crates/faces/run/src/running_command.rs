// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the command in a view, with the processes around it, and ends what it leaves. This runs
//! in the front, the process that the user started.
//!
//! # States
//! The helper is started -> it has named its children -> the view is mounted and served -> the
//! helper has made it the root and ended -> its children are the front's -> the command runs.

use crate::cgroup::Group;
use crate::child::{Child, ends_within, wait};
use crate::plan::{CommandStart, FromHelper, FromInit, Mounted, Plan, ToHelper, ToInit, ToServer};
use crate::server_client::{BuiltView, ServerClient};
use crate::signals::BlockedSignals;
use crate::terminate::GRACE;
use crate::wire::Wire;
use crate::{helper, stage};
use openpath_commit::Refusal;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// How long the first process of a pid namespace may take to end all others: the time that it gives
/// them, and the same again.
const PATIENCE: Duration = Duration::from_secs(3 * GRACE.as_secs());

/// The command in a view, as the front knows it.
pub(crate) struct RunningCommand {
    /// The command.
    pub(crate) command: Pid,
    /// The first process of the pid namespace; none if the host's processes are shared.
    init: Option<InitHandle>,
}

/// The first process of a pid namespace. It may have ended and been reaped, so it is named by a
/// pidfd.
struct InitHandle {
    process: OwnedFd,
    wire: Wire,
}

/// What the first process of a pid namespace reports at the end.
#[derive(Default)]
pub(crate) struct LeftAtEnd {
    /// How many processes the command left and the init ended.
    pub(crate) processes: usize,
    /// The time limit ended the command.
    pub(crate) expired: bool,
}

/// Why there is no outcome.
pub(crate) enum Failure {
    /// The command has not been started.
    SetUp(Refusal),
    /// It may have been.
    Command(Refusal),
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Failure {
        Failure::SetUp(refusal)
    }
}

impl Failure {
    pub(crate) fn into_refusal(self) -> Refusal {
        match self {
            Failure::SetUp(refusal) | Failure::Command(refusal) => refusal,
        }
    }
}

/// The processes that the helper has started.
#[derive(Default)]
struct HelperChildren {
    init: Option<Child>,
    stage: Option<Child>,
}

impl RunningCommand {
    /// Starts the command, which runs when this returns. Signals for the front are blocked
    /// meanwhile: an interrupt from the terminal that the command handles must not end the front.
    pub(crate) fn start(
        plan: &Plan,
        command: &[OsString],
        server: &ServerClient,
        group: Option<&Group>,
    ) -> Result<(RunningCommand, BlockedSignals), Failure> {
        let helper = helper::start(command)?;
        let mut named = HelperChildren::default();
        let entered = Self::prepare(&helper.wire, plan, (server, group), &mut named);
        let entered = entered.and_then(|()| Self::mount_view(&helper.wire, server));
        match entered {
            Ok(()) => wait(helper.pid),
            Err(_) => helper.kill(),
        }
        let HelperChildren { init, stage } = named;
        let started = entered.map_err(Failure::SetUp).and_then(|()| {
            let stage = stage.as_ref();
            let stage =
                stage.ok_or_else(|| Refusal::system("the helper has started no command"))?;
            let init = init.as_ref().map(InitHandle::open).transpose()?;
            // Before it starts anything, so that every process is in the group, even one that
            // detaches.
            if let Some(group) = group {
                group.command_group().admit(stage.pid)?;
            }
            let blocked = Self::start_command(plan, stage, init.as_ref());
            let blocked = blocked.map_err(Failure::Command)?;
            Ok((stage.pid, init, blocked))
        });
        match started {
            Ok((command, init, blocked)) => Ok((RunningCommand { command, init }, blocked)),
            Err(refusal) => {
                for child in [stage, init].into_iter().flatten() {
                    child.kill();
                }
                Err(refusal)
            }
        }
    }

    /// Has the helper make the namespaces, while the server builds the view. The helper's children
    /// are named first: if the view cannot be built, they are to be killed.
    fn prepare(
        wire: &Wire,
        plan: &Plan,
        (server, group): (&ServerClient, Option<&Group>),
        named: &mut HelperChildren,
    ) -> Result<(), Refusal> {
        let mount = ToHelper::Mount(Box::new(plan.clone()));
        wire.send(&mount, None).map_err(lost)?;
        let send_upper = || {
            let BuiltView { upper, trusted } = server.built()?;
            server.send_group(group)?;
            let upper = upper.as_ref().map(OwnedFd::as_fd);
            wire.send(&ToHelper::Upper { trusted }, upper).map_err(lost)
        };
        // The helper holds the tree for the part before it makes the namespaces.
        let is_early = plan.part.is_some();
        if is_early {
            send_upper()?;
        }
        while named.stage.is_none() {
            match hear(wire)? {
                (FromHelper::Init(number), Some(socket)) => named.init = child(number, socket),
                (FromHelper::Stage(number), Some(socket)) => named.stage = child(number, socket),
                (FromHelper::Refused(refusal), _) => return Err(refusal),
                _ => return Err(Refusal::system("unexpected message from the helper")),
            }
        }
        match is_early {
            true => Ok(()),
            false => send_upper(),
        }
    }

    fn mount_view(wire: &Wire, server: &ServerClient) -> Result<(), Refusal> {
        let (mounted, fuse): (Mounted, OwnedFd) = loop {
            match hear(wire)? {
                (FromHelper::Namespace(kind), Some(namespace)) => {
                    let message = ToServer::Namespace(kind);
                    server.tell(&message, namespace.as_fd())?;
                }
                (FromHelper::Memory, Some(tree)) => {
                    server.ask(&ToServer::Memory, Some(tree.as_fd()))?;
                    wire.send(&ToHelper::Lent, None).map_err(lost)?;
                }
                (FromHelper::Mounted(mounted), Some(fuse)) => break (mounted, fuse),
                (FromHelper::Refused(refusal), _) => return Err(refusal),
                _ => return Err(Refusal::system("unexpected message from the helper")),
            }
        };
        server.ask(&ToServer::Serve(mounted), Some(fuse.as_fd()))?;
        drop(fuse);
        wire.send(&ToHelper::Enter, None).map_err(lost)?;
        let mut answer = hear(wire)?.0;
        if let FromHelper::Unenforced(places) = answer {
            server.ask(&ToServer::Unenforced(places), None)?;
            wire.send(&ToHelper::Enter, None).map_err(lost)?;
            answer = hear(wire)?.0;
        }
        match answer {
            FromHelper::Entered { no_proc } => {
                if let Some(why) = no_proc {
                    warn(&why);
                }
                Ok(())
            }
            FromHelper::Refused(refusal) => Err(refusal),
            _ => Err(Refusal::system("unexpected message from the helper")),
        }
    }

    fn start_command(
        plan: &Plan,
        stage: &Child,
        init: Option<&InitHandle>,
    ) -> Result<BlockedSignals, Refusal> {
        let cwd = std::env::current_dir().map_err(|why| Refusal::step("working directory", why))?;
        let blocked =
            BlockedSignals::new().map_err(|why| Refusal::step("cannot hold signals", why))?;
        let go = CommandStart {
            cwd: cwd.as_path().into(),
            share: plan.share.clone(),
            is_first: true,
            keep_fds: plan.keep_fds.clone(),
        };
        if let (Some(init), Some(time)) = (init, plan.limits.time()) {
            init.begin(time)?;
        }
        stage::go(&stage.wire, go)?;
        Ok(blocked)
    }

    /// Ends all processes that the command has left in its pid namespace.
    pub(crate) fn end(self) -> LeftAtEnd {
        let mut left = LeftAtEnd::default();
        if let Some(init) = self.init {
            // If the init is gone, all of them are.
            init.ask_to_end(&mut left).ok();
            // All are gone when the init is: only then the changes are final.
            init.reap_soon();
        }
        left
    }

    /// Kills all.
    pub(crate) fn kill(self) {
        rustix::process::kill_process(self.command, Signal::KILL).ok();
        if let Some(init) = self.init {
            init.reap_soon();
        }
    }
}

impl InitHandle {
    /// The handle of a child that was not waited for yet.
    fn open(child: &Child) -> Result<InitHandle, Refusal> {
        let failed = |why: io::Error| Refusal::step("the first process of the view", why);
        let process = rustix::process::pidfd_open(child.pid, PidfdFlags::empty());
        Ok(InitHandle {
            process: process.map_err(|why| failed(why.into()))?,
            wire: child.wire.try_clone().map_err(failed)?,
        })
    }

    /// Tells it to end all members after this time.
    fn begin(&self, time: Duration) -> Result<(), Refusal> {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let sent = self.wire.send(&ToInit::TimeLimit(millis), None);
        sent.map_err(|why| Refusal::step("lost the first process of the view", why))
    }

    fn ask_to_end(&self, left: &mut LeftAtEnd) -> io::Result<()> {
        self.wire.set_read_timeout(PATIENCE)?;
        // It may have ended already, with its report still to be read.
        if !self.wire.is_readable()? {
            self.wire.send(&ToInit::End, None)?;
        }
        loop {
            match self.wire.recv()? {
                Some((FromInit::Expired, _)) => left.expired = true,
                Some((FromInit::Ended(ended), _)) => {
                    left.processes = ended;
                    return Ok(());
                }
                _ => return Ok(()),
            }
        }
    }

    /// Kills it and waits until all processes in its namespace are gone, but not for ever: one of
    /// them may wait for a server that does not answer.
    fn reap_soon(self) {
        let process = self.process.as_fd();
        rustix::process::pidfd_send_signal(process, Signal::KILL).ok();
        if ends_within(process, PATIENCE) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            // It may have been reaped already.
            rustix::process::waitid(WaitId::PidFd(process), options).ok();
        }
    }
}

/// The next message of the helper, with its descriptor.
fn hear(wire: &Wire) -> Result<(FromHelper, Option<OwnedFd>), Refusal> {
    let gone = || Refusal::system("the helper is gone");
    wire.recv().map_err(lost)?.ok_or_else(gone)
}

fn lost(why: io::Error) -> Refusal {
    Refusal::step("lost the helper", why)
}

/// A child of the helper, by its number.
fn child(number: i32, socket: OwnedFd) -> Option<Child> {
    let pid = Pid::from_raw(number)?;
    let wire = Wire::from_socket(socket);
    Some(Child { pid, wire })
}

/// Warns that the command sees the host's `/proc`.
fn warn(why: &str) {
    use io::Write as _;
    let text = format!(
        "openpath: warning: no /proc of the view's own ({why}), so the command sees the host's \
         processes: a container must show all of /proc, or say `--share pid`"
    );
    writeln!(io::stderr(), "{text}").ok();
}
