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
    use crate::zero::ZeroValid;
    use core::ptr::NonNull;
    pub(crate) use core::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub(crate) use parking_lot::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
    use std::alloc::{Layout, alloc_zeroed, dealloc};

    /// Parking_lot's condition variable, with guards by value as loom has them.
    #[derive(Default)]
    pub(crate) struct Condvar(parking_lot::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(&mut guard);
            guard
        }
        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    /// Up to a page or two, memory shares no pair of cache lines with anything else; beyond that the
    /// system hands it out untouched, at its usual alignment.
    fn layout<T>(count: usize) -> Option<Layout> {
        let layout = Layout::array::<T>(count).ok()?;
        let align = if layout.size() <= 8192 { 128 } else { 16 };
        layout.align_to(align).ok()
    }

    /// Memory for `count` items, all zero; `None` if there is none.
    pub(crate) fn new_zeroed<T: ZeroValid>(count: usize) -> Option<NonNull<T>> {
        let layout = layout::<T>(count).filter(|l| l.size() != 0)?;
        // SAFETY: the layout has a size; zero is a valid `T`.
        NonNull::new(unsafe { alloc_zeroed(layout) }.cast())
    }

    /// Frees what [`new_zeroed`] made.
    ///
    /// # Safety
    /// `items` came from there with this `count`, and nobody reaches it any more.
    pub(crate) unsafe fn free_zeroed<T: ZeroValid>(items: NonNull<T>, count: usize) {
        if let Some(layout) = layout::<T>(count) {
            // SAFETY: as promised; the layout depends on the type and the count alone.
            unsafe { dealloc(items.as_ptr().cast(), layout) };
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
}

/// Loom's stand-ins, under the same names.
#[cfg(loom)]
mod modelled {
    use crate::zero::ZeroValid;
    use core::ptr::NonNull;
    pub(crate) use loom::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub(crate) use loom::sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};
    pub(crate) use loom::thread::yield_now as relax;
    pub(crate) use loom::thread::yield_now as nap;
    use std::boxed::Box;
    use std::sync::PoisonError;

    pub(crate) const SHARDS: usize = 1;
    pub(crate) const SPINS: usize = 0;

    /// Loom's condition variable, without poison.
    #[derive(Default)]
    pub(crate) struct Condvar(loom::sync::Condvar);

    impl Condvar {
        pub(crate) fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
            self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
        }
        pub(crate) fn notify_one(&self) {
            self.0.notify_one();
        }
    }

    /// As without loom, but every item is constructed.
    pub(crate) fn new_zeroed<T: ZeroValid>(count: usize) -> Option<NonNull<T>> {
        let items: Box<[T]> = (0..count).map(|_| T::default()).collect();
        NonNull::new(Box::into_raw(items).cast())
    }

    /// Frees what [`new_zeroed`] made.
    ///
    /// # Safety
    /// As without loom.
    pub(crate) unsafe fn free_zeroed<T: ZeroValid>(items: NonNull<T>, count: usize) {
        let items = core::ptr::slice_from_raw_parts_mut(items.as_ptr(), count);
        // SAFETY: a box of this length was taken apart in `new_zeroed`.
        drop(unsafe { Box::from_raw(items) });
    }

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
