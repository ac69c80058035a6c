// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests what the core asks backends and when: those whose trees are changed by others too, those
//! that keep file locks, and those that report wrong counts of bytes.

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
