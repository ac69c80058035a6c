// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests schedulers that count threads and choices, and bounds of the chance that a number of
//! runs misses a bug.

use shuttle::scheduler::{Schedule, Scheduler, Task, TaskId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The largest counts of one run.
#[derive(Default)]
pub(crate) struct Seen {
    threads: AtomicUsize,
    points: AtomicUsize,
}

impl Seen {
    /// An upper bound of the chance that `runs` runs of PCT all miss a bug of depth `depth`.
    fn missed(&self, runs: usize, depth: i32) -> f64 {
        let [threads, points] = [&self.threads, &self.points].map(|n| n.load(Ordering::Relaxed));
        let found = 1.0 / (threads as f64 * (points as f64).powi(depth - 1));
        (1.0 - found).powf(runs as f64)
    }

    /// The number of PCT runs that miss a bug of depth `depth` with a chance of at most `chance`.
    pub(crate) fn needed(&self, depth: i32, chance: f64) -> usize {
        let [threads, points] = [&self.threads, &self.points].map(|n| n.load(Ordering::Relaxed));
        let found = 1.0 / (threads as f64 * (points as f64).powi(depth - 1));
        (chance.ln() / (-found).ln_1p()).ceil() as usize
    }

    /// Prints what `runs` runs were worth (`--nocapture`).
    pub(crate) fn report(&self, runs: usize) {
        let thread = std::thread::current();
        eprintln!(
            "{}: {runs} runs, up to {} threads with {} points: a bug of depth 1, 2, 3 is missed \
             with a chance of at most {:.1e}, {:.1e}, {:.1e}",
            thread.name().unwrap_or("?"),
            self.threads.load(Ordering::Relaxed),
            self.points.load(Ordering::Relaxed),
            self.missed(runs, 1),
            self.missed(runs, 2),
            self.missed(runs, 3),
        );
    }
}

/// A scheduler that counts its choices in a [`Seen`].
pub(crate) struct Counted<S> {
    inner: S,
    points: usize,
    seen: Arc<Seen>,
}

impl<S> Counted<S> {
    pub(crate) fn new(inner: S, seen: &Arc<Seen>) -> Self {
        Self {
            inner,
            points: 0,
            seen: Arc::clone(seen),
        }
    }
}

impl<S: Scheduler> Scheduler for Counted<S> {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.points = 0;
        self.inner.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        if runnable.len() > 1 {
            self.points += 1;
            self.seen.points.fetch_max(self.points, Ordering::Relaxed);
            self.seen
                .threads
                .fetch_max(runnable.len(), Ordering::Relaxed);
        }
        self.inner.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.inner.next_u64()
    }
}
