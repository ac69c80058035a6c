// SPDX-License-Identifier: MIT OR Apache-2.0
//! Watches: what they are told, as the kernel told it, and while names change.

#![forbid(unsafe_code)]

#[path = "../support/tasks.rs"]
mod tasks;

mod case;
mod golden;
mod races;
