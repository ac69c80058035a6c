// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines `Timespec`, a time in seconds and nanoseconds, and `TimeSet`, what utimensat(2) does
//! with one of a file's times.

/// Seconds and nanoseconds since the epoch (`struct timespec`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(C)]
pub struct Timespec {
    /// Seconds; may be negative.
    pub sec: i64,
    /// Nanoseconds, below [`NSEC_PER_SEC`].
    pub nsec: u32,
}

/// Nanoseconds in a second.
pub const NSEC_PER_SEC: u32 = 1_000_000_000;
/// utimensat(2), in place of nanoseconds: the current time.
pub const UTIME_NOW: i64 = (1 << 30) - 1;
/// utimensat(2), in place of nanoseconds: leave it as it is.
pub const UTIME_OMIT: i64 = (1 << 30) - 2;

impl Timespec {
    /// The epoch.
    pub const EPOCH: Timespec = Timespec { sec: 0, nsec: 0 };

    /// A time from its parts.
    #[inline]
    #[must_use]
    pub const fn new(sec: i64, nsec: u32) -> Timespec {
        Timespec { sec, nsec }
    }
}

/// One of the two times of utimensat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimeSet {
    /// `UTIME_NOW`: the current time.
    Now,
    /// `UTIME_OMIT`: leave it as it is.
    Omit,
    /// This time.
    At(Timespec),
}
