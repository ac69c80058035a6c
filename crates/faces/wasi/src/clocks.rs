// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clocks that a guest reads, through a trait, so that a host can own its time.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// What a guest takes for time, in nanoseconds.
pub trait Clocks: Send + Sync {
    /// Since the epoch.
    fn realtime(&self) -> u64;

    /// Since some moment; never less than before.
    fn monotonic(&self) -> u64;

    /// The least step of either.
    fn resolution(&self) -> u64 {
        1
    }
}

/// The system's clocks. Monotonic time begins when this is made.
#[derive(Clone, Copy, Debug)]
pub struct SystemClocks {
    began: Instant,
}

impl Default for SystemClocks {
    fn default() -> Self {
        Self {
            began: Instant::now(),
        }
    }
}

impl Clocks for SystemClocks {
    fn realtime(&self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        since.map_or(0, |since| {
            u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
        })
    }

    fn monotonic(&self) -> u64 {
        let since = self.began.elapsed();
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    }
}
