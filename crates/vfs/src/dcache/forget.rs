// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invalidates entries: a backend reports names that may have changed, and each is looked up again
//! at its next use.
//!
//! # Kernel analogue
//! `d_invalidate`, and `d_revalidate` of file systems that others change too. Linux drops the entry
//! at once. Here it is marked, since a drop needs the directory's names, and a backend may keep a
//! task that holds them waiting.
//!
//! # States
//! Trusted -> marked (`REVALIDATE`) -> trusted again, if the backend gives the same answer as
//! before. Otherwise the entry is unhashed, as a removed name is, and the new answer is entered.
//!
//! # Rules
//! R1. An invalidation first counts itself, for the superblock, and then looks through the chain
//!     that the name would be in. A lookup reads the count before it asks the backend, and compares
//!     it while the chain of the new entry is locked. PAIR(dcache.forget): one of the two has the
//!     chain first. Either the count has moved when the entry is entered, and the entry begins
//!     marked, or the invalidation finds it.
//! R2. A mark changes the entry's life word, so no earlier sample or path leads there. A directory
//!     is marked within a change of what is found below it, so no path leads through it.
//! R3. A mark is cleared only by a change of the word as it was before the backend was asked: a
//!     name that is invalidated meanwhile stays marked.
//! R4. A directory stops being complete when one of its names is invalidated (see `complete`).

use super::{Dcache, dflag, type_flags};
use crate::inode::Inode;
use crate::name::NameKey;
use openpath_sync::Sample;

/// A superblock's count of invalidations, from before a backend was asked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct InvalidationCount(u64);

impl Dcache {
    /// The invalidations so far in the tree of the entry `dir`: to be read before the backend is
    /// asked.
    pub(crate) fn seen(&self, dir: u32) -> InvalidationCount {
        InvalidationCount(self.forgets(self.at(dir).sb.get()).get())
    }

    /// Whether an invalidation came since.
    pub(super) fn is_outdated(&self, sb: u32, seen: InvalidationCount) -> bool {
        self.forgets(sb).get() != seen.0
    }

    /// The flags that an entry of `inode` begins with in a tree with these.
    pub(super) fn flags_of(&self, inode: Option<&Inode>, sb: u32, extra: u64) -> u64 {
        let flags = type_flags(inode) | extra;
        if extra & dflag::CONFIRM == 0 {
            return flags | self.begins_as(inode, sb);
        }
        let searched = inode.is_some_and(Inode::is_dir);
        flags | dflag::REVALIDATE | if searched { dflag::SLOW_SEARCH } else { 0 }
    }

    /// Notes in a directory's entry whether walks must check the search permission.
    pub(crate) fn note_search(&self, dir: u32, inode: &Inode) {
        let confirmed = self.at(dir).word().sample().flags() & dflag::CONFIRM != 0;
        let ask = type_flags(Some(inode)) & dflag::SLOW_SEARCH;
        if !confirmed {
            self.set_flags(dir, ask, dflag::SLOW_SEARCH & !ask);
        }
    }

    /// Clears the mark of an entry, sampled as `was` before the backend confirmed it; its sample
    /// then. `None`: it was invalidated or moved meanwhile. The entry is pinned.
    pub(crate) fn confirm(&self, index: u32, was: Sample, inode: Option<&Inode>) -> Option<Sample> {
        let word = self.at(index).word();
        if was.has(dflag::CONFIRM) || !was.has(dflag::REVALIDATE) {
            return Some(was);
        }
        // R3
        let mut change = word.change_if(was)?;
        change.clear(dflag::REVALIDATE);
        if let Some(dir) = inode.filter(|inode| inode.is_dir()) {
            let ask = type_flags(Some(dir)) & dflag::SLOW_SEARCH;
            change.set(ask).clear(dflag::SLOW_SEARCH & !ask);
        }
        Some(change.finish())
    }

    /// Unhashes an entry that has another meaning by now, to be queued for reclaim when no lock is
    /// held. Held: as for [`Dcache::unhash`], and a pin on it.
    pub(crate) fn disown(&self, index: u32) {
        let d = self.at(index);
        // Until it is entered again, the name cannot be found.
        self.set_incomplete(d.parent.get());
        let is_dir = !d.word().sample().has(dflag::NOT_DIR);
        let _changed = is_dir.then(|| self.begin_dir_change(index));
        self.unhash(index);
    }

    /// The covered entries among `top` and what is cached below it.
    pub(crate) fn mounted_below(&self, top: u32) -> Vec<u32> {
        let mut all = vec![top];
        let mut next = 0;
        while let Some(&at) = all.get(next) {
            all.extend(self.children(at));
            next += 1;
        }
        all.retain(|&at| self.at(at).word().sample().has(dflag::MOUNTED));
        all
    }

    /// Counts an invalidation of the superblock (R1).
    pub(crate) fn count_forgotten(&self, sb: u32) {
        self.forgets(sb).add(1);
    }

    /// Invalidates `name` of the directory entry `dir`. It was counted.
    pub(crate) fn forget_one(&self, dir: u32, name: &[u8]) {
        let key = NameKey::of(self.key, name, 0, name.len());
        self.forget_complete(dir);
        while let Some((index, was)) = self.find_locked(dir, key, name) {
            if self.mark(index, was) {
                return;
            }
        }
    }

    /// Invalidates all names of the directory entry `dir`. It was counted.
    pub(crate) fn forget_children_of(&self, dir: u32) {
        self.forget_complete(dir);
        for child in self.children(dir) {
            self.forget_entry(child, |d| d.parent.get() == dir);
        }
    }

    /// Invalidates all names of a superblock. It was counted.
    pub(crate) fn forget_all(&self, sb: u32) {
        // An entry that comes later than this was looked up later, or sees the count.
        for index in 1..self.store.dentries_touched() {
            if self.at(index).sb.get() == sb {
                self.forget_complete(index);
                self.forget_entry(index, |d| d.sb.get() == sb);
            }
        }
    }

    fn forget_entry(&self, index: u32, is_it: impl Fn(&super::Dentry) -> bool) {
        loop {
            let was = self.at(index).word().sample_steady();
            let hidden = was.flags() & (dflag::UNHASHED | dflag::ROOT) != 0;
            if !was.is_live() || hidden || !is_it(self.at(index)) || self.mark(index, was) {
                return;
            }
        }
    }

    /// Marks an entry, if it is as it was sampled; whether it was.
    fn mark(&self, index: u32, was: Sample) -> bool {
        let d = self.at(index);
        // R2
        let is_dir = !was.has(dflag::NOT_DIR);
        let _changed = is_dir.then(|| self.begin_dir_change(index));
        match d.word().change_if(was) {
            Some(mut change) => {
                change.set(dflag::REVALIDATE);
                true
            }
            None => false,
        }
    }

    /// R4
    fn forget_complete(&self, dir: u32) {
        let word = self.at(dir).word();
        loop {
            let was = word.sample_steady();
            if !was.is_live() || !was.has(dflag::COMPLETE) {
                return;
            }
            if let Some(mut change) = word.change_if(was) {
                change.clear(dflag::COMPLETE);
                return;
            }
        }
    }
}
