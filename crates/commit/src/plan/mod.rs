// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans what a commit is going to do, and finds what prevents it. Nothing here changes a file.
//!
//! A scan of the view comes in, and a journal goes out; [`crate::commit`] has the order.

pub(crate) mod conflicts;
pub(crate) mod journal_builder;
pub(crate) mod linked_path;
pub(crate) mod one_path;
pub(crate) mod preflight;
pub(crate) mod selection;
