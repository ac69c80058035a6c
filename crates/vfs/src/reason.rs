// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names the reasons why walks left the lock-free mode, or had to start over, and counts them by
//! task.
//!
//! # Kernel analogue
//! None: Linux does not say why `try_to_unlazy` was called or `ECHILD` returned.
//!
//! # Rules
//! R1. Counting happens only where the lock-free mode has ended already.
//! R2. A task's counts are written by its thread alone; others may read them at any time.

use crate::named::named;
use core::fmt;
use openpath_sync::Word;

named! {
    /// Why a walk left the lock-free mode, or had to start over.
    #[derive(PartialOrd, Ord)]
    #[repr(u8)]
    enum Reason {
        Miss, "miss", "a name was not cached";
        Revalidate, "revalidate", "the backend must confirm a name at each use";
        Busy, "busy", "an entry was changing as the walk came by";
        NamesChanged, "names-changed", "a name changed under the walk";
        MountsChanged, "mounts-changed", "a mount came or went under the walk";
        ScopeMoved, "scope-moved", "directories or mounts moved while a scoped walk went up";
        TreeTop, "tree-top", "`..` of a mount with nothing visible above it";
        LinkBody, "link-body", "the body of a link was not cached";
        LinkOwner, "link-owner", "permission to follow a link depends on its directory";
        AccessTime, "access-time", "the access time of a link was due";
        Magic, "magic", "a magic link was followed";
        Create, "create", "a file may have to be made";
        Refusal, "refusal", "an error is certain only at a pinned place";
        Rules, "rules", "a file may have to be made where names can be absent";
        Stale, "stale", "a backend no longer knew a cached entry";
        WouldWait, "would-wait", "a backend would have had to wait, and might not";
        Held, "held", "another task held the names of a directory, or was looking up the same name";
        Leased, "leased", "the file has a lease";
        OpenHook, "open-hook", "the backend must be asked at each open of the file";
        Peer, "peer", "the other end of the FIFO is not open";
        Change, "change", "the call would change something";
        NoPin, "no-pin", "the pins of the `Vfs` are used up";
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How many there are.
const REASONS: usize = Reason::ALL.len();

/// How often walks left the lock-free mode or started over, by [`Reason`]: one reading of counters
/// that only rise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reasons([u64; REASONS]);

impl Default for Reasons {
    fn default() -> Self {
        Self([0; REASONS])
    }
}

impl Reasons {
    /// How often it was for this reason.
    #[must_use]
    pub const fn of(&self, why: Reason) -> u64 {
        self.0[why as usize]
    }

    /// How often in all.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, n| sum.wrapping_add(*n))
    }

    /// The reasons with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.iter().copied().zip(self.0)
    }

    /// The counts since an earlier reading.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        for (n, before) in since.0.iter_mut().zip(earlier.0) {
            *n = n.wrapping_sub(before);
        }
        since
    }

    /// The first reason that was counted since an earlier reading.
    pub(crate) fn first_since(&self, before: &Self) -> Option<Reason> {
        let mut new = self.iter().filter(|(why, n)| *n != before.of(*why));
        new.next().map(|(why, _)| why)
    }

    /// Adds another reading.
    pub fn add(&mut self, other: &Self) {
        for (sum, n) in self.0.iter_mut().zip(other.0) {
            *sum = sum.wrapping_add(n);
        }
    }
}

/// The counters of one task, on lines of 64 bytes of their own.
#[derive(Default)]
#[repr(align(64))]
pub(crate) struct ReasonCounts([Word; REASONS]);

impl ReasonCounts {
    /// Counts one more; only the task's own thread does (R2).
    #[cold]
    pub(crate) fn count(&self, why: Reason) {
        let word = &self.0[why as usize];
        word.poke(word.peek().wrapping_add(1));
    }

    /// Resets them to a reading; only the task's own thread does (R2).
    pub(crate) fn put_back(&self, reading: &Reasons) {
        for (word, n) in self.0.iter().zip(reading.0) {
            word.poke(n);
        }
    }

    /// The counts now; any thread may ask.
    pub(crate) fn read(&self) -> Reasons {
        let mut reading = Reasons::default();
        for (n, word) in reading.0.iter_mut().zip(&self.0) {
            *n = word.peek();
        }
        reading
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_again_under_their_reason() {
        let counts = ReasonCounts::default();
        for (i, why) in Reason::ALL.iter().enumerate() {
            (0..=i).for_each(|_| counts.count(*why));
        }
        let mut read = counts.read();
        for (i, why) in Reason::ALL.iter().enumerate() {
            assert_eq!(*why as usize, i);
            assert_eq!(read.of(*why), i as u64 + 1, "{why}");
        }
        assert_eq!(read.total(), read.iter().map(|(_, n)| n).sum());
        read.add(&counts.read());
        assert_eq!(read.of(Reason::Miss), 2);
    }
}
