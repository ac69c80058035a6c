// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the clocks that a guest reads, as a trait that a host can implement, and implements it
//! with the system's clocks.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The clocks of a guest, in nanoseconds.
pub trait Clocks: Send + Sync {
    /// Time since the epoch.
    fn realtime(&self) -> u64;

    /// Time since an arbitrary moment; it never goes back.
    fn monotonic(&self) -> u64;

    /// The smallest step of either clock.
    fn resolution(&self) -> u64 {
        1
    }
}

/// The system's clocks. Monotonic time counts from the creation of this value.
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
