// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the operations of a ring that lock a file: requests the lock, waits in its queue, and
//! leaves the queue when the operation is cancelled.

use super::Ring;
use super::request::Stage;
use crate::locks::LockRequest;
use crate::op::{Done, File, Outcome};
use crate::trace;
use openpath_abi::Errno;
use std::task::Poll;

/// The operation code in traces; `io_uring` has no such operation.
const CODE: u8 = 255;

fn answer(result: Result<(), Errno>) -> Outcome {
    Ok(result.map(|()| Done::default())?)
}

impl Ring {
    /// Requests a lock, and waits in its queue if there is a conflict.
    pub(super) fn lock(&mut self, id: u32, file: File, request_: &LockRequest) {
        let data = self.data_of(id);
        trace::submit(self.id(), CODE, data, true);
        let begun = match self.table_of(Some(file)) {
            Some((task, fd)) => request_.begin(task, fd),
            None => Err(Errno::EBADF),
        };
        let wait = match begun {
            Ok(Some(wait)) => wait,
            result => return self.finish(id, answer(result.map(drop))),
        };
        trace::queue(self.id(), data, None);
        let waker = self.client.lock_waker(id);
        if let Some(request) = self.requests.get(id) {
            request.stage = Stage::LockWait;
            request.lock_wait = Some(Box::new((wait, waker)));
        }
        self.poll_lock(id);
    }

    /// The lock may be granted. A late event may be of an operation that is done: its number may
    /// belong to another one, which goes on waiting.
    pub(super) fn poll_lock(&mut self, id: u32) {
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let file = request.file;
        let Some(lock_wait) = request.lock_wait.take() else {
            return;
        };
        let (wait, waker) = &*lock_wait;
        let result = match self.table_of(file) {
            Some((task, _)) => task.lock_wait(wait, waker),
            // Without its table, a granted lock would never be freed.
            None => Poll::Ready(Err(Errno::EBADF)),
        };
        match result {
            Poll::Ready(result) => self.finish(id, answer(result)),
            Poll::Pending => {
                if let Some(request) = self.requests.get(id) {
                    request.lock_wait = Some(lock_wait);
                }
            }
        }
    }

    /// Stops waiting for a lock.
    ///
    /// # Errors
    /// `EALREADY`: it has its result, and completes with it.
    pub(super) fn cancel_lock_wait(&mut self, id: u32) -> Result<u64, Errno> {
        let request = self.requests.get(id);
        let lock_wait = request.and_then(|request| Some((request.file, request.lock_wait.take()?)));
        let result = lock_wait.and_then(|(file, lock_wait)| match self.table_of(file) {
            Some((task, _)) => task.lock_end(&lock_wait.0),
            None => Some(Err(Errno::EBADF)),
        });
        match result {
            Some(result) => {
                self.finish(id, answer(result));
                Err(Errno::EALREADY)
            }
            None => {
                self.finish(id, Err(Errno::ECANCELED.into()));
                Ok(0)
            }
        }
    }
}
