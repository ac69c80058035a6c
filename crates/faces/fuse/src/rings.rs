// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether requests come by the kernel's `io_uring` queues (rings), and which threads serve
//! which CPU.
//!
//! # Kernel analogue
//! FUSE over `io_uring` (Linux 6.14, with `fuse.enable_uring`): each CPU has a queue, and wakes a
//! thread of the server on the caller's own CPU. With read(2) and write(2) that thread is usually
//! woken on another CPU, which takes longer than most replies.
//!
//! # Rules
//! R1. An entry belongs to one thread, and a thread that serves a CPU has one entry. So requests
//!     behind a slow one wait in the kernel for the first free thread; the kernel prefers the
//!     thread that replied last, because its caches are warm.
//! R2. The kernel uses no queue until all have an entry, those of offline CPUs included: one thread
//!     has all of these.
//! R3. The number of threads is bounded, with at least two for each CPU: the handling of a request
//!     may need the reply to another one.
//! R4. A request that waits for a lock would keep its entry, and its thread with it. So with
//!     [`crate::Options::locks`] requests are read from the device.

use openpath_abi::Errno;
use std::fmt;
use std::ops::RangeInclusive;

/// The kernel's switch, which root sets.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// The lists of possible and of online CPUs.
const CPU_LISTS: [&str; 2] = [
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/online",
];
/// Threads for each CPU.
const PER_CPU: RangeInclusive<usize> = 2..=8;
/// Threads for all CPUs, unless two for each are more.
const TOTAL: usize = 256;
/// The most CPUs.
const CPUS_MAX: usize = 4096;

/// Whether requests come by the kernel's rings, or why they are read from the device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rings {
    /// They do.
    Used,
    /// [`crate::Options::rings`] is off.
    Disabled,
    /// The server keeps locks ([`crate::Options::locks`]).
    Locks,
    /// The kernel does not offer rings.
    NotOffered,
    /// The kernel offers rings, but setting them up failed.
    Refused(Errno),
}

impl Rings {
    /// Whether the kernel seems to offer rings to mounts that are made now.
    #[must_use]
    pub fn are_offered() -> bool {
        std::fs::read_to_string(SWITCH).is_ok_and(|text| text.starts_with('Y'))
    }

    /// The command with which root has the kernel offer rings.
    pub const REMEDY: &str = "echo Y > /sys/module/fuse/parameters/enable_uring";
}

impl fmt::Display for Rings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Used => f.write_str("by rings"),
            Self::Disabled => f.write_str("read: rings are not wanted"),
            Self::Locks => f.write_str("read: locks are answered"),
            Self::NotOffered => f.write_str("read: the kernel offers no rings"),
            Self::Refused(errno) => write!(f, "read: the kernel gives no rings ({errno:?})"),
        }
    }
}

/// The part of a thread.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ThreadPlan {
    /// The CPU that it is pinned to.
    pub(crate) cpu: Option<usize>,
    /// The queues of which it has an entry.
    pub(crate) queues: Vec<u16>,
}

/// The threads for this machine, with so many for a CPU.
///
/// # Errors
/// `ENOENT`: the CPUs cannot be determined. `ERANGE`: there are too many.
pub(crate) fn plan(threads: usize) -> Result<Vec<ThreadPlan>, Errno> {
    let [possible, online_cpus] = CPU_LISTS.map(|path| std::fs::read_to_string(path).ok());
    let possible = possible
        .as_deref()
        .and_then(parse_cpu_list)
        .ok_or(Errno::ENOENT)?;
    let online_cpus = online_cpus.as_deref().and_then(parse_cpu_list);
    thread_plans(possible.len(), &online_cpus.unwrap_or(possible), threads)
}

fn thread_plans(
    queues: usize,
    online_cpus: &[usize],
    threads: usize,
) -> Result<Vec<ThreadPlan>, Errno> {
    if queues > CPUS_MAX {
        return Err(Errno::ERANGE);
    }
    let all = 0..queues as u16;
    let is_on = |queue: &u16| online_cpus.contains(&usize::from(*queue));
    let (online, off): (Vec<u16>, Vec<u16>) = all.partition(is_on);
    // R3
    let bound = (TOTAL / online.len().max(1)).max(*PER_CPU.start());
    let per_cpu = threads.clamp(*PER_CPU.start(), *PER_CPU.end()).min(bound);
    let thread = |queue: u16| ThreadPlan {
        cpu: Some(usize::from(queue)),
        queues: vec![queue],
    };
    let mut thread_plans: Vec<ThreadPlan> = (0..per_cpu)
        .flat_map(|_| online.iter().copied().map(thread))
        .collect();
    if !off.is_empty() {
        // R2
        thread_plans.push(ThreadPlan {
            cpu: None,
            queues: off,
        });
    }
    Ok(thread_plans)
}

/// The numbers in a list such as `0-3,8`.
fn parse_cpu_list(text: &str) -> Option<Vec<usize>> {
    let mut parse_cpu_list = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if last.checked_sub(first)? > CPUS_MAX || parse_cpu_list.len() > CPUS_MAX {
            return None;
        }
        parse_cpu_list.extend(first..=last);
    }
    Some(parse_cpu_list)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_cpus_are_parsed() {
        assert_eq!(parse_cpu_list("0-1\n"), Some(vec![0, 1]));
        assert_eq!(parse_cpu_list("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        for wrong in ["", "a", "3-1", "0-99999999", "1,,2"] {
            assert_eq!(parse_cpu_list(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_queue_has_an_entry_and_threads_are_bounded() {
        let two = thread_plans(2, &[0, 1], 4).expect("a plan");
        assert_eq!(two.len(), 8);
        assert!(two.iter().all(|thread| thread.queues.len() == 1));
        let some_off = thread_plans(5, &[0, 3], 1).expect("a plan");
        assert_eq!(some_off.len(), 5);
        assert_eq!(some_off[4].queues, [1, 2, 4]);
        assert_eq!(some_off[4].cpu, None);
        let all: Vec<usize> = (0..128).collect();
        assert_eq!(
            thread_plans(128, &all, 16).map(|thread_plans| thread_plans.len()),
            Ok(256)
        );
        assert_eq!(thread_plans(5000, &all, 16), Err(Errno::ERANGE));
    }
}
