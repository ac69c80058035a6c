// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests creating, removing and renaming names, alone and concurrently, and the dentry cache.

#![forbid(unsafe_code)]

#[path = "../support/tasks.rs"]
mod tasks;
#[path = "../support/world.rs"]
mod world;

mod calls;
mod complete;
mod flooding;
mod misc;
mod races;
