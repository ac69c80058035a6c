// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a cell for one boxed value that is read in read sections and replaced at any time.
//!
//! # Kernel analogue
//! An `__rcu` pointer with `rcu_dereference`, `rcu_assign_pointer` and `kfree_rcu`.
//!
//! # Guarantees
//! G1. A reader sees one whole value, as it was when it was stored.
//! G2. A value that was replaced is dropped after every section that could have read it.

use super::{Guard, Pressure, retire};
use crate::primitive::{AtomicPtr, Ordering};
use core::marker::PhantomData;
use core::ptr;

/// An optional boxed value under RCU.
///
/// ```
/// use openpath_sync::rcu::{RcuCell, Reader};
/// let cell = RcuCell::new(Box::new(1));
/// let reader = Reader::new("doc");
/// let guard = reader.enter();
/// let old = cell.read(&guard);
/// cell.replace(Some(Box::new(2)));
/// assert_eq!((old, cell.read(&guard)), (Some(&1), Some(&2)));
/// ```
///
/// A borrowed value does not outlive its section:
///
/// ```compile_fail,E0505
/// # use openpath_sync::rcu::{RcuCell, Reader};
/// # let cell = RcuCell::new(Box::new(1));
/// # let reader = Reader::new("doc");
/// let guard = reader.enter();
/// let value = cell.read(&guard);
/// drop(guard);
/// assert_eq!(value, Some(&1));
/// ```
pub struct RcuCell<T> {
    /// Null, or from `Box::into_raw`; owned by the cell until it is swapped out.
    value: AtomicPtr<T>,
    owns: PhantomData<Box<T>>,
}

impl<T> RcuCell<T> {
    /// A cell holding `value`.
    pub fn new(value: Box<T>) -> Self {
        Self {
            value: AtomicPtr::new(Box::into_raw(value)),
            owns: PhantomData,
        }
    }

    /// A cell holding nothing.
    pub fn empty() -> Self {
        Self {
            value: AtomicPtr::new(ptr::null_mut()),
            owns: PhantomData,
        }
    }

    /// The current value, valid while both the cell and the section last.
    #[inline(always)]
    pub fn read<'g>(&'g self, _section: &'g Guard<'_>) -> Option<&'g T> {
        // Acquire: the value was written before it was published (`replace`).
        let value = self.value.load(Ordering::Acquire);
        // SAFETY: the pointer is null or an initialised box that was in the cell after the section
        // began. It is freed by `replace` only through `retire`, hence after the section that `'g`
        // lies in, and by `drop` only when no borrow of the cell is left, hence after `'g`.
        unsafe { value.as_ref() }
    }

    /// Whether the cell holds a value now.
    pub fn is_set(&self) -> bool {
        !self.value.load(Ordering::Relaxed).is_null()
    }

    /// The value, while no other thread can reach the cell.
    pub fn get_mut(&mut self) -> Option<&mut T> {
        // SAFETY: `&mut self` proves that no section reads here, so the box is not shared.
        unsafe { self.value.load(Ordering::Relaxed).as_mut() }
    }
}

impl<T: Send + Sync + 'static> RcuCell<T> {
    /// Stores `new` and retires the old value.
    pub fn replace(&self, new: Option<Box<T>>) -> Pressure {
        let new = new.map_or(ptr::null_mut(), Box::into_raw);
        // Release publishes the new value, acquire takes over the old one.
        let old = self.value.swap(new, Ordering::AcqRel);
        if old.is_null() {
            return Pressure::of_now();
        }
        // SAFETY: the swap took the pointer out of the cell, and with it the ownership of the box.
        retire(unsafe { Box::from_raw(old) })
    }
}

impl<T> Default for RcuCell<T> {
    fn default() -> Self {
        Self::empty()
    }
}

impl<T> Drop for RcuCell<T> {
    fn drop(&mut self) {
        let value = self.value.load(Ordering::Relaxed);
        if !value.is_null() {
            // SAFETY: `&mut self` proves that no borrow of the value is left, and the cell owns the
            // box.
            drop(unsafe { Box::from_raw(value) });
        }
    }
}
