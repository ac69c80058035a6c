// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests opens: openat2(2), the table of flags, links, scoped walks, calls that must not wait, and
//! explanations.

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
