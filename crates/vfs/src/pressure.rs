// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the levels of memory pressure, the figures of what was freed because of it, and the
//! host's callback. `shrinker` frees the memory.

/// How short the host is of memory.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Pressure {
    /// Memory is reclaimed here and there: an eighth of what is cached goes.
    Low,
    /// Reclaim gets hard: half of it goes.
    Medium,
    /// A process is about to be killed: all that is unused goes.
    Critical,
}

/// What was given up.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Reclaimed {
    /// Cached names that went.
    pub evicted: usize,
    /// Names' worth of memory that went back to the system.
    pub trimmed: u32,
}

/// The callback for pressure.
pub(crate) type PressureHook = Box<dyn Fn(Pressure) + Send + Sync>;
