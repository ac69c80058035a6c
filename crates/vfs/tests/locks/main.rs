// SPDX-License-Identifier: MIT OR Apache-2.0
//! File locks, compared with the running kernel and with what it answered before.

#![forbid(unsafe_code)]

#[path = "../support/processes/mod.rs"]
mod processes;
#[path = "../support/world.rs"]
mod world;

mod ends;
mod golden;
mod host;
mod later;
