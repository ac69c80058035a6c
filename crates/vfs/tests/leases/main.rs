// SPDX-License-Identifier: MIT OR Apache-2.0
//! Leases and delegations, compared with the running kernel where it offers them.

#![forbid(unsafe_code)]

#[path = "../support/processes/mod.rs"]
mod processes;
#[path = "../support/world.rs"]
mod world;

mod host;
mod unasked;
