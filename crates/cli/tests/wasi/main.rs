// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `openpath run` with WebAssembly guests: what they see and change, how they end, and that
//! real programs give the same as guests and natively.

#![cfg(feature = "wasi")]

mod ends;
mod place;
mod programs;
mod view;
