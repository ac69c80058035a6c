// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes the dentry cache: adds, renames, instantiates and unhashes entries. Also tells whether
//! one entry is below another.

use super::forget::InvalidationCount;
use super::{Dcache, dflag};
use crate::inode::Inode;
use crate::name::NameKey;
use crate::tenant_lru::Kind;
use crate::tenant_lru::TenantLru;
use openpath_abi::Errno;
use openpath_sync::{Chain, Sample, no_fault_injection};
use std::sync::Arc;

impl Dcache {
    /// A new entry, under `parent` unless that is 0, found by name unless `extra` says otherwise.
    ///
    /// All of it is one change: an entry that is not in its place yet must not be evicted.
    fn new_entry(
        &self,
        lru: Option<&TenantLru>,
        parent: u32,
        (key, name): (NameKey, &[u8]),
        inode: Option<Arc<Inode>>,
        sb: u32,
        extra: u64,
        seen: Option<InvalidationCount>,
    ) -> Result<(u32, Sample), Errno> {
        let exists = inode.is_some();
        let block = if key.is_long() {
            self.names
                .store(name)
                .ok_or_else(|| self.not_entered(parent, exists))?
        } else {
            0
        };
        let extra = extra | self.at(parent).word().sample().flags() & dflag::OF_TREE;
        let flags = self.flags_of(inode.as_deref(), sb, extra);
        if let Some(inode) = inode.as_deref().filter(|_| flags & dflag::CONFIRM != 0) {
            inode.confirm_attributes();
        }
        let mut payload = inode;
        let kind = match payload {
            Some(_) => Kind::Positive,
            None => Kind::Negative,
        };
        let clock = self.clock(sb).get();
        let made = self.with_slot(|| {
            self.store.new_dentry(|index, d, change| {
                d.lo.set(key.lo);
                d.hi.set(key.hi);
                d.parent.set(parent);
                d.link.set(0);
                d.sb.set(sb);
                d.block.set(block);
                d.last_change.set(clock);
                d.mark.set(0);
                change.replace(flags);
                self.reset_children(index);
                if let Some(lru) = lru {
                    self.lru_add(lru, index, kind);
                }
                if let Some(inode) = payload.take() {
                    inode.note_entry(index);
                    // A fresh slot has no payload, so this cannot be refused.
                    let _taken = self.store.set_dentry_payload(index, inode);
                }
                if parent != 0 {
                    self.link_child(parent, index);
                }
                if flags & dflag::UNHASHED == 0 {
                    let mut chain = self.lock_chain_of(index);
                    chain.insert(self, index);
                    // PAIR(dcache.forget): an invalidation counts before it looks through the
                    // chain.
                    if seen.is_some_and(|seen| self.is_outdated(sb, seen)) {
                        change.set(dflag::REVALIDATE).clear(dflag::COMPLETE);
                    }
                    drop(chain);
                    if exists {
                        self.count_name(parent);
                    }
                }
            })
        });
        made.ok_or_else(|| {
            self.names.free(block);
            self.not_entered(parent, exists)
        })
    }

    /// The error for an entry below `parent` without room; `exists`: the name may have been made
    /// just now.
    #[cold]
    fn not_entered(&self, parent: u32, exists: bool) -> Errno {
        if exists && parent != 0 {
            self.set_incomplete(parent);
        }
        Errno::ENOMEM
    }

    /// The root entry of a superblock; `of_tree` is what all entries of the tree have.
    pub(crate) fn add_root(&self, inode: Arc<Inode>, sb: u32, of_tree: u64) -> Result<u32, Errno> {
        self.forgets(sb).set(0);
        let extra = dflag::ROOT | dflag::UNHASHED | of_tree;
        let name = (NameKey::default(), &b""[..]);
        let (index, _) = self.new_entry(None, 0, name, Some(inode), sb, extra, None)?;
        let change = self.at(index).word().change();
        self.at(index).parent.set(index);
        drop(change);
        Ok(index)
    }

    /// Adds the entry `name` of `parent`, which has none of that name, to an LRU list; negative
    /// without an inode. The caller has asked for room ([`Dcache::room`]).
    ///
    /// The caller read `seen` before the backend's lookup. Held: the parent's names, and the flight
    /// of the name if only shared. The parent is pinned.
    ///
    /// # Errors
    /// `ENOMEM` at the limit when nothing can be evicted.
    pub(crate) fn add(
        &self,
        lru: &TenantLru,
        parent: u32,
        key: NameKey,
        name: &[u8],
        inode: Option<Arc<Inode>>,
        seen: InvalidationCount,
    ) -> Result<(u32, Sample), Errno> {
        let sb = self.at(parent).sb.get();
        self.uncrowd(parent, key);
        let made = self.new_entry(Some(lru), parent, (key, name), inode, sb, 0, Some(seen))?;
        self.table.grow(self);
        Ok(made)
    }

    /// An entry without a name under `parent`, for a temporary file.
    ///
    /// # Errors
    /// `ENOMEM` as [`Dcache::add`].
    pub(crate) fn add_nameless(
        &self,
        lru: &TenantLru,
        parent: u32,
        inode: Arc<Inode>,
    ) -> Result<(u32, Sample), Errno> {
        let sb = self.at(parent).sb.get();
        let name = format!("#{}", inode.ino()).into_bytes();
        let key = NameKey::of(self.key, &name, 0, name.len());
        self.new_entry(
            Some(lru),
            parent,
            (key, &name),
            Some(inode),
            sb,
            dflag::UNHASHED,
            None,
        )
    }

    /// Gives a negative entry its inode (`d_instantiate`); it is on `lru` from then on. Held: the
    /// parent's names, exclusively, and a pin.
    pub(crate) fn instantiate(&self, lru: &TenantLru, index: u32, inode: Arc<Inode>) -> Sample {
        let _step = no_fault_injection();
        self.lru_move(lru, index);
        let d = self.at(index);
        let sb = d.sb.get();
        let of_tree = d.word().sample().flags() & dflag::OF_TREE;
        let flags = self.flags_of(Some(&inode), sb, of_tree);
        if flags & dflag::CONFIRM != 0 {
            inode.confirm_attributes();
        }
        inode.note_entry(index);
        d.last_change.set(self.clock(sb).get());
        // The entry is negative, so it has no payload and this cannot be refused.
        let _taken = self.store.set_dentry_payload(index, inode);
        let mut change = d.word().change();
        let kept = change.flags() & (dflag::MOUNTED | dflag::REVALIDATE);
        change.replace(flags | kept);
        self.count_name(d.parent.get());
        change.finish()
    }

    /// Unhashes an entry (`d_drop`). Held: the parent's names, exclusively, or shared with the
    /// flight of the name and a pin on the entry.
    pub(crate) fn unhash(&self, index: u32) {
        let _step = no_fault_injection();
        let d = self.at(index);
        let mut change = d.word().change();
        if change.flags() & dflag::UNHASHED == 0 {
            if change.flags() & dflag::NEGATIVE == 0 {
                self.uncount_name(d.parent.get());
            }
            self.lock_chain_of(index).remove(self, index);
            change.set(dflag::UNHASHED);
        }
    }

    /// The name that an entry is about to get below `parent`, with room for it.
    ///
    /// # Errors
    /// `ENOMEM` for want of room for a long name.
    pub(crate) fn reserve_name(&self, parent: u32, name: &[u8]) -> Result<NewName<'_>, Errno> {
        let seen = self.seen(parent);
        let key = NameKey::of(self.key, name, 0, name.len());
        self.uncrowd(parent, key);
        let block = if key.is_long() {
            self.names.store(name).ok_or(Errno::ENOMEM)?
        } else {
            0
        };
        let dcache = self;
        Ok(NewName {
            dcache,
            key,
            block,
            seen,
        })
    }

    /// Gives an entry a new parent and name (`d_move`), in place of the entry `replaced` that has
    /// them.
    ///
    /// Held: both parents' names, exclusively, and pins on both and on the entries; for a directory
    /// a `DirChange` of it. A search for the old name, or for the new one, meets the entry, the one
    /// that it replaces, or a locked chain: never a name that is absent.
    pub(crate) fn rename(
        &self,
        index: u32,
        parent: u32,
        mut name: NewName<'_>,
        replaced: Option<u32>,
    ) {
        let _step = no_fault_injection();
        let d = self.at(index);
        let old_parent = d.parent.get();
        let first = replaced.filter(|&other| other < index);
        let mut gone = first.map(|other| self.at(other).word().change());
        let mut change = d.word().change();
        if first.is_none() {
            gone = replaced.map(|other| self.at(other).word().change());
        }
        let new_key = name.key;
        let (mut old, mut new) = self.table.lock_two(
            |key| self.hash(index, key),
            |key| new_key.hash_in(key, parent),
        );
        if change.flags() & dflag::UNHASHED == 0 {
            old.remove(self, index);
            self.uncount_name(old_parent);
        }
        change.clear(dflag::UNHASHED);
        // PAIR(dcache.forget): both chains are locked.
        if self.is_outdated(d.sb.get(), name.seen) {
            change.set(dflag::REVALIDATE);
        }
        let target = new.as_mut().unwrap_or(&mut old);
        if let (Some(gone), Some(other)) = (&mut gone, replaced) {
            target.remove(self, other);
            if gone.flags() & dflag::NEGATIVE == 0 {
                self.uncount_name(parent);
            }
            gone.set(dflag::UNHASHED);
        }
        d.lo.set(new_key.lo);
        d.hi.set(new_key.hi);
        // The old name block is freed instead of the new one, after the change.
        let old_block = d.block.get();
        d.block.set(name.block);
        let new_block = core::mem::replace(&mut name.block, old_block);
        d.parent.set(parent);
        target.insert(self, index);
        self.count_name(parent);
        drop((old, new));
        self.recount_name(index, old_block, new_block);
        if old_parent != parent {
            self.unlink_child(old_parent, index);
            self.link_child(parent, index);
        }
        drop((change, gone));
    }

    /// Swaps names and parents of two entries (`d_exchange`), at the backend after `seen`. Held: as
    /// for [`Dcache::rename`], for both.
    pub(crate) fn exchange(&self, one: u32, other: u32, seen: InvalidationCount) {
        let _step = no_fault_injection();
        let (a, b) = (self.at(one.min(other)), self.at(one.max(other)));
        let mut changes = (a.word().change(), b.word().change());
        let (a, b) = (self.at(one), self.at(other));
        let (mut chain_a, mut chain_b) = self
            .table
            .lock_two(|key| self.hash(one, key), |key| self.hash(other, key));
        // PAIR(dcache.forget): both chains are locked.
        if self.is_outdated(a.sb.get(), seen) {
            changes.0.set(dflag::REVALIDATE);
            changes.1.set(dflag::REVALIDATE);
        }
        chain_a.remove(self, one);
        chain_b.as_mut().unwrap_or(&mut chain_a).remove(self, other);
        let parents = (a.parent.get(), b.parent.get());
        for (x, y) in [(&a.lo, &b.lo), (&a.hi, &b.hi)] {
            let kept = x.get();
            x.set(y.get());
            y.set(kept);
        }
        let blocks = (a.block.get(), b.block.get());
        for (x, y) in [(&a.block, &b.block), (&a.parent, &b.parent)] {
            let kept = x.get();
            x.set(y.get());
            y.set(kept);
        }
        chain_a.insert(self, other);
        chain_b.as_mut().unwrap_or(&mut chain_a).insert(self, one);
        drop((chain_a, chain_b));
        self.recount_name(one, blocks.0, blocks.1);
        self.recount_name(other, blocks.1, blocks.0);
        if parents.0 != parents.1 {
            self.unlink_child(parents.0, one);
            self.unlink_child(parents.1, other);
            self.link_child(parents.1, one);
            self.link_child(parents.0, other);
        }
        drop(changes);
    }

    /// The entry directly below `ancestor` that is `index` or above it; `None` if `ancestor` is not
    /// above. Held: the superblock's topology, so that no directory changes its parent, and a pin
    /// on `index`.
    pub(crate) fn branch(&self, index: u32, ancestor: u32) -> Option<u32> {
        let mut at = index;
        loop {
            let parent = self.at(at).parent.get();
            if parent == at {
                return None;
            }
            if parent == ancestor {
                return Some(at);
            }
            at = parent;
        }
    }

    /// Whether `index` is `ancestor` or below it (`is_subdir`); `None` if the tree moved meanwhile.
    pub(crate) fn is_below(&self, index: u32, ancestor: u32) -> Option<bool> {
        let mut at = index;
        loop {
            if at == ancestor {
                return Some(true);
            }
            let d = self.at(at);
            let sample = d.word().sample();
            let parent = d.parent.get();
            if sample.is_busy() || !d.word().is_unchanged(sample) {
                return None;
            }
            if parent == at {
                return Some(false);
            }
            at = parent;
        }
    }

    /// As [`Dcache::is_below`], waiting for the tree to stand still. Held: a pin on `index`.
    pub(crate) fn is_below_now(&self, index: u32, ancestor: u32) -> bool {
        loop {
            if let Some(answer) = self.is_below(index, ancestor) {
                return answer;
            }
            openpath_sync::relax();
        }
    }

    /// Sets or clears flags of an entry whose meaning changed.
    pub(crate) fn set_flags(&self, index: u32, set: u64, clear: u64) {
        let d = self.at(index);
        let now = d.word().sample().flags();
        if (now | set) & !clear != now {
            d.word().change().set(set).clear(clear);
        }
    }
}

/// A name with room for it, for an entry that is about to be renamed; its room is freed if it is
/// not used.
pub(crate) struct NewName<'a> {
    dcache: &'a Dcache,
    key: NameKey,
    block: u32,
    /// The count of invalidations from before the backend's rename.
    pub(crate) seen: InvalidationCount,
}

impl Drop for NewName<'_> {
    fn drop(&mut self) {
        self.dcache.names.free(self.block);
    }
}
