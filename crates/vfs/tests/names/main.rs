// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests calls that create, remove, rename and look up names, alone and beside other threads, and
//! the dentry cache with complete directories and colliding names.

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
