// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracks complete directories: all of their names are cached, so a name that is not found does not
//! exist.
//!
//! # Kernel analogue
//! None in Linux, which keeps an entry for each absent name that was asked for. Ceph's client and
//! `simple_lookup` in a tree that lives in the cache come close.
//!
//! # States
//! A directory is complete (`COMPLETE` in its life word) when it is new or empty, or when its
//! backend has as many names in it as are cached ([`crate::InodeOps::names`]). It stops being so
//! before any of its names that exists leaves the cache.
//!
//! # Rules
//! R1. The names counted in a directory (`known`) are its hashed positive entries. An entry is
//!     counted after it enters the table, and uncounted before it leaves; so there are never more
//!     counted than there are.
//! R2. `COMPLETE` is set with the directory's names held, so that no name is made or removed, and
//!     within a change of its life word, in which the count is read. An eviction takes from the
//!     count first and then looks at the life word, both by one read-modify-write of the count.
//!     PAIR(dcache.complete): one of the two comes first in the order of the count. Either the
//!     eviction does, and the count falls short; or the read does, and the eviction sees the change
//!     under way.
//! R3. A search without a lock may say "does not exist" if it has proved that there was no entry,
//!     and the directory is unchanged since its sample, with `COMPLETE`.
//! R4. A name that moves is in the table all the time, or its chain is locked, which leaves nothing
//!     to prove: [`super::Dcache::rename`] holds both chains.
//!
//! R5. An invalidated name may be one too many, or one too few: after it no directory of that tree
//!     is proved complete. An invalidation counts itself before it clears the directory's flag, and
//!     a change that would set the flag reads the count within. In a tree that confirms, no
//!     directory is complete.
//!
//! # Limits
//! A tree that is complete from its root on may hold no entry for an absent name; entries that were
//! made before stay until they are evicted.

use super::{Dcache, Dentry, dflag};
use crate::inode::Inode;
use openpath_sync::Sample;

/// Longest name that is looked for at all; a longer one may be an error of its own.
pub(crate) const NAME_MAX: usize = 255;

impl Dcache {
    /// The flags that a new entry of `inode` begins with besides its type's.
    pub(super) fn begins_as(&self, inode: Option<&Inode>, sb: u32) -> u64 {
        match inode {
            Some(dir) if dir.is_dir() && self.names_in(dir, sb) == Some(0) => dflag::COMPLETE,
            _ => 0,
        }
    }

    /// How many names the backend says are in the directory, if it vouches for that, and nothing of
    /// its tree was ever forgotten (R5).
    fn names_in(&self, dir: &Inode, sb: u32) -> Option<u64> {
        if !self.knows_complete || self.forgets(sb).get() != 0 {
            return None;
        }
        dir.shielded(|ops| Ok(ops.names(dir))).ok().flatten()
    }

    /// Counts a name that was entered below `dir`.
    pub(super) fn count_name(&self, dir: u32) {
        self.cold.at(dir).known.add(1);
    }

    /// Counts one name less below `dir`. Held: its names, exclusively.
    pub(super) fn uncount_name(&self, dir: u32) {
        self.cold.at(dir).known.sub(1);
    }

    /// The entry `d` is about to leave the cache though its name stays: its directory stops being
    /// complete.
    pub(super) fn forget_name(&self, d: &Dentry, was: Sample) {
        if was.flags() & (dflag::NEGATIVE | dflag::UNHASHED) != 0 {
            return;
        }
        let dir = d.parent.get();
        self.uncount_name(dir);
        let now = self.at(dir).word().sample();
        // PAIR(dcache.complete): a change going on may be the one that sets the flag.
        if now.is_busy() || now.has(dflag::COMPLETE) {
            self.set_incomplete(dir);
        }
    }

    /// From now on a miss in `dir` proves nothing.
    pub(crate) fn set_incomplete(&self, dir: u32) {
        self.at(dir).word().change().clear(dflag::COMPLETE);
    }

    /// Whether all names of `dir` are cached.
    pub(crate) fn is_complete(&self, dir: u32) -> bool {
        self.at(dir).word().sample().has(dflag::COMPLETE)
    }

    /// Finds out whether all names of `dir`, which is `inode`, are cached. Held: its names, at
    /// least shared, and a pin on it.
    pub(crate) fn try_complete(&self, dir: u32, inode: &Inode) -> bool {
        let sb = self.at(dir).sb.get();
        let Some(names) = self.names_in(inode, sb) else {
            return false;
        };
        let known = &self.cold.at(dir).known;
        if self.is_complete(dir) {
            return true;
        }
        if u64::from(known.peek()) != names {
            return false;
        }
        let mut change = self.at(dir).word().change();
        // PAIR(dcache.complete): a read-modify-write, so that evictions come before it or see it.
        let complete = u64::from(known.add(0)) == names && self.forgets(sb).get() == 0;
        if complete {
            change.set(dflag::COMPLETE);
        }
        complete
    }
}
