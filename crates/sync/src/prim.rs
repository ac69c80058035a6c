// SPDX-License-Identifier: MIT OR Apache-2.0
//! The primitives everything in this crate stands on, from the system or from loom.
//!
//! With `--cfg loom` every atomic, cell, lock and thread-local of this crate is loom's, so that its
//! tests can run a protocol through every interleaving. No other module asks which build this is,
//! except [`crate::asym`] (loom has no `membarrier`) and the region (loom's atomics are not
//! zeroes).
//!
//! # Rules
//! R1. Loom's constructors are not `const`: a static is declared with `global!`.
//! R2. Loom's atomics have no `get_mut`: with `&mut` at hand, load relaxed.

pub(crate) use core::sync::atomic::Ordering;

#[cfg(loom)]
pub(crate) use self::modelled::*;
#[cfg(not(loom))]
pub(crate) use self::native::*;

/// Keeps the compiler, and nothing else, from moving memory accesses across.
#[inline(always)]
pub(crate) fn compiler_fence() {
    core::sync::atomic::compiler_fence(Ordering::SeqCst);
}

/// The system's own primitives.
#[cfg(not(loom))]
mod native {
    pub(crate) use core::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};

    /// Independent places for deferred work, so that threads that free seldom meet.
    pub(crate) const SHARDS: usize = 16;

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
}

/// Loom's stand-ins, under the same names.
#[cfg(loom)]
mod modelled {
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub(crate) use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use loom::thread::yield_now as relax;
    pub(crate) use loom::thread::yield_now as nap;
    use std::sync::PoisonError;

    pub(crate) const SHARDS: usize = 1;

    /// Loom's mutex with parking_lot's face.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::Mutex::new(value))
        }
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
        pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// Loom's reader-writer lock with parking_lot's face.
    #[derive(Debug, Default)]
    pub(crate) struct RwLock<T>(loom::sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(loom::sync::RwLock::new(value))
        }
        pub(crate) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(PoisonError::into_inner)
        }
        pub(crate) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(PoisonError::into_inner)
        }
        pub(crate) fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
            self.0.try_read().ok()
        }
        pub(crate) fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
            self.0.try_write().ok()
        }
        pub(crate) fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }
        pub(crate) fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    macro_rules! global {
        ($(#[$m:meta])* $(pub($vis:ident))? $(lazy)? static $name:ident: $ty:ty = $init:expr;) => {
            loom::lazy_static! {
                $(#[$m])*
                $(pub($vis))? static ref $name: $ty = $init;
            }
        };
    }
    pub(crate) use global;

    macro_rules! local {
        ($($(#[$m:meta])* static $name:ident: $ty:ty = $init:expr;)+) => {
            loom::thread_local! {
                $($(#[$m])* static $name: $ty = $init;)+
            }
        };
    }
    pub(crate) use local;
}
