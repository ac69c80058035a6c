// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts a process of a run as a child: a fork of this process, or this program executed anew with
//! a hidden subcommand. Lends capabilities to it, and waits for its end.
//!
//! # Rules
//! R1. A program that an ordinary user executes has no capabilities, even in the user's own user
//!     namespace, unless they are ambient. They are raised for one start and cleared afterwards. A
//!     fork gives up all others itself.
//! R2. A fork keeps what execve(2) would have kept, and no more: it closes each descriptor with
//!     `O_CLOEXEC`, unblocks signals, and shows its verb in the command line, without the command.
//! R3. A fork has the memory of its parent. So nothing is forked that a command can read, unless
//!     the parent knows nothing that is hidden from the command.

use crate::wire::Wire;
use nix::sys::signal::SigSet;
use openpath_commit::Refusal;
use openpath_sync::{command_line_capacity, set_command_line};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// This program, even after its file was replaced.
const SELF: &str = "/proc/self/exe";

/// The name of the program in the command lines of its processes.
const NAME: &str = "openpath";
/// The exit status of a process that could not do its work.
const FAILED: u8 = 2;

/// How a process of a run is started.
pub(crate) struct Start<'a> {
    /// The subcommand that makes this program such a process.
    pub(crate) verb: &'a str,
    /// The words after it.
    pub(crate) rest: &'a [OsString],
    /// It has this process's standard output, and not `/dev/null`.
    pub(crate) has_output: bool,
    /// It starts in the root directory.
    pub(crate) at_root: bool,
    /// The capabilities that it has in a user namespace of this user.
    pub(crate) lent: CapabilitySet,
}

/// A process of this program, and the socket to it.
pub(crate) struct Child {
    pub(crate) pid: Pid,
    pub(crate) wire: Wire,
}

impl Child {
    /// Starts the program anew. Its standard input is one end of a wire.
    pub(crate) fn execute(start: &Start<'_>) -> Result<Child, Refusal> {
        match start.lent.is_empty() {
            true => Self::spawn(start),
            false => lend(start.lent, || Self::spawn(start)),
        }
    }

    fn spawn(start: &Start<'_>) -> Result<Child, Refusal> {
        let (wire, theirs) = Wire::pair().map_err(not_started)?;
        let mut command = Command::new(SELF);
        command.arg0(NAME).arg(start.verb);
        if !start.rest.is_empty() {
            command.arg("--").args(start.rest);
        }
        if start.at_root {
            command.current_dir("/");
        }
        let stdout = match start.has_output {
            true => Stdio::inherit(),
            false => Stdio::null(),
        };
        let child = command.stdin(theirs).stdout(stdout).spawn();
        let child = child.map_err(not_started)?;
        Self::numbered(i32::try_from(child.id()).ok(), wire)
    }

    /// Starts a fork of this process that calls `main`, or the program anew where this process has
    /// several threads. Its standard input is one end of a wire.
    pub(crate) fn fork(
        start: &Start<'_>,
        main: impl FnOnce() -> Result<u8, Refusal>,
    ) -> Result<Child, Refusal> {
        let line = command_line(start.verb, command_line_capacity());
        let Some(line) = line else {
            return Self::execute(start);
        };
        let (wire, theirs) = Wire::pair().map_err(not_started)?;
        let forked = openpath_sync::fork(&theirs, || {
            let done = start.settle(&line).and_then(|()| main());
            done.unwrap_or_else(|why| {
                writeln!(io::stderr(), "{NAME}: {why}").ok();
                FAILED
            })
        });
        match forked.map_err(not_started)? {
            None => Self::execute(start),
            forked => Self::numbered(forked, wire),
        }
    }

    fn numbered(number: Option<i32>, wire: Wire) -> Result<Child, Refusal> {
        let pid = number.and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Refusal::system("a process without a number"))?;
        Ok(Child { pid, wire })
    }

    /// Kills it and reaps it.
    pub(crate) fn kill(self) {
        rustix::process::kill_process(self.pid, Signal::KILL).ok();
        wait(self.pid);
    }
}

impl Start<'_> {
    /// Makes a fork what the program executed anew would be. R2
    fn settle(&self, line: &[u8]) -> Result<(), Refusal> {
        let failed = |why: Errno| not_started(why.into());
        if !self.has_output {
            let null =
                rustix::fs::open("/dev/null", OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty());
            rustix::stdio::dup2_stdout(null.map_err(failed)?).map_err(failed)?;
        }
        if self.at_root {
            rustix::process::chdir("/").map_err(failed)?;
        }
        let signals = SigSet::empty().thread_set_mask();
        signals.map_err(|why| not_started(why.into()))?;
        keep_capabilities(self.lent).map_err(failed)?;
        match set_command_line(line) {
            true => Ok(()),
            false => Err(Refusal::system("the command line cannot be set")),
        }
    }
}

fn not_started(why: io::Error) -> Refusal {
    Refusal::step("cannot start a process", why)
}

/// The command line of a process of the run in so many bytes, as `/proc/PID/cmdline` shows it. The
/// name of the program is cut if it does not fit; `None`: the verb does not fit.
fn command_line(verb: &str, capacity: usize) -> Option<Vec<u8>> {
    // Two words, each with a NUL.
    let room = capacity.checked_sub(verb.len() + 2)?;
    let name = NAME
        .get(..room.min(NAME.len()))
        .filter(|name| !name.is_empty())?;
    Some(format!("{name}\0{verb}\0").into_bytes())
}

/// Reaps a child that ends by itself.
pub(crate) fn wait(pid: Pid) {
    let ended = || rustix::process::waitpid(Some(pid), WaitOptions::empty());
    // Any error but an interrupt means that there is nothing to reap.
    rustix::io::retry_on_intr(ended).ok();
}

/// Reaps a child that is about to end. One that has not ended within `limit` is killed. One that
/// even then does not end, because the kernel waits for something, is left.
pub(crate) fn wait_or_kill(pid: Pid, limit: Duration) {
    if let Ok(process) = rustix::process::pidfd_open(pid, PidfdFlags::empty())
        && !ends_within(process.as_fd(), limit)
    {
        rustix::process::pidfd_send_signal(&process, Signal::KILL).ok();
        if !ends_within(process.as_fd(), limit) {
            return;
        }
    }
    wait(pid);
}

/// Whether a process, by its pidfd, ends within this time.
pub(crate) fn ends_within(process: BorrowedFd<'_>, limit: Duration) -> bool {
    let limit = Timespec::try_from(limit).ok();
    let mut ended = [PollFd::new(&process, PollFlags::IN)];
    let polled = || rustix::event::poll(&mut ended, limit.as_ref());
    matches!(rustix::io::retry_on_intr(polled), Ok(1..))
}

/// Calls `start` while `lent` is ambient, so that a program started by it has these capabilities.
pub(crate) fn lend<T>(
    lent: CapabilitySet,
    start: impl FnOnce() -> Result<T, Refusal>,
) -> Result<T, Refusal> {
    if rustix::process::geteuid().is_root() {
        // A program that root executes has them without that.
        return start();
    }
    let failed = |why: Errno| Refusal::step("capabilities", why);
    let before = rustix::thread::capabilities(None).map_err(failed)?;
    raise(before, lent).map_err(failed)?;
    let started = start();
    // A capability that is not inheritable is not ambient either.
    rustix::thread::set_capabilities(None, before).map_err(failed)?;
    started
}

fn raise(mut sets: CapabilitySets, lent: CapabilitySet) -> rustix::io::Result<()> {
    sets.inheritable |= lent;
    rustix::thread::set_capabilities(None, sets)?;
    for one in lent.iter() {
        rustix::thread::configure_capability_in_ambient_set(one, true)?;
    }
    Ok(())
}

/// Keeps these capabilities alone. Root keeps all: a program that it executes has them as well. R1
fn keep_capabilities(kept: CapabilitySet) -> rustix::io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let now = rustix::thread::capabilities(None)?;
    let sets = CapabilitySets {
        effective: now.effective & kept,
        permitted: now.permitted & kept,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)
}

/// Drops the lent capabilities. Root keeps all: a program that it executes would get them again.
pub(crate) fn drop_capabilities() -> rustix::io::Result<()> {
    if rustix::process::geteuid().is_root() {
        return Ok(());
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    rustix::thread::set_capabilities(None, sets)
}

#[cfg(test)]
mod tests {
    use super::{command_line, wait_or_kill};
    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, WaitOptions};
    use std::process::Command;
    use std::time::Duration;

    #[test]
    fn command_line_of_a_fork_fits_or_there_is_none() {
        let line = |capacity| command_line("run-serve", capacity);
        assert_eq!(line(19).unwrap(), b"openpath\0run-serve\0");
        assert_eq!(line(4096).unwrap(), b"openpath\0run-serve\0");
        assert_eq!(line(15).unwrap(), b"open\0run-serve\0");
        assert_eq!((line(11), line(0)), (None, None));
    }

    #[test]
    #[expect(clippy::zombie_processes, reason = "the tested function waits for it")]
    fn stopped_child_is_killed_and_reaped() {
        let child = Command::new("sleep").arg("1000").spawn().unwrap();
        let pid = Pid::from_child(&child);
        rustix::process::kill_process(pid, Signal::STOP).unwrap();
        wait_or_kill(pid, Duration::from_millis(20));
        let again = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        assert_eq!(again.err(), Some(Errno::CHILD));
    }
}
