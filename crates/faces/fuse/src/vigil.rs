// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the other one of two processors from being idle while requests come one soon after the
//! other.
//!
//! Who was answered runs on where the kernel sees nothing to do: on the processor beside the one
//! that answers, which has fallen asleep since he left it, and is woken for each request. On a
//! virtual machine that takes several times as long as all else of a request. Where there is none
//! that is idle he stays where he asked, next to the thread that answers: by rings each processor
//! has one, and one that reads goes where he is ([`crate::beside`]).
//!
//! # States
//! Asleep -> awake, when so many requests came each soon after the one before -> asleep, when none
//! came for a while.
//!
//! # Rules
//! R1. It runs where nobody else wants to run (`SCHED_IDLE`): who is woken there has it at once.
//!     Where that cannot be had, it does not look.
//! R2. What the threads say of requests are hints: one that is lost costs a wake-up.
//! R3. Of more than two processors another one would be idle, and of one there is none beside it:
//!     then there is no such thread. Neither is there where a group of processes may use less than
//!     both: its time would be taken from those who serve.

use openpath_sync::{Word, run_in_background};
use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::thread::{self, Builder, Thread};
use std::time::Instant;

/// How many processors there are where it is of use.
pub(crate) const PROCESSORS: u32 = 2;
/// A request that came within so many nanoseconds of the one before was asked by who had waited for
/// that.
pub(crate) const SOON: u64 = 150_000;
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
    /// The thread's number, once it is there.
    thread: Word,
}

/// The thread that stays awake. It ends after this is dropped, which does not wait for it: a
/// processor that others want may be long in coming to it.
pub(crate) struct Vigil {
    seen: Arc<Seen>,
    keeper: Thread,
}

impl Seen {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Requests come one soon after the other.
    fn is_busy(&self) -> bool {
        self.row.peek() > 0 && self.now().saturating_sub(self.last.peek()) < QUIET
    }

    fn keep(&self) {
        self.thread.set(gettid().as_raw_nonzero().get() as u64);
        while self.ended.get() == 0 {
            thread::park();
            self.awake.set(1);
            while self.is_busy() && self.ended.get() == 0 {
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
    /// Begins it; nothing, if there is no thread for it, or it is not needed (R3).
    pub(crate) fn begin() -> Option<Self> {
        let there = sched_getaffinity(None).ok()?.count();
        // Less, in a group whose time is rationed.
        let allowed = thread::available_parallelism().ok()?.get();
        let both = there == PROCESSORS && allowed == PROCESSORS as usize;
        both.then(Self::make)?
    }

    /// Begins it wherever it is.
    pub(crate) fn make() -> Option<Self> {
        let seen = Arc::new(Seen {
            begun: Instant::now(),
            last: Word::new(0),
            row: Word::new(0),
            awake: Word::new(0),
            ended: Word::new(0),
            thread: Word::new(0),
        });
        let its = Arc::clone(&seen);
        let named = Builder::new().name("openpath-fuse".to_owned());
        let keeper = named.spawn(move || {
            // R1
            if run_in_background() {
                its.keep();
            }
        });
        let keeper = keeper.ok()?.thread().clone();
        Some(Self { seen, keeper })
    }

    /// A request came; when, in nanoseconds since it began.
    pub(crate) fn request(&self) -> u64 {
        let seen = &self.seen;
        let (now, last) = (seen.now(), seen.last.peek());
        seen.last.poke(now);
        if now.saturating_sub(last) > SOON {
            seen.row.poke(0);
            return now;
        }
        seen.row.bump();
        if seen.row.peek() >= MANY && seen.awake.get() == 0 {
            self.keeper.unpark();
        }
        now
    }

    /// Has it be on these processors alone; whether it is there.
    pub(crate) fn be_on(&self, these: &CpuSet) -> bool {
        let thread = Pid::from_raw(self.seen.thread.get() as i32);
        thread.is_some_and(|thread| sched_setaffinity(Some(thread), these).is_ok())
    }

    /// Where it may be.
    #[cfg(test)]
    pub(crate) fn may_be_on(&self) -> CpuSet {
        let thread = Pid::from_raw(self.seen.thread.get() as i32);
        sched_getaffinity(thread).expect("where it may be")
    }
}

impl Drop for Vigil {
    fn drop(&mut self) {
        self.seen.ended.set(1);
        self.keeper.unpark();
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
        let vigil = Vigil::make().expect("a thread");
        let seen = Arc::clone(&vigil.seen);
        for _ in 0..2 {
            assert!(comes(|| {
                vigil.request();
                seen.awake.get() == 1
            }));
            assert!(comes(|| seen.awake.get() == 0));
        }
        drop(vigil);
        assert!(
            comes(|| Arc::strong_count(&seen) == 1),
            "its thread is gone"
        );
    }

    #[test]
    fn requests_with_pauses_between_them_wake_nobody() {
        let vigil = Vigil::make().expect("a thread");
        for _ in 0..2 * MANY {
            vigil.seen.last.poke(0);
            thread::sleep(Duration::from_nanos(2 * SOON));
            vigil.request();
            assert_eq!(vigil.seen.row.peek(), 0);
        }
        assert_eq!(vigil.seen.awake.get(), 0);
    }
}
