// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the idle one of two CPUs busy while requests come in quick succession.
//!
//! A caller that gets its reply runs on where the kernel sees an idle CPU: on the one beside the
//! server's, which went to sleep since the caller left it, and is woken for each request. On a
//! virtual machine that takes several times as long as the rest of the request. Without an idle CPU
//! the caller stays where it asked, next to the thread that replies: with rings each CPU has one,
//! and a thread that reads the device goes there ([`crate::affinity`]).
//!
//! # States
//! Asleep -> awake, after [`REQUESTS_MIN`] requests in a row, each soon after the one before ->
//! asleep, when none came for a while.
//!
//! # Rules
//! R1. The thread is scheduled only when nothing else wants to run (`SCHED_IDLE`): a task that is
//!     woken on its CPU runs at once. Without that policy it does not spin.
//! R2. What the serving threads report of requests are hints: a lost one costs a wake-up.
//! R3. With more than two CPUs another one would be idle, and with one there is no other: then
//!     there is no such thread. Nor is there one where a control group may use less than both
//!     CPUs: its time would be taken from the threads that serve.

use openpath_sync::{Word, run_in_background};
use rustix::process::Pid;
use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};
use std::sync::Arc;
use std::thread::{self, Builder, Thread};
use std::time::Instant;

/// The number of CPUs for which this is of use.
pub(crate) const CPUS: u32 = 2;
/// A request within so many nanoseconds of the one before comes from a caller that waited for that.
pub(crate) const SOON: u64 = 150_000;
/// After so many of these it stays awake.
const REQUESTS_MIN: u64 = 32;
/// How long it stays awake without a request, in nanoseconds.
const QUIET: u64 = 300_000;
/// Spin-loop hints between two checks.
const SPINS: u32 = 64;

struct Shared {
    begun: Instant,
    /// When the last request came, in nanoseconds since `begun`.
    last: Word,
    /// How many came in a row.
    row: Word,
    awake: Word,
    ended: Word,
    /// The thread's id, once it runs.
    thread: Word,
    /// How often it woke.
    #[cfg(test)]
    wakes: Word,
}

/// The thread that stays awake. It ends after this is dropped, which does not wait for it: at its
/// priority it may take long to be scheduled.
pub(crate) struct KeepAwake {
    shared: Arc<Shared>,
    spinner: Thread,
}

impl Shared {
    fn now(&self) -> u64 {
        self.begun.elapsed().as_nanos() as u64
    }

    /// Requests come in quick succession.
    fn is_busy(&self) -> bool {
        self.row.peek() > 0 && self.now().saturating_sub(self.last.peek()) < QUIET
    }

    fn run(&self) {
        self.thread.set(gettid().as_raw_nonzero().get() as u64);
        while self.ended.get() == 0 {
            thread::park();
            self.awake.set(1);
            #[cfg(test)]
            self.wakes.bump();
            while self.is_busy() && self.ended.get() == 0 {
                for _ in 0..SPINS {
                    std::hint::spin_loop();
                }
            }
            self.row.poke(0);
            self.awake.set(0);
        }
    }
}

impl KeepAwake {
    /// Starts the thread; `None` if that fails or it is of no use here (R3).
    pub(crate) fn start_if_useful() -> Option<Self> {
        let cpus = sched_getaffinity(None).ok()?.count();
        // Less in a control group with a quota.
        let allowed = crate::options::available_cores()?;
        let both = cpus == CPUS && allowed == CPUS as usize;
        both.then(Self::start)?
    }

    /// Starts the thread wherever it is.
    pub(crate) fn start() -> Option<Self> {
        Self::start_as(run_in_background)
    }

    /// Starts a thread that prepares itself so; if that fails, it ends (R1).
    fn start_as(prepare: impl FnOnce() -> bool + Send + 'static) -> Option<Self> {
        let shared = Arc::new(Shared {
            begun: Instant::now(),
            last: Word::new(0),
            row: Word::new(0),
            awake: Word::new(0),
            ended: Word::new(0),
            thread: Word::new(0),
            #[cfg(test)]
            wakes: Word::new(0),
        });
        let its = Arc::clone(&shared);
        let named = Builder::new().name("openpath-fuse".to_owned());
        let spinner = named.spawn(move || {
            if prepare() {
                its.run();
            }
        });
        let spinner = spinner.ok()?.thread().clone();
        Some(Self { shared, spinner })
    }

    /// A request came.
    pub(crate) fn request(&self) {
        let shared = &self.shared;
        let (now, last) = (shared.now(), shared.last.peek());
        shared.last.poke(now);
        if now.saturating_sub(last) > SOON {
            shared.row.poke(0);
            return;
        }
        shared.row.bump();
        if shared.row.peek() >= REQUESTS_MIN && shared.awake.get() == 0 {
            self.spinner.unpark();
        }
    }

    /// Restricts the thread to these CPUs; returns whether it did.
    pub(crate) fn set_cpus(&self, cpus: &CpuSet) -> bool {
        let thread = Pid::from_raw(self.shared.thread.get() as i32);
        thread.is_some_and(|thread| sched_setaffinity(Some(thread), cpus).is_ok())
    }

    /// The CPUs that it may run on.
    #[cfg(test)]
    pub(crate) fn cpus(&self) -> CpuSet {
        let thread = Pid::from_raw(self.shared.thread.get() as i32);
        sched_getaffinity(thread).expect("its CPUs")
    }
}

impl Drop for KeepAwake {
    fn drop(&mut self) {
        self.shared.ended.set(1);
        self.spinner.unpark();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// Retries until it is so, or until it hangs.
    fn eventually(mut is_so: impl FnMut() -> bool) -> bool {
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(600) {
            if is_so() {
                return true;
            }
            thread::yield_now();
        }
        false
    }

    #[test]
    fn many_requests_in_a_row_wake_it_and_a_pause_lets_it_sleep() {
        // Not in the background: on a busy machine it would have no time at all.
        let keep_awake = KeepAwake::start_as(|| true).expect("a thread");
        let shared = Arc::clone(&keep_awake.shared);
        for _ in 0..2 {
            let before = shared.wakes.get();
            // All in one time slice: on a busy machine each yield between them is a long pause. The
            // thread may be asleep again when this one looks.
            assert!(eventually(|| {
                (0..=REQUESTS_MIN).for_each(|_| keep_awake.request());
                shared.wakes.get() > before
            }));
            assert!(eventually(|| shared.awake.get() == 0));
        }
        drop(keep_awake);
        assert!(
            eventually(|| Arc::strong_count(&shared) == 1),
            "its thread is gone"
        );
    }

    #[test]
    fn requests_with_pauses_between_them_do_not_wake_it() {
        let keep_awake = KeepAwake::start().expect("a thread");
        for _ in 0..2 * REQUESTS_MIN {
            keep_awake.shared.last.poke(0);
            thread::sleep(Duration::from_nanos(2 * SOON));
            keep_awake.request();
            assert_eq!(keep_awake.shared.row.peek(), 0);
        }
        assert_eq!(keep_awake.shared.awake.get(), 0);
    }
}
