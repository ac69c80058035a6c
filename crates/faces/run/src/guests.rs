// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes that came into a view by another way than its command: they end with it. So does all
//! that is in it when the front, which would have ended the rest, is gone.
//!
//! They are found by their mounts, whatever namespaces they have made since.
//!
//! # Rules
//! R1. The view's own namespace is held meanwhile. When the last of them goes its mount goes, and
//!     the kernel gives the device's number to the next mount: that of another run, perhaps.

use crate::left::GRACE;
use crate::live::Inside;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal};
use std::time::{Duration, Instant};

/// Between two looks at all processes.
const PAUSE: Duration = Duration::from_millis(20);

/// Whether a process has a mount of this device, as `/proc/PID/mountinfo` writes it.
pub(crate) fn holds(device: &str, pid: Pid) -> bool {
    let file = format!("/proc/{}/mountinfo", pid.as_raw_nonzero());
    let mounts = std::fs::read(file).unwrap_or_default();
    mounts
        .split(|byte| *byte == b'\n')
        .any(|line| line.split(|byte| *byte == b' ').nth(2) == Some(device.as_bytes()))
}

/// Asks all of them to end, and after a moment makes them; how many there were.
pub(crate) fn end(inside: &Inside) -> usize {
    // R1
    let device = &inside.device;
    let mut asked: Vec<Pid> = Vec::new();
    let begun = Instant::now();
    loop {
        let here = all(device);
        if here.is_empty() || begun.elapsed() > 2 * GRACE {
            return asked.len();
        }
        let late = begun.elapsed() > GRACE;
        for (pid, process) in here {
            let known = asked.contains(&pid);
            if !known {
                asked.push(pid);
            }
            // One that is gone, or may not be told, needs nothing.
            let tell = |signal| rustix::process::pidfd_send_signal(&process, signal).ok();
            if late {
                tell(Signal::KILL);
            } else if !known {
                tell(Signal::TERM);
                tell(Signal::CONT);
            }
        }
        std::thread::sleep(PAUSE);
    }
}

/// All that are there, each held: its number is not another's meanwhile.
fn all(device: &str) -> Vec<(Pid, OwnedFd)> {
    let names = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Pid::from_raw)
        .filter(|pid| holds(device, *pid))
        .filter_map(|pid| {
            let process = rustix::process::pidfd_open(pid, PidfdFlags::empty()).ok()?;
            holds(device, pid).then_some((pid, process))
        })
        .collect()
}
