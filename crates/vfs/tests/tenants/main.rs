// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants: for which one a task works, and what each may keep in the caches.

#![forbid(unsafe_code)]

#[path = "../support/tasks.rs"]
mod tasks;
#[path = "../support/world.rs"]
mod world;

mod budgets;
mod budgets_races;
mod tenant;
