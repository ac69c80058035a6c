// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks openpath against the host kernel: times as ratios, and counts.
//!
//! Both sides run in one process on the same paths, with their short windows interleaved
//! (`harness`, `threads`). The contract, which is data (`bars`), judges each row (`row`). What can
//! be counted is counted instead of timed (`counts`), some of it under a tracer of memory (`gate`).
#![deny(unsafe_code)]

mod bars;
mod cached;
mod calls;
mod chart;
mod cmd;
mod common;
mod counts;
mod create;
mod error;
mod failed;
mod fd;
mod gate;
mod harness;
mod host;
mod locked;
mod many;
mod one;
mod ops;
mod ours;
mod page;
mod paths;
mod programs;
mod row;
mod same;
mod scene;
mod shapes;
mod stats;
pub mod sys;
mod threads;
mod walk;
#[cfg(feature = "wasi")]
mod wasi;
mod watch;
mod window;

pub use cmd::main;

/// The depths in the contract.
const DEPTHS: [usize; 3] = [1, 5, 16];
/// How many paths are in rotation.
const PATHS: usize = 64;
/// Seed of the trees.
const SEED: u64 = 7;
