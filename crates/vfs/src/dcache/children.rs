// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the list of a directory's cached entries, under a lock bit in the directory's dentry.

use super::Dcache;
use openpath_sync::{Word32, no_fault_injection};

openpath_sync::zero_valid! {
    /// The part of a dentry that no lock-free step reads.
    pub(crate) struct ColdSlot {
        pub(crate) first_child: Word32,
        pub(crate) next: Word32,
        pub(crate) prev: Word32,
        /// Number of children; the top bit locks the list.
        pub(crate) children: Word32,
        /// Entries of names that exist and are found here; see `complete`.
        pub(crate) known: Word32,
        /// References counted as before pins, for the switch that brings that back.
        pub(crate) counted: Word32,
        /// The next newer entry of its queue.
        pub(crate) newer: Word32,
        /// The next older one.
        pub(crate) older: Word32,
        /// Its LRU list, with its part and kind there (`lru`); 0: on none.
        pub(crate) account: Word32,
    }
}

const LOCKED: u32 = 1 << 31;

/// A locked list of children; the count is written back when it is let go.
struct Children<'a> {
    dcache: &'a Dcache,
    of: u32,
    count: u32,
}

impl Drop for Children<'_> {
    fn drop(&mut self) {
        let _step = no_fault_injection();
        self.dcache.cold(self.of).children.set(self.count);
    }
}

impl Dcache {
    pub(super) fn cold(&self, index: u32) -> &ColdSlot {
        self.cold.at(index)
    }

    fn lock_children(&self, of: u32) -> Children<'_> {
        let word = &self.cold(of).children;
        loop {
            let count = word.get() & !LOCKED;
            if word.swap_if(count, count | LOCKED) {
                return Children {
                    dcache: self,
                    of,
                    count,
                };
            }
            openpath_sync::relax();
        }
    }

    /// Enters `child` into the list of `parent`.
    pub(super) fn link_child(&self, parent: u32, child: u32) {
        let _step = no_fault_injection();
        let mut list = self.lock_children(parent);
        let (p, c) = (self.cold(parent), self.cold(child));
        let first = p.first_child.get();
        c.prev.set(0);
        c.next.set(first);
        if first != 0 {
            self.cold(first).prev.set(child);
        }
        p.first_child.set(child);
        list.count += 1;
    }

    /// Takes `child` out of the list of `parent`.
    pub(super) fn unlink_child(&self, parent: u32, child: u32) {
        let _step = no_fault_injection();
        let mut list = self.lock_children(parent);
        let c = self.cold(child);
        let (prev, next) = (c.prev.get(), c.next.get());
        if prev == 0 {
            self.cold(parent).first_child.set(next);
        } else {
            self.cold(prev).next.set(next);
        }
        if next != 0 {
            self.cold(next).prev.set(prev);
        }
        list.count -= 1;
    }

    /// How many cached entries `of` has.
    pub(crate) fn child_count(&self, of: u32) -> u32 {
        self.cold(of).children.get() & !LOCKED
    }

    /// The cached entries of `of`.
    pub(crate) fn children(&self, of: u32) -> Vec<u32> {
        let list = self.lock_children(of);
        let mut all = Vec::with_capacity(list.count as usize);
        let mut at = self.cold(of).first_child.get();
        while at != 0 {
            all.push(at);
            at = self.cold(at).next.get();
        }
        all
    }

    /// Counts a reference and takes it back: the cost of leaving lock-free mode before roots were
    /// dropped first.
    pub(crate) fn count_reference(&self, index: u32) {
        let counted = &self.cold(index).counted;
        counted.add(1);
        counted.sub(1);
    }

    /// Clears the list of a new entry.
    pub(super) fn reset_children(&self, index: u32) {
        let c = self.cold(index);
        c.first_child.set(0);
        c.next.set(0);
        c.prev.set(0);
        c.children.set(0);
        c.known.set(0);
    }
}
