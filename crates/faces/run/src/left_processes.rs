// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ends the processes that a command leaves behind: those that become children of the front (the
//! process that the user started) when their parent has ended.
//!
//! The view ends with the command, so they are asked to end, and killed after a while.
//!
//! # Rules
//! R1. A program keeps its children through execve(2). Children that the front has before it starts
//!     any are the caller's, and go on. Their orphans become children of the front as well. They
//!     are recognised by their mount namespace, which is the front's own and never that of a view.

use crate::terminate::{GRACE, ProcessSet, terminate_all};
use openpath_commit::{parent_of, stat_field};
use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Children that the front had before it started any.
pub(crate) struct CallerChildren(HashSet<Pid>);

impl CallerChildren {
    /// The children of this process now.
    pub(crate) fn now() -> CallerChildren {
        CallerChildren(children().into_iter().collect())
    }

    /// Ends all children except these and `server`, and all their orphans; returns how many there
    /// were.
    pub(crate) fn end_others(&self, server: Pid) -> usize {
        let others = LeftChildren {
            callers: self,
            server,
            own: mounts("self"),
        };
        terminate_all(&others, PAUSE)
    }
}

/// The children that the caller did not have.
struct LeftChildren<'a> {
    callers: &'a CallerChildren,
    server: Pid,
    /// This process's mount namespace, if it may be known.
    own: Option<PathBuf>,
}

impl LeftChildren<'_> {
    fn is_left(&self, pid: Pid) -> bool {
        let spared = pid == self.server || self.callers.0.contains(&pid);
        // R1. A process that is gone by now has none.
        !spared && (self.own.is_none() || mounts(&pid.to_string()) != self.own)
    }
}

impl ProcessSet for LeftChildren<'_> {
    type Process = Pid;

    fn all(&self) -> Vec<(Pid, Pid)> {
        reap(self.server);
        let left = children().into_iter().filter(|pid| self.is_left(*pid));
        left.map(|pid| (pid, pid)).collect()
    }

    fn is_exiting(&self, pid: Pid) -> bool {
        is_ending(pid)
    }

    fn signal(&self, process: &Pid, signal: Signal) {
        rustix::process::kill_process(*process, signal).ok();
    }
}

/// Reaps children. The socket of the server shows that it has ended.
fn reap(server: Pid) {
    while let Ok(Some((pid, _))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == server {
            return;
        }
    }
}

/// The mount namespace of a process, if it can be read.
fn mounts(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// The children of this process's only thread.
fn children() -> Vec<Pid> {
    let pid = rustix::process::getpid();
    let list = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let Ok(list) = list else {
        // A kernel without that list (`CONFIG_PROC_CHILDREN`).
        return children_of(pid);
    };
    let pids = list.split_whitespace().filter_map(|word| word.parse().ok());
    pids.filter_map(Pid::from_raw).collect()
}

/// The same, from the parent of every process.
fn children_of(parent: Pid) -> Vec<Pid> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw)
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

/// Whether a process is gone or exiting. It is marked so before any of its files are closed.
pub(crate) fn is_ending(pid: Pid) -> bool {
    fs::read(format!("/proc/{pid}/stat")).map_or(true, |stat| shows_ending(&stat))
}

/// Waits until a process is exiting that was told to end.
pub(crate) fn wait_until_ending(pid: Pid) {
    let begun = Instant::now();
    let mut pause = PAUSE / 100;
    while !is_ending(pid) && begun.elapsed() < GRACE {
        std::thread::sleep(pause);
        pause = (2 * pause).min(PAUSE);
    }
}

/// Whether this text of `/proc/PID/stat` is that of an exiting process.
pub(crate) fn shows_ending(stat: &[u8]) -> bool {
    /// `PF_EXITING`.
    const EXITING: u32 = 4;
    stat_field(stat, 7).is_none_or(|flags: u32| flags & EXITING != 0)
}

#[cfg(test)]
mod tests {
    use super::{children_of, is_ending};
    use rustix::process::Pid;
    use std::process::{Command, Stdio};

    #[test]
    fn children_are_found_by_their_parent() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = Pid::from_child(&child);
        let found = children_of(rustix::process::getpid());
        let its = children_of(pid);
        assert!(!is_ending(pid));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(is_ending(pid));
        assert!(found.contains(&pid) && its.is_empty());
        assert!(!children_of(rustix::process::getpid()).contains(&pid));
    }
}
