// SPDX-License-Identifier: MIT OR Apache-2.0
//! The front: starts the server and the helper, waits for the command, and ends as it ends.

use crate::change::Change;
use crate::left::{self, Callers};
use crate::plan::{FromHelper, FromServer, Mounted, Plan, Rest, ToHelper, ToServer};
use crate::signals::{End, Held, Signals, die};
use crate::wire::Wire;
use crate::{ENTER, Refusal, SERVE};
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::process::{Pid, Signal};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// This program, whatever became of its file.
const SELF: &str = "/proc/self/exe";
/// How long the server may say nothing once the command is gone.
const FINISH: Duration = Duration::from_secs(60);

/// Where opens that were refused or redirected are told of.
#[derive(Debug)]
pub struct LogFile {
    /// What is written to.
    pub file: OwnedFd,
    /// A JSON object a line, and not text.
    pub json: bool,
}

/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    end: End,
    /// Processes that the command left behind, or that had entered the view, and that were ended.
    pub left: usize,
    /// What changed.
    pub changes: Vec<Change>,
    /// Why it is not known what changed, nor what was lost.
    pub untold: Option<Refusal>,
    /// Writes that were kept back, and had no room when they came: their data is lost.
    pub lost: u64,
    /// Lines of the log that did not come to be written.
    pub unlogged: u64,
}

impl Ended {
    /// A guest of this process, which leaves nobody behind and keeps nothing back.
    pub(crate) fn here(end: End, changes: Vec<Change>) -> Ended {
        Ended {
            end,
            left: 0,
            changes,
            untold: None,
            lost: 0,
            unlogged: 0,
        }
    }

    /// A guest of this process of whose changes nothing is known.
    #[must_use]
    pub fn untold(end: End, why: Refusal) -> Ended {
        Ended {
            untold: Some(why),
            ..Ended::here(end, Vec::new())
        }
    }

    /// Dies by the signal that the command died by, or gives its exit status.
    #[must_use]
    pub fn leave(self) -> u8 {
        match self.end {
            End::Exit(code) => code,
            End::Signal(signal) => die(signal),
        }
    }
}

/// What is told of a run beside how it ended.
#[derive(Debug, Default)]
pub struct Told {
    /// Where opens that were refused or redirected are told of.
    pub log: Option<LogFile>,
    /// Standard error is shown how far copying up of a large file is.
    pub progress: bool,
}

/// Runs a command on a view, and waits for it.
///
/// # Errors
/// What kept it from being started, or the server's death.
pub fn run(plan: &Plan, command: &[OsString], told: &Told) -> Result<Ended, Refusal> {
    crate::confine::protect()?;
    // Orphans of the command come to this process, which ends them with the view.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|why| Refusal::step("cannot wait for processes", why))?;
    let plan = &crate::guard::guard(plan)?;
    let callers = Callers::now();
    let plan = &Plan {
        held: crate::mount_flags::places(plan)?,
        ..plan.clone()
    };
    let server = Server::start(plan, command, told)?;
    match Helper::start(plan, command, &server) {
        Ok((helper, held)) => wait(&helper, held, server, &callers),
        Err(refusal) => {
            server.end();
            Err(refusal)
        }
    }
}

fn wait(helper: &Helper, held: Held, server: Server, callers: &Callers) -> Result<Ended, Refusal> {
    let waiting = |why: io::Error| Refusal::step("cannot wait for the command", why);
    // Only now, so that the command was started with the dispositions that we were started with.
    let mut signals = Signals::take().map_err(waiting)?;
    crate::confine::outlive_limits().map_err(waiting)?;
    drop(held);
    let (who, end) = signals.wait(helper.pid, server.pid).map_err(waiting)?;
    signals.let_go().map_err(waiting)?;
    if who == server.pid {
        rustix::process::kill_process(helper.pid, Signal::KILL).ok();
        callers.end_others(server.pid);
        return Err(Server::died());
    }
    // Then the command ended because nothing could be read any more: that was first.
    let died = left::is_ending(server.pid);
    let left = callers.end_others(server.pid);
    if died {
        return Err(Server::died());
    }
    // The command ran, and ended as it did, whatever is known of its changes.
    let (changes, rest, untold) = match server.finish() {
        Ok((changes, rest)) => (changes, rest, None),
        Err(why) => (Vec::new(), Rest::default(), Some(why)),
    };
    Ok(Ended {
        end,
        left: left + rest.ended,
        changes,
        untold,
        lost: rest.lost,
        unlogged: rest.unlogged,
    })
}

/// Starts this program by another verb, one end of a wire its standard input.
fn spawn(verb: &str, rest: &[OsString], stdout: Stdio) -> Result<(Pid, Wire), Refusal> {
    let failed = |why: io::Error| Refusal::step("cannot start a process", why);
    let (wire, theirs) = Wire::pair().map_err(failed)?;
    let mut command = Command::new(SELF);
    command.arg0("openpath").arg(verb);
    if !rest.is_empty() {
        command.arg("--").args(rest);
    }
    let child = command.stdin(theirs).stdout(stdout).spawn();
    let child = child.map_err(failed)?;
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Refusal::new("a process without a number"))?;
    Ok((pid, wire))
}

struct Server {
    pid: Pid,
    wire: Wire,
}

impl Server {
    fn start(plan: &Plan, command: &[OsString], told: &Told) -> Result<Server, Refusal> {
        let (pid, wire) = spawn(SERVE, &[], Stdio::null())?;
        let server = Server { pid, wire };
        let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
        let log = told.log.as_ref();
        let build = ToServer::Build {
            plan: Box::new(plan.clone()),
            command: words.join(" "),
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

    fn ask(&self, what: &ToServer, fd: Option<BorrowedFd<'_>>) -> Result<FromServer, Refusal> {
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

    fn died() -> Refusal {
        Refusal::new("the server of the view is gone, and the command has ended")
    }

    /// What changed, and what else there is to say.
    fn finish(self) -> Result<(Vec<Change>, Rest), Refusal> {
        let changes = self.changes();
        if changes.is_ok() {
            self.leave();
        } else {
            self.end();
        }
        changes
    }

    fn changes(&self) -> Result<(Vec<Change>, Rest), Refusal> {
        self.wire.patience(FINISH).map_err(Self::lost)?;
        let mut all = Vec::new();
        let mut answer = self.ask(&ToServer::Finish, None)?;
        loop {
            match answer {
                FromServer::Changes(some) => all.extend(some),
                FromServer::Finished(rest) => return Ok((all, rest)),
                _ => return Err(Refusal::new("the server of the view is confused")),
            }
            answer = self.hear()?;
        }
    }

    /// Its socket ends, and so does it.
    fn end(self) {
        drop(self.wire);
        rustix::process::waitpid(Some(self.pid), rustix::process::WaitOptions::empty()).ok();
    }

    /// The same, for one that has done all it was there for: nobody waits for its end, which takes
    /// the kernel some milliseconds, as it heard of changes of files.
    fn leave(self) {
        let waits = std::thread::Builder::new().spawn(|| self.end());
        // Without a thread whoever comes after this process reaps it.
        drop(waits);
    }
}

struct Helper {
    pid: Pid,
}

impl Helper {
    /// Starts the command: it runs when this returns. What comes for the front meanwhile waits: a
    /// terminal's interrupt that the command answers must not end the front.
    fn start(
        plan: &Plan,
        command: &[OsString],
        server: &Server,
    ) -> Result<(Helper, Held), Refusal> {
        let (pid, wire) = spawn(ENTER, command, Stdio::inherit())?;
        let entered = Self::bring_in(&wire, plan, server);
        drop(wire);
        match entered {
            Ok(held) => Ok((Helper { pid }, held)),
            Err(refusal) => {
                rustix::process::kill_process(pid, Signal::KILL).ok();
                rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()).ok();
                Err(refusal)
            }
        }
    }

    fn bring_in(wire: &Wire, plan: &Plan, server: &Server) -> Result<Held, Refusal> {
        let lost = |why: io::Error| Refusal::step("lost the helper", why);
        let stdin = io::stdin();
        let mount = ToHelper::Mount(Box::new(plan.clone()));
        wire.send(&mount, Some(stdin.as_fd())).map_err(lost)?;
        let (mounted, fuse): (Mounted, OwnedFd) = loop {
            match wire.recv().map_err(lost)? {
                Some((FromHelper::Namespace, Some(namespace))) => {
                    server.ask(&ToServer::Namespace, Some(namespace.as_fd()))?;
                }
                Some((FromHelper::Mounted(mounted), Some(fuse))) => break (mounted, fuse),
                Some((FromHelper::Refused(refusal), _)) => return Err(refusal),
                _ => return Err(Refusal::new("the helper is gone")),
            }
        };
        server.ask(&ToServer::Serve(mounted), Some(fuse.as_fd()))?;
        drop(fuse);
        let held = Held::new().map_err(|why| Refusal::step("cannot hold signals", why))?;
        wire.send(&ToHelper::Enter, None).map_err(lost)?;
        let mut answer = wire.recv().map_err(lost)?;
        if let Some((FromHelper::Unheld(places), _)) = answer {
            server.ask(&ToServer::Unheld(places), None)?;
            wire.send(&ToHelper::Enter, None).map_err(lost)?;
            answer = wire.recv().map_err(lost)?;
        }
        match answer {
            Some((FromHelper::Refused(refusal), _)) => Err(refusal),
            Some(_) => Err(Refusal::new("the helper is confused")),
            // Its end of the socket closed as it became the command.
            None => Ok(held),
        }
    }
}
