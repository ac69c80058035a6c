// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the table of a ring's operations that are not completed: what each is, its stage, and what
//! it waits for.

use crate::op::{Destination, File};
use crate::sqe::Work;
use openpath_vfs::LockWait;
use std::task::Waker;
use std::time::Instant;

/// The stage of an operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// Not begun: earlier members of its chain, or operations before a drain, are not done.
    Held,
    /// With a worker; whether it was cancelled.
    Offloaded(bool),
    /// Waits for a time.
    Timer,
    /// Waits for a lock.
    LockWait,
    /// A linked time-out, which can cancel this operation.
    LinkedTimeout(u32),
}

/// An operation in progress.
pub(super) struct Request {
    pub(super) user_data: u64,
    pub(super) flags: u8,
    pub(super) stage: Stage,
    /// What to do when it begins; kept if the operation is repeated.
    pub(super) work: Option<Work>,
    /// The file it is about.
    pub(super) file: Option<File>,
    /// The destination of the file that it opens.
    pub(super) into: Destination,
    /// The next member of its chain.
    pub(super) next: Option<u32>,
    /// The linked time-out that can cancel it.
    pub(super) linked_timeout: Option<u32>,
    /// The wait for its lock, and what wakes it; few operations have one.
    pub(super) lock_wait: Option<Box<(LockWait, Waker)>>,
    /// When it times out.
    pub(super) deadline: Option<Instant>,
    /// The number of completions at which it ends.
    pub(super) target: Option<u64>,
    /// Whether later chains wait for it.
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

    /// Operations in progress.
    pub(super) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    /// Adds one; the caller has made sure that there is room.
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
