// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocates and frees zeroed memory for arrays; a small array shares no cache lines with others.

use crate::zero_valid::ZeroValid;
use core::ptr::NonNull;
use std::alloc::{Layout, alloc_zeroed, dealloc};

/// Up to 8192 bytes, an allocation shares no pair of cache lines with any other. Beyond that the
/// system hands out untouched memory, at its usual alignment.
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
/// `items` came from there with this `count`, and is no longer reachable.
pub(crate) unsafe fn free_zeroed<T: ZeroValid>(items: NonNull<T>, count: usize) {
    if let Some(layout) = layout::<T>(count) {
        // SAFETY: as promised; the layout depends only on the type and the count.
        unsafe { dealloc(items.as_ptr().cast(), layout) };
    }
}
