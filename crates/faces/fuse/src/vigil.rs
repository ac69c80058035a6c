// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps a processor from falling asleep while requests come by rings, one soon after the other.
//!
//! Who was answered runs on where the kernel sees nothing to do: on the processor beside the one
//! that answers, which has fallen asleep since he left it, and is woken for each request. On a
//! virtual machine that takes several times as long as all else of a request.
//!
//! # States
//! Asleep -> awake, when so many requests came each soon after the one before -> asleep, when none
//! came for a while.
//!
//! # Rules
//! R1. It runs where nobody else wants to run (`SCHED_IDLE`): who is woken goes there as to a
//!     processor that is idle, and has it at once. Where that cannot be had, it does not look.
//! R2. What the threads say of requests are hints: one that is lost costs a wake-up.

use openpath_sync::{Word, run_in_background};
use std::sync::Arc;
use std::thread::{self, Builder, JoinHandle};
use std::time::Instant;

/// A request that came within so many nanoseconds of the one before was asked by who had waited for
/// that.
const SOON: u64 = 150_000;
/// So many of these are a reason to stay awake.
const MANY: u64 = 32;
/// How long it stays awake without a request, in nanoseconds.
const QUIET: u64 = 300_000;
/// Pauses between two looks.
const PAUSES: u32 = 64;

struct Seen {
    begun: Instant,
    /// When the last request came, in nanoseconds since then.
    last: Word,
    /// How many came in a row.
    row: Word,
    awake: Word,
    ended: Word,
}

/// The thread that stays awake; it ends when this is dropped.
pub(crate) struct Vigil {
    seen: Arc<Seen>,
    keeper: Option<JoinHandle<()>>,
}

impl Seen {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    fn keep(&self) {
        while self.ended.get() == 0 {
            thread::park();
            self.awake.set(1);
            while self.now().saturating_sub(self.last.peek()) < QUIET && self.ended.get() == 0 {
                for _ in 0..PAUSES {
                    std::hint::spin_loop();
                }
            }
            self.row.poke(0);
            self.awake.set(0);
        }
    }
}

impl Vigil {
    /// Begins it; nothing, if there is no thread for it.
    pub(crate) fn begin() -> Option<Self> {
        let seen = Arc::new(Seen {
            begun: Instant::now(),
            last: Word::new(0),
            row: Word::new(0),
            awake: Word::new(0),
            ended: Word::new(0),
        });
        let its = Arc::clone(&seen);
        let named = Builder::new().name("openpath-fuse".to_owned());
        let keeper = named.spawn(move || {
            // R1
            if run_in_background() {
                its.keep();
            }
        });
        Some(Self {
            seen,
            keeper: Some(keeper.ok()?),
        })
    }

    /// A request came.
    pub(crate) fn request(&self) {
        let seen = &self.seen;
        let (now, last) = (seen.now(), seen.last.peek());
        seen.last.poke(now);
        if now.saturating_sub(last) > SOON {
            seen.row.poke(0);
            return;
        }
        seen.row.bump();
        if seen.row.peek() >= MANY && seen.awake.get() == 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.thread().unpark();
        }
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        self.seen.ended.set(1);
        self.wake();
        if let Some(keeper) = self.keeper.take() {
            let _ended = keeper.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Tries until it is so, or for a minute: others may want the processors.
    fn comes(mut is_so: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(60) {
            if is_so() {
                return true;
            }
            thread::yield_now();
        }
        false
    }

    #[test]
    fn it_wakes_for_many_in_a_row_and_sleeps_when_none_come() {
        let vigil = Vigil::begin().expect("a thread");
        let seen = Arc::clone(&vigil.seen);
        for _ in 0..2 {
            assert!(comes(|| {
                vigil.request();
                seen.awake.get() == 1
            }));
            assert!(comes(|| seen.awake.get() == 0));
        }
        drop(vigil);
        assert_eq!(Arc::strong_count(&seen), 1, "its thread is gone");
    }

    #[test]
    fn requests_with_pauses_between_them_wake_nobody() {
        let vigil = Vigil::begin().expect("a thread");
        for _ in 0..2 * MANY {
            vigil.seen.last.poke(0);
            thread::sleep(Duration::from_nanos(2 * SOON));
            vigil.request();
            assert_eq!(vigil.seen.row.peek(), 0);
        }
        assert_eq!(vigil.seen.awake.get(), 0);
    }
}
