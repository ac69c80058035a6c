// SPDX-License-Identifier: MIT OR Apache-2.0
//! Giving memory back when the host runs short of it.
//!
//! # Kernel analogue
//! vmpressure's levels and `struct shrinker`. Who watches the host's memory (a control group's
//! events, PSI) calls; the cache gives up names, what they and the trees of back ends do not use
//! goes back to the system ([`Vfs::trim`]), and the host's other parts are told if they asked.

use crate::instance::{Shared, Vfs};
use crate::pressure::{Pressure, Relief};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How long to wait for walks that are going on before memory goes back.
const PATIENCE: Duration = Duration::from_millis(10);

impl Vfs {
    /// Gives memory up as `level` says, and tells whoever asked to be told
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
    pub fn pressure(&self, level: Pressure) -> Relief {
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
        Relief { evicted, trimmed }
    }

    /// What to call under memory pressure, for who must not keep the `Vfs` alive.
    #[must_use]
    pub fn shrinker(&self) -> Shrinker {
        Shrinker(Arc::downgrade(&self.0))
    }
}

/// A way to a `Vfs` that does not keep it alive, to be called under memory pressure.
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
    pub fn pressure(&self, level: Pressure) -> Relief {
        self.vfs()
            .map_or_else(Relief::default, |vfs| vfs.pressure(level))
    }

    fn vfs(&self) -> Option<Vfs> {
        self.0.upgrade().map(Vfs)
    }
}
