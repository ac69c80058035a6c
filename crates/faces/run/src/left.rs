// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a command leaves behind: processes whose parent ended, which the front inherits.
//!
//! The view ends with the command, so they are asked to end, and after a moment made to.

use rustix::process::{Pid, Signal, WaitOptions};
use std::time::{Duration, Instant};

/// How long they have.
pub(crate) const GRACE: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// Ends all children but `spared`, and all that they leave; gives how many there were.
pub(crate) fn end(spared: Pid) -> usize {
    let mut asked = Vec::new();
    let begun = Instant::now();
    loop {
        reap(spared);
        let left = children(spared);
        if left.is_empty() {
            return asked.len();
        }
        let late = begun.elapsed() > GRACE;
        for pid in left {
            let known = asked.contains(&pid);
            if !known {
                asked.push(pid);
            }
            // One that is gone, or may not be told, needs nothing.
            if late {
                rustix::process::kill_process(pid, Signal::KILL).ok();
            } else if !known {
                rustix::process::kill_process(pid, Signal::TERM).ok();
                rustix::process::kill_process(pid, Signal::CONT).ok();
            }
        }
        if begun.elapsed() > 2 * GRACE {
            return asked.len();
        }
        std::thread::sleep(PAUSE);
    }
}

/// Takes in those that have ended; the server among them is found out by its socket.
fn reap(spared: Pid) {
    while let Ok(Some((pid, _))) = rustix::process::wait(WaitOptions::NOHANG) {
        if pid == spared {
            return;
        }
    }
}

/// Children of this process's only thread.
fn children(spared: Pid) -> Vec<Pid> {
    let pid = rustix::process::getpid().as_raw_pid();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let list = list.unwrap_or_default();
    let pids = list.split_whitespace().filter_map(|word| word.parse().ok());
    pids.filter_map(Pid::from_raw)
        .filter(|pid| *pid != spared)
        .collect()
}
