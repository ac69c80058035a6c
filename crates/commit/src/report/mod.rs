// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines what callers get to see: changes, refusals, progress, and paths as text.
//!
//! Nothing here reads or changes a file, but `refusal` looks in `PATH` for why a command cannot be
//! executed. All modules build messages for the user from these parts.

pub(crate) mod change;
pub(crate) mod change_list;
pub(crate) mod messages;
pub(crate) mod path_bytes;
pub(crate) mod phase;
pub(crate) mod printable;
pub(crate) mod refusal;
