// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests opens of files: openat2(2) and open(2) with each flag, symbolic links, walks that must
//! stay beneath a directory, calls that must not wait, and explanations of calls.

#![forbid(unsafe_code)]

#[path = "../support/world.rs"]
mod world;

mod beneath;
mod beneath_moves;
mod explain;
mod links;
mod openat2;
mod reasons;
mod reopen;
mod table;
mod tries;
mod unasked;
