// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines what an item of a slab is: a struct of shared words, with a life word and a slot for a
//! shared payload in front.

use crate::life::Life;
use crate::primitive::{AtomicPtr, Ordering};
use crate::zero_valid::ZeroValid;
use std::sync::Arc;

/// A slot for an owned, shared payload; all zero: empty.
pub struct PayloadCell<P>(pub(super) AtomicPtr<P>);

impl<P> Default for PayloadCell<P> {
    fn default() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }
}

// SAFETY: a null pointer is all zero and means empty; the payload is released by the store, not by
// a drop of the cell; the cell is only an atomic word.
unsafe impl<P: Send + Sync + 'static> ZeroValid for PayloadCell<P> {}

impl<P> PayloadCell<P> {
    pub(super) fn take(&self) -> Option<Arc<P>> {
        let p = self.0.swap(core::ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: a non-null pointer came from `Arc::into_raw` in `set`, and the swap makes this
        // its only taker.
        (!p.is_null()).then(|| unsafe { Arc::from_raw(p) })
    }
    /// As `take`, without a shared store if the cell is empty.
    #[inline(always)]
    pub(super) fn take_if_any(&self) -> Option<Arc<P>> {
        if self.0.load(Ordering::Relaxed).is_null() {
            return None;
        }
        self.take()
    }
    pub(super) fn set(&self, payload: Arc<P>) -> Result<(), Arc<P>> {
        let p = Arc::into_raw(payload).cast_mut();
        match self.0.compare_exchange(
            core::ptr::null_mut(),
            p,
            Ordering::AcqRel,
            Ordering::Acquire,
        ) {
            Ok(_) => Ok(()),
            // SAFETY: `p` came from `Arc::into_raw` just above and was not published.
            Err(_) => Err(unsafe { Arc::from_raw(p) }),
        }
    }
}

/// An item of a [`crate::Store`]; made by [`crate::slab_item!`] only.
///
/// # Safety
/// `life` and `payload` must return the item's own fields, always the same ones.
pub unsafe trait Item: ZeroValid {
    /// The type that a pin on the item gives access to.
    type Payload: Send + Sync + 'static;
    /// The item's own life word.
    fn life(&self) -> &Life;
    /// The item's own payload slot.
    fn payload(&self) -> &PayloadCell<Self::Payload>;
}

/// Declares a slab item: a 64-byte-aligned struct of shared words with a life word and a payload
/// slot in front.
///
/// ```
/// use openpath_sync::{Word, slab_item};
/// slab_item! {
///     /// A thing with one word.
///     pub struct Thing: String {
///         /// The word.
///         pub word: Word,
///     }
/// }
/// ```
#[macro_export]
macro_rules! slab_item {
    ($(#[$m:meta])* $v:vis struct $name:ident : $payload:ty {
        $($(#[$fm:meta])* $fv:vis $field:ident : $ty:ty),* $(,)?
    }) => {
        $(#[$m])*
        #[derive(Default)]
        #[repr(C, align(64))]
        $v struct $name {
            life: $crate::Life,
            payload: $crate::PayloadCell<$payload>,
            $($(#[$fm])* $fv $field: $ty,)*
        }
        // SAFETY: every field is zero-valid (checked by the bound), and the struct adds nothing to
        // them.
        unsafe impl $crate::ZeroValid for $name where $($ty: $crate::ZeroValid),* {}
        // SAFETY: the two fields above are the item's own.
        unsafe impl $crate::Item for $name {
            type Payload = $payload;
            #[inline(always)]
            fn life(&self) -> &$crate::Life {
                &self.life
            }
            #[inline(always)]
            fn payload(&self) -> &$crate::PayloadCell<$payload> {
                &self.payload
            }
        }
    };
}
