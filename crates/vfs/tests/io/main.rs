// SPDX-License-Identifier: MIT OR Apache-2.0
//! Descriptors and data: reading and writing, devices, and FIFOs beside the running kernel.

#![forbid(unsafe_code)]

#[path = "../support/world.rs"]
mod world;

mod calls;
mod descriptors;
mod devices;
mod fifo_host;
