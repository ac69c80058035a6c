// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that openpath sends the inotify events that the kernel was recorded to send, and that
//! concurrent changes lose, double or mix no event.

#![forbid(unsafe_code)]

#[path = "../support/tasks.rs"]
mod tasks;

mod case;
mod golden;
mod races;
