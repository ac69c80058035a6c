// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests file locks, and compares them with the running kernel and with its recorded answers.

#![forbid(unsafe_code)]

#[path = "../support/processes/mod.rs"]
mod processes;
#[path = "../support/world.rs"]
mod world;

mod ends;
mod golden;
mod host;
mod later;
