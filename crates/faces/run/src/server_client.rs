// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server of a view, as its front knows it.

use crate::cgroup::Group;
use crate::child::Child;
use crate::log::LogFile;
use crate::plan::{FromServer, Plan, Rest, ToServer};
use crate::wire::Wire;
use openpath_commit::{ChangeList, Refusal, SERVE};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::process::Pid;
use std::ffi::OsString;
use std::io;
use std::process::Stdio;
use std::time::Duration;

/// How long the server may say nothing once the command is gone.
const FINISH: Duration = Duration::from_secs(60);

/// What is told of a run beside how it ended.
#[derive(Debug, Default)]
pub struct Told {
    /// Where opens that were refused or redirected are told of.
    pub log: Option<LogFile>,
    /// Standard error is shown how far copying up of a large file is.
    pub progress: bool,
}

/// The server of the view, as the front knows it.
pub(crate) struct Server {
    pub(crate) pid: Pid,
    wire: Wire,
}

impl Server {
    pub(crate) fn start(plan: &Plan, command: &[OsString], told: &Told) -> Result<Server, Refusal> {
        let Child { pid, wire } = Child::start(SERVE, &[], Stdio::null(), false)?;
        let server = Server { pid, wire };
        let log = told.log.as_ref();
        let build = ToServer::Build {
            plan: Box::new(plan.clone()),
            command: openpath_commit::command_line(command),
            json: log.is_some_and(|log| log.json),
            progress: told.progress,
        };
        match server.ask(&build, log.map(|log| log.file.as_fd())) {
            Ok(_) => Ok(server),
            Err(refusal) => {
                server.end();
                Err(refusal)
            }
        }
    }

    /// Has it keep the group of commands, for those that enter the view.
    pub(crate) fn keep(&self, group: Option<&Group>) -> Result<(), Refusal> {
        let Some(group) = group else {
            return Ok(());
        };
        let entry = group.entry().as_fd();
        self.ask(&ToServer::Group, Some(entry)).map(drop)
    }

    /// Asks, and waits for the answer.
    pub(crate) fn ask(
        &self,
        what: &ToServer,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<FromServer, Refusal> {
        self.wire.send(what, fd).map_err(Self::lost)?;
        self.hear()
    }

    fn hear(&self) -> Result<FromServer, Refusal> {
        match self.wire.recv().map_err(Self::lost)? {
            Some((FromServer::Refused(refusal), _)) => Err(refusal),
            Some((answer, _)) => Ok(answer),
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
        Refusal::new("the server of the view is gone")
    }

    pub(crate) fn died() -> Refusal {
        Refusal::new("the server of the view is gone, and the command has ended")
    }

    /// What changed, and what else there is to say. If that is known the server ends by itself:
    /// its end takes the kernel some milliseconds, as it heard of changes of files.
    pub(crate) fn finish(self) -> Result<(ChangeList, Rest), Refusal> {
        let changes = self.changes();
        if changes.is_err() {
            self.end();
        }
        changes
    }

    fn changes(&self) -> Result<(ChangeList, Rest), Refusal> {
        self.wire.patience(FINISH).map_err(Self::lost)?;
        let mut all = ChangeList::default();
        let mut answer = self.ask(&ToServer::Finish, None)?;
        loop {
            match answer {
                FromServer::Changes(some) => all.extend(some.iter()),
                FromServer::Finished(rest) => return Ok((all, rest)),
                _ => return Err(Refusal::new("the server of the view is confused")),
            }
            answer = self.hear()?;
        }
    }

    /// Its socket ends, and so does it.
    pub(crate) fn end(self) {
        drop(self.wire);
        rustix::process::waitpid(Some(self.pid), rustix::process::WaitOptions::empty()).ok();
    }
}
