// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads fields of `/proc/PID/stat`, such as the parent of a process.

use rustix::process::Pid;
use std::str::FromStr;

/// The parent of a process, if that may be known.
#[must_use]
pub fn parent_of(pid: Pid) -> Option<Pid> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    Pid::from_raw(stat_field(&stat, 2)?)
}

/// A number of `/proc/PID/stat`, counted from the end of the name, which may be anything.
#[must_use]
pub fn stat_field<T: FromStr>(stat: &[u8], at: usize) -> Option<T> {
    let end = stat.iter().rposition(|byte| *byte == b')')?;
    let mut words = stat[end + 1..].split(|byte| *byte == b' ');
    std::str::from_utf8(words.nth(at)?).ok()?.parse().ok()
}
