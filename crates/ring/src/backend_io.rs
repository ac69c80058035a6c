// SPDX-License-Identifier: MIT OR Apache-2.0
//! Has the backend read, write and sync by itself (`AsyncIo`), so that no worker waits for data.
//!
//! # Kernel analogue
//! `io_rw_init_file` with a `ki_complete`, against `io_queue_iowq`.
//!
//! # States of a job
//! Submitted -> in the backend -> done -> completed: in the backend's thread if that cannot wait,
//! else by a worker -> posted to the mailbox. A job that the backend does not take is queued for a
//! worker.
//!
//! # Rules
//! R1. A job in the backend is like one that a worker has begun: it cannot be recalled, and
//!     completes when it ends. If its ring is gone, its result is dropped.
//! R2. The backend's thread does not wait: a file with its last reference in a job is released by
//!     a worker.
//! R3. Jobs that are completed by workers have a lane of their own in the pool, since their ring
//!     may be gone, or have all its workers wait for what one of them holds. If there is no thread
//!     for them, they are completed in the backend's thread.
//!
//! # Divergence: L39

use crate::op::{Done, Failed, Op, Outcome};
use crate::perform;
use openpath_abi::Errno;
use openpath_vfs::{IoRequest, OpenFile, Task};

/// Takes the buffers of an operation, with its offset; `None` for an operation that is not one
/// piece of data at an offset.
pub(crate) fn take_buffers(op: &mut Op) -> Option<(IoRequest, i64)> {
    match op {
        Op::Read(_, buf, offset) if *offset >= 0 => {
            Some((IoRequest::Read(std::mem::take(buf)), *offset))
        }
        Op::Write(_, data, offset) if *offset >= 0 => {
            Some((IoRequest::Write(std::mem::take(data)), *offset))
        }
        Op::Sync(_, data_only) => Some((IoRequest::Sync(*data_only), 0)),
        _ => None,
    }
}

/// Gives an operation its buffers back.
pub(crate) fn restore_buffers(op: &mut Op, request: IoRequest) {
    match (op, request) {
        (Op::Read(_, place, _), IoRequest::Read(buf)) => *place = buf,
        (Op::Write(_, place, _), IoRequest::Write(data)) => *place = data,
        _ => {}
    }
}

/// Completes a job that the backend has done.
pub(crate) fn complete(
    task: &Task,
    mut op: Op,
    file: &OpenFile,
    moved: Result<usize, Errno>,
) -> Outcome {
    let Some((mut request, offset)) = take_buffers(&mut op) else {
        return Err(Failed::from(Errno::EIO));
    };
    let moved = task.finish_io(file, &mut request, offset, moved);
    match request {
        IoRequest::Read(buf) => perform::read_into_one(buf, moved),
        IoRequest::Write(data) => perform::written(data.len(), moved),
        IoRequest::Sync(_) => Ok(moved.map(|_| Done::default())?),
    }
}
