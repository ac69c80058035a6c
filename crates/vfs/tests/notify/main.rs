// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests inotify: compares events with the kernel's, and checks those of concurrent changes.

#![forbid(unsafe_code)]

#[path = "../support/tasks.rs"]
mod tasks;

mod case;
mod golden;
mod races;
