// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements [`Biased::into_inner`], which drops a handle of a biased lock, and returns both
//! values of the pair if it was the last one.

use super::{Biased, Pair};
use crate::lock::LockClass;
use crate::primitive::{Ordering, no_fault_injection};
use core::mem::ManuallyDrop;
use std::boxed::Box;

impl<S, T, C: LockClass> Biased<S, T, C> {
    /// Drops this handle; if it was the last one, returns the values of the pair.
    ///
    /// Of handles that are dropped this way at the same time, exactly one gets them.
    pub fn into_inner(self) -> Option<(S, T)> {
        let last = ManuallyDrop::new(self);
        // PAIR(biased.owners): see R2, as in the drop of a handle.
        let others = {
            let _step = no_fault_injection();
            last.is_shared() && last.pair().owners.fetch_sub(1, Ordering::AcqRel) != 1
        };
        if others {
            return None;
        }
        // SAFETY: the pair came from a box, and this was its last handle, which is not dropped; a
        // live guard would borrow it.
        let Pair { value, shared, .. } = *unsafe { Box::from_raw(last.pair.as_ptr()) };
        Some((shared.0, value.into_inner()))
    }
}
