// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a macro that makes an enumeration and gives each value a short name and a one-line
//! meaning, for tables and traces.

/// Makes an enumeration, the names of its values and their meanings.
macro_rules! named {
    ($(#[$of:meta])* enum $Named:ident { $($name:ident, $text:literal, $meaning:literal;)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[non_exhaustive]
        pub enum $Named {
            $(#[doc = concat!($meaning, ".")] $name,)*
        }

        impl $Named {
            /// All of them, in their order.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// The name, for tables and traces.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// Its meaning, in a line.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $(Self::$name => $meaning,)* }
            }
        }
    };
}

pub(crate) use named;
