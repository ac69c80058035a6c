// SPDX-License-Identifier: MIT OR Apache-2.0
//! The front: starts the server and the helper, waits for the command, and ends as it ends.

use crate::cgroup::Group;
use crate::inside::Inside;
use crate::left::{self, Callers};
use crate::limit::Limit;
use crate::plan::Plan;
use crate::server_client::{Server, Told};
use crate::signals::{End, Held, Signals, die};
use openpath_commit::{ChangeList, Refusal};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use std::ffi::OsString;
use std::io;

/// Exit status: the limit on time ended the command, as with timeout(1).
const EXPIRED: u8 = 124;
/// How a run ended.
#[derive(Debug)]
pub struct Ended {
    end: End,
    /// Processes that the command left behind, or that had entered the view, and that were ended.
    pub left: usize,
    /// What changed.
    pub changes: ChangeList,
    /// Why it is not known what changed, nor what was lost.
    pub untold: Option<Refusal>,
    /// Writes that were kept back, and had no room when they came: their data is lost.
    pub lost: u64,
    /// Lines of the log that did not come to be written.
    pub unlogged: u64,
    /// The server, which ends now.
    server: Option<Pid>,
    /// Limits that ended the command.
    pub reached: Vec<Limit>,
}

impl Ended {
    /// A guest of this process, which leaves nobody behind and keeps nothing back.
    pub(crate) fn here(end: End, changes: ChangeList) -> Ended {
        Ended {
            end,
            left: 0,
            changes,
            untold: None,
            lost: 0,
            unlogged: 0,
            server: None,
            reached: Vec::new(),
        }
    }

    /// A guest of this process of whose changes nothing is known.
    #[must_use]
    pub fn untold(end: End, why: Refusal) -> Ended {
        Ended {
            untold: Some(why),
            ..Ended::here(end, ChangeList::default())
        }
    }

    /// Ends what is left in the group, and says what the kernel killed for it.
    fn in_group(mut self, plan: &Plan, group: Option<Group>) -> Ended {
        let reached = group.and_then(|group| group.reached(&plan.limits, self.end));
        self.reached.extend(reached);
        self
    }

    /// Dies by the signal that the command died by, or gives its exit status.
    #[must_use]
    pub fn leave(self) -> u8 {
        // Else a run around this one takes the server for a process that was left.
        if let Some(server) = self.server {
            left::wait_until_ending(server);
        }
        leave(self.end)
    }
}

/// Dies by the signal that a command died by, or gives its exit status.
pub(crate) fn leave(end: End) -> u8 {
    match end {
        End::Exit(code) => code,
        End::Signal(signal) => die(signal),
    }
}

/// Runs a command on a view, and waits for it.
///
/// # Errors
/// What kept it from being started, or the server's death.
pub fn run(plan: &Plan, command: &[OsString], told: &Told) -> Result<Ended, Refusal> {
    crate::confine::protect()?;
    crate::inherited::check_kept(&plan.keep_fds)?;
    plan.check()?;
    // Orphans of the command come to this process, which ends them with the view.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|why| Refusal::step("cannot wait for processes", why))?;
    let plan = &crate::guard::guard(plan)?;
    let callers = Callers::now();
    let plan = &Plan {
        held: crate::mount_flags::places(plan)?,
        ..plan.clone()
    };
    // Before any other process is started: this one may have to be alone in its group.
    let group = Group::make(plan)?;
    let server = Server::start(plan, command, told)?;
    let started = server
        .keep(group.as_ref())
        .and_then(|()| Inside::start(plan, command, &server, group.as_ref()));
    match started {
        Ok((inside, held)) => {
            let ended = wait(plan, inside, held, server, &callers);
            ended.map(|ended| ended.in_group(plan, group))
        }
        Err(refusal) => {
            server.end();
            Err(refusal)
        }
    }
}

fn wait(
    plan: &Plan,
    inside: Inside,
    held: Held,
    server: Server,
    callers: &Callers,
) -> Result<Ended, Refusal> {
    let waiting = |why: io::Error| Refusal::step("cannot wait for the command", why);
    // Nobody lets this process go on where there is no terminal, and the time would not end it.
    let stops = plan.limits.time().is_none() || has_terminal();
    // Only now, so that the command was started with the dispositions that we were started with.
    let mut signals = Signals::take(stops).map_err(waiting)?;
    crate::confine::outlive_limits().map_err(waiting)?;
    drop(held);
    let (who, end) = signals.wait(inside.command, server.pid).map_err(waiting)?;
    signals.let_go().map_err(waiting)?;
    if who == server.pid {
        inside.kill();
        callers.end_others(server.pid);
        return Err(Server::died());
    }
    // Then the command ended because nothing could be read any more: that was first.
    let died = left::is_ending(server.pid);
    let left = inside.end();
    let time = plan.limits.time().filter(|_| left.expired);
    let left = left.processes + callers.end_others(server.pid);
    if died {
        return Err(Server::died());
    }
    // The command ran, and ended as it did, whatever is known of its changes.
    let pid = server.pid;
    let mut ended = match server.finish() {
        Ok((changes, rest)) => Ended {
            left: rest.ended,
            lost: rest.lost,
            unlogged: rest.unlogged,
            server: Some(pid),
            ..Ended::here(end, changes)
        },
        Err(why) => Ended::untold(end, why),
    };
    ended.left += left;
    if let Some(time) = time {
        ended.end = End::Exit(EXPIRED);
        ended.reached.push(Limit::Time(time));
    }
    Ok(ended)
}

/// Whether this process has a terminal, in which somebody can let it go on.
fn has_terminal() -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open("/dev/tty", flags, Mode::empty()).is_ok()
}
