// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides how long a thread polls for the next request before it sleeps.
//!
//! A program that works on files sends its next request a moment after the reply. If the server
//! sleeps by then, its CPU has gone idle and must be woken: that takes longer than the reply, and
//! on a virtual machine many times as long.
//!
//! # States
//! Sleeps at once -> spins for [`SPIN`] first, when most sleeps were so short that they were little
//! but the wake-up -> sleeps at once, when most spins found nothing.
//!
//! # Rules
//! R1. Between two polls the thread yields to whatever else can run on its CPU. A poll takes the
//!     request that it finds, so that none is asked for twice.
//! R2. Failed spins are few: each weighs as much as [`MISS_COST`] successful ones. A program that
//!     computes between its requests, as a compiler does, loses more by them than it gains: the
//!     spinning CPU may be half of its own core.

use std::thread;
use std::time::{Duration, Instant};

/// How long it spins.
const SPIN: Duration = Duration::from_micros(50);
/// A shorter sleep was not worth it: most of it was waking the client and the server.
const WAKE_COST: Duration = Duration::from_micros(80);
/// What a failed spin costs, in short sleeps.
const MISS_COST: i32 = 4;
/// Bound of the score.
const SCORE_MAX: i32 = 16;

/// A thread's history of waits for requests.
#[derive(Default)]
pub(crate) struct AdaptiveSpin {
    /// Above 0: waits were short, so that a spin pays.
    score: i32,
}

impl AdaptiveSpin {
    /// There is no request: takes the next one by `take` for as long as it pays to ask, then sleeps
    /// by `sleep`; `None`: it slept.
    pub(crate) fn wait<R, E>(
        &mut self,
        mut take: impl FnMut() -> Result<Option<R>, E>,
        sleep: impl FnOnce() -> Result<(), E>,
    ) -> Result<Option<R>, E> {
        let begun = Instant::now();
        let spins = self.score > 0;
        if spins {
            while begun.elapsed() < SPIN {
                thread::yield_now();
                if let Some(request) = take()? {
                    self.adjust(1);
                    return Ok(Some(request));
                }
            }
        }
        sleep()?;
        let was_short = !spins && begun.elapsed() < WAKE_COST;
        self.adjust(if was_short { 1 } else { -MISS_COST });
        Ok(None)
    }

    fn adjust(&mut self, by: i32) {
        self.score = (self.score + by).clamp(-SCORE_MAX, SCORE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A wait for a request that comes with the first poll, or after a sleep of this length;
    /// returns whether it polled and whether it slept.
    fn wait(spin: &mut AdaptiveSpin, after: Option<Duration>) -> (bool, bool) {
        let (polled, slept) = (Cell::new(false), Cell::new(false));
        let take = || {
            polled.set(true);
            Ok::<_, ()>(after.is_none().then_some(()))
        };
        let sleep = || {
            slept.set(true);
            thread::sleep(after.unwrap_or_default());
            Ok(())
        };
        let taken = spin.wait(take, sleep);
        assert_eq!(taken, Ok((!slept.get()).then_some(())));
        (polled.get(), slept.get())
    }

    #[test]
    fn it_spins_while_requests_come_soon_and_sleeps_while_they_do_not() {
        let (mut spin, long) = (AdaptiveSpin::default(), Some(Duration::from_millis(1)));
        assert_eq!(wait(&mut spin, long), (false, true));
        spin.score = 1;
        for _ in 0..2 * SCORE_MAX {
            assert_eq!(wait(&mut spin, None), (true, false));
        }
        let spins = (0..SCORE_MAX).filter(|_| wait(&mut spin, long).0).count();
        assert_eq!(spins as i32, SCORE_MAX / MISS_COST);
        assert!(spin.score < 0);
        // A failed spin counts as one, however soon the request came after it.
        spin.score = 1;
        assert_eq!(wait(&mut spin, Some(Duration::ZERO)), (true, true));
        assert_eq!(spin.score, 1 - MISS_COST);
        spin.score = 0;
        // A short sleep raises the score, however long the clock says that this one was.
        spin.adjust(1);
        assert_eq!(wait(&mut spin, None), (true, false));
    }

    #[test]
    fn an_error_is_returned() {
        let none = || Ok(None::<()>);
        assert_eq!(AdaptiveSpin::default().wait(none, || Err(7)), Err(7));
        let mut spin = AdaptiveSpin { score: 1 };
        let taken = spin.wait(|| Err::<Option<()>, _>(8), || Ok(()));
        assert_eq!(taken, Err(8));
    }
}
