// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an owned read guard, which keeps a lock held for reading after the call that took it,
//! until any thread drops the guard. Operations of the host's kernel use what the lock protects
//! meanwhile.
//!
//! # Kernel analogue
//! `inode_dio_begin`, `inode_dio_end`; `down_read` with `up_read_non_owner`.
//!
//! # Rules
//! R1. It is only ever tried for, and is in no thread's list of held locks: the lock order does not
//!     mention it. Its owner releases it without waiting for any lock of that class.
//!
//! # Limits
//! Models have no such lock: there every attempt fails.

use super::{LockClass, RwLock};
use core::ptr::NonNull;
use std::sync::Arc;

/// An [`RwLock`] that is a field of an `O`, held for reading until this is dropped.
///
/// ```
/// use openpath_sync::{OwnedReadGuard, RwLock, lock_classes};
/// use std::sync::Arc;
/// lock_classes! {
///     /// All classes.
///     const CLASSES;
///     /// The file.
///     File;
/// }
/// struct Inode { names: RwLock<(), File> }
/// let inode = Arc::new(Inode { names: RwLock::new(()) });
/// let held = OwnedReadGuard::attempt(&inode, |inode| &inode.names).expect("nobody has it");
/// assert!(inode.names.try_write().is_none() && inode.names.try_read().is_some());
/// std::thread::spawn(move || drop(held)).join().expect("no panic");
/// assert!(inode.names.try_write().is_some());
/// ```
#[must_use]
pub struct OwnedReadGuard<O, T, C: LockClass> {
    /// A field of `owner`.
    lock: NonNull<RwLock<T, C>>,
    owner: Arc<O>,
}

// SAFETY: it gives no access to the value. Any thread may release the lock, since the library is
// built with guards that can be sent.
unsafe impl<O: Send + Sync, T: Send + Sync, C: LockClass> Send for OwnedReadGuard<O, T, C> {}

impl<O, T, C: LockClass> OwnedReadGuard<O, T, C> {
    /// Takes the lock for reading if no writer holds it; `None` also if the lock is not a field of
    /// `owner` itself.
    #[cfg(not(any(loom, shuttle)))]
    pub fn attempt(owner: &Arc<O>, of: fn(&O) -> &RwLock<T, C>) -> Option<Self> {
        let lock = of(owner);
        let (from, at) = (Arc::as_ptr(owner).addr(), core::ptr::from_ref(lock).addr());
        if at < from || at + size_of_val(lock) > from + size_of::<O>() {
            return None;
        }
        core::mem::forget(lock.raw.try_read()?);
        Some(Self {
            lock: NonNull::from(lock),
            owner: Arc::clone(owner),
        })
    }

    /// The attempt of a model, which always fails.
    #[cfg(any(loom, shuttle))]
    pub fn attempt(_owner: &Arc<O>, _of: fn(&O) -> &RwLock<T, C>) -> Option<Self> {
        None
    }

    /// The object that the lock is a field of.
    #[must_use]
    pub fn owner(&self) -> &Arc<O> {
        &self.owner
    }
}

impl<O, T, C: LockClass> Drop for OwnedReadGuard<O, T, C> {
    fn drop(&mut self) {
        #[cfg(not(any(loom, shuttle)))]
        {
            // SAFETY: (1) the lock lies within what `owner` keeps in place. Safe code gives no
            // reference to a part of a shared value that can be replaced later, so it is the lock
            // that was taken. (2) It was taken for reading in `attempt`, which forgot the guard,
            // and nothing else releases that.
            unsafe { self.lock.as_ref().raw.force_unlock_read() };
        }
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    crate::lock_classes! {
        /// All of them.
        const CLASSES;
        /// The one there is.
        Only;
    }

    struct Owner {
        within: RwLock<u8, Only>,
        beside: Box<RwLock<u8, Only>>,
    }

    #[test]
    fn owned_read_guard_excludes_writers_until_any_thread_drops_it() {
        assert_eq!(CLASSES.len(), 1);
        let owner = Arc::new(Owner {
            within: RwLock::new(1),
            beside: Box::new(RwLock::new(2)),
        });
        let two = [(); 2]
            .map(|()| OwnedReadGuard::attempt(&owner, |o| &o.within).expect("beside each other"));
        assert_eq!(*owner.within.read(), 1);
        let [first, second] = two;
        drop(first);
        assert!(owner.within.try_write().is_none());
        let other = std::thread::spawn(move || Arc::strong_count(second.owner()));
        assert_eq!(other.join().ok(), Some(2));
        let written = owner.within.try_write();
        assert!(written.is_some());
        assert!(
            OwnedReadGuard::attempt(&owner, |o| &o.within).is_none(),
            "a writer"
        );
        drop(written);
        assert!(
            OwnedReadGuard::attempt(&owner, |o| &*o.beside).is_none(),
            "no part"
        );
        assert_eq!(*owner.beside.read(), 2);
    }
}
