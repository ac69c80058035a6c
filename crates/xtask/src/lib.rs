// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks of this repository as a library: what `cargo xtask tidy` runs and what its tests plant,
//! and the judges of `cargo xtask gates`.

#![forbid(unsafe_code)]

pub mod gates;
pub mod tidy;
