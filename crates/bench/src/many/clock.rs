// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures the time of single operations by two serialising reads of the processor's clock.

use std::time::{Duration, Instant};

use super::LONG_NS;
use crate::stats::quantile;
use crate::sys::ticks;

/// The quantiles that are rows.
pub(super) const QUANTILES: [(&str, f64); 4] =
    [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)];

/// The unit of the clock, and the cost of reading it.
pub(super) struct Clock {
    ns_per_tick: f64,
    empty_ns: f64,
}

impl Clock {
    /// Compares it with the system's clock.
    pub(super) fn calibrate() -> Self {
        let (begun, first) = (Instant::now(), ticks());
        while begun.elapsed() < Duration::from_millis(50) {
            std::hint::spin_loop();
        }
        let passed = ticks() - first;
        let mut clock = Self {
            ns_per_tick: begun.elapsed().as_nanos() as f64 / passed as f64,
            empty_ns: 0.0,
        };
        let mut nothing = Times::new(10_001);
        (0..10_001).for_each(|_| nothing.time(|| ()));
        clock.empty_ns = nothing.summary(&clock).at[0];
        clock
    }
}

/// The time of each operation, in ticks. Its memory is allocated before.
pub(super) struct Times {
    ticks: Vec<u32>,
    count: usize,
}

/// The summary of such times.
pub(super) struct Summary {
    pub(super) count: usize,
    /// In the order of [`QUANTILES`], nanoseconds.
    pub(super) at: [f64; QUANTILES.len()],
    /// How many were longer than [`LONG_NS`].
    pub(super) long: usize,
}

impl Times {
    pub(super) fn new(room: usize) -> Self {
        let mut ticks = Vec::new();
        // Not zeros: those would be pages that do not exist yet.
        ticks.resize(room, 1);
        Self { ticks, count: 0 }
    }

    /// Drops all times.
    pub(super) fn clear(&mut self) {
        self.count = 0;
    }

    /// Runs `op` and records its time.
    #[inline(always)]
    pub(super) fn time<T>(&mut self, op: impl FnOnce() -> T) -> T {
        let begun = ticks();
        let out = op();
        let passed = ticks() - begun;
        if let Some(place) = self.ticks.get_mut(self.count) {
            *place = u32::try_from(passed).unwrap_or(u32::MAX);
            self.count += 1;
        }
        out
    }

    pub(super) fn summary(&self, clock: &Clock) -> Summary {
        let ns = |&ticks: &u32| (f64::from(ticks) * clock.ns_per_tick - clock.empty_ns).max(0.0);
        let mut sorted: Vec<f64> = self.ticks[..self.count].iter().map(ns).collect();
        sorted.sort_by(f64::total_cmp);
        Summary {
            count: self.count,
            at: QUANTILES.map(|(_, at)| quantile(&sorted, at).unwrap_or(0.0)),
            long: sorted.len() - sorted.partition_point(|&ns| ns <= LONG_NS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_operation_is_counted() {
        let clock = Clock::calibrate();
        let mut times = Times::new(2001);
        for i in 0..2001 {
            let nap = Duration::from_millis(2 * u64::from(i == 77));
            times.time(|| (!nap.is_zero()).then(|| std::thread::sleep(nap)));
        }
        let Summary { count, at, long } = times.summary(&clock);
        assert!(count == 2001 && long >= 1);
        assert!(at[0] < 100.0 && at[3] > 1_900_000.0, "{at:?}");
    }
}
