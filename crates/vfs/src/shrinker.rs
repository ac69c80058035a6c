// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements memory pressure: gives cached names and their memory back when the host runs short of
//! memory, and calls the host's callback.
//!
//! # Kernel analogue
//! vmpressure's levels and `struct shrinker`. A monitor of the host's memory (a control group's
//! events, PSI) calls [`Shrinker::pressure`], and the cache evicts names. Memory that the cache and
//! the trees of backends do not use goes back to the system ([`Vfs::trim`]), and the host's
//! callback runs.

use crate::instance::{Shared, Vfs};
use crate::pressure::{Pressure, Reclaimed};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long to wait for walks under way before memory goes back.
const PATIENCE: Duration = Duration::from_millis(10);

impl Vfs {
    /// Gives memory up as `level` says, and runs the host's callback
    /// ([`crate::VfsBuilder::on_pressure`]).
    ///
    /// # Examples
    /// ```
    /// # use openpath_vfs::{Pressure, Vfs};
    /// # fn on_low_memory(vfs: &Vfs) {
    /// let relief = vfs.pressure(Pressure::Medium);
    /// println!("{} names went", relief.evicted);
    /// # }
    /// ```
    pub fn pressure(&self, level: Pressure) -> Reclaimed {
        let cached = self.usage().dentries;
        let goal = match level {
            Pressure::Low => cached / 8,
            Pressure::Medium => cached / 2,
            Pressure::Critical => u32::MAX,
        };
        let evicted = self.shrink(goal);
        let trimmed = self.trim(PATIENCE);
        if let Some(told) = &self.0.told {
            told(level);
        }
        Reclaimed { evicted, trimmed }
    }

    /// A handle to be called under memory pressure, which does not keep the `Vfs` alive.
    #[must_use]
    pub fn shrinker(&self) -> Shrinker {
        Shrinker(Arc::downgrade(&self.0))
    }
}

/// A handle of a `Vfs` that does not keep it alive, to be called under memory pressure.
///
/// Linux: `struct shrinker`.
#[derive(Clone)]
pub struct Shrinker(Weak<Shared>);

impl Shrinker {
    /// Names cached, some of which may be in use; 0 when the `Vfs` is gone (`count_objects`).
    #[must_use]
    pub fn count(&self) -> u32 {
        self.vfs().map_or(0, |vfs| vfs.usage().dentries)
    }

    /// As [`Vfs::pressure`]; nothing when the `Vfs` is gone (`scan_objects`).
    pub fn pressure(&self, level: Pressure) -> Reclaimed {
        self.vfs()
            .map_or_else(Reclaimed::default, |vfs| vfs.pressure(level))
    }

    fn vfs(&self) -> Option<Vfs> {
        self.0.upgrade().map(Vfs)
    }
}
