// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Linux open path as a library.

#![forbid(unsafe_code)]
