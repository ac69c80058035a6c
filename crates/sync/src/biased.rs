// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a biased lock, whose handles share a pair of values: one is read without a lock, the
//! other is behind a lock that costs nothing while there is only one handle.
//!
//! # Kernel analogue
//! `struct files_struct` with its `count` and `file_lock`: `fdget` takes no reference if `count` is
//! 1. Here the lock is skipped as well.
//!
//! # States
//! One handle: `lock` sets a plain flag in the handle. Several ([`Biased::share`]): `lock` takes
//! the latch of the pair. One again, once the others are dropped. None: the pair is freed.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | `owners` | a handle | a handle |
//! | `held`, in the handle | the handle's thread | the handle's thread |
//! | the value | a guard: the latch, or the flag of the only handle | the same |
//! | the shared value | its own rules | a handle |
//!
//! # Rules
//! R1. One thread at a time uses a handle (it is not `Sync`), and only a handle makes another. So a
//!     thread that holds the only handle and reads 1 in `owners` knows that it stays 1 until it
//!     shares.
//! R2. PAIR(biased.owners): a dropped handle decrements with release; a thread that reads 1 with
//!     acquire sees all that the other handles did. One that still reads more takes the latch,
//!     which is also right.
//! R3. A handle is not shared while its guard is alive: the new handle would take the latch, which
//!     that guard may not hold.
//!
//! # Guarantees
//! G1. With one handle, `lock` and the drop of its guard execute no read-modify-write and no fence,
//!     and write only the handle. With several, both together take one read-modify-write, if
//!     uncontended.
//! G2. A second `lock` through a handle with a live guard panics in every build; so does `share`.
//! G3. A panic leaves the pair unlocked.
//! G4. No two pairs share a pair of cache lines, and the shared value shares none with the lock.
//!
//! # Limits
//! Not fair.

mod into_inner;
mod latch;

use crate::cache_padded::CachePadded;
use crate::lock::LockClass;
use crate::lockdep::{self, Ask, Held};
use crate::primitive::{AtomicU32, Ordering, no_fault_injection};
use core::cell::{Cell, UnsafeCell};
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};
use core::ptr::NonNull;
use latch::Latch;
use std::boxed::Box;

#[repr(C, align(128))]
struct Pair<S, T> {
    owners: AtomicU32,
    latch: Latch,
    value: UnsafeCell<T>,
    shared: CachePadded<S>,
}

/// A handle on a pair of an `S` that all handles read and a `T` behind a lock of class `C`. See the
/// module head.
///
/// ```
/// use openpath_sync::{Biased, lock_classes};
/// lock_classes! {
///     /// All classes of this crate.
///     pub const CLASSES;
///     /// Protects a list.
///     pub List;
/// }
/// let mine: Biased<&str, Vec<u32>, List> = Biased::new("primes", vec![2]);
/// mine.lock().push(3);
/// let theirs = mine.share();
/// std::thread::spawn(move || theirs.lock().push(5)).join().unwrap();
/// assert!(!mine.is_shared());
/// assert_eq!((*mine, &mine.lock()[..]), ("primes", &[2, 3, 5][..]));
/// ```
///
/// One thread at a time uses a handle:
///
/// ```compile_fail,E0277
/// # use openpath_sync::{Biased, lock_classes};
/// # lock_classes! {
/// #     /// All.
/// #     pub const CLASSES;
/// #     /// List.
/// #     pub List;
/// # }
/// let mine: Biased<(), (), List> = Biased::new((), ());
/// std::thread::scope(|s| { s.spawn(|| mine.is_shared()); });
/// ```
pub struct Biased<S, T, C: LockClass> {
    pair: NonNull<Pair<S, T>>,
    /// Whether a guard of this handle is alive.
    held: Cell<bool>,
    owns: PhantomData<Pair<S, T>>,
    class: PhantomData<fn() -> C>,
}

// SAFETY: handles of one pair in several threads share the `S`, and any of them may drop it; the
// lock passes the `T` between threads.
unsafe impl<S: Send + Sync, T: Send, C: LockClass> Send for Biased<S, T, C> {}

impl<S: Send + Sync, T: Send, C: LockClass> Biased<S, T, C> {
    /// The only handle on a new pair.
    pub fn new(shared: S, value: T) -> Self {
        let pair = Box::new(Pair {
            owners: AtomicU32::new(1),
            latch: Latch::new(),
            value: UnsafeCell::new(value),
            shared: CachePadded(shared),
        });
        Self::of(NonNull::from(Box::leak(pair)))
    }

    /// One more handle on the pair.
    ///
    /// # Panics
    /// If a guard of this handle is alive.
    #[must_use]
    pub fn share(&self) -> Self {
        // R3.
        assert!(!self.held.get(), "{} shared while locked by it", C::NAME);
        // Relaxed: the new handle is handed over by this thread, along with all that was done
        // before.
        let before = self.pair().owners.fetch_add(1, Ordering::Relaxed);
        assert!(before < u32::MAX / 2, "too many handles on one pair");
        Self::of(self.pair)
    }
}

impl<S, T, C: LockClass> Biased<S, T, C> {
    fn of(pair: NonNull<Pair<S, T>>) -> Self {
        Self {
            pair,
            held: Cell::new(false),
            owns: PhantomData,
            class: PhantomData,
        }
    }

    #[inline(always)]
    fn pair(&self) -> &Pair<S, T> {
        // SAFETY: the pair came from a box and is freed by the drop of its last handle; only shared
        // references to it are made before.
        unsafe { self.pair.as_ref() }
    }

    /// Whether there are other handles now; `false` stays true until this one is shared.
    #[inline(always)]
    pub fn is_shared(&self) -> bool {
        // PAIR(biased.owners): see R2.
        self.pair().owners.load(Ordering::Acquire) != 1
    }

    /// Waits for the lock.
    ///
    /// # Panics
    /// If a guard of this handle is alive; in debug builds also if a lock of this class or an inner
    /// one is held.
    #[inline(always)]
    #[track_caller]
    pub fn lock(&self) -> BiasedGuard<'_, S, T, C> {
        if self.held.get() {
            taken_twice(C::NAME);
        }
        lockdep::check(C::RANK, C::NAME, Ask::Wait);
        let latched = self.is_shared();
        if latched {
            let _step = no_fault_injection();
            self.pair().latch.lock();
        }
        self.held.set(true);
        BiasedGuard {
            handle: self,
            latched,
            _held: lockdep::taken(C::RANK, C::NAME),
        }
    }
}

#[cold]
#[track_caller]
fn taken_twice(name: &str) -> ! {
    panic!("{name} locked twice through one handle");
}

impl<S, T, C: LockClass> Deref for Biased<S, T, C> {
    type Target = S;
    #[inline(always)]
    fn deref(&self) -> &S {
        &self.pair().shared.0
    }
}

impl<S, T, C: LockClass> Drop for Biased<S, T, C> {
    fn drop(&mut self) {
        // PAIR(biased.owners): see R2. If it reads 1, this is the only handle and no decrement is
        // needed.
        let last = {
            let _step = no_fault_injection();
            !self.is_shared() || self.pair().owners.fetch_sub(1, Ordering::AcqRel) == 1
        };
        if last {
            // SAFETY: the pair came from a box, and this was its last handle; a live guard would
            // borrow the handle.
            drop(unsafe { Box::from_raw(self.pair.as_ptr()) });
        }
    }
}

impl<S, T, C: LockClass> fmt::Debug for Biased<S, T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Biased({})", C::NAME)
    }
}

/// A held [`Biased`].
#[must_use]
pub struct BiasedGuard<'a, S, T, C: LockClass> {
    handle: &'a Biased<S, T, C>,
    /// Whether it holds the latch; if not, its handle was the only one when the guard was made.
    latched: bool,
    _held: Held,
}

impl<'a, S, T, C: LockClass> BiasedGuard<'a, S, T, C> {
    /// The value that all handles read.
    #[inline(always)]
    pub fn shared(guard: &Self) -> &'a S {
        guard.handle
    }
}

impl<S, T, C: LockClass> Deref for BiasedGuard<'_, S, T, C> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        // SAFETY: as in `deref_mut`.
        unsafe { &*self.handle.pair().value.get() }
    }
}

impl<S, T, C: LockClass> DerefMut for BiasedGuard<'_, S, T, C> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: this is the only guard of the pair. Of this handle, since `held` is set while a
        // guard lives. Of others: if this guard has the latch, they need it too, or would have to
        // be the only handle, which they are not while this one lives. If it has no latch, its
        // handle was the only one when the guard was made, and R3 keeps it from being shared.
        unsafe { &mut *self.handle.pair().value.get() }
    }
}

impl<S, T, C: LockClass> Drop for BiasedGuard<'_, S, T, C> {
    #[inline(always)]
    fn drop(&mut self) {
        self.handle.held.set(false);
        if self.latched {
            let _step = no_fault_injection();
            self.handle.pair().latch.unlock();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
