// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements mutexes and reader-writer locks; debug builds check their order.
//!
//! # Kernel analogue
//! `mutex` and `rw_semaphore` with a `lock_class_key`; the `_nested` calls are `mutex_lock_nested`
//! and `down_write_nested`.
//!
//! # States
//! Free -> held by one writer, or (RwLock) by readers -> free. There is no poisoned state: a panic
//! while a lock is held releases it, so the protected value must be consistent at each step.
//!
//! # Rules
//! R1. A lock's class is a type; [`lock_classes!`](crate::lock_classes) declares the classes of a
//!     crate in one place, outermost first. Debug builds check the order at every wait.
//! R2. Taking a read lock twice is an inversion as well: a writer that waits in between makes it a
//!     deadlock.
//! R3. Guards stay in the thread that took them.
//!
//! # Guarantees
//! G1. Release builds keep nothing about classes: a lock is as large and as fast as without one.
//!
//! # Limits
//! Not fair, except that a lock held for long is handed over (parking_lot).

mod hold;
mod raw;

pub use hold::OwnedReadGuard;
pub use raw::{RawGuard, RawLock};

use crate::lockdep::{self, Ask, Held};
use crate::primitive;
use core::fmt;
use core::marker::PhantomData;
use core::ops::{Deref, DerefMut};

/// A place in the lock order. Declared by [`lock_classes!`](crate::lock_classes).
pub trait LockClass: 'static {
    /// The name in reports.
    const NAME: &'static str;
    /// Its place: a lower rank is taken first.
    const RANK: u16;
    /// Whether a thread may hold two locks of this class.
    const NESTS: bool;
}

/// A class as data, for printing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassInfo {
    /// The name in reports.
    pub name: &'static str,
    /// Its place: a lower rank is taken first.
    pub rank: u16,
    /// Whether a thread may hold two locks of this class.
    pub nests: bool,
    /// What its locks protect.
    pub doc: &'static str,
}

/// Declares lock classes, outermost first, and a constant that lists them in that order.
///
/// ```
/// use openpath_sync::{LockClass, Mutex, lock_classes};
/// lock_classes! {
///     /// All classes of this crate.
///     pub const CLASSES;
///     /// Protects the shape of the tree.
///     pub Tree;
///     /// Protects one node; the parent's before the child's.
///     pub Node = "node lock", nests;
/// }
/// let tree: Mutex<u32, Tree> = Mutex::new(1);
/// let node: Mutex<u32, Node> = Mutex::new(2);
/// let held = tree.lock();
/// assert_eq!(*held + *node.lock(), 3);
/// assert_eq!(CLASSES[1].name, "node lock");
/// assert!(Tree::RANK < Node::RANK);
/// ```
#[macro_export]
macro_rules! lock_classes {
    (
        $(#[$all_meta:meta])* $all_vis:vis const $all:ident;
        $($(#[doc = $doc:literal])+ $vis:vis $class:ident $(= $name:literal)? $(, $nests:ident)?;)+
    ) => {
        $(
            $(#[doc = $doc])+
            $vis enum $class {}
        )+
        const _: () = {
            #[repr(u16)]
            enum Order { $($class),+ }
            $(
                impl $crate::LockClass for $class {
                    const NAME: &'static str = $crate::lock_classes!(@name $class $($name)?);
                    const RANK: u16 = Order::$class as u16 + 1;
                    const NESTS: bool = $crate::lock_classes!(@nests $($nests)?);
                }
            )+
        };
        $(#[$all_meta])*
        $all_vis const $all: &[$crate::ClassInfo] = &[$(
            $crate::ClassInfo {
                name: <$class as $crate::LockClass>::NAME,
                rank: <$class as $crate::LockClass>::RANK,
                nests: <$class as $crate::LockClass>::NESTS,
                doc: concat!($($doc),+),
            },
        )+];
    };
    (@name $class:ident) => { stringify!($class) };
    (@name $class:ident $name:literal) => { $name };
    (@nests) => { false };
    (@nests nests) => { true };
}

/// Whether `a` comes before `b` in the order of locks of one class, which is by address.
fn in_order<L>(a: &L, b: &L) -> bool {
    core::ptr::from_ref(a) < core::ptr::from_ref(b)
}

/// Checks the order, waits by `$wait`, and records the lock as held.
macro_rules! take {
    ($guard:ident, $class:ty, $ask:expr, $wait:expr) => {{
        lockdep::check(<$class>::RANK, <$class>::NAME, $ask);
        $guard {
            raw: $wait,
            _held: lockdep::taken(<$class>::RANK, <$class>::NAME),
            class: PhantomData,
        }
    }};
}

/// Records a lock that an attempt acquired.
macro_rules! taken {
    ($guard:ident, $class:ty, $attempt:expr) => {{
        lockdep::check(<$class>::RANK, <$class>::NAME, Ask::Try);
        let raw = $attempt?;
        Some($guard {
            raw,
            _held: lockdep::taken(<$class>::RANK, <$class>::NAME),
            class: PhantomData,
        })
    }};
}

/// Construction and lock-free access, common to both kinds of lock.
macro_rules! common {
    ($lock:ident) => {
        impl<T, C: LockClass> $lock<T, C> {
            /// A free lock around `value`.
            pub fn new(value: T) -> Self {
                Self {
                    raw: primitive::$lock::new(value),
                    class: PhantomData,
                }
            }
            /// The value, while no other thread can reach the lock.
            pub fn get_mut(&mut self) -> &mut T {
                self.raw.get_mut()
            }
            /// The value, without its lock.
            pub fn into_inner(self) -> T {
                self.raw.into_inner()
            }
        }

        impl<T: Default, C: LockClass> Default for $lock<T, C> {
            fn default() -> Self {
                Self::new(T::default())
            }
        }

        impl<T, C: LockClass> fmt::Debug for $lock<T, C> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({})", stringify!($lock), C::NAME)
            }
        }
    };
}

/// A guard's access to the value.
macro_rules! guard {
    ($(#[$doc:meta])* $guard:ident) => {
        $(#[$doc])*
        #[must_use]
        pub struct $guard<'a, T, C: LockClass> {
            raw: primitive::$guard<'a, T>,
            _held: Held,
            class: PhantomData<fn() -> C>,
        }

        impl<T, C: LockClass> Deref for $guard<'_, T, C> {
            type Target = T;
            fn deref(&self) -> &T {
                &self.raw
            }
        }
    };
}

macro_rules! guard_mut {
    ($guard:ident) => {
        impl<T, C: LockClass> DerefMut for $guard<'_, T, C> {
            fn deref_mut(&mut self) -> &mut T {
                &mut self.raw
            }
        }
    };
}

/// A mutex of class `C` around a `T`.
///
/// Linux: `struct mutex`.
pub struct Mutex<T, C: LockClass> {
    raw: primitive::Mutex<T>,
    class: PhantomData<fn() -> C>,
}

common!(Mutex);
guard!(
    /// A held [`Mutex`].
    MutexGuard
);
guard_mut!(MutexGuard);

impl<T, C: LockClass> Mutex<T, C> {
    /// Waits for the lock.
    ///
    /// # Panics
    /// In debug builds, if a lock of this class or an inner one is held.
    #[track_caller]
    pub fn lock(&self) -> MutexGuard<'_, T, C> {
        take!(MutexGuard, C, Ask::Wait, self.raw.lock())
    }

    /// As [`Mutex::lock`], but locks of the same class may be held, in an order that the caller
    /// ensures.
    ///
    /// # Panics
    /// In debug builds, if a lock of an inner class is held.
    #[track_caller]
    pub fn lock_nested(&self) -> MutexGuard<'_, T, C> {
        const { assert!(C::NESTS, "locks of this class do not nest") };
        take!(MutexGuard, C, Ask::Nested, self.raw.lock())
    }

    /// Takes the lock if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T, C>> {
        taken!(MutexGuard, C, self.raw.try_lock())
    }

    /// Waits for two locks, in the order of their addresses. If both are the same lock, takes one
    /// and returns `None` for the other.
    ///
    /// # Panics
    /// As [`Mutex::lock_nested`].
    #[track_caller]
    pub fn lock_pair<'a>(
        a: &'a Self,
        b: &'a Self,
    ) -> (MutexGuard<'a, T, C>, Option<MutexGuard<'a, T, C>>) {
        if core::ptr::eq(a, b) {
            return (a.lock_nested(), None);
        }
        if in_order(a, b) {
            let first = a.lock_nested();
            return (first, Some(b.lock_nested()));
        }
        let first = b.lock_nested();
        (a.lock_nested(), Some(first))
    }
}

/// A reader-writer lock of class `C` around a `T`.
///
/// Linux: `struct rw_semaphore`.
pub struct RwLock<T, C: LockClass> {
    raw: primitive::RwLock<T>,
    class: PhantomData<fn() -> C>,
}

common!(RwLock);
guard!(
    /// An [`RwLock`] held for reading.
    RwLockReadGuard
);
guard!(
    /// An [`RwLock`] held for writing.
    RwLockWriteGuard
);
guard_mut!(RwLockWriteGuard);

impl<T, C: LockClass> RwLock<T, C> {
    /// Waits for shared access.
    ///
    /// # Panics
    /// In debug builds, if a lock of this class or an inner one is held.
    #[track_caller]
    pub fn read(&self) -> RwLockReadGuard<'_, T, C> {
        take!(RwLockReadGuard, C, Ask::Wait, self.raw.read())
    }

    /// Waits for exclusive access.
    ///
    /// # Panics
    /// As [`RwLock::read`].
    #[track_caller]
    pub fn write(&self) -> RwLockWriteGuard<'_, T, C> {
        take!(RwLockWriteGuard, C, Ask::Wait, self.raw.write())
    }

    /// As [`RwLock::read`], but locks of the same class may be held, in an order that the caller
    /// ensures.
    ///
    /// # Panics
    /// In debug builds, if a lock of an inner class is held.
    #[track_caller]
    pub fn read_nested(&self) -> RwLockReadGuard<'_, T, C> {
        const { assert!(C::NESTS, "locks of this class do not nest") };
        take!(RwLockReadGuard, C, Ask::Nested, self.raw.read())
    }

    /// As [`RwLock::write`], but locks of the same class may be held, in an order that the caller
    /// ensures.
    ///
    /// # Panics
    /// As [`RwLock::read_nested`].
    #[track_caller]
    pub fn write_nested(&self) -> RwLockWriteGuard<'_, T, C> {
        const { assert!(C::NESTS, "locks of this class do not nest") };
        take!(RwLockWriteGuard, C, Ask::Nested, self.raw.write())
    }

    /// As [`RwLock::read_nested`], counted as a lock of class `D`. For an object that lies beneath
    /// another of its kind: the upper one's lock of class `C`, and inner locks, may be held.
    ///
    /// # Panics
    /// In debug builds, if a lock of a class inside of `D` is held.
    #[track_caller]
    pub fn read_beneath<D: LockClass>(&self) -> RwLockReadGuard<'_, T, D> {
        const {
            assert!(
                D::NESTS && C::RANK < D::RANK,
                "that class is no place for it"
            )
        };
        take!(RwLockReadGuard, D, Ask::Nested, self.raw.read())
    }

    /// As [`RwLock::read_beneath`], for exclusive access.
    ///
    /// # Panics
    /// As [`RwLock::read_beneath`].
    #[track_caller]
    pub fn write_beneath<D: LockClass>(&self) -> RwLockWriteGuard<'_, T, D> {
        const {
            assert!(
                D::NESTS && C::RANK < D::RANK,
                "that class is no place for it"
            )
        };
        take!(RwLockWriteGuard, D, Ask::Nested, self.raw.write())
    }

    /// As [`RwLock::read_beneath`], if no writer holds it.
    pub fn try_read_beneath<D: LockClass>(&self) -> Option<RwLockReadGuard<'_, T, D>> {
        taken!(RwLockReadGuard, D, self.raw.try_read())
    }

    /// Takes shared access if no writer holds the lock.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T, C>> {
        taken!(RwLockReadGuard, C, self.raw.try_read())
    }

    /// Takes exclusive access if the lock is free.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T, C>> {
        taken!(RwLockWriteGuard, C, self.raw.try_write())
    }

    /// Waits for exclusive access to two locks, in the order of their addresses. If both are the
    /// same lock, takes one and returns `None` for the other.
    ///
    /// # Panics
    /// As [`RwLock::write_nested`].
    #[track_caller]
    pub fn write_pair<'a>(
        a: &'a Self,
        b: &'a Self,
    ) -> (
        RwLockWriteGuard<'a, T, C>,
        Option<RwLockWriteGuard<'a, T, C>>,
    ) {
        if core::ptr::eq(a, b) {
            return (a.write_nested(), None);
        }
        if in_order(a, b) {
            let first = a.write_nested();
            return (first, Some(b.write_nested()));
        }
        let first = b.write_nested();
        (a.write_nested(), Some(first))
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
