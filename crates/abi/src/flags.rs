// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the macro `flags!`, which makes a type for a set of flags over the integer that a system
//! call takes.
//!
//! # Rules
//! R1. A set keeps unknown bits: the call that takes it refuses or ignores them, as Linux does.
//! R2. The sets have the constants of their C names, and no others.
//! R3. `!` inverts all bits, unknown ones too: `flags & !KNOWN` holds every bit that is not known.

/// Defines a set of flags over `$bits`, with the names that its `Debug` prints.
macro_rules! flags {
    ($(#[$doc:meta])* $set:ident($bits:ident): $($name:ident)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
        #[repr(transparent)]
        pub struct $set($bits);

        impl $set {
            /// No flag.
            #[inline(always)]
            #[must_use]
            pub const fn empty() -> Self {
                Self(0)
            }

            /// The set of a number, with its unknown bits.
            #[inline(always)]
            #[must_use]
            pub const fn from_bits_retain(bits: $bits) -> Self {
                Self(bits)
            }

            /// The number, as the system call takes it.
            #[inline(always)]
            #[must_use]
            pub const fn bits(self) -> $bits {
                self.0
            }

            /// Whether no bit is set.
            #[inline(always)]
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.0 == 0
            }

            /// Whether all bits of `other` are set.
            #[inline(always)]
            #[must_use]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any bit of `other` is set.
            #[inline(always)]
            #[must_use]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// The bits of either; `|` in a constant.
            #[inline(always)]
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }

            /// The bits of all of these; `|` of many in a constant.
            #[must_use]
            pub const fn union_of(sets: &[Self]) -> Self {
                let (mut bits, mut i) = (0, 0);
                while i < sets.len() {
                    bits |= sets[i].0;
                    i += 1;
                }
                Self(bits)
            }

            /// The set if `on`, else no flag.
            #[inline(always)]
            #[must_use]
            pub const fn only_if(self, on: bool) -> Self {
                if on { self } else { Self(0) }
            }
        }

        impl core::ops::BitOr for $set {
            type Output = Self;
            #[inline(always)]
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl core::ops::BitOrAssign for $set {
            #[inline(always)]
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl core::ops::BitAnd for $set {
            type Output = Self;
            #[inline(always)]
            fn bitand(self, other: Self) -> Self {
                Self(self.0 & other.0)
            }
        }

        impl core::ops::BitAndAssign for $set {
            #[inline(always)]
            fn bitand_assign(&mut self, other: Self) {
                self.0 &= other.0;
            }
        }

        impl core::ops::BitXor for $set {
            type Output = Self;
            #[inline(always)]
            fn bitxor(self, other: Self) -> Self {
                Self(self.0 ^ other.0)
            }
        }

        impl core::ops::Not for $set {
            type Output = Self;
            #[inline(always)]
            fn not(self) -> Self {
                Self(!self.0)
            }
        }

        impl From<$set> for $bits {
            #[inline(always)]
            fn from(set: $set) -> $bits {
                set.0
            }
        }

        impl core::fmt::LowerHex for $set {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::LowerHex::fmt(&self.0, f)
            }
        }

        impl core::fmt::Debug for $set {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                f.write_str(concat!(stringify!($set), "("))?;
                let (mut rest, mut between) = (self.0, "");
                $(
                    if !$name.is_empty() && $set(rest).contains($name) {
                        f.write_str(between)?;
                        f.write_str(stringify!($name))?;
                        between = " | ";
                        rest &= !$name.0;
                    }
                )*
                if rest != 0 || between.is_empty() {
                    write!(f, "{between}{rest:#x}")?;
                }
                f.write_str(")")
            }
        }
    };
}

pub(crate) use flags;
