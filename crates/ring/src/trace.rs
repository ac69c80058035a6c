// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emits the trace points of rings, through `tracing`, with the target `openpath::ring`.
//!
//! # Kernel analogue
//! The trace points `io_uring_create`, `io_uring_submit_sqe`, `io_uring_queue_async_work`,
//! `io_uring_cqring_wait` and `io_uring_complete`, with their fields.
//!
//! | event | fields |
//! |---|---|
//! | `create` | `ring`, `sq_size`, `cq_size` |
//! | `submit` | `ring`, `op`, `data`, `non_block` |
//! | `queue` | `ring`, `data`, `reason`: why it was not answered in place |
//! | `wait` | `ring`, `min_events` |
//! | `complete` | `ring`, `data`, `result`: a number, or a negative errno |
//!
//! The subscriber notes the times. Without one, an event costs a load and a branch.

use openpath_abi::Errno;
use openpath_vfs::Reason;

/// The target of all events.
pub const TARGET: &str = "openpath::ring";

macro_rules! event {
    ($name:literal, $($field:tt)*) => {
        tracing::trace!(target: "openpath::ring", event = $name, $($field)*)
    };
}

#[inline(always)]
pub(crate) fn create(ring: u64, sq_size: usize, cq_size: usize) {
    event!("create", ring, sq_size, cq_size);
}

#[inline(always)]
pub(crate) fn submit(ring: u64, op: u8, data: u64, non_block: bool) {
    event!("submit", ring, op, data, non_block);
}

#[inline(always)]
pub(crate) fn queue(ring: u64, data: u64, why: Option<Reason>) {
    event!(
        "queue",
        ring,
        data,
        reason = why.map_or("asked", Reason::name)
    );
}

#[inline(always)]
pub(crate) fn wait(ring: u64, min_events: usize) {
    event!("wait", ring, min_events);
}

#[inline(always)]
pub(crate) fn complete(ring: u64, data: u64, result: Result<u64, Errno>) {
    event!("complete", ring, data, result = number(result));
}

/// A result as in the kernel's completions.
fn number(result: Result<u64, Errno>) -> i64 {
    match result {
        Ok(value) => value.cast_signed(),
        Err(errno) => -i64::from(errno.raw()),
    }
}
