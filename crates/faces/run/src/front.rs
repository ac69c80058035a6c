// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the front, the process that the user started: it starts the server and the helper,
//! waits for the command, and ends with the status or signal of the command.

use crate::cgroup::Group;
use crate::engine::Engine;
use crate::host_mounts::HostMounts;
use crate::left_processes::{self, CallerChildren};
use crate::limit::Limit;
use crate::plan::Plan;
use crate::running_command::{Failure, RunningCommand};
use crate::server_client::{Reporting, ServerClient};
use crate::signals::{BlockedSignals, CommandExit, Signals, die};
use openpath_commit::{ChangeList, Refusal};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use std::ffi::OsString;
use std::io;

/// Exit status: the time limit ended the command, as with timeout(1).
const EXPIRED: u8 = 124;

/// The outcome of a run.
#[derive(Debug)]
#[non_exhaustive]
pub struct RunOutcome {
    end: CommandExit,
    /// What served the view.
    pub engine: Engine,
    /// How many processes were ended: those that the command left behind, or that had entered the
    /// view.
    pub ended_processes: usize,
    /// The changes.
    pub changes: ChangeList,
    /// Why the changes and the lost writes are unknown.
    pub changes_error: Option<Refusal>,
    /// Which processes outside still used the view at its end: the changes may lack what they
    /// changed last.
    pub still_used: Option<String>,
    /// How many writes of the kernel's write-back found no room: their data is lost.
    pub lost_writes: u64,
    /// How many lines of the log were not written.
    pub lost_log_lines: u64,
    /// The server, which is about to end.
    server: Option<Pid>,
    /// Limits that ended the command.
    pub limits_reached: Vec<Limit>,
}

impl RunOutcome {
    /// The outcome of a guest of this process, which leaves no process behind and loses no write.
    pub(crate) fn in_process(end: CommandExit, changes: ChangeList) -> RunOutcome {
        RunOutcome {
            end,
            engine: Engine::Fuse,
            ended_processes: 0,
            changes,
            changes_error: None,
            still_used: None,
            lost_writes: 0,
            lost_log_lines: 0,
            server: None,
            limits_reached: Vec::new(),
        }
    }

    /// The outcome of a guest of this process if its changes are unknown.
    #[must_use]
    pub fn without_changes(end: CommandExit, why: Refusal) -> RunOutcome {
        RunOutcome {
            changes_error: Some(why),
            ..RunOutcome::in_process(end, ChangeList::default())
        }
    }

    /// Adds the limit by which the kernel killed the command, and drops the group, which ends the
    /// processes left in it.
    fn in_group(mut self, plan: &Plan, group: Option<Group>) -> RunOutcome {
        let reached = group.and_then(|group| group.reached(&plan.limits, self.end));
        self.limits_reached.extend(reached);
        self
    }

    /// Dies by the signal that killed the command, or returns its exit status.
    #[must_use]
    pub fn exit_like_command(self) -> u8 {
        // Otherwise an outer run would count the server as a process left behind.
        if let Some(server) = self.server {
            left_processes::wait_until_ending(server);
        }
        exit_like(self.end)
    }
}

/// Dies by the signal that killed a command, or returns its exit status.
pub(crate) fn exit_like(end: CommandExit) -> u8 {
    match end {
        CommandExit::Exit(code) => code,
        CommandExit::Signal(signal) => die(signal),
    }
}

/// Runs a command on a view, and waits for it.
///
/// # Errors
/// What kept it from being started, or the server's death.
pub fn run(
    plan: &Plan,
    command: &[OsString],
    reporting: &Reporting,
) -> Result<RunOutcome, Refusal> {
    crate::confine::protect()?;
    crate::signals::unblock_ends()
        .map_err(|why| Refusal::step("cannot wait for processes", why))?;
    crate::inherited::check_kept(&plan.keep_fds)?;
    // Orphans of the command become children of this process, which ends them with the view.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(|why| Refusal::step("cannot wait for processes", why))?;
    let served_by = |engine| attempt(&plan.served_by(engine), command, reporting);
    let done = match plan.engine {
        Engine::Auto if plan.reason_for_fuse(reporting.has_log()).is_none() => {
            match served_by(Engine::Kernel) {
                Err(Failure::SetUp(_)) => served_by(Engine::Fuse),
                done => done,
            }
        }
        Engine::Kernel => served_by(Engine::Kernel),
        Engine::Fuse | Engine::Auto => served_by(Engine::Fuse),
    };
    done.map_err(Failure::into_refusal)
}

/// Runs a command on a view of a chosen engine.
fn attempt(
    plan: &Plan,
    command: &[OsString],
    reporting: &Reporting,
) -> Result<RunOutcome, Failure> {
    plan.check()?;
    reporting.check(plan)?;
    let plan = &crate::guard::guard(plan)?;
    let callers = CallerChildren::now();
    let mounts = HostMounts::read()?;
    let plan = &Plan {
        enforced: crate::mount_flags::places_of(&mounts, plan),
        layers: crate::kernel_overlay::layers::layers(plan, &mounts)?,
        recorded: crate::kernel_overlay::layers::recorded(plan),
        ..plan.clone()
    };
    let plan = &crate::kernel_overlay::parts::with_part(plan)?;
    // Before any other process is started: this one may have to be alone in its group.
    let group = Group::make(plan)?;
    let server = ServerClient::start(plan, command, reporting)?;
    match RunningCommand::start(plan, command, &server, group.as_ref()) {
        Ok((running, blocked)) => {
            let ended = wait(plan, running, blocked, server, &callers);
            let mut ended = ended.map_err(Failure::Command)?;
            ended.engine = match plan.part {
                Some(_) => Engine::Kernel,
                None => plan.engine,
            };
            Ok(ended.in_group(plan, group))
        }
        Err(failure) => {
            server.end();
            Err(failure)
        }
    }
}

fn wait(
    plan: &Plan,
    running: RunningCommand,
    blocked: BlockedSignals,
    server: ServerClient,
    callers: &CallerChildren,
) -> Result<RunOutcome, Refusal> {
    let waiting = |why: io::Error| Refusal::step("cannot wait for the command", why);
    // Without a terminal nothing would continue this process, and the time limit could not end it.
    let stops = plan.limits.time().is_none() || has_terminal();
    // Only now: the command was started with the dispositions that this process was started with.
    let mut signals = Signals::install(stops).map_err(waiting)?;
    crate::confine::outlive_limits().map_err(waiting)?;
    drop(blocked);
    let (who, end) = signals.wait(running.command, server.pid).map_err(waiting)?;
    signals.stop_forwarding().map_err(waiting)?;
    if who == server.pid {
        running.kill();
        callers.end_others(server.pid);
        return Err(ServerClient::died());
    }
    // If the server died first, the command ended because it could read nothing any more.
    let died = left_processes::is_ending(server.pid);
    let left = running.end();
    let time = plan.limits.time().filter(|_| left.expired);
    let left = left.processes + callers.end_others(server.pid);
    if died {
        return Err(ServerClient::died());
    }
    // The command ran, and its status counts whatever is known of its changes.
    let pid = server.pid;
    let mut ended = match server.finish() {
        Ok((changes, rest)) => RunOutcome {
            still_used: rest.still_used,
            ended_processes: rest.ended,
            lost_writes: rest.lost_writes,
            lost_log_lines: rest.lost_log_lines,
            server: Some(pid),
            ..RunOutcome::in_process(end, changes)
        },
        Err(why) => RunOutcome::without_changes(end, why),
    };
    ended.ended_processes += left;
    if let Some(time) = time {
        ended.end = CommandExit::Exit(EXPIRED);
        ended.limits_reached.push(Limit::Time(time));
    }
    Ok(ended)
}

/// Whether this process has a terminal from which a user can continue it.
fn has_terminal() -> bool {
    let flags = OFlags::RDONLY | OFlags::NOCTTY | OFlags::CLOEXEC;
    rustix::fs::open("/dev/tty", flags, Mode::empty()).is_ok()
}
