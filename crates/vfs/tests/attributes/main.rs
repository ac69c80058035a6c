// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests attributes of files: stat, owners and modes, times, extended attributes, access control
//! lists.

#![forbid(unsafe_code)]

#[path = "../support/world.rs"]
mod world;

mod acls;
mod change;
mod stat;
mod times;
mod xattr;
