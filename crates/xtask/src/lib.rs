// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks this repository by the rules of `cargo xtask tidy` and by the gates (counts with a limit)
//! of `cargo xtask gates`. The crate's program runs both.

#![forbid(unsafe_code)]

pub mod gates;
pub mod tidy;
