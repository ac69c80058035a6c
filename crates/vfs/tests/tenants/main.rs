// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tenants: the tenant of a task, and its budgets in the caches.

#![forbid(unsafe_code)]

#[path = "../support/tasks.rs"]
mod tasks;
#[path = "../support/world.rs"]
mod world;

mod budgets;
mod budgets_races;
mod tenant;
