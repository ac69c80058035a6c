// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks this repository: the rules of `cargo xtask tidy`, and the gates of `cargo xtask gates`.

#![forbid(unsafe_code)]

pub mod gates;
pub mod tidy;
