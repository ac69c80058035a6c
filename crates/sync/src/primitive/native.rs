// SPDX-License-Identifier: MIT OR Apache-2.0
//! Provides the primitives of a normal build: the atomics of the standard library and the locks of
//! parking_lot. Builds for loom and shuttle use `under_loom` and `under_shuttle` instead.

pub(crate) use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A step that cannot fail; in this build none can.
#[derive(Debug)]
pub struct NoFaultInjection;

/// Begins such a step.
#[inline(always)]
pub fn no_fault_injection() -> NoFaultInjection {
    NoFaultInjection
}

/// parking_lot's condition variable, with guards by value as in loom.
#[derive(Default)]
pub(crate) struct Condvar(parking_lot::Condvar);

impl Condvar {
    pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(&mut guard);
        guard
    }
    /// As `wait`, but for at most this long.
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

/// The number of shards for deferred work, so that threads that free seldom meet.
pub(crate) const SHARDS: usize = 16;
/// Turns of a wait before it sleeps.
pub(crate) const SPINS: usize = 200;

/// One turn of a short wait: spins, and sometimes yields.
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
pub(crate) fn short_sleep() {
    std::thread::sleep(std::time::Duration::from_micros(50));
}

/// Declares a process-wide static, `lazy` if its value is not constant. Loom makes one for each
/// execution of a model.
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

/// Declares thread-local statics with constant initial values.
macro_rules! local {
    ($($(#[$m:meta])* static $name:ident: $ty:ty = $init:expr;)+) => {
        std::thread_local! {
            $($(#[$m])* static $name: $ty = const { $init };)+
        }
    };
}
pub(crate) use local;
