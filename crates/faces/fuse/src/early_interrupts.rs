// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remembers an interrupt that is read before its request has begun, for that request to find:
//! read(2) gives the two to whichever threads are free.
//!
//! # Rules
//! R1. An interrupt is noted before the requests in flight are searched, and a request takes its
//!     note once it is in flight. Both take the lock of the in-flight request, so one of them sees
//!     the other.
//! R2. An interrupt of a request that was answered leaves a note that is never taken. Request
//!     numbers are not reused, so it does no harm; the oldest notes are evicted.

use openpath_sync::{Mutex, Word};
use openpath_vfs::lock_order::FuseEarly;
use std::collections::VecDeque;

/// Notes that are kept.
const NOTES: usize = 64;

/// The early interrupts of a mount.
#[derive(Default)]
pub(crate) struct EarlyInterrupts {
    /// How many notes there are.
    count: Word,
    notes: Mutex<VecDeque<u64>, FuseEarly>,
}

impl EarlyInterrupts {
    /// Notes that this request was interrupted.
    pub(crate) fn note(&self, request: u64) {
        let mut notes = self.notes.lock();
        if notes.len() == NOTES {
            notes.pop_front();
        }
        notes.push_back(request);
        self.count.set(notes.len() as u64);
    }

    /// Takes the note for this request; returns whether there was one.
    pub(crate) fn take(&self, request: u64) -> bool {
        if self.count.get() == 0 {
            return false;
        }
        let mut notes = self.notes.lock();
        let at = notes.iter().position(|noted| *noted == request);
        at.is_some_and(|at| {
            notes.remove(at);
            self.count.set(notes.len() as u64);
            true
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_taken_once_and_the_oldest_are_evicted() {
        let interrupts = EarlyInterrupts::default();
        assert!(!interrupts.take(2));
        interrupts.note(2);
        interrupts.note(4);
        assert!(interrupts.take(2) && !interrupts.take(2) && !interrupts.take(6));
        for request in 0..NOTES as u64 {
            interrupts.note(100 + request);
        }
        assert!(!interrupts.take(4), "the oldest");
        assert!((0..NOTES as u64).all(|request| interrupts.take(100 + request)));
        assert_eq!(interrupts.count.get(), 0);
    }
}
