// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a command leaves behind: processes whose parent ended, which the front inherits.
//!
//! The view ends with the command, so they are asked to end, and after a moment made to.
//!
//! # Rules
//! R1. A program keeps its children through exec(2): those that the front has before it starts any
//!     are the caller's, and go on. What they leave behind meanwhile comes to the front as well; it
//!     is told by its mount namespace, which is the front's own and never that of a view.

use crate::ending::{Ending, GRACE, end_all};
use openpath_commit::{parent_of, stat_number};
use rustix::process::{Pid, Signal, WaitOptions};
use std::collections::HashSet;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Children that the front had before it started any.
pub(crate) struct Callers(HashSet<Pid>);

impl Callers {
    /// All that there are.
    pub(crate) fn now() -> Callers {
        Callers(children().into_iter().collect())
    }

    /// Ends all children but these and `server`, and all that they leave; gives how many there
    /// were.
    pub(crate) fn end_others(&self, server: Pid) -> usize {
        let others = Others {
            callers: self,
            server,
            own: mounts("self"),
        };
        end_all(&others, PAUSE)
    }
}

/// Children that the caller did not have.
struct Others<'a> {
    callers: &'a Callers,
    server: Pid,
    /// This process's mount namespace, if it may be known.
    own: Option<PathBuf>,
}

impl Others<'_> {
    fn is_left(&self, pid: Pid) -> bool {
        let spared = pid == self.server || self.callers.0.contains(&pid);
        // R1. What is gone meanwhile has none.
        !spared && (self.own.is_none() || mounts(&pid.to_string()) != self.own)
    }
}

impl Ending for Others<'_> {
    type Process = Pid;

    fn all(&self) -> Vec<(Pid, Pid)> {
        reap(self.server);
        let left = children().into_iter().filter(|pid| self.is_left(*pid));
        left.map(|pid| (pid, pid)).collect()
    }

    fn ends(&self, pid: Pid) -> bool {
        is_ending(pid)
    }

    fn tell(&self, process: &Pid, signal: Signal) {
        rustix::process::kill_process(*process, signal).ok();
    }
}

/// Takes in those that have ended; the server among them is found out by its socket.
fn reap(server: Pid) {
    while let Ok(Some((pid, _))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == server {
            return;
        }
    }
}

/// The mount namespace of a process, if that may be known.
fn mounts(process: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{process}/ns/mnt")).ok()
}

/// Children of this process's only thread.
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

/// The same by asking all processes for their parent.
fn children_of(parent: Pid) -> Vec<Pid> {
    let names = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw)
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect()
}

/// Whether a process is gone, or has begun to end, which it does before any file of its own is
/// closed.
pub(crate) fn is_ending(pid: Pid) -> bool {
    fs::read(format!("/proc/{pid}/stat")).map_or(true, |stat| shows_ending(&stat))
}

/// Waits until a process has begun to end, which it was told to do.
pub(crate) fn wait_until_ending(pid: Pid) {
    let begun = Instant::now();
    while !is_ending(pid) && begun.elapsed() < GRACE {
        std::thread::sleep(PAUSE / 10);
    }
}

/// Whether the text of `/proc/PID/stat` is that of such a process.
pub(crate) fn shows_ending(stat: &[u8]) -> bool {
    /// `PF_EXITING`.
    const EXITING: u32 = 4;
    stat_number(stat, 7).is_none_or(|flags: u32| flags & EXITING != 0)
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
