// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of this repository as a library: what `cargo xtask tidy` runs, and what its tests plant.

#![forbid(unsafe_code)]

pub mod tidy;
