// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the version clock of a superblock: it tells when a directory last changed the meaning
//! of paths through it.
//!
//! A path-cache entry remembers the clock it was validated at. While the clock stands still, the
//! entry holds without a look at any ancestor; when it has moved, the ancestors' `last_change`
//! decide.
//!
//! # Rules
//! R1. A change of what is found below a directory (rename, removal, search permission, mount on
//!     it) runs between `begin` and `end`. First `last_change` is infinite and the clock moves,
//!     then comes the change, then both get the same new value. PAIR(dcache.clock): a reader that
//!     stamps an entry has read the clock before it climbed. So a change that began later has moved
//!     the clock past the stamp; one that began earlier shows as infinite.
//! R2. Changes of one directory may overlap: it says "changing" until the last of them ends.

use super::Dcache;
use openpath_sync::{Word, Word32, no_fault_injection};

openpath_sync::zero_valid! {
    /// The clock of one superblock, alone on its lines.
    pub(crate) struct ClockSlot {
        pub(crate) value: Word,
        /// How many invalidations the superblock had; see `forget`.
        pub(super) forgets: Word,
        _pad0: [Word; 4],
        _pad1: [Word; 4],
        _pad2: [Word; 4],
        _pad3: [Word32; 4],
    }
}

/// `last_change` of a directory while a change is going on.
pub(crate) const CHANGING: u64 = u64::MAX;

/// The directories that are being changed, one entry for each change.
pub(super) type Changing = Vec<u32>;

/// A change of a directory going on; dropping it ends it.
pub(crate) struct DirChange<'a> {
    dcache: &'a Dcache,
    dir: u32,
}

impl Dcache {
    /// How many invalidations the superblock with this number had.
    pub(super) fn forgets(&self, sb: u32) -> &Word {
        &self.clocks.at(sb).forgets
    }

    /// The clock of the superblock with this number.
    #[inline(always)]
    pub(crate) fn clock(&self, sb: u32) -> &Word {
        &self.clocks.at(sb).value
    }

    /// Begins a change of what is found below the directory entry `dir`.
    pub(crate) fn begin_dir_change(&self, dir: u32) -> DirChange<'_> {
        let d = self.at(dir);
        let mut changing = self.changing.lock();
        changing.push(dir);
        d.last_change.set(CHANGING);
        self.clock(d.sb.get()).add(1);
        DirChange { dcache: self, dir }
    }
}

impl Drop for DirChange<'_> {
    fn drop(&mut self) {
        let _step = no_fault_injection();
        let d = self.dcache.at(self.dir);
        let clock = self.dcache.clock(d.sb.get());
        let mut changing = self.dcache.changing.lock();
        if let Some(at) = changing.iter().position(|&dir| dir == self.dir) {
            changing.swap_remove(at);
        }
        let now = clock.get() + 1;
        // R2: another change of the same directory goes on.
        if !changing.contains(&self.dir) {
            // PAIR(dcache.clock): the directory's stamp is out before the clock shows it.
            d.last_change.set(now);
        }
        clock.set(now);
    }
}
