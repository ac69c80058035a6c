// SPDX-License-Identifier: MIT OR Apache-2.0
//! The dentry cache: names to inodes, found without a lock.
//!
//! # Kernel analogue
//! `struct dentry` and `dentry_hashtable`. Ours differ in three ways: there is no reference count
//! (a pin in the store takes its place), sequence and flags are one word (so one compare confirms a
//! step), and slots are reused at once.
//!
//! # States
//! | state | flags | who moves it, holding what |
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
//! | mark | anyone, once for each lap of a queue's hand | the hand (`queue`) |
//! | cold: children, siblings | the parent's child lock | the same |
//! | cold: account, queue | the book's queues (`book`, `queue`) | the same |
//! | cold: `known` | see `complete` | names held |
//!
//! # Rules
//! R1. In a lock-free step the child is sampled before the parent is asked `still`: then the
//!     child's sample implies that the parent was its parent at that moment.
//! R2. An entry with children is never reclaimed; so from a live entry all ancestors are live.
//! R3. A directory has at most one hashed entry.
//!
//! # Limits
//! Entries are bounded by the slab and by the budgets of tenants; at a bound, leaves that nobody
//! pins are evicted (`evict`).

mod book;
mod change;
mod clock;
mod complete;
mod crowd;
mod evict;
mod find;
mod forget;
mod inventory;
mod kids;
mod names;
mod queue;
mod reclaim;

pub(crate) use book::Book;
pub(crate) use change::NewName;
pub(crate) use complete::NAME_MAX;
pub(crate) use find::Look;
pub(crate) use forget::Seen;
pub(crate) use queue::Kind;
pub(crate) use reclaim::unlinked;

use crate::clock::Secrets;
use crate::file::FileBody;
use crate::inode::Inode;
use crate::lock_order::Graveyard;
use crate::mount::MountSlot;
use crate::name::NameKey;
use names::Names;
use openpath_abi::Errno;
use openpath_sync::{
    Allowance, Chain, HashKey, Item, Locked, Mutex, Region, Shards, Store, Table, Word, Word32,
    slab_item,
};
use std::sync::Arc;

/// Flags of a dentry in its life word.
pub(crate) mod dflag {
    /// The name does not exist.
    pub(crate) const NEGATIVE: u64 = 1 << 3;
    /// Not a directory (negative entries and links too).
    pub(crate) const NOT_DIR: u64 = 1 << 4;
    /// A symbolic link.
    pub(crate) const LINK: u64 = 1 << 5;
    /// Something may be mounted here.
    pub(crate) const MOUNTED: u64 = 1 << 6;
    /// Not everyone may search this directory: ask its inode.
    pub(crate) const SLOW_SEARCH: u64 = 1 << 7;
    /// Not found by name any more.
    pub(crate) const UNHASHED: u64 = 1 << 8;
    /// The backend is to be asked at the next use of the name.
    pub(crate) const REVALIDATE: u64 = 1 << 9;
    /// Root of a superblock.
    pub(crate) const ROOT: u64 = 1 << 10;
    /// All names in this directory are cached: what is not found does not exist.
    pub(crate) const COMPLETE: u64 = 1 << 11;
    /// Of a tree that confirms ([`crate::Caching::Confirm`]); `REVALIDATE` and, on directories,
    /// `SLOW_SEARCH` are set for good.
    pub(crate) const CONFIRM: u64 = 1 << 12;
    /// Of a tree whose backend answers at once when it is asked to
    /// ([`crate::SuperBlockOptions::tries`]).
    pub(crate) const TRIES: u64 = 1 << 13;
    /// What an entry has from the tree it is in.
    pub(crate) const OF_TREE: u64 = CONFIRM | TRIES;
}

slab_item! {
    /// One name in one directory. 64 bytes: all that a lock-free step reads.
    pub struct Dentry: Inode {
        /// First half of the name's key.
        pub(crate) lo: Word,
        /// Second half of the name's key.
        pub(crate) hi: Word,
        /// The directory it is in; its own index for a root.
        pub(crate) parent: Word32,
        /// Next entry of the chain.
        pub(crate) link: Word32,
        /// Number of its superblock in this `Vfs`.
        pub(crate) sb: Word32,
        /// Where the rest of a long name is, or 0.
        pub(crate) block: Word32,
        /// When something about this directory last changed what is found below it, by its
        /// superblock's clock.
        pub(crate) last_change: Word,
        /// Not 0: a walk ended here since the hand of its queue came by.
        mark: Word32,
    }
}

/// Mounts, dentries and pins of one `Vfs`.
pub(crate) type Ground = Store<MountSlot, Dentry, FileBody>;

/// The cache of one `Vfs`.
pub(crate) struct Dcache {
    pub(crate) store: Arc<Ground>,
    table: Table,
    /// The part of each entry that no lock-free step reads, under the same index.
    cold: Region<kids::ColdSlot>,
    names: Names,
    /// Reduces long names. It stays, since what it made of them is kept; the table's key changes.
    pub(crate) key: HashKey,
    pub(crate) secrets: Secrets,
    /// The switch of `complete`.
    knows_complete: bool,
    clocks: Region<clock::ClockSlot>,
    changing: Mutex<clock::Changing, crate::lock_order::PathClock>,
    graveyard: Shards<Mutex<reclaim::Graves, Graveyard>>,
    collections: reclaim::Collections,
    books: book::Books,
    /// Names that do not exist, on all books.
    negatives: Allowance<1>,
    limit: u32,
}

impl Dcache {
    pub(crate) fn new(
        store: Arc<Ground>,
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
            graveyard: Shards::default(),
            collections: reclaim::Collections::default(),
            books: book::Books::default(),
            negatives: Allowance::new([negatives_max.max(evict::BUDGET_MIN).into()]),
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

impl Dentry {
    /// Notes that a walk ended here. In the steady state one did, and nothing is stored.
    #[inline(always)]
    pub(crate) fn touch(&self) {
        if self.mark.peek() == 0 {
            self.mark.set(1);
        }
    }

    /// The life word.
    #[inline(always)]
    pub(crate) fn word(&self) -> &openpath_sync::Life {
        self.life()
    }
}
