// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reclaims unlinked and evicted entries that no pin holds: they give back their slot and inode.
//! Also forgets the entries of a removed directory or an unmounted tree.
//!
//! Also repeats calls that found no room, and gives free memory back to the system.
//!
//! Unlinked entries wait in the free queue, a group of trees in each of its parts. They go once one
//! part has enough to pay for one fence and one scan of the pins, an unlinked file is closed, or a
//! call finds no room. Those that are still pinned stay there. Evicted entries do not wait: they
//! are reclaimed at once, still hashed, and a search that meets one meanwhile waits for the
//! outcome.

use super::lru::LastLru;
use super::{Dcache, dflag};
use crate::inode::Inode;
use crate::lock_order::FreeQueue;
use openpath_abi::Errno;
use openpath_sync::{Mutex, Sample, Word};
use std::sync::Arc;

/// Unlinked entries that wait for their last pin to go.
#[derive(Default)]
pub(crate) struct DeferredFrees {
    waiting: Vec<u32>,
    /// How many were still pinned last time: the next collection waits for twice as many.
    survivors: usize,
    /// Unlinked files closed since the last collection.
    closed: usize,
}

/// Collections that are going on, and how many have ended.
#[derive(Default)]
pub(crate) struct Collections {
    now: Word,
    ended: Word,
    /// Entries that went by one, ever.
    freed: Word,
}

/// How many entries had been freed at one moment: see [`Dcache::frees_since`].
#[derive(Clone, Copy)]
pub(crate) struct FreeCount(u64);

/// One that is going on.
struct CollectionGuard<'a>(&'a Collections);

impl Drop for CollectionGuard<'_> {
    fn drop(&mut self) {
        self.0.ended.add(1);
        self.0.now.sub(1);
    }
}

/// How many unlinked entries come together before a collection.
const BATCH: usize = 64;
/// How many small files that nobody waits for come together. They may hold descriptors of the host,
/// of which a tree with few can spare some.
const SMALL_BATCH: usize = 8;

/// Whether an entry in this state was unlinked: the thread that unhashed it queued it, once. The
/// root of a tree is in no directory, and was not.
#[inline(always)]
pub(crate) fn unlinked(now: Sample) -> bool {
    now.flags() & (dflag::UNHASHED | dflag::ROOT) == dflag::UNHASHED
}

/// Whether an entry in this state may be evicted. An unlinked one may not: the free queue has it.
pub(super) fn leaf(now: Sample) -> bool {
    now.flags() & (dflag::UNHASHED | dflag::ROOT | dflag::MOUNTED) == 0
}

impl Dcache {
    /// Leaves an unhashed entry to be reclaimed when its last pin is gone.
    pub(crate) fn defer_free(&self, index: u32) {
        // By tree: a directory is in the same part as what was in it, and behind it.
        let part = self.free_queue.of(self.at(index).sb.get());
        let full = {
            let mut deferred = part.lock();
            deferred.waiting.push(index);
            deferred.waiting.len() >= BATCH + 2 * deferred.survivors
        };
        if full {
            self.collect_from(part);
        }
    }

    /// Notes that an unlinked file was closed, and collects: at once while few pins are in use,
    /// else when enough closes have come together to pay for looking at all of them.
    #[cold]
    pub(crate) fn closed_unlinked(&self) {
        self.closed(1);
    }

    /// As [`Dcache::closed_unlinked`], for a small file that nobody waits for: the fence, an
    /// interrupt to each CPU that runs a thread of this process, is paid once for a batch.
    pub(crate) fn closed_small(&self) {
        self.closed(SMALL_BATCH);
    }

    /// Notes that an unlinked file was closed, and collects if at least so many were.
    fn closed(&self, least: usize) {
        const PINS_PER_CLOSE: usize = 4096;
        let due = {
            let mut deferred = self.free_queue.mine().lock();
            deferred.closed += 1;
            let pays = deferred.closed * PINS_PER_CLOSE >= self.store.pins_touched() as usize;
            pays && deferred.closed >= least
        };
        if due {
            self.collect();
        }
    }

    /// Reclaims what can be of the free queue, now.
    pub(crate) fn collect(&self) {
        self.free_queue
            .all()
            .for_each(|part| self.collect_from(part));
    }

    fn collect_from(&self, part: &Mutex<DeferredFrees, FreeQueue>) {
        self.collections.now.add(1);
        let collecting = CollectionGuard(&self.collections);
        let mut victims = {
            let mut deferred = part.lock();
            deferred.closed = 0;
            core::mem::take(&mut deferred.waiting)
        };
        if victims.is_empty() {
            return;
        }
        // A name that was in use when its directory went cannot be found any more.
        for &dir in victims.iter().filter(|&&i| self.child_count(i) != 0) {
            self.forget_below(dir);
        }
        // A directory was empty when it was unlinked, so it comes after what was in it, and both
        // go by the same collection.
        let (gone, inodes) = self.reclaim(&mut victims, unlinked);
        self.collections.freed.add(gone as u64);
        {
            let mut deferred = part.lock();
            deferred.survivors = victims.len();
            // Entries queued meanwhile stay behind them.
            victims.append(&mut deferred.waiting);
            deferred.waiting = victims;
        }
        drop(collecting);
        drop(inodes);
    }

    /// Reclaims what can be of the free queue; waits for a collection that is under way.
    pub(crate) fn collect_all(&self) {
        self.collect();
        let ended = self.collections.ended.get();
        while self.collections.now.get() != 0 && self.collections.ended.get() == ended {
            openpath_sync::relax();
        }
    }

    /// How many entries were freed until now.
    pub(crate) fn freed(&self) -> FreeCount {
        FreeCount(self.collections.freed.get())
    }

    /// Reclaims what can be of the free queue; whether any entry was freed since `before`, here or
    /// in another thread.
    ///
    /// A call that found no room is repeated only then: the backend was full of entries that this
    /// cache held.
    pub(crate) fn frees_since(&self, before: FreeCount) -> bool {
        self.collect_all();
        self.freed().0 != before.0
    }

    /// Runs `call`, and once more if it found no room, or no handle of the host's, and unlinked
    /// files have since given theirs back.
    ///
    /// # Errors
    /// Those of `call`.
    pub(crate) fn with_room<R>(
        &self,
        mut call: impl FnMut() -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let before = self.freed();
        match call() {
            Err(Errno::ENOSPC | Errno::EDQUOT | Errno::ENFILE) if self.frees_since(before) => {
                call()
            }
            other => other,
        }
    }

    /// Unlinked entries that wait.
    pub(crate) fn pending_free(&self) -> usize {
        let waiting = self.free_queue.all().map(|part| part.lock().waiting.len());
        waiting.sum()
    }

    /// Unlinked entries of superblock `sb` that wait.
    pub(crate) fn pending_free_of(&self, sb: u32) -> Vec<u32> {
        let mut pending_free = Vec::new();
        for part in self.free_queue.all() {
            pending_free.extend_from_slice(&part.lock().waiting);
        }
        pending_free.retain(|&i| self.at(i).sb.get() == sb);
        pending_free
    }

    /// Frees the entries of `victims` that have neither pins nor children; the others stay in
    /// `victims`. Returns how many went and the inodes, to be dropped where no lock is held.
    pub(super) fn reclaim(
        &self,
        victims: &mut Vec<u32>,
        eligible: impl Fn(Sample) -> bool,
    ) -> (usize, Vec<Arc<Inode>>) {
        let mut gone = 0;
        let mut inodes = Vec::new();
        let mut slots = LastLru::default();
        // A task that had it pinned may have left a child in it.
        let has_children = |index| self.child_count(index) != 0;
        self.store
            .reclaim_dentries(victims, eligible, has_children, |index, d, payload| {
                let was = d.word().sample();
                self.forget_name(d, was);
                if was.flags() & dflag::UNHASHED == 0 {
                    self.lock_chain_of(index).remove(self, index);
                }
                let parent = d.parent.get();
                if parent != index {
                    self.unlink_child(parent, index);
                }
                self.lru_del(&mut slots, index);
                self.names.free(d.block.get());
                gone += 1;
                inodes.extend(payload.inspect(|inode| inode.drop_entry(index)));
            });
        for inode in inodes.iter().filter(|inode| inode.nlink() == 0) {
            inode.tell_gone();
        }
        (gone, inodes)
    }

    /// Gives the memory of free entries and names back to the system; how many entries' worth.
    /// Walks never look at memory that was freed earlier.
    pub(crate) fn trim(&self) -> u32 {
        self.names.trim();
        self.store
            .trim(|first, count| self.cold.release(first, count))
    }

    /// Evicts the first `most` unused ones of `candidates`.
    pub(super) fn evict_some(&self, mut candidates: Vec<u32>, most: usize) {
        candidates.retain(|&index| self.evictable(index));
        candidates.truncate(most);
        drop(self.reclaim(&mut candidates, leaf));
    }

    /// Whether the state of an entry allows its eviction; a pin may still keep it.
    pub(super) fn evictable(&self, index: u32) -> bool {
        let s = self.at(index).word().sample();
        s.is_steady() && leaf(s) && self.child_count(index) == 0
    }

    /// Forgets the negative entries of a directory that was removed.
    pub(crate) fn forget_children(&self, dir: u32) {
        let mut victims = self.children(dir);
        victims.retain(|&i| self.at(i).word().sample().has(dflag::NEGATIVE));
        if !victims.is_empty() {
            drop(self.reclaim(&mut victims, leaf));
        }
    }

    /// Leaves the root of an unmounted tree to be reclaimed with the rest below it: a task looked
    /// at it while the rest was forgotten.
    pub(crate) fn defer_free_root(&self, root: u32) {
        let now = self.at(root).word().sample_steady();
        if now.is_live() && now.has(dflag::ROOT) {
            self.set_flags(root, 0, dflag::ROOT);
            self.defer_free(root);
        }
    }

    /// Forgets every entry below `root` and `root` itself; what is pinned stays.
    pub(crate) fn forget_tree(&self, root: u32) {
        // Unlinked entries go by way of the free queue, which has them; children before parents.
        let mut pending_free = usize::MAX;
        while self.pending_free() < pending_free {
            pending_free = self.pending_free();
            self.collect();
        }
        self.forget_below(root);
        drop(self.reclaim(&mut vec![root], |now| now.has(dflag::ROOT)));
    }

    /// Forgets every entry below `root`, deepest first. Pinned entries stay, and so do unlinked
    /// ones, which the free queue has.
    fn forget_below(&self, root: u32) {
        const BATCH: usize = 1024;
        let hashed = |index: &u32| !self.at(*index).word().sample().has(dflag::UNHASHED);
        let mut order = self.children(root);
        order.retain(hashed);
        let mut next = 0;
        while let Some(&at) = order.get(next) {
            order.extend(self.children(at).into_iter().filter(hashed));
            next += 1;
        }
        // A parent follows its children, so that it has none left when its turn comes.
        order.reverse();
        for batch in order.chunks(BATCH) {
            drop(self.reclaim(&mut batch.to_vec(), leaf));
        }
    }
}
