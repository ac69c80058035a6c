// SPDX-License-Identifier: MIT OR Apache-2.0
//! The front's side of what runs in a view: its start, and its end.
//!
//! # States
//! The helper is started -> it has named its children -> the view is mounted and served -> the
//! helper has made it the root and ended -> its children are the front's -> the command runs.

use crate::cgroup::Group;
use crate::child::{Child, wait};
use crate::ending::GRACE;
use crate::plan::{FromHelper, FromInit, Go, Mounted, Plan, ToHelper, ToInit, ToServer};
use crate::server_client::Server;
use crate::signals::Held;
use crate::stage;
use crate::verbs::ENTER;
use crate::wire::Wire;
use openpath_commit::Refusal;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions};
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

/// How long the first process of a pid namespace may take to end all others: what it gives them,
/// and the same again.
const PATIENCE: Duration = Duration::from_secs(3 * GRACE.as_secs());

/// What runs in a view, as its front knows it.
pub(crate) struct Inside {
    /// The command.
    pub(crate) command: Pid,
    /// The first process of the pid namespace; none where the host's processes are shared.
    init: Option<First>,
}

/// The first process of a pid namespace. It may have ended and been reaped, so it is named by a
/// descriptor.
struct First {
    process: OwnedFd,
    wire: Wire,
}

/// What the first process of a pid namespace says at the end.
#[derive(Default)]
pub(crate) struct Left {
    /// Processes that the command left, and that were ended.
    pub(crate) processes: usize,
    /// The limit on time ended the command.
    pub(crate) expired: bool,
}

/// Processes that the helper has started.
#[derive(Default)]
struct Named {
    init: Option<Child>,
    stage: Option<Child>,
}

impl Inside {
    /// Starts the command: it runs when this returns. What comes for the front meanwhile waits: a
    /// terminal's interrupt that the command answers must not end the front.
    pub(crate) fn start(
        plan: &Plan,
        command: &[OsString],
        server: &Server,
        group: Option<&Group>,
    ) -> Result<(Inside, Held), Refusal> {
        let helper = Child::start(ENTER, command, Stdio::inherit(), false)?;
        let mut named = Named::default();
        let entered = Self::bring_in(&helper.wire, plan, server, &mut named);
        match entered {
            Ok(()) => wait(helper.pid),
            Err(_) => helper.kill(),
        }
        let Named { init, stage } = named;
        let started = entered.and_then(|()| {
            let stage = stage.as_ref();
            let stage = stage.ok_or_else(|| Refusal::new("the helper has started no command"))?;
            let init = init.as_ref().map(First::of).transpose()?;
            // So early that all it starts is in the group, also what detaches.
            if let Some(group) = group {
                group.entry().admit(stage.pid)?;
            }
            let held = Self::go(plan, stage, init.as_ref())?;
            Ok((stage.pid, init, held))
        });
        match started {
            Ok((command, init, held)) => Ok((Inside { command, init }, held)),
            Err(refusal) => {
                for child in [stage, init].into_iter().flatten() {
                    child.kill();
                }
                Err(refusal)
            }
        }
    }

    fn bring_in(
        wire: &Wire,
        plan: &Plan,
        server: &Server,
        named: &mut Named,
    ) -> Result<(), Refusal> {
        let lost = |why: io::Error| Refusal::step("lost the helper", why);
        let hear = || wire.recv::<FromHelper>().map_err(lost);
        let gone = || Refusal::new("the helper is gone");
        wire.send(&ToHelper::Mount(Box::new(plan.clone())), None)
            .map_err(lost)?;
        let (mounted, fuse): (Mounted, OwnedFd) = loop {
            match hear()?.ok_or_else(gone)? {
                (FromHelper::Init(number), Some(socket)) => named.init = child(number, socket),
                (FromHelper::Stage(number), Some(socket)) => named.stage = child(number, socket),
                (FromHelper::Namespace(kind), Some(namespace)) => {
                    let told = ToServer::Namespace(kind);
                    server.ask(&told, Some(namespace.as_fd()))?;
                }
                (FromHelper::Mounted(mounted), Some(fuse)) => break (mounted, fuse),
                (FromHelper::Refused(refusal), _) => return Err(refusal),
                _ => return Err(Refusal::new("unexpected message from the helper")),
            }
        };
        server.ask(&ToServer::Serve(mounted), Some(fuse.as_fd()))?;
        drop(fuse);
        wire.send(&ToHelper::Enter, None).map_err(lost)?;
        let mut answer = hear()?.ok_or_else(gone)?.0;
        if let FromHelper::Unheld(places) = answer {
            server.ask(&ToServer::Unheld(places), None)?;
            wire.send(&ToHelper::Enter, None).map_err(lost)?;
            answer = hear()?.ok_or_else(gone)?.0;
        }
        match answer {
            FromHelper::Entered { no_proc } => {
                if let Some(why) = no_proc {
                    warn(&why);
                }
                Ok(())
            }
            FromHelper::Refused(refusal) => Err(refusal),
            _ => Err(Refusal::new("unexpected message from the helper")),
        }
    }

    fn go(plan: &Plan, stage: &Child, init: Option<&First>) -> Result<Held, Refusal> {
        let cwd = std::env::current_dir().map_err(|why| Refusal::step("working directory", why))?;
        let held = Held::new().map_err(|why| Refusal::step("cannot hold signals", why))?;
        let go = Go {
            cwd: cwd.as_path().into(),
            share: plan.share.clone(),
            is_first: true,
            keep_fds: plan.keep_fds.clone(),
        };
        if let (Some(init), Some(time)) = (init, plan.limits.time()) {
            init.begin(time)?;
        }
        stage::go(&stage.wire, go)?;
        Ok(held)
    }

    /// Ends all that the command has left in its pid namespace.
    pub(crate) fn end(self) -> Left {
        let mut left = Left::default();
        if let Some(init) = self.init {
            // One that is gone has ended all.
            init.ask_to_end(&mut left).ok();
            // All are gone when it is: only then is it known what they have changed.
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

impl First {
    /// That of a child which was not waited for yet.
    fn of(child: &Child) -> Result<First, Refusal> {
        let failed = |why: io::Error| Refusal::step("the first process of the view", why);
        let process = rustix::process::pidfd_open(child.pid, PidfdFlags::empty());
        Ok(First {
            process: process.map_err(|why| failed(why.into()))?,
            wire: child.wire.again().map_err(failed)?,
        })
    }

    /// Has it end all members after this time.
    fn begin(&self, time: Duration) -> Result<(), Refusal> {
        let millis = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let sent = self.wire.send(&ToInit::Clock(millis), None);
        sent.map_err(|why| Refusal::step("lost the first process of the view", why))
    }

    fn ask_to_end(&self, left: &mut Left) -> io::Result<()> {
        self.wire.patience(PATIENCE)?;
        // It may have ended already, and what it said is there to be read.
        if !self.wire.has_news()? {
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

    /// Kills it and waits until all in its namespace are gone, but not for ever: one of them may
    /// wait for a server that does not answer.
    fn reap_soon(self) {
        let process = self.process.as_fd();
        rustix::process::pidfd_send_signal(process, Signal::KILL).ok();
        let limit = Timespec::try_from(PATIENCE).ok();
        let mut ended = [PollFd::new(&process, PollFlags::IN)];
        if let Ok(1..) = rustix::event::poll(&mut ended, limit.as_ref()) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            // It may have been reaped with others.
            rustix::process::waitid(WaitId::PidFd(process), options).ok();
        }
    }
}

/// A child of the helper, by its number.
fn child(number: i32, socket: OwnedFd) -> Option<Child> {
    let pid = Pid::from_raw(number)?;
    let wire = Wire::over(socket);
    Some(Child { pid, wire })
}

/// Says that the command sees the host's `/proc`.
fn warn(why: &str) {
    use io::Write as _;
    let text = format!(
        "openpath: warning: no /proc of the view's own ({why}), so the command sees the host's \
         processes: a container must show all of /proc, or say `--share pid`"
    );
    writeln!(io::stderr(), "{text}").ok();
}
