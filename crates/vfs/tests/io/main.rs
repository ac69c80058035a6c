// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests descriptors, reads, writes and devices, and compares FIFOs with the running kernel.

#![forbid(unsafe_code)]

#[path = "../support/world.rs"]
mod world;

mod calls;
mod descriptors;
mod devices;
mod fifo_host;
