// SPDX-License-Identifier: MIT OR Apache-2.0
//! inotify: events compared with the kernel's, and events of concurrent changes.

#![forbid(unsafe_code)]

#[path = "../support/tasks.rs"]
mod tasks;

mod case;
mod golden;
mod races;
