// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system's own primitives.

pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A step that cannot fail: none does here.
pub struct Unfailing;

/// Begins such a step.
#[inline(always)]
pub fn unfailing() -> Unfailing {
    Unfailing
}

/// Parking_lot's condition variable, with guards by value as loom has them.
#[derive(Default)]
pub(crate) struct Condvar(parking_lot::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard);
        guard
    }
    /// As `wait`, but no longer than this.
    pub(crate) fn wait_for<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        time: core::time::Duration,
    ) -> MutexGuard<'a, T> {
        self.0.wait_for(&mut guard, time);
        guard
    }
    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }
}

/// Independent places for deferred work, so that threads that free seldom meet.
pub(crate) const SHARDS: usize = 16;
/// Turns of a wait before it sleeps.
pub(crate) const SPINS: usize = 200;

/// One turn of a short wait: spins, and now and then lets other threads run.
pub(crate) fn relax() {
    std::thread_local! {
        static TURNS: core::cell::Cell<u32> = const { core::cell::Cell::new(0) };
    }
    let turns = TURNS
        .try_with(|t| t.replace(t.get().wrapping_add(1)))
        .unwrap_or(0);
    if turns % 32 == 31 {
        std::thread::yield_now();
    } else {
        core::hint::spin_loop();
    }
}

/// One turn of a long wait: sleeps.
pub(crate) fn nap() {
    std::thread::sleep(std::time::Duration::from_micros(50));
}

/// Declares a process-wide static, `lazy` if its value is not constant; with loom, one for each
/// modelled execution.
macro_rules! global {
    ($(#[$m:meta])* $(pub($vis:ident))? static $name:ident: $ty:ty = $init:expr;) => {
        $(#[$m])*
        $(pub($vis))? static $name: $ty = $init;
    };
    ($(#[$m:meta])* lazy static $name:ident: $ty:ty = $init:expr;) => {
        $(#[$m])*
        static $name: std::sync::LazyLock<$ty> = std::sync::LazyLock::new(|| $init);
    };
}
pub(crate) use global;

/// Declares statics of which each thread has its own, with constant initial values.
macro_rules! local {
    ($($(#[$m:meta])* static $name:ident: $ty:ty = $init:expr;)+) => {
        std::thread_local! {
            $($(#[$m])* static $name: $ty = const { $init };)+
        }
    };
}
pub(crate) use local;
