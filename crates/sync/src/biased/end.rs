// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a pair: its values, for who is last.

use super::{Biased, Pair};
use crate::lock::LockClass;
use crate::prim::{Ordering, unfailing};
use core::mem::ManuallyDrop;
use std::boxed::Box;

impl<S, T, C: LockClass> Biased<S, T, C> {
    /// Drops this handle; if it was the last one, what the pair held.
    ///
    /// Of handles dropped so at the same time, exactly one gets it.
    pub fn into_inner(self) -> Option<(S, T)> {
        let last = ManuallyDrop::new(self);
        // PAIR(biased.owners): see R2, as in the drop of a handle.
        let others = {
            let _step = unfailing();
            last.is_shared() && last.pair().owners.fetch_sub(1, Ordering::AcqRel) != 1
        };
        if others {
            return None;
        }
        // SAFETY: the pair came from a box, and this was its last handle, which is not dropped; a
        // guard would borrow it.
        let Pair { value, shared, .. } = *unsafe { Box::from_raw(last.pair.as_ptr()) };
        Some((shared.0, value.into_inner()))
    }
}
