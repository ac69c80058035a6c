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
const PROCESSORS: [&str; 2] = [
    "/sys/devices/system/cpu/possible",
    "/sys/devices/system/cpu/online",
];
/// Threads for each processor.
const EACH: RangeInclusive<usize> = 2..=8;
/// Threads for all of them, if that is two for each.
const ALL: usize = 256;
/// Processors that there may be at most.
const PROCESSORS_MAX: usize = 4096;

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
pub(crate) struct Post {
    /// The processor that it stays on.
    pub(crate) processor: Option<usize>,
    /// The queues it has an entry of.
    pub(crate) queues: Vec<u16>,
}

/// Which threads are needed on this machine, of which a processor may have so many.
///
/// # Errors
/// `ENOENT`: it cannot be seen which processors there are. `ERANGE`: there are too many.
pub(crate) fn plan(threads: usize) -> Result<Vec<Post>, Errno> {
    let [possible, on] = PROCESSORS.map(|path| std::fs::read_to_string(path).ok());
    let possible = possible.as_deref().and_then(numbers).ok_or(Errno::ENOENT)?;
    let on = on.as_deref().and_then(numbers);
    posts(possible.len(), &on.unwrap_or(possible), threads)
}

fn posts(queues: usize, on: &[usize], threads: usize) -> Result<Vec<Post>, Errno> {
    if queues > PROCESSORS_MAX {
        return Err(Errno::ERANGE);
    }
    let all = 0..queues as u16;
    let is_on = |queue: &u16| on.contains(&usize::from(*queue));
    let (served, off): (Vec<u16>, Vec<u16>) = all.partition(is_on);
    // R3
    let bound = (ALL / served.len().max(1)).max(*EACH.start());
    let each = threads.clamp(*EACH.start(), *EACH.end()).min(bound);
    let post = |queue: u16| Post {
        processor: Some(usize::from(queue)),
        queues: vec![queue],
    };
    let mut posts: Vec<Post> = (0..each)
        .flat_map(|_| served.iter().copied().map(post))
        .collect();
    if !off.is_empty() {
        // R2
        posts.push(Post {
            processor: None,
            queues: off,
        });
    }
    Ok(posts)
}

/// The numbers in a list such as `0-3,8`.
fn numbers(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        if last.checked_sub(first)? > PROCESSORS_MAX || numbers.len() > PROCESSORS_MAX {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(numbers("0-1\n"), Some(vec![0, 1]));
        assert_eq!(numbers("0-2,5,7-8"), Some(vec![0, 1, 2, 5, 7, 8]));
        for wrong in ["", "a", "3-1", "0-99999999", "1,,2"] {
            assert_eq!(numbers(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn every_queue_has_an_entry_and_threads_are_bounded() {
        let two = posts(2, &[0, 1], 4).expect("a plan");
        assert_eq!(two.len(), 8);
        assert!(two.iter().all(|post| post.queues.len() == 1));
        let some_off = posts(5, &[0, 3], 1).expect("a plan");
        assert_eq!(some_off.len(), 5);
        assert_eq!(some_off[4].queues, [1, 2, 4]);
        assert_eq!(some_off[4].processor, None);
        let all: Vec<usize> = (0..128).collect();
        assert_eq!(posts(128, &all, 16).map(|posts| posts.len()), Ok(256));
        assert_eq!(posts(5000, &all, 16), Err(Errno::ERANGE));
    }
}
