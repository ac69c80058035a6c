// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a macro that gives a struct of options a setter for each field, because other crates
//! cannot build such a struct as a literal.

/// Adds a setter for each field to a struct of options, under the field's name. With `const`, of a
/// `Copy` type, the setters are `const`.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    (const $options:ident { $($field:ident: $value:ty),+ $(,)? }) => {
        impl $options {$(
            #[doc = concat!("Sets `", stringify!($field), "`.")]
            #[must_use]
            pub const fn $field(mut self, $field: $value) -> Self {
                self.$field = $field;
                self
            }
        )+}
    };
    ($options:ident { $($field:ident: $value:ty),+ $(,)? }) => {
        impl $options {$(
            #[doc = concat!("Sets `", stringify!($field), "`.")]
            #[must_use]
            pub fn $field(mut self, $field: $value) -> Self {
                self.$field = $field;
                self
            }
        )+}
    };
}
