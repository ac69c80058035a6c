// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the fields and flags of a dentry, which is one name in one directory. `dcache` has the
//! rules for them.

use crate::inode::Inode;
use openpath_sync::{Item, Life, Word, Word32, slab_item};

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
    /// The backend must confirm the name at its next use.
    pub(crate) const REVALIDATE: u64 = 1 << 9;
    /// Root of a superblock.
    pub(crate) const ROOT: u64 = 1 << 10;
    /// All names in this directory are cached: any other does not exist.
    pub(crate) const COMPLETE: u64 = 1 << 11;
    /// Of a tree that confirms ([`crate::Caching::Confirm`]); `REVALIDATE` and, on directories,
    /// `SLOW_SEARCH` are set for good.
    pub(crate) const CONFIRM: u64 = 1 << 12;
    /// Of a tree whose backend answers at once when it is asked to
    /// ([`crate::SuperBlockOptions::tries`]).
    pub(crate) const TRIES: u64 = 1 << 13;
    /// The flags that an entry has from its tree.
    pub(crate) const OF_TREE: u64 = CONFIRM | TRIES;
}

slab_item! {
    /// One name in one directory. 64 bytes: all words that a lock-free step reads.
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
        /// The block of the rest of a long name, or 0.
        pub(crate) block: Word32,
        /// The last change of what is found below this directory, by its superblock's clock.
        pub(crate) last_change: Word,
        /// Not 0: a walk ended here since the hand of its queue came by.
        pub(crate) mark: Word32,
    }
}

impl Dentry {
    /// Notes that a walk ended here. In the steady state one did before, and nothing is stored.
    #[inline(always)]
    pub(crate) fn touch(&self) {
        if self.mark.peek() == 0 {
            self.mark.set(1);
        }
    }

    /// The life word.
    #[inline(always)]
    pub(crate) fn word(&self) -> &Life {
        self.life()
    }
}
