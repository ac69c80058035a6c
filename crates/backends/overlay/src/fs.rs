// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the state that all inodes of one overlay share.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | lowers | the trees that are read, topmost first |
//! | upper | the tree that takes changes: its shown directory and its work directory |
//! | table | inodes by their layer inodes, and directories that are being dropped |
//! | listings | listings of merged directories between two calls |
//!
//! # Numbers
//! The number of an inode is that of the layer inode as which it was first seen. The layer is added
//! in the high byte; the lowest layer's numbers are unchanged. A copied-up file keeps its number by
//! a mark.
//!
//! # Rules
//! R1. No inode is dropped while a lock of this crate is held.
//! R2. A directory lives as long as any inode that was found in it. Chains of directories are
//!     dropped one by one, because a path may be deeper than the stack.

use crate::counts::Counts;
use crate::listings::ListingCache;
use crate::merged_lookup::{Key, MergedLookup, address};
use crate::options::{Marks, OverlayOptions};
use crate::whiteout::is_whiteout;
use openpath_abi::Errno;
use openpath_sync::{Mutex, Word, WriteOnce};
use openpath_vfs::lock_order::{StackedList, StackedTable};
use openpath_vfs::{Caching, Inode, InvalidationListener, SuperBlock};
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// The bits of an inode number below the layer's byte.
const INO_BITS: u32 = 56;

/// The tree that takes changes.
pub(crate) struct Upper {
    pub(crate) sb: Arc<SuperBlock>,
    /// The directory that is shown.
    pub(crate) root: Arc<Inode>,
    /// The work directory, where files are staged.
    pub(crate) work: Arc<Inode>,
}

#[derive(Default)]
pub(crate) struct Table {
    pub(crate) inodes: BTreeMap<Key, Weak<Inode>>,
    /// Directories that are not needed any more (R2).
    dropped_dirs: Vec<Arc<Inode>>,
    /// A thread is dropping them.
    is_dropping: bool,
}

/// The state that all inodes of an overlay share.
pub(crate) struct Fs {
    pub(crate) options: OverlayOptions,
    pub(crate) lowers: Vec<Arc<SuperBlock>>,
    pub(crate) upper: Option<Upper>,
    /// Whether a layer may give another answer at each use.
    pub(crate) revalidates: bool,
    pub(crate) table: Mutex<Table, StackedTable>,
    pub(crate) listings: Mutex<ListingCache, StackedList>,
    /// How many files were staged.
    pub(crate) staged_count: Word,
    /// How often something was synced.
    #[cfg(test)]
    pub(crate) sync_count: Word,
    /// Counts of copy-ups.
    pub(crate) counts: Counts,
    /// The directory of the upper tree that is lent, after those above it but the root.
    pub(crate) lent: WriteOnce<Vec<Arc<Inode>>>,
    pub(crate) sb: WriteOnce<Weak<SuperBlock>>,
    /// The subscriber to invalidations of the layers.
    pub(crate) subscriber: WriteOnce<Arc<dyn InvalidationListener>>,
}

impl Fs {
    pub(crate) fn new(options: OverlayOptions, upper: Option<Upper>) -> Arc<Self> {
        let lowers = options.lowers.clone();
        let all = lowers.iter().chain(upper.as_ref().map(|upper| &upper.sb));
        let revalidates = all
            .into_iter()
            .any(|sb| sb.options().caching == Caching::Confirm);
        Arc::new(Self {
            listings: Mutex::new(ListingCache::new(options.listed_max)),
            options,
            lowers,
            upper,
            revalidates,
            table: Mutex::new(Table::default()),
            staged_count: Word::new(0),
            #[cfg(test)]
            sync_count: Word::new(0),
            counts: Counts::default(),
            lent: WriteOnce::default(),
            sb: WriteOnce::default(),
            subscriber: WriteOnce::default(),
        })
    }

    /// The tree that takes changes.
    ///
    /// # Errors
    /// `EROFS`: there is none.
    pub(crate) fn upper(&self) -> Result<&Upper, Errno> {
        self.upper.as_ref().ok_or(Errno::EROFS)
    }

    /// The number of an inode of a lower layer, or of the upper one.
    pub(crate) fn number(&self, layer: Option<usize>, ino: u64) -> u64 {
        let height = match layer {
            Some(layer) => self.lowers.len() - 1 - layer,
            None => self.lowers.len(),
        };
        ino ^ ((height as u64) << INO_BITS)
    }

    /// The number that an inode with this lookup result shows.
    pub(crate) fn number_of(&self, result: &MergedLookup) -> u64 {
        match (result.number, result.lowers.first(), &result.upper) {
            (Some(number), _, _) => number,
            (None, Some(lower), _) => self.number(Some(lower.layer), lower.inode.ino()),
            (None, None, Some(upper)) => self.number(None, upper.ino()),
            (None, None, None) => 0,
        }
    }

    /// The inode of an inode of the upper tree, if it is known.
    pub(crate) fn find_by_upper(&self, upper: &Inode) -> Option<Arc<Inode>> {
        let key = (address(upper), 0, Box::default());
        self.table.lock().inodes.get(&key)?.upgrade()
    }

    /// Enters an inode under a new key after its copy-up, and removes the old one.
    pub(crate) fn rekey(&self, inode: &Arc<Inode>, key: Key, old: Option<Key>) {
        let mut table = self.table.lock();
        table.inodes.insert(key, Arc::downgrade(inode));
        if let Some(old) = old {
            table.inodes.remove(&old);
        }
    }

    /// Removes the keys of an inode that is dropped, and the listing of its node.
    pub(crate) fn forget(&self, keys: Vec<Key>, node: usize) {
        let mut table = self.table.lock();
        for key in keys {
            // Another inode may have been entered under this key.
            if table
                .inodes
                .get(&key)
                .is_some_and(|inode| inode.strong_count() == 0)
            {
                table.inodes.remove(&key);
            }
        }
        drop(table);
        self.listings.lock().remove(node);
    }

    /// All inodes with this layer inode.
    pub(crate) fn inodes_above(&self, beneath: &Inode) -> Vec<Arc<Inode>> {
        let at = address(beneath);
        let range = (at, 0, Box::default())..(at + 1, 0, Box::default());
        let table = self.table.lock();
        let found = table.inodes.range::<Key, _>(range);
        found.filter_map(|(_, inode)| inode.upgrade()).collect()
    }

    /// All inodes.
    pub(crate) fn all(&self) -> Vec<Arc<Inode>> {
        let table = self.table.lock();
        table.inodes.values().filter_map(Weak::upgrade).collect()
    }

    /// Drops a directory that an inode was found in (R2).
    pub(crate) fn drop_dir(&self, dir: Arc<Inode>) {
        {
            let mut table = self.table.lock();
            table.dropped_dirs.push(dir);
            if table.is_dropping {
                return;
            }
            table.is_dropping = true;
        }
        loop {
            let next = {
                let mut table = self.table.lock();
                let next = table.dropped_dirs.pop();
                table.is_dropping = next.is_some();
                next
            };
            match next {
                Some(dir) => drop(dir),
                None => return,
            }
        }
    }

    /// Whether an inode of a lower tree is a whiteout (R1).
    pub(crate) fn is_lower_whiteout(&self, inode: &Inode) -> bool {
        !self.options.null_devices && is_whiteout(inode)
    }

    /// The marks of lower trees; `None`: their attributes are all plain ones.
    pub(crate) fn lower_marks(&self) -> Option<Marks> {
        self.options.lower_marks()
    }

    /// Whether an inode of this layer is a whiteout (R1); `None`: of the upper tree.
    pub(crate) fn is_layer_whiteout(&self, layer: Option<usize>, inode: &Inode) -> bool {
        match layer {
            Some(_) => self.is_lower_whiteout(inode),
            None => is_whiteout(inode),
        }
    }
}
