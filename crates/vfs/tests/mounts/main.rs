// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests mounts: the calls, namespaces, cached paths through mounts, and rules of absent names.

#![forbid(unsafe_code)]

#[path = "../support/tasks.rs"]
mod tasks;
#[path = "../support/world.rs"]
mod world;

mod absent;
mod calls;
mod namespaces;
mod paths;
