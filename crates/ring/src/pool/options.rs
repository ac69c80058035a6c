// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the options of a worker pool: how many threads it has and gives to one ring, and when
//! they end.

use std::time::Duration;

/// The options of a [`crate::Pool`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolOptions {
    /// The most threads at a time; at least one is allowed.
    pub threads_max: usize,
    /// The most threads that one ring has at a time; by default less than all, so that no ring
    /// makes the others wait.
    pub per_ring_max: Option<usize>,
    /// How long an idle thread stays.
    pub idle: Duration,
    /// The name of the threads, before a hyphen and their number. Linux shows 15 bytes.
    pub name: String,
    /// How long the drop of the last handle waits for threads that still run a job. After that they
    /// are left behind, with what they hold.
    pub shutdown_timeout: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        let cores = std::thread::available_parallelism().map_or(4, usize::from);
        Self {
            threads_max: (cores * 4).clamp(8, 64),
            per_ring_max: None,
            idle: Duration::from_secs(5),
            name: "openpath-worker".to_owned(),
            shutdown_timeout: Duration::from_secs(5),
        }
    }
}

openpath_vfs::setters! {
    PoolOptions {
        threads_max: usize,
        per_ring_max: Option<usize>,
        idle: Duration,
        name: String,
        shutdown_timeout: Duration,
    }
}

impl PoolOptions {
    /// The most workers of a ring.
    pub(super) fn share(&self) -> usize {
        let all = self.threads_max.max(1);
        let usual = all - all.div_ceil(4).min(all - 1);
        self.per_ring_max.unwrap_or(usual).clamp(1, all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_leaves_workers_for_others_by_default() {
        let share = |threads_max, per_ring_max| {
            let options = PoolOptions {
                threads_max,
                per_ring_max,
                ..PoolOptions::default()
            };
            options.share()
        };
        assert_eq!(
            [0, 1, 2, 3, 4, 8, 64].map(|n| share(n, None)),
            [1, 1, 1, 2, 3, 6, 48]
        );
        assert_eq!(
            [share(8, Some(0)), share(8, Some(8)), share(8, Some(9))],
            [1, 8, 8]
        );
    }
}
