// SPDX-License-Identifier: MIT OR Apache-2.0
//! Starts this program again as a child with a hidden subcommand, lends capabilities to it, and
//! waits for its end.
//!
//! # Rules
//! R1. A program that an ordinary user executes has no capabilities, even in the user's own user
//!     namespace, unless they are ambient. They are raised for one start and cleared afterwards.

use crate::wire::Wire;
use openpath_commit::Refusal;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fd::{AsFd as _, BorrowedFd};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

/// This program, even after its file was replaced.
const SELF: &str = "/proc/self/exe";

/// A process of this program, and the socket to it.
pub(crate) struct Child {
    pub(crate) pid: Pid,
    pub(crate) wire: Wire,
}

impl Child {
    /// Starts this program with `verb` and the words after it. Its standard input is one end of a
    /// wire. `at_root` starts it in the root directory.
    pub(crate) fn start(
        verb: &str,
        rest: &[OsString],
        stdout: Stdio,
        at_root: bool,
    ) -> Result<Child, Refusal> {
        let failed = |why: io::Error| Refusal::step("cannot start a process", why);
        let (wire, theirs) = Wire::pair().map_err(failed)?;
        let mut command = Command::new(SELF);
        command.arg0("openpath").arg(verb);
        if !rest.is_empty() {
            command.arg("--").args(rest);
        }
        if at_root {
            command.current_dir("/");
        }
        let child = command.stdin(theirs).stdout(stdout).spawn();
        let child = child.map_err(failed)?;
        let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| Refusal::system("a process without a number"))?;
        Ok(Child { pid, wire })
    }

    /// Kills it and reaps it.
    pub(crate) fn kill(self) {
        rustix::process::kill_process(self.pid, Signal::KILL).ok();
        wait(self.pid);
    }
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
    use super::wait_or_kill;
    use rustix::io::Errno;
    use rustix::process::{Pid, Signal, WaitOptions};
    use std::process::Command;
    use std::time::Duration;

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
