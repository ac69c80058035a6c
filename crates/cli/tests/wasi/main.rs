// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `openpath run` with WebAssembly guests.

#![cfg(feature = "wasi")]

mod ends;
mod place;
mod programs;
mod view;
