// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the dentry cache: it maps names to inodes, and a lookup takes no lock.
//!
//! # Kernel analogue
//! `struct dentry` and `dentry_hashtable`. Ours differ in three ways: there is no reference count
//! (a pin in the store takes its place), sequence and flags are one word (so one compare confirms a
//! step), and slots are reused at once.
//!
//! `object::dentry` has the parts of an entry, `lru` the accounts of tenants.
//!
//! # States
//! | state | flags | entered by, with these held |
//! |---|---|---|
//! | negative | `NEGATIVE` | a lookup that found nothing; names shared, flight of the name |
//! | positive | type flags | lookup, or create on a negative entry; names exclusive for that |
//! | unhashed | `UNHASHED` | unlink, rmdir, rename over it; names exclusive |
//! | free | not live | reclaim, when no pin names it and it has no children |
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | key, parent, name block | the entry's change | a sample of its life |
//! | link | its bucket's lock | searched without; see [`openpath_sync::Table`] |
//! | payload (inode) | set once | a pin |
//! | `last_change` | `clock::DirChange` | path cache |
//! | mark | any thread, once for each lap of a queue's hand | the hand (`queue`) |
//! | cold: children, siblings | the parent's child lock | the same |
//! | cold: account, queue | the LRU list's queues (`lru`, `queue`) | the same |
//! | cold: `known` | see `complete` | names held |
//!
//! # Rules
//! R1. In a lock-free step the child is sampled before the parent is checked for a change
//!     (`Life::is_unchanged`): then the child's sample implies that the parent was its parent at
//!     that moment.
//! R2. An entry with children is never reclaimed; so from a live entry all ancestors are live.
//! R3. A directory has at most one hashed entry.
//!
//! # Limits
//! Entries are bounded by the slab and by the budgets of tenants; at a bound, unpinned leaves are
//! evicted (`evict`).

mod change;
mod children;
mod clock;
mod complete;
mod crowd;
mod evict;
mod find;
mod flight;
mod forget;
mod inventory;
mod lru;
mod names;
mod queue;
mod reclaim;

pub(crate) use change::NewName;
pub(crate) use complete::NAME_MAX;
pub(crate) use find::FindResult;
pub(crate) use flight::Flights;
pub(crate) use forget::InvalidationCount;
pub(crate) use reclaim::unlinked;

use crate::clock::Secrets;
use crate::inode::Inode;
use crate::lock_order::FreeQueue;
use crate::name::NameKey;
use crate::object::{Dentry, ObjectStore, dflag};
use crate::superblock::{Caching, SuperBlockOptions};
use names::Names;
use openpath_abi::Errno;
use openpath_sync::{BoundedCounter, Chain, HashKey, Locked, Mutex, Region, Shards, Table, Word32};
use std::sync::Arc;

/// The cache of one `Vfs`.
pub(crate) struct Dcache {
    pub(crate) store: Arc<ObjectStore>,
    table: Table,
    /// The part of each entry that no lock-free step reads, under the same index.
    cold: Region<children::ColdSlot>,
    names: Names,
    /// Reduces long names. It stays, since kept names depend on it; the table's key changes.
    pub(crate) key: HashKey,
    pub(crate) secrets: Secrets,
    /// The switch of `complete`.
    knows_complete: bool,
    clocks: Region<clock::ClockSlot>,
    changing: Mutex<clock::Changing, crate::lock_order::PathClock>,
    free_queue: Shards<Mutex<reclaim::DeferredFrees, FreeQueue>>,
    collections: reclaim::Collections,
    lrus: lru::LruTable,
    /// Names that do not exist, on all LRU lists.
    negatives: BoundedCounter<1>,
    limit: u32,
}

impl Dcache {
    pub(crate) fn new(
        store: Arc<ObjectStore>,
        limit: u32,
        negatives_max: u32,
        superblocks: u32,
        secrets: Secrets,
        knows_complete: bool,
    ) -> Result<Self, Errno> {
        let space = |_| Errno::ENOMEM;
        let key = HashKey::new(secrets.next());
        let table_key = HashKey::new(secrets.first());
        Ok(Self {
            store,
            table: Table::new(limit, table_key).map_err(space)?,
            secrets,
            knows_complete,
            cold: Region::new(limit.saturating_add(1)).map_err(space)?,
            names: Names::new(limit).map_err(space)?,
            key,
            clocks: Region::new(superblocks).map_err(space)?,
            changing: Mutex::new(clock::Changing::default()),
            free_queue: Shards::default(),
            collections: reclaim::Collections::default(),
            lrus: lru::LruTable::default(),
            negatives: BoundedCounter::new([negatives_max
                .max(crate::tenant_lru::BUDGET_MIN)
                .into()]),
            limit,
        })
    }

    /// The entry at `index`.
    #[inline(always)]
    pub(crate) fn at(&self, index: u32) -> &Dentry {
        self.store.dentry(index)
    }

    /// The address ranges that a cached walk only reads, and what lies there.
    pub(crate) fn spans(&self) -> Vec<(&'static str, (usize, usize))> {
        let [mounts, dentries] = self.store.spans();
        let mut spans = vec![
            ("mounts", mounts),
            ("dentries", dentries),
            ("dentries-cold", self.cold.span()),
            ("clocks", self.clocks.span()),
            ("dentry-table", self.table.span()),
        ];
        spans.extend(self.names.spans().map(|span| ("names", span)));
        spans
    }

    /// The address ranges of one entry.
    pub(crate) fn entry_spans(&self, index: u32) -> [(usize, usize); 2] {
        fn span<T>(of: &T) -> (usize, usize) {
            (core::ptr::from_ref(of).addr(), size_of::<T>())
        }
        [span(self.at(index)), span(self.cold.at(index))]
    }

    /// Locks the chain that the entry at `index` is in.
    fn lock_chain_of(&self, index: u32) -> Locked<'_> {
        self.table.lock(|key| self.hash(index, key))
    }
}

impl Chain for Dcache {
    fn link(&self, index: u32) -> &Word32 {
        &self.at(index).link
    }
    fn hash(&self, index: u32, key: HashKey) -> u64 {
        let d = self.at(index);
        NameKey {
            lo: d.lo.get(),
            hi: d.hi.get(),
        }
        .hash_in(key, d.parent.get())
    }
}

/// What every entry of a tree with these options says in its life word.
pub(crate) fn tree_flags(options: &SuperBlockOptions) -> u64 {
    let confirm = match options.caching {
        Caching::Keep => 0,
        Caching::Confirm => dflag::CONFIRM,
    };
    confirm | if options.tries { dflag::TRIES } else { 0 }
}

/// The flags that say what `inode` is (negative if none).
pub(crate) fn type_flags(inode: Option<&Inode>) -> u64 {
    use crate::inode::flag;
    use openpath_abi::mode;
    let Some(inode) = inode else {
        return dflag::NEGATIVE | dflag::NOT_DIR;
    };
    match inode.kind() {
        mode::S_IFDIR if inode.flags() & flag::SEARCHABLE_BY_ALL != 0 => 0,
        mode::S_IFDIR => dflag::SLOW_SEARCH,
        mode::S_IFLNK => dflag::NOT_DIR | dflag::LINK,
        _ => dflag::NOT_DIR,
    }
}
