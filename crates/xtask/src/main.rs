// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks and drivers of this repository.

fn main() {}
