// SPDX-License-Identifier: MIT OR Apache-2.0
//! Ending operations early.
//!
//! # Kernel analogue
//! `io_async_cancel`, `io_try_cancel`.
//!
//! # Rules
//! R1. What waits for a time, for a lock, or for a worker, is cancelled at once. What a worker has
//!     begun is interrupted, and completes when it ends: with `ECANCELED` if it was interrupted,
//!     else as it would have.
//! R2. What has not begun, because of a chain or a drain, is not found.
//!
//! # Divergence: L34

use super::Ring;
use super::request::{Request, Stage};
use crate::op::{File, Op};
use crate::sqe::{Cancel, Work};
use openpath_abi::Errno;

impl Ring {
    /// Cancels all operations that are meant, at once and without an entry; how many. It needs no
    /// place in a queue, so it works where every place is taken by what does not end. What a worker
    /// has begun is interrupted, and counts. Linux: `IORING_REGISTER_SYNC_CANCEL`.
    pub fn cancel_now(&mut self, which: Cancel) -> usize {
        self.come_by();
        // No operation has this number.
        let found = self.cancel(u32::MAX, which, true);
        self.run();
        self.leave();
        found.map_or(0, |found| usize::try_from(found).unwrap_or(usize::MAX))
    }

    /// Cancels what is meant, but for `by` itself; 0, or for all of them how many. Any is all.
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
        let meant = |(id, request): &(u32, &Request)| *id != by && is_meant(request, which);
        let found = self.requests.iter().filter(meant).map(|(id, _)| id);
        let found: Vec<u32> = found.take(if all { usize::MAX } else { 1 }).collect();
        let mut last = Err(Errno::ENOENT);
        for id in &found {
            last = self.end_early(*id);
        }
        if all { Ok(found.len() as u64) } else { last }
    }

    /// Ends an operation that has begun (R1).
    ///
    /// # Errors
    /// `EALREADY`: a worker has it; it has its lock.
    pub(super) fn end_early(&mut self, id: u32) -> Result<u64, Errno> {
        let Some(request) = self.requests.get(id) else {
            return Err(Errno::ENOENT);
        };
        match request.stage {
            Stage::Ticking => self.finish(id, Err(Errno::ECANCELED.into())),
            Stage::InLine => return self.leave_line(id),
            Stage::Away(_) => {
                request.stage = Stage::Away(true);
                match self.crew.recall(id) {
                    Some(failed) => self.returned(id, Err(failed)),
                    None => {
                        self.crew.interrupt(id);
                        return Err(Errno::EALREADY);
                    }
                }
            }
            Stage::Held | Stage::Watching(_) => return Err(Errno::ENOENT),
        }
        Ok(0)
    }
}

/// Whether an operation has begun and is one of these (R2).
fn is_meant(request: &Request, which: Cancel) -> bool {
    if !matches!(
        request.stage,
        Stage::Away(_) | Stage::Ticking | Stage::InLine
    ) {
        return false;
    }
    match which {
        Cancel::UserData(user_data) => request.user_data == user_data,
        Cancel::File(file) => request.file == Some(file),
        Cancel::Any => true,
    }
}

/// The file that an operation is about.
pub(super) fn file_of(work: &Work) -> Option<File> {
    match work {
        Work::Call(op) => Op::file(op),
        Work::ReadMany(file, _) | Work::Lock(file, _) => Some(*file),
        _ => None,
    }
}
