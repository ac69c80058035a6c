// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a completion: the result of an operation of a ring (`struct io_uring_cqe`).

use crate::op::Output;
use openpath_abi::Errno;

/// One entry of the completion queue.
///
/// Linux: `struct io_uring_cqe`; its `res` is a number or a negative errno.
#[derive(Debug)]
pub struct Cqe {
    /// The `user_data` of the entry.
    pub user_data: u64,
    /// The result of the call.
    pub result: Result<u64, Errno>,
    /// What the call returned besides.
    pub output: Output,
    /// More completions of the same entry follow (`IORING_CQE_F_MORE`).
    pub more: bool,
}
