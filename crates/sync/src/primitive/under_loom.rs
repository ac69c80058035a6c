// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives loom's atomics, statics and thread-locals the names that this crate uses in every build.

use crate::zero_valid::ZeroValid;
use core::ptr::NonNull;
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
};
pub(crate) use loom::thread::yield_now as relax;
pub(crate) use loom::thread::yield_now as short_sleep;
use std::boxed::Box;

pub(crate) const SHARDS: usize = 1;
pub(crate) const SPINS: usize = 0;

/// A model injects no faults.
pub(super) fn may_fail() {}

/// A step that cannot fail.
#[derive(Debug)]
pub struct NoFaultInjection;

/// Begins such a step.
pub fn no_fault_injection() -> NoFaultInjection {
    NoFaultInjection
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
