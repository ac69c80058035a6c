// SPDX-License-Identifier: MIT OR Apache-2.0
//! A value on a pair of cache lines of its own: what changes lies apart from what everyone reads.

use core::ops::{Deref, DerefMut};

/// See the module head.
#[derive(Default)]
#[repr(align(128))]
pub(crate) struct Apart<T>(pub(crate) T);

impl<T> Deref for Apart<T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Apart<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}
