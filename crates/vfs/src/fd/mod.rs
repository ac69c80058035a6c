// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptor tables (`struct files_struct`).

mod map;

pub use map::FdMap;
