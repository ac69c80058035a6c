// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks of openpath against the host kernel: times as ratios, and counts.
//!
//! Both sides run in one process on the same paths, their short windows interleaved
//! ([`harness`]); a row ([`row`]) is judged by the contract, which is data ([`bars`]).
//! What can be counted is counted instead of timed ([`counts`]).
#![deny(unsafe_code)]

pub mod bars;
pub mod counts;
pub mod error;
pub mod harness;
pub mod host;
pub mod memory;
pub mod one;
pub mod ops;
pub mod ours;
pub mod paths;
pub mod row;
pub mod scale;
pub mod stats;
pub mod sys;
pub mod walk;

pub use error::Error;
pub use row::{Row, Verdict};

/// A fault planted on purpose, to see the check turn red.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plant {
    /// Every one of our bursts runs 64 times.
    Slow,
    /// Every counted operation allocates.
    Alloc,
    /// One store to the sealed arena.
    Store,
}

/// The depths the contract speaks of.
pub const DEPTHS: [usize; 3] = [1, 5, 16];
/// Paths in rotation.
pub const PATHS: usize = 64;
/// Seed of the trees.
pub const SEED: u64 = 7;
