// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests tenants (groups of tasks with common limits): which tenant tasks and files have, and that
//! the dentry cache stays within each tenant's limits.

#![forbid(unsafe_code)]

#[path = "../support/tasks.rs"]
mod tasks;
#[path = "../support/world.rs"]
mod world;

mod budgets;
mod budgets_races;
mod tenant;
