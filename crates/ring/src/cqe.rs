// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a ring answers.

use crate::op::Output;
use openpath_abi::Errno;

/// One entry of the completion queue.
///
/// Linux: `struct io_uring_cqe`, whose `res` is a number or a negative errno.
#[derive(Debug)]
pub struct Cqe {
    /// Of the entry that it is about.
    pub user_data: u64,
    /// What the call answered.
    pub result: Result<u64, Errno>,
    /// What it answered besides.
    pub output: Output,
    /// More completions of the same entry follow (`IORING_CQE_F_MORE`).
    pub more: bool,
}
