// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether requests come by rings of the kernel's, and who then serves which processor.
//!
//! # Kernel analogue
//! FUSE over `io_uring` (Linux 6.14, where `fuse.enable_uring` is set): each processor has a queue,
//! and wakes a thread of the server on the asker's own. By read(2) and write(2) it is woken on
//! another one, as a rule, which takes longer than most answers.
//!
//! # Rules
//! R1. An entry is of one thread, and a thread that serves a processor has one entry. So what waits
//!     behind a request that takes long waits in the kernel, for whoever is free first; the kernel
//!     gives a request to who answered last, who is warm.
//! R2. All queues need an entry before the kernel uses any, also those of processors that are off:
//!     one thread has all of these.
//! R3. Threads are bounded, and a processor has two at least: who answers may need an answer.
//! R4. A request for a lock that is answered later would keep its entry, and its thread with it.
//!     Where locks are answered here requests are read.

use openpath_abi::Errno;
use std::fmt;
use std::ops::RangeInclusive;

/// The kernel's switch, which root sets.
const SWITCH: &str = "/sys/module/fuse/parameters/enable_uring";
/// Processors that there may be, and those that are on.
const CPU_LISTS: [&str; 2] = [
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/online",
];
/// Threads for each processor.
const PER_CPU: RangeInclusive<usize> = 2..=8;
/// Threads for all of them, if that is two for each.
const TOTAL: usize = 256;
/// Processors that there may be at most.
const CPUS_MAX: usize = 4096;

/// Whether requests come by rings of the kernel's, or why they are read instead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rings {
    /// They do.
    Used,
    /// [`crate::Options::rings`] says that they are not to.
    Disabled,
    /// Locks are answered by the server ([`crate::Options::locks`]).
    Locks,
    /// The kernel does not offer it.
    NotOffered,
    /// It offers it, and they cannot be had.
    Refused(Errno),
}

impl Rings {
    /// Whether the kernel offers them to mounts that are made now, as far as can be seen.
    #[must_use]
    pub fn are_offered() -> bool {
        std::fs::read_to_string(SWITCH).is_ok_and(|text| text.starts_with('Y'))
    }

    /// What root does to have them offered.
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

/// What a thread is for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ThreadPlan {
    /// The processor that it stays on.
    pub(crate) cpu: Option<usize>,
    /// The queues it has an entry of.
    pub(crate) queues: Vec<u16>,
}

/// Which threads are needed on this machine, of which a processor may have so many.
///
/// # Errors
/// `ENOENT`: it cannot be seen which processors there are. `ERANGE`: there are too many.
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
    fn lists_of_processors_are_read() {
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
