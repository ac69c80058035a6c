// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests calls on attributes of files (stat, owners and modes, times, extended attributes, access
//! control lists), mostly against the rules of Linux 6.18 on a tmpfs.

#![forbid(unsafe_code)]

#[path = "../support/world.rs"]
mod world;

mod acls;
mod change;
mod stat;
mod times;
mod xattr;
