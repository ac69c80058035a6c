// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cancels operations of a ring: those with a `user_data`, those on a file, or all.
//!
//! # Kernel analogue
//! `io_async_cancel`, `io_try_cancel`.
//!
//! # Rules
//! R1. An operation that waits for a time, a lock or a worker is cancelled at once. One that a
//!     worker has begun is interrupted, and completes when it ends: with `ECANCELED` if it was
//!     interrupted, else with its result.
//! R2. An operation that has not begun, because of a chain or a drain, is not found.
//!
//! # Divergence: L34

use super::Ring;
use super::request::{Request, Stage};
use crate::op::{File, Op};
use crate::sqe::{Cancel, Work};
use openpath_abi::Errno;

impl Ring {
    /// Cancels all operations that match, at once and without an entry; returns how many. It needs
    /// no room in a queue, so it works when the ring is full of operations that do not end.
    /// Operations that a worker has begun are interrupted, and counted. Linux:
    /// `IORING_REGISTER_SYNC_CANCEL`.
    pub fn cancel_now(&mut self, which: Cancel) -> usize {
        self.collect_returned();
        // No operation has this number.
        let found = self.cancel(u32::MAX, which, true);
        self.run();
        self.rearm();
        found.map_or(0, |found| usize::try_from(found).unwrap_or(usize::MAX))
    }

    /// Cancels operations that match, except `by` itself; returns 0, or with `all` how many.
    /// [`Cancel::Any`] implies `all`.
    ///
    /// # Errors
    /// `EBADF` (the file is not open), `ENOENT`, `EALREADY`.
    pub(super) fn cancel(&mut self, by: u32, which: Cancel, all: bool) -> Result<u64, Errno> {
        if let Cancel::File(file) = which
            && self.is_closed(Some(file), None)
        {
            return Err(Errno::EBADF);
        }
        let all = all || which == Cancel::Any;
        let matches = |(id, request): &(u32, &Request)| *id != by && is_match(request, which);
        let found = self.requests.iter().filter(matches).map(|(id, _)| id);
        let found: Vec<u32> = found.take(if all { usize::MAX } else { 1 }).collect();
        let mut last = Err(Errno::ENOENT);
        for id in &found {
            last = self.cancel_one(*id);
        }
        if all { Ok(found.len() as u64) } else { last }
    }

    /// Cancels an operation that has begun (R1).
    ///
    /// # Errors
    /// `EALREADY`: a worker has it; it has its lock.
    pub(super) fn cancel_one(&mut self, id: u32) -> Result<u64, Errno> {
        let Some(request) = self.requests.get(id) else {
            return Err(Errno::ENOENT);
        };
        match request.stage {
            Stage::Timer => self.finish(id, Err(Errno::ECANCELED.into())),
            Stage::LockWait => return self.cancel_lock_wait(id),
            Stage::Offloaded(_) => {
                request.stage = Stage::Offloaded(true);
                match self.client.recall(id) {
                    Some(failed) => self.returned(id, Err(failed)),
                    None => {
                        self.client.interrupt(id);
                        return Err(Errno::EALREADY);
                    }
                }
            }
            Stage::Held | Stage::LinkedTimeout(_) => return Err(Errno::ENOENT),
        }
        Ok(0)
    }
}

/// Whether an operation has begun and matches (R2).
fn is_match(request: &Request, which: Cancel) -> bool {
    if !matches!(
        request.stage,
        Stage::Offloaded(_) | Stage::Timer | Stage::LockWait
    ) {
        return false;
    }
    match which {
        Cancel::UserData(user_data) => request.user_data == user_data,
        Cancel::File(file) => request.file == Some(file),
        Cancel::Any => true,
    }
}

/// The file of an operation.
pub(super) fn file_of(work: &Work) -> Option<File> {
    match work {
        Work::Call(op) => Op::file(op),
        Work::ReadMany(file, _) | Work::Lock(file, _) => Some(*file),
        _ => None,
    }
}
