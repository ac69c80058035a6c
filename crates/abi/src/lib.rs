// SPDX-License-Identifier: MIT OR Apache-2.0
//! Linux numbers and layouts of the open path: plain constants and plain structs.

#![no_std]
#![forbid(unsafe_code)]
