// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts what the tasks of a tenant did: hits and misses of names, opens of a ring, and restarts
//! of walks. Each task counts in words that no other task writes.
//!
//! # Rules
//! R1. A task counts in words of its own; a reader adds up the words of all tasks.
//! R2. The counts of a task from before it joined a tenant are not the tenant's. Those for the
//!     tenant stay when it leaves.

use super::Tenant;
use crate::reason::{ReasonCounts, Reasons};
use openpath_sync::Word;
use openpath_sync::rcu::READER_COUNTS;
use std::sync::Arc;

/// The counters of a task, as indexes of its words.
pub(crate) mod count {
    /// Walks that ended at a cached name that exists, in lock-free mode.
    pub(crate) const HITS: usize = 0;
    /// Walks that ended at a cached name that does not exist, in lock-free mode.
    pub(crate) const NEGATIVE_HITS: usize = 1;
    /// Lookups in a backend.
    pub(crate) const MISSES: usize = 2;
    /// Opens of a ring that were answered where they were submitted.
    pub(crate) const OPENS_INLINE: usize = 3;
    /// Opens of a ring that were left to a worker.
    pub(crate) const OPENS_OFFLOADED: usize = 4;
}

/// What tasks did: one reading of counters that only rise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Activity {
    /// Walks that ended at a cached name that exists, in lock-free mode.
    pub hits: u64,
    /// Walks that ended at a cached name that does not exist, in lock-free mode.
    pub negative_hits: u64,
    /// Lookups in a backend.
    pub misses: u64,
    /// Opens of a ring that were answered where they were submitted.
    pub opens_inline: u64,
    /// Opens of a ring that were left to a worker.
    pub opens_offloaded: u64,
    /// Why walks left the lock-free mode, or started over.
    pub restarts: Reasons,
}

impl Activity {
    /// Adds another reading.
    pub fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.negative_hits += other.negative_hits;
        self.misses += other.misses;
        self.opens_inline += other.opens_inline;
        self.opens_offloaded += other.opens_offloaded;
        self.restarts.add(&other.restarts);
    }

    /// The growth since `earlier`.
    fn since(&self, earlier: &Self) -> Self {
        Self {
            hits: self.hits.wrapping_sub(earlier.hits),
            negative_hits: self.negative_hits.wrapping_sub(earlier.negative_hits),
            misses: self.misses.wrapping_sub(earlier.misses),
            opens_inline: self.opens_inline.wrapping_sub(earlier.opens_inline),
            opens_offloaded: self.opens_offloaded.wrapping_sub(earlier.opens_offloaded),
            restarts: self.restarts.since(&earlier.restarts),
        }
    }
}

/// The words in which a task counts.
#[derive(Clone)]
pub(crate) struct TaskCounts {
    pub(crate) words: &'static [Word; READER_COUNTS],
    pub(crate) reasons: Arc<ReasonCounts>,
}

impl TaskCounts {
    fn read(&self) -> Activity {
        Activity {
            hits: self.words[count::HITS].peek(),
            negative_hits: self.words[count::NEGATIVE_HITS].peek(),
            misses: self.words[count::MISSES].peek(),
            opens_inline: self.words[count::OPENS_INLINE].peek(),
            opens_offloaded: self.words[count::OPENS_OFFLOADED].peek(),
            restarts: self.reasons.read(),
        }
    }
}

/// The tasks of a tenant, with their counts from when they joined, and the counts of those that
/// left.
#[derive(Default)]
pub(super) struct TenantCounts {
    tasks: Vec<(TaskCounts, Activity)>,
    past: Activity,
}

impl TenantCounts {
    /// How many tasks there are, and the activity of all.
    pub(super) fn read(&self) -> (usize, Activity) {
        let mut sum = self.past;
        for (tally, before) in &self.tasks {
            sum.add(&tally.read().since(before));
        }
        (self.tasks.len(), sum)
    }
}

impl Tenant {
    /// A task works for it from now on.
    pub(crate) fn join(&self, tally: TaskCounts) {
        let before = tally.read();
        let tasks = &mut self.counts.lock().tasks;
        if tasks.is_empty() {
            // Most tenants, where there are very many, have one task.
            tasks.reserve_exact(1);
        }
        tasks.push((tally, before));
    }

    /// A task no longer works for it.
    pub(crate) fn part(&self, words: &[Word; READER_COUNTS]) {
        let mut counts = self.counts.lock();
        let at = counts
            .tasks
            .iter()
            .position(|(tally, _)| core::ptr::eq(tally.words, words));
        if let Some(at) = at {
            let (tally, before) = counts.tasks.swap_remove(at);
            counts.past.add(&tally.read().since(&before));
        }
    }
}
