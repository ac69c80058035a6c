// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests backends whose trees are changed by others too: what the core asks them, and when.

#![forbid(unsafe_code)]

mod backend;
mod confirm;
mod counts;
mod forget;
mod listeners;
mod locks;
mod moved;
mod passing;
mod races;
mod tries;
