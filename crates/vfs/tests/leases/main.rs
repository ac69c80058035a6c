// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests leases and delegations, and compares them with the running kernel where it offers them.

#![forbid(unsafe_code)]

#[path = "../support/processes/mod.rs"]
mod processes;
#[path = "../support/world.rs"]
mod world;

mod host;
mod unasked;
