// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an asymmetric fence: the light half is free and runs on the hot path, the heavy half
//! is expensive and runs on the rare path.
//!
//! # Kernel analogue
//! `membarrier(2)` with `MEMBARRIER_CMD_PRIVATE_EXPEDITED`, as user-space RCU uses it. The light
//! half only keeps the compiler from reordering; the heavy half makes every running thread of the
//! process execute a full barrier.
//!
//! # States
//! Undecided -> Membarrier, or Undecided -> Fence. Decided once per process, before the first light
//! half returns.
//!
//! # Rules
//! R1. Both sides store, run their half, then load what the other side stored.
//!     PAIR(asymmetric_fence): if the light half runs first, the load after the heavy half sees the
//!     light side's store. If the heavy half runs first, the load after the light half sees the
//!     heavy side's store. The two sides never miss each other.
//! R2. A light half may always be a full fence instead, since the heavy half is a full fence as
//!     well as a `membarrier`. So a [`Fence::full`] may be used beside the fence of the process.
//!
//! # Guarantees
//! G1. Where `membarrier` cannot be registered (an old kernel, a system-call filter), both halves
//!     are full fences.
//! G2. If `membarrier` is refused after it was granted, [`try_heavy`] reports that; the fence is
//!     never silently weaker.
//!
//! # Limits
//! The heavy half costs 0.1 us in a process with one running thread, 10-20 us with several in a
//! virtual machine. On systems other than Linux both halves are full fences.

use crate::primitive::{Ordering, compiler_fence, fence};

/// How this process implements the two halves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// The light half is a compiler fence, the heavy half a system call.
    Membarrier,
    /// Both halves are full fences.
    Fence,
}

/// A light half in a decided mode. Hot structures keep one by value, so that they read no shared
/// word for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fence(Kind);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Compiler,
    Full,
    #[cfg(loom)]
    Missing,
}

impl Fence {
    /// The light half of this process; decides the mode at the first call.
    #[inline(always)]
    pub fn of_process() -> Self {
        #[cfg(loom)]
        if model::planted() {
            return Self::missing();
        }
        match mode() {
            Mode::Membarrier => Self(Kind::Compiler),
            Mode::Fence => Self(Kind::Full),
        }
    }

    /// A full fence, which pairs with any heavy half: the fallback, for tests and measurements.
    #[inline]
    pub fn full() -> Self {
        Self(Kind::Full)
    }

    /// No fence at all: a planted fault that a model must find.
    #[cfg(loom)]
    #[doc(hidden)]
    pub fn missing() -> Self {
        Self(Kind::Missing)
    }

    /// The light half. PAIR(asymmetric_fence): see R1.
    #[inline(always)]
    pub fn light(self) {
        match self.0 {
            Kind::Compiler => compiler_fence(),
            Kind::Full => fence(Ordering::SeqCst),
            #[cfg(loom)]
            Kind::Missing => {}
        }
    }
}

pub use self::decision::{mode, request};
#[cfg(loom)]
pub use self::model::plant_missing_light;

/// The decision of the process.
#[cfg(not(loom))]
mod decision {
    use crate::asymmetric_fence::{Mode, sys};
    use crate::primitive::{AtomicU8, Ordering};

    const UNDECIDED: u8 = 0;
    const MEMBARRIER: u8 = 1;
    const FULL: u8 = 2;

    /// Changes once, away from `UNDECIDED`.
    static MODE: AtomicU8 = AtomicU8::new(UNDECIDED);

    /// The mode of this process; the first call decides it.
    #[inline(always)]
    pub fn mode() -> Mode {
        match MODE.load(Ordering::Relaxed) {
            MEMBARRIER => Mode::Membarrier,
            FULL => Mode::Fence,
            _ => decide(true),
        }
    }

    /// Requests a mode before the first fence, and returns the mode in force.
    ///
    /// [`Mode::Fence`] is always granted if nothing was decided yet; [`Mode::Membarrier`] if the
    /// system grants it.
    pub fn request(wanted: Mode) -> Mode {
        decide(wanted == Mode::Membarrier)
    }

    #[cold]
    fn decide(membarrier: bool) -> Mode {
        let found = if membarrier && sys::register() {
            MEMBARRIER
        } else {
            FULL
        };
        // Relaxed: the word orders nothing. A thread that reads MEMBARRIER runs in a registered
        // process, since registration is a system call that ends before the word is set.
        let was = MODE.compare_exchange(UNDECIDED, found, Ordering::Relaxed, Ordering::Relaxed);
        match was.map_or_else(|first| first, |_| found) {
            MEMBARRIER => Mode::Membarrier,
            _ => Mode::Fence,
        }
    }
}

/// A model has no `membarrier`: both halves are full fences, unless a test leaves the light one
/// out.
#[cfg(loom)]
mod decision {
    use crate::asymmetric_fence::Mode;

    /// The mode of this process.
    pub fn mode() -> Mode {
        Mode::Fence
    }

    /// Requests a mode, and returns the mode in force.
    pub fn request(_: Mode) -> Mode {
        Mode::Fence
    }
}

/// The planted fault. A model runs on one system thread, so a thread-local cell belongs to the
/// model.
#[cfg(loom)]
mod model {
    use std::cell::Cell;

    std::thread_local! {
        static PLANTED: Cell<bool> = const { Cell::new(false) };
    }

    /// Leaves out every light half of this thread's models from now on, or restores them.
    #[doc(hidden)]
    pub fn plant_missing_light(planted: bool) {
        PLANTED.with(|p| p.set(planted));
    }

    pub(super) fn planted() -> bool {
        PLANTED.with(Cell::get)
    }
}

/// The light half in the mode of the process: a load of a word that no longer changes, and a test.
#[inline(always)]
pub fn light() {
    Fence::of_process().light();
}

/// The heavy half. `false` if the system refuses it now: then nothing is known about the other
/// side.
///
/// Linux: membarrier(2).
#[must_use]
pub fn try_heavy() -> bool {
    let done = mode() == Mode::Fence || sys::barrier();
    // R2: pairs with light halves that are full fences.
    fence(Ordering::SeqCst);
    done
}

/// The heavy half.
///
/// # Panics
/// If the system granted `membarrier` earlier and refuses it now: continuing would be a use after
/// free somewhere. A caller that can keep what it holds uses [`try_heavy`].
pub fn heavy() {
    assert!(
        try_heavy(),
        "membarrier was granted to this process and then taken away"
    );
}

/// The system call.
#[cfg(all(target_os = "linux", not(loom)))]
mod sys {
    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: membarrier takes three integers and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }

    /// Registers for expedited barriers; returns whether that was granted.
    pub(super) fn register() -> bool {
        membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && barrier()
    }

    /// Makes every running thread of the process execute a full barrier; returns whether it did.
    pub(super) fn barrier() -> bool {
        // A child made by fork(2) may have to register anew.
        membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
            || membarrier(libc::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED)
                && membarrier(libc::MEMBARRIER_CMD_PRIVATE_EXPEDITED)
    }
}

/// Other systems, and the model.
#[cfg(not(all(target_os = "linux", not(loom))))]
mod sys {
    #[cfg(not(loom))]
    pub(super) fn register() -> bool {
        false
    }
    pub(super) fn barrier() -> bool {
        false
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::primitive::AtomicU64;
    use std::sync::Arc;
    use std::thread;

    #[test]
    fn the_mode_is_decided_once() {
        let first = mode();
        assert_eq!(request(Mode::Fence), first);
        assert_eq!(request(Mode::Membarrier), first);
        assert!(try_heavy());
    }

    /// Store buffering: each side stores its word and reads the other's. Both reading the old value
    /// is the fault.
    fn store_buffering(light: Fence) {
        const ROUNDS: u64 = 3_000;
        let words = Arc::new([const { AtomicU64::new(0) }; 3]);
        let other = Arc::clone(&words);
        let reader = thread::spawn(move || {
            let mut seen = Vec::new();
            for round in 1..=ROUNDS {
                while other[2].load(Ordering::Acquire) < round {
                    core::hint::spin_loop();
                }
                other[0].store(round, Ordering::Relaxed);
                light.light();
                seen.push(other[1].load(Ordering::Relaxed));
            }
            seen
        });
        let mut seen = Vec::new();
        for round in 1..=ROUNDS {
            words[2].store(round, Ordering::Release);
            words[1].store(round, Ordering::Relaxed);
            heavy();
            seen.push(words[0].load(Ordering::Relaxed));
        }
        let theirs = reader.join().expect("the light side panicked");
        for (round, (ours, theirs)) in (1..).zip(seen.into_iter().zip(theirs)) {
            assert!(
                ours >= round || theirs >= round,
                "both sides missed each other in {round}"
            );
        }
    }

    #[test]
    fn light_and_heavy_sides_never_miss_each_other() {
        store_buffering(Fence::of_process());
    }

    #[test]
    fn a_full_light_half_pairs_with_the_same_heavy_half() {
        store_buffering(Fence::full());
    }
}
