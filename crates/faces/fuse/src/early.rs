// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts that came before the request that they are for had begun: the one comes by read(2),
//! the other by whichever thread is free.
//!
//! # Rules
//! R1. An interrupt is noted before the seats are looked at, and a request looks here once it has
//!     its seat. Both take the seat's lock: whichever is first there, one of them sees the other.
//! R2. What was answered already leaves a note that nobody takes. Numbers of requests do not come
//!     again, so it is of no harm; the oldest notes make room for new ones.

use openpath_sync::{Mutex, Word};
use openpath_vfs::lock_order::FuseEarly;
use std::collections::VecDeque;

/// Notes that are kept.
const NOTES: usize = 64;

/// The notes of a mount.
#[derive(Default)]
pub(crate) struct Early {
    /// How many there are.
    count: Word,
    notes: Mutex<VecDeque<u64>, FuseEarly>,
}

impl Early {
    /// Notes that this request was interrupted.
    pub(crate) fn note(&self, request: u64) {
        let mut notes = self.notes.lock();
        if notes.len() == NOTES {
            notes.pop_front();
        }
        notes.push_back(request);
        self.count.set(notes.len() as u64);
    }

    /// Takes the note of this request; whether there was one.
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
    fn a_note_is_taken_once_and_the_oldest_make_room() {
        let early = Early::default();
        assert!(!early.take(2));
        early.note(2);
        early.note(4);
        assert!(early.take(2) && !early.take(2) && !early.take(6));
        for request in 0..NOTES as u64 {
            early.note(100 + request);
        }
        assert!(!early.take(4), "the oldest");
        assert!((0..NOTES as u64).all(|request| early.take(100 + request)));
        assert_eq!(early.count.get(), 0);
    }
}
