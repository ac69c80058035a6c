// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds what the overlay keeps for one inode: its layer inodes.
//!
//! # States
//! Lower -> upper, once, at the first change (copy-up). The lower inodes of a directory stay
//! visible and are merged; those of other files do not.
//!
//! # Fields
//! | field | what | written |
//! |---|---|---|
//! | upper | the inode of the upper tree | once, with `copy_up_lock` held |
//! | lowers | those of the lower trees, topmost first; a file has one at most | never |
//! | origin | where the first of these was found | never |
//! | `copy_up_lock` | held over its copy-up, and while a lower name of it is removed | |
//! | `lost_names` | how many of its names in lower trees were removed | with `copy_up_lock` held |
//! | `hides_lowers` | no lower inode shows: it is about to be removed | with its names locked |
//! | version | how often its names changed | with its names locked, or by an invalidation |
//!
//! # Rules
//! R1. Attributes and access control lists are those of the first layer inode. They are copied
//!     after each change with `attr` held, so that the later of two copies wins.

use crate::fs::Fs;
use crate::merged_lookup::{Key, Lower, MergedLookup, Origin, address};
use crate::whiteout::shown_mode;
use openpath_abi::{Errno, mode};
use openpath_sync::{Mutex, Word, WriteOnce};
use openpath_vfs::lock_order::{Stacked, StackedAttr};
use openpath_vfs::{Inode, flag};
use std::sync::{Arc, Weak};

/// The overlay's side of one inode.
pub(crate) struct Node {
    pub(crate) fs: Arc<Fs>,
    first: Arc<Inode>,
    upper: WriteOnce<Arc<Inode>>,
    lowers: Box<[Lower]>,
    pub(crate) origin: Origin,
    pub(crate) copy_up_lock: Mutex<(), Stacked>,
    lost_names: Word,
    hides_lowers: Word,
    pub(crate) version: Word,
    pub(crate) impure: Word,
    /// Made here, without lower directories: its names are exactly those of the upper tree.
    pub(crate) is_upper_only: Word,
    attr: Mutex<(), StackedAttr>,
    inode: WriteOnce<Weak<Inode>>,
}

/// A node with the operations that the core calls.
pub(crate) struct NodeOps(pub(crate) Arc<Node>);

/// Flags that are copied from the layer inode.
const COPIED_FLAGS: u64 =
    flag::OPEN_HOOK | flag::WRITE_HOOK | flag::IMMUTABLE | flag::APPEND_ONLY | flag::FILE_CAPS;

impl Node {
    /// An inode for a lookup result.
    pub(crate) fn make_inode(fs: &Arc<Fs>, result: MergedLookup) -> Result<Arc<Inode>, Errno> {
        let number = fs.number_of(&result);
        let lower = result.lowers.first().map(|lower| &lower.inode);
        let first = result.upper.as_ref().or(lower).ok_or(Errno::EIO)?;
        let first = Arc::clone(first);
        let upper = WriteOnce::default();
        if let Some(inode) = result.upper {
            upper.set(inode);
        }
        let node = Arc::new(Self {
            fs: Arc::clone(fs),
            first: Arc::clone(&first),
            upper,
            lowers: result.lowers.into(),
            origin: result.origin,
            copy_up_lock: Mutex::new(()),
            lost_names: Word::new(0),
            hides_lowers: Word::new(0),
            version: Word::new(1),
            impure: Word::new(u64::from(result.impure)),
            is_upper_only: Word::new(0),
            attr: Mutex::new(()),
            inode: WriteOnce::default(),
        });
        let ops = Box::new(NodeOps(Arc::clone(&node)));
        let inode = Inode::new(number, first.rdev(), first.attr(), first.btime(), ops);
        inode.set_flags(flag::EMPTY_READ_NO_ACCESS);
        node.inode.set(Arc::downgrade(&inode));
        node.copy_attr(&inode);
        Ok(inode)
    }

    /// The node of `inode`, if that is one of an overlay.
    pub(crate) fn of(inode: &Inode) -> Option<&Arc<Self>> {
        let ops: &NodeOps = inode.ops().as_any().downcast_ref()?;
        Some(&ops.0)
    }

    /// The node of `inode`.
    ///
    /// # Errors
    /// `EXDEV` if it is not an inode of the same overlay.
    pub(crate) fn sibling<'a>(&self, inode: &'a Inode) -> Result<&'a Arc<Self>, Errno> {
        Self::of(inode)
            .filter(|node| Arc::ptr_eq(&node.fs, &self.fs))
            .ok_or(Errno::EXDEV)
    }

    /// The inode, which lives while one of its calls runs.
    ///
    /// # Errors
    /// `ESTALE`: it is gone.
    pub(crate) fn inode(&self) -> Result<Arc<Inode>, Errno> {
        let inode = self.inode.get().and_then(Weak::upgrade);
        inode.ok_or(Errno::ESTALE)
    }

    /// The inode of the upper tree, if it has one.
    pub(crate) fn upper(&self) -> Option<&Arc<Inode>> {
        self.upper.get()
    }

    /// Sets the inode of the upper tree. Held: `copy_up_lock`.
    pub(crate) fn set_upper(&self, upper: Arc<Inode>) -> &Arc<Inode> {
        self.upper.set(upper)
    }

    /// The inode that provides attributes and data.
    pub(crate) fn real(&self) -> &Arc<Inode> {
        self.upper.get().unwrap_or(&self.first)
    }

    /// The lower inodes that show.
    pub(crate) fn lowers(&self) -> &[Lower] {
        if self.hides_lowers.get() == 0 {
            &self.lowers
        } else {
            &[]
        }
    }

    /// Hides all lower inodes from now on.
    pub(crate) fn hide_lowers(&self) {
        self.hides_lowers.set(1);
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.first.is_dir()
    }

    /// Whether it is a directory with several layer inodes, or may become one.
    pub(crate) fn is_merged(&self) -> bool {
        let lowers = self.lowers.len();
        lowers > 1 || lowers == 1 && self.fs.upper.is_some()
    }

    /// Whether a name that it has in a lower tree was removed.
    pub(crate) fn has_lost_name(&self) -> bool {
        self.lost_names.get() != 0
    }

    /// Notes that a name it has in a lower tree was removed. Held: `copy_up_lock`.
    pub(crate) fn note_lost_name(&self) {
        self.lost_names.add(1);
    }

    /// Whether it has exactly these layer inodes.
    pub(crate) fn matches(&self, result: &MergedLookup) -> bool {
        let upper = match (self.upper(), &result.upper) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        // A file keeps the lower inode that it was copied from.
        let lowers = !self.is_dir()
            || self.lowers.len() == result.lowers.len()
                && self
                    .lowers
                    .iter()
                    .zip(&result.lowers)
                    .all(|(a, b)| Arc::ptr_eq(&a.inode, &b.inode));
        upper && lowers
    }

    /// Copies attributes and flags from the layer inode.
    pub(crate) fn copy_attr(&self, inode: &Inode) {
        let _held = self.attr.lock();
        let real = self.real();
        let mut attr = real.attr();
        attr.mode = shown_mode(attr.mode, real.rdev());
        let gone = u32::try_from(self.lost_names.get()).unwrap_or(u32::MAX);
        if self.is_dir() && !self.lowers.is_empty() {
            // As Linux shows a merged directory.
            let merged = self.lowers.len() > 1 || self.upper().is_some();
            if merged {
                attr.nlink = 1;
            }
            if gone != 0 {
                attr.nlink = 0;
            }
        } else if self.upper().is_none() {
            attr.nlink = attr.nlink.saturating_sub(gone);
        }
        if inode.attr() != attr {
            inode.update(|words| *words = attr);
        }
        let mut flags = real.flags() & COPIED_FLAGS;
        let copies_up = self.fs.upper.is_some() && self.upper().is_none();
        if copies_up && mode::is_reg(attr.mode) {
            flags |= flag::WRITE_HOOK;
        }
        if real.are_acls_unread() {
            inode.defer_acls();
        } else {
            let acls = real.acls();
            if inode.are_acls_unread() || inode.acls() != acls {
                inode.put_acls(acls);
            }
        }
        let now = inode.flags();
        if now & COPIED_FLAGS != flags {
            inode.set_flags(flags & !now);
            inode.clear_flags(COPIED_FLAGS & now & !flags);
        }
    }

    /// As [`Node::copy_attr`], for its own inode.
    pub(crate) fn copy_attr_own(&self) {
        if let Ok(inode) = self.inode() {
            self.copy_attr(&inode);
        }
    }

    /// Notes that its names changed.
    pub(crate) fn bump_version(&self) {
        self.version.add(1);
    }

    /// Its address, which is unique while it lives.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Its key while it has no inode of the upper tree.
    pub(crate) fn lower_key(&self) -> Option<Key> {
        lower_key(self.lowers.first()?, &self.origin)
    }

    /// Further keys, by which an invalidation of a layer finds it.
    pub(crate) fn further_keys(&self) -> Vec<Key> {
        let begins = usize::from(self.upper().is_none());
        let rest = self.lowers.iter().skip(begins);
        let me = self.address();
        rest.map(|lower| (address(&lower.inode), me, Box::default()))
            .collect()
    }

    /// All keys it may have.
    pub(crate) fn all_keys(&self) -> Vec<Key> {
        let mut keys = self.further_keys();
        keys.extend(self.lower_key());
        keys.extend(
            self.upper()
                .map(|upper| (address(upper), 0, Box::default())),
        );
        keys
    }
}

impl MergedLookup {
    /// The key of the inode.
    pub(crate) fn key(&self) -> Option<Key> {
        match &self.upper {
            Some(upper) => Some((address(upper), 0, Box::default())),
            None => lower_key(self.lowers.first()?, &self.origin),
        }
    }
}

/// A lower file with several names is a separate file for each of them: a change of one leaves the
/// others as they are.
fn lower_key(lower: &Lower, origin: &Origin) -> Option<Key> {
    let at = address(&lower.inode);
    match origin {
        Origin::Name(dir, name) => {
            let beneath = Node::of(dir)?.lowers.first()?;
            Some((at, address(&beneath.inode), name.clone()))
        }
        Origin::Root | Origin::Path(_) => Some((at, 0, Box::default())),
        Origin::None => None,
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Origin::Name(dir, _) = std::mem::replace(&mut self.origin, Origin::None) {
            self.fs.drop_dir(dir);
        }
    }
}
