// SPDX-License-Identifier: MIT OR Apache-2.0
//! The operations that are under way.

use crate::op::{File, Where};
use crate::sqe::Work;
use openpath_vfs::LockWait;
use std::task::Waker;
use std::time::Instant;

/// Where an operation is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Its turn has not come: others of its chain, or of before a drain, are not done.
    Held,
    /// With the workers. Whether it was asked to end.
    Away(bool),
    /// It waits for its time.
    Ticking,
    /// It waits for a lock.
    InLine,
    /// A linked time-out, which watches this one.
    Watching(u32),
}

/// An operation under way.
pub(super) struct Request {
    pub(super) user_data: u64,
    pub(super) flags: u8,
    pub(super) stage: Stage,
    /// What to do when its turn comes; of what is done again and again, always.
    pub(super) work: Option<Work>,
    /// The file it is about.
    pub(super) file: Option<File>,
    /// Where what it opens goes.
    pub(super) into: Where,
    /// The next of its chain.
    pub(super) next: Option<u32>,
    /// The linked time-out that watches it.
    pub(super) guard: Option<u32>,
    /// What waits for its lock, and what tells of that; few have it.
    pub(super) line: Option<Box<(LockWait, Waker)>>,
    /// When its time is up.
    pub(super) deadline: Option<Instant>,
    /// At how many completions it ends.
    pub(super) target: Option<u64>,
    /// Whether what came after its chain waits for it.
    pub(super) is_barrier: bool,
}

/// The requests of a ring, by number.
pub(super) struct Requests {
    places: Vec<Option<Request>>,
    free: Vec<u32>,
}

impl Requests {
    pub(super) fn new(max: u32) -> Self {
        Self {
            places: (0..max).map(|_| None).collect(),
            free: (0..max).rev().collect(),
        }
    }

    /// How many are under way.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Adds one; the caller has seen to it that there is room.
    pub(super) fn add(&mut self, request: Request) -> Option<u32> {
        let id = self.free.pop()?;
        self.places[id as usize] = Some(request);
        Some(id)
    }

    pub(super) fn get(&mut self, id: u32) -> Option<&mut Request> {
        self.places.get_mut(id as usize)?.as_mut()
    }

    pub(super) fn remove(&mut self, id: u32) -> Option<Request> {
        let request = self.places.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(request)
    }

    /// All of them.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Request)> {
        let numbered = (0..).zip(&self.places);
        numbered.filter_map(|(id, place)| place.as_ref().map(|request| (id, request)))
    }
}
