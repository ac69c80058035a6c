// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: making, removing and renaming them, alone and beside others, and the cache of them.

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
