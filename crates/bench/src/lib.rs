// SPDX-License-Identifier: MIT OR Apache-2.0
//! Benchmarks of openpath against the host kernel: times as ratios, and counts.
//!
//! Both sides run in one process on the same paths, their short windows interleaved
//! ([`harness`]); a row ([`row`]) is judged by the contract, which is data ([`bars`]).
//! What can be counted is counted instead of timed ([`counts`]), some of it under a tracer of
//! memory ([`gate`]).
#![deny(unsafe_code)]

pub mod bars;
pub mod cached;
mod chart;
pub mod cmd;
pub mod counts;
pub mod create;
pub mod error;
pub mod failed;
pub mod fd;
pub mod gate;
pub mod harness;
pub mod host;
pub mod locked;
pub mod many;
pub mod memory;
pub mod one;
pub mod ops;
pub mod ours;
pub mod page;
pub mod paths;
pub mod programs;
pub mod row;
pub mod same;
pub mod scale;
pub mod scene;
pub mod shapes;
pub mod stats;
pub mod sys;
pub mod team;
pub mod tenants;
pub mod walk;
#[cfg(feature = "wasi")]
pub mod wasi;

pub use error::Error;
pub use gate::Plant;
pub use row::{Row, Verdict};

/// How much to measure, and which rows.
#[derive(Clone, Debug)]
pub struct Ask {
    /// How much.
    pub effort: harness::Effort,
    /// Only rows whose name contains this.
    pub filter: Option<String>,
}

impl Ask {
    /// Whether a row of this name is wanted.
    fn wants(&self, name: &str) -> bool {
        self.filter
            .as_ref()
            .is_none_or(|part| name.contains(part.as_str()))
    }

    /// Whether a row with one of these names is wanted.
    fn wants_any(&self, names: &[String]) -> bool {
        self.filter.is_none() || names.iter().any(|name| self.wants(name))
    }

    /// Keeps the groups of rows, named by what their rows' names begin with, that the filter
    /// names; all of them if it names none, since it may name rows.
    fn keep_groups<T>(&self, groups: &mut Vec<T>, name: impl Fn(&T) -> &str) {
        if groups.iter().any(|group| self.wants(name(group))) {
            groups.retain(|group| self.wants(name(group)));
        }
    }
}

/// The depths the contract speaks of.
pub const DEPTHS: [usize; 3] = [1, 5, 16];
/// Paths in rotation.
pub const PATHS: usize = 64;
/// Seed of the trees.
pub const SEED: u64 = 7;
