// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pads a value to a pair of cache lines, so that writes to it do not evict read-mostly data.

use core::ops::{Deref, DerefMut};

/// See the module head.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct CachePadded<T>(pub(crate) T);

impl<T> Deref for CachePadded<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for CachePadded<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
