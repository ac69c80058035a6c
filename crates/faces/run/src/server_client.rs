// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts the server process of a view and exchanges messages with it, on behalf of the front (the
//! process that the user started). Defines what a run reports besides its outcome (`Reporting`).

use crate::cgroup::Group;
use crate::child::{Child, Start};
use crate::engine::Engine;
use crate::log::LogFile;
use crate::plan::{FromServer, Plan, RunSummary, ToServer};
use crate::server::{self, CopyUpObserverOf};
use crate::wire::Wire;
use openpath_commit::{ChangeList, Refusal, SERVE};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::process::Pid;
use rustix::thread::CapabilitySet;
use std::ffi::OsString;
use std::io;
use std::time::Duration;

/// How long the server may be silent once the command is gone.
const FINISH: Duration = Duration::from_secs(60);
/// How long it may take to end once its socket is closed.
const END: Duration = Duration::from_secs(30);

/// What a run reports besides its outcome.
#[derive(Debug, Default)]
pub struct Reporting {
    /// The file for the log of refused and redirected opens.
    log: Option<LogFile>,
    /// Whether the progress of large copy-ups is shown on standard error.
    progress: bool,
    /// Makes what receives that progress.
    copying: Option<CopyUpObserverOf>,
}

impl Reporting {
    /// Logs refused and redirected opens to this file.
    #[must_use]
    pub fn log(mut self, log: Option<LogFile>) -> Reporting {
        self.log = log;
        self
    }

    /// Refuses a log of a view that the kernel serves.
    pub(crate) fn check(&self, plan: &Plan) -> Result<(), Refusal> {
        if self.log.is_some() && plan.engine == Engine::Kernel {
            let text = "--log needs the engine fuse: leave out --engine kernel, or --log";
            return Err(Refusal::usage(text));
        }
        Ok(())
    }

    pub(crate) fn has_log(&self) -> bool {
        self.log.is_some()
    }

    /// Shows the progress of large copy-ups on standard error.
    #[must_use]
    pub fn progress(mut self, progress: bool) -> Reporting {
        self.progress = progress;
        self
    }

    /// Makes the observer of copy-ups by this function, as [`serve`](crate::serve) does. Without it
    /// the server is this program executed anew.
    #[must_use]
    pub fn copying(mut self, copying: CopyUpObserverOf) -> Reporting {
        self.copying = Some(copying);
        self
    }
}

/// The server of the view, as the front knows it.
pub(crate) struct ServerClient {
    pub(crate) pid: Pid,
    wire: Wire,
}

/// A view that is built.
pub(crate) struct BuiltView {
    /// The tree for the kernel's overlays, if they serve the view.
    pub(crate) upper: Option<OwnedFd>,
    /// The marks of that tree are trusted ones.
    pub(crate) trusted: bool,
}

impl ServerClient {
    /// Starts it, and has it build the view of this plan.
    pub(crate) fn start(
        plan: &Plan,
        command: &[OsString],
        reporting: &Reporting,
    ) -> Result<ServerClient, Refusal> {
        let start = Start {
            verb: SERVE,
            rest: &[],
            has_output: false,
            at_root: false,
            lent: CapabilitySet::empty(),
        };
        let Child { pid, wire } = match reporting.copying {
            Some(copying) => Child::fork(&start, || server::serve(copying).map(|()| 0)),
            None => Child::execute(&start),
        }?;
        let server = ServerClient { pid, wire };
        let log = reporting.log.as_ref();
        let build = ToServer::Build {
            plan: Box::new(plan.clone()),
            command: openpath_commit::command_line(command),
            json: log.is_some_and(|log| log.json),
            progress: reporting.progress,
        };
        let sent = server.wire.send(&build, log.map(|log| log.file.as_fd()));
        match sent.map_err(Self::lost) {
            Ok(()) => Ok(server),
            Err(refusal) => {
                server.end();
                Err(refusal)
            }
        }
    }

    /// Waits until the view is built.
    pub(crate) fn built(&self) -> Result<BuiltView, Refusal> {
        let (built, upper) = self.receive()?;
        let trusted = matches!(built, FromServer::Built { trusted: true });
        Ok(BuiltView { upper, trusted })
    }

    /// Sends it the group of commands, for those that enter the view later.
    pub(crate) fn send_group(&self, group: Option<&Group>) -> Result<(), Refusal> {
        let Some(group) = group else {
            return Ok(());
        };
        let entry = group.command_group().as_fd();
        self.ask(&ToServer::Group, Some(entry)).map(drop)
    }

    /// Sends what needs no answer.
    pub(crate) fn tell(&self, what: &ToServer, fd: BorrowedFd<'_>) -> Result<(), Refusal> {
        self.wire.send(what, Some(fd)).map_err(Self::lost)
    }

    /// Sends a request, and waits for the answer.
    pub(crate) fn ask(
        &self,
        what: &ToServer,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<FromServer, Refusal> {
        self.wire.send(what, fd).map_err(Self::lost)?;
        Ok(self.receive()?.0)
    }

    fn receive(&self) -> Result<(FromServer, Option<OwnedFd>), Refusal> {
        match self.wire.recv().map_err(Self::lost)? {
            Some((FromServer::Refused(refusal), _)) => Err(refusal),
            Some(answer) => Ok(answer),
            None => Err(Self::gone()),
        }
    }

    fn lost(why: io::Error) -> Refusal {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
        match why.kind() {
            BrokenPipe | ConnectionReset | UnexpectedEof => Self::gone(),
            _ => Refusal::step("lost the server of the view", why),
        }
    }

    fn gone() -> Refusal {
        Refusal::system("the server of the view is gone")
    }

    pub(crate) fn died() -> Refusal {
        Refusal::system("the server of the view is gone, and the command has ended")
    }

    /// The changes, and the other results. If they are known the server ends by itself: its end
    /// takes the kernel some milliseconds, because it watched files. If processes outside still use
    /// the view, this waits for it: they could change the view until then.
    pub(crate) fn finish(self) -> Result<(ChangeList, RunSummary), Refusal> {
        let changes = self.changes();
        let is_used = |(_, rest): &(ChangeList, RunSummary)| rest.still_used.is_some();
        if changes.as_ref().map_or(true, is_used) {
            self.end();
        }
        changes
    }

    fn changes(&self) -> Result<(ChangeList, RunSummary), Refusal> {
        self.wire.set_read_timeout(FINISH).map_err(Self::lost)?;
        let mut all = ChangeList::default();
        let mut answer = self.ask(&ToServer::Finish, None)?;
        loop {
            match answer {
                FromServer::Changes(some) => all.extend(some.iter()),
                FromServer::Finished(rest) => return Ok((all, rest)),
                _ => return Err(Refusal::system("the server of the view is confused")),
            }
            answer = self.receive()?.0;
        }
    }

    /// Closes its socket, so that it ends, and reaps it. One that is stopped or hangs is killed.
    pub(crate) fn end(self) {
        drop(self.wire);
        crate::child::wait_or_kill(self.pid, END);
    }
}
