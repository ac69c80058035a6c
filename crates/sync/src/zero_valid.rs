// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the trait of types for which zeroed memory is a valid value, and a macro that declares
//! such structs.
//!
//! A [`crate::Region`] reserves address space, which the system fills with zero pages on first
//! touch. So an item is never constructed and never dropped: all zeroes must already be a valid
//! value, one that means "free".

/// A type of shared-mutable words for which all bytes zero is a valid value and which needs no
/// drop.
///
/// # Safety
/// All bytes zero must be a valid value equal to `Self::default()`. The type must hold no
/// reference, box or other thing that a drop would release, and no padding-sensitive or non-atomic
/// state that a shared reference could race on.
pub unsafe trait ZeroValid: Default + Send + Sync + 'static {}

// SAFETY: an array of zero-valid items is zero-valid.
unsafe impl<T: ZeroValid> ZeroValid for [T; 2] {}
// SAFETY: an array of zero-valid items is zero-valid.
unsafe impl<T: ZeroValid> ZeroValid for [T; 4] {}
// SAFETY: an array of zero-valid items is zero-valid.
unsafe impl<T: ZeroValid> ZeroValid for [T; 32] {}

/// Declares a struct of zero-valid fields that is zero-valid itself, for use in a
/// [`crate::Region`].
#[macro_export]
macro_rules! zero_valid {
    ($(#[$m:meta])* $v:vis struct $name:ident {
        $($(#[$fm:meta])* $fv:vis $field:ident : $ty:ty),* $(,)?
    }) => {
        $(#[$m])*
        #[derive(Default)]
        #[repr(C)]
        $v struct $name {
            $($(#[$fm])* $fv $field: $ty,)*
        }
        // SAFETY: every field is zero-valid (checked by the bound), and the struct adds nothing to
        // them.
        unsafe impl $crate::ZeroValid for $name where $($ty: $crate::ZeroValid),* {}
    };
}
