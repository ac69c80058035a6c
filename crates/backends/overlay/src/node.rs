// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is behind one inode: the inodes beneath that it stands for.
//!
//! # States
//! Lower -> upper, once, when it is changed first ("copied up"). Of a directory those beneath stay
//! in sight, merged; of anything else nothing does.
//!
//! # Fields
//! | field | what | written |
//! |---|---|---|
//! | upper | the inode of the upper tree | once, with `copy_up_lock` held |
//! | lowers | those of the lower trees, topmost first; one if it is no directory | never |
//! | origin | where the first of these was found | never |
//! | doing | held by who copies it up, or takes a name from it that it has beneath | |
//! | gone | how many names it lost that it had beneath | with `copy_up_lock` held |
//! | bare | nothing beneath shows any more: it is about to be removed | with its names locked |
//! | changes | how often names in it changed | with its names locked, or when told |
//!
//! # Rules
//! R1. Attributes and access control lists are those of the first inode beneath, brought over
//!     after each change with `attr` held, so that of two the later stays.

use crate::fs::Fs;
use crate::lookup_result::{Key, LookupResult, Lower, Origin, address};
use crate::whiteout::shown_mode;
use openpath_abi::{Errno, mode};
use openpath_sync::{Mutex, Word, WriteOnce};
use openpath_vfs::lock_order::{Stacked, StackedAttr};
use openpath_vfs::{Inode, flag};
use std::sync::{Arc, Weak};

/// One inode's side of the overlay.
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
    /// Made here, with nothing beneath: its names are known to be no more than the upper tree's.
    pub(crate) is_upper_only: Word,
    attr: Mutex<(), StackedAttr>,
    inode: WriteOnce<Weak<Inode>>,
}

/// A node as the core calls it.
pub(crate) struct NodeOps(pub(crate) Arc<Node>);

/// Flags that are shown as the inode beneath has them.
const COPIED_FLAGS: u64 =
    flag::OPEN_HOOK | flag::WRITE_HOOK | flag::IMMUTABLE | flag::APPEND_ONLY | flag::FILE_CAPS;

impl Node {
    /// An inode for what was found.
    pub(crate) fn make_inode(fs: &Arc<Fs>, result: LookupResult) -> Result<Arc<Inode>, Errno> {
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

    /// What is behind `inode`, if it is one of an overlay.
    pub(crate) fn of(inode: &Inode) -> Option<&Arc<Self>> {
        let ops: &NodeOps = inode.ops().as_any().downcast_ref()?;
        Some(&ops.0)
    }

    /// What is behind `inode`.
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

    /// From now on it stands for this inode of the upper tree. Held: `copy_up_lock`.
    pub(crate) fn set_upper(&self, upper: Arc<Inode>) -> &Arc<Inode> {
        self.upper.set(upper)
    }

    /// The inode whose attributes and data are shown.
    pub(crate) fn real(&self) -> &Arc<Inode> {
        self.upper.get().unwrap_or(&self.first)
    }

    /// Those of the lower trees that are in sight.
    pub(crate) fn lowers(&self) -> &[Lower] {
        if self.hides_lowers.get() == 0 {
            &self.lowers
        } else {
            &[]
        }
    }

    /// From now on nothing beneath it shows.
    pub(crate) fn hide_lowers(&self) {
        self.hides_lowers.set(1);
    }

    pub(crate) fn is_dir(&self) -> bool {
        self.first.is_dir()
    }

    /// Whether it is a directory of more than one inode beneath, or may become one.
    pub(crate) fn is_merged(&self) -> bool {
        let lowers = self.lowers.len();
        lowers > 1 || lowers == 1 && self.fs.upper.is_some()
    }

    /// Whether it lost a name that it had beneath.
    pub(crate) fn has_lost_name(&self) -> bool {
        self.lost_names.get() != 0
    }

    /// It lost a name that it had beneath. Held: `copy_up_lock`.
    pub(crate) fn note_lost_name(&self) {
        self.lost_names.add(1);
    }

    /// Whether it stands for just what was found.
    pub(crate) fn matches(&self, result: &LookupResult) -> bool {
        let upper = match (self.upper(), &result.upper) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        // What is no directory keeps what it was copied from.
        let lowers = !self.is_dir()
            || self.lowers.len() == result.lowers.len()
                && self
                    .lowers
                    .iter()
                    .zip(&result.lowers)
                    .all(|(a, b)| Arc::ptr_eq(&a.inode, &b.inode));
        upper && lowers
    }

    /// Brings attributes and flags over from beneath.
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
        let acls = real.acls();
        if inode.acls() != acls {
            inode.put_acls(acls);
        }
        let now = inode.flags();
        if now & COPIED_FLAGS != flags {
            inode.set_flags(flags & !now);
            inode.clear_flags(COPIED_FLAGS & now & !flags);
        }
    }

    /// As [`Node::copy_attr`] of the inode that is behind.
    pub(crate) fn copy_attr_own(&self) {
        if let Ok(inode) = self.inode() {
            self.copy_attr(&inode);
        }
    }

    /// Names in it changed.
    pub(crate) fn bump_version(&self) {
        self.version.add(1);
    }

    /// Where it is, which tells it from all others while it lives.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// By what it is found while it has nothing in the upper tree.
    pub(crate) fn lower_key(&self) -> Option<Key> {
        lower_key(self.lowers.first()?, &self.origin)
    }

    /// Keys beside the first, by which it is found when a layer tells something.
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

impl LookupResult {
    /// By what it is found.
    pub(crate) fn key(&self) -> Option<Key> {
        match &self.upper {
            Some(upper) => Some((address(upper), 0, Box::default())),
            None => lower_key(self.lowers.first()?, &self.origin),
        }
    }
}

/// A file beneath that has several names is a file for each of them: to change one leaves the
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
