// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds what the backend keeps for one inode: its identity on the host, the names it was found
//! under, and its handles.
//!
//! # Fields
//! | field | what | under |
//! |---|---|---|
//! | aliases | names it was found under; none: the root, or no name is known | `HostPlace` |
//! | handles | a descriptor of the host for each use | `HostHandles` |
//! | `acls_ctime` | the change time of its lists; 0: they must be read | `HostAttr` |
//! | `refreshed_at` | the tree's count of changes at its last refresh | `HostAttr` |

mod aliases;

pub(crate) use aliases::Alias;
use aliases::Aliases;

use crate::pool::Handles;
use crate::sys::{HostStat, Id};
use crate::tree::Tree;

use openpath_abi::{Errno, mode};
use openpath_sync::{Mutex, Word, WriteOnce};
use openpath_vfs::Inode;
use openpath_vfs::lock_order::{HostAttr, HostHandles, HostListing, HostPlace};
use std::sync::{Arc, Weak};

/// The backend's side of one inode.
pub(crate) struct Node {
    pub(crate) tree: Arc<Tree>,
    pub(crate) id: Id,
    pub(crate) mnt: u64,
    /// It is a directory on the way to a mount with enforced flags.
    pub(crate) leads_to_enforced: bool,
    aliases: Mutex<Aliases, HostPlace>,
    pub(crate) handles: Mutex<Handles, HostHandles>,
    pub(crate) attr: Mutex<(), HostAttr>,
    pub(crate) refreshed_at: Word,
    pub(crate) acls_ctime: Word,
    /// Its access time comes from reads here and not from the host.
    pub(crate) has_own_atime: Word,
    /// Its names are watched.
    pub(crate) is_watched: Word,
    /// A look for another reason saw a change by others, which was not reported yet.
    pub(crate) unreported: Word,
    /// Held while its handle is positioned and listed.
    pub(crate) listing: Mutex<(), HostListing>,
    inode: WriteOnce<Weak<Inode>>,
}

/// A node with the operations that the core calls.
pub(crate) struct NodeOps(pub(crate) Arc<Node>);

impl Node {
    pub(crate) fn new(tree: &Arc<Tree>, stat: &HostStat, alias: Option<Alias>) -> Arc<Self> {
        let leads_to_enforced = tree.options.held.as_ref().is_some_and(|held| {
            let is_ancestor = |alias: &Alias| {
                alias.parent.leads_to_enforced
                    && held.is_ancestor(&alias.parent.path_of(&alias.name))
            };
            alias.as_ref().map_or(held.is_ancestor(b""), is_ancestor)
        });
        Arc::new(Self {
            tree: Arc::clone(tree),
            leads_to_enforced,
            id: stat.id,
            mnt: stat.mnt,
            aliases: Mutex::new(Aliases::of(alias)),
            handles: Mutex::new(Handles::default()),
            attr: Mutex::new(()),
            refreshed_at: Word::new(0),
            acls_ctime: Word::new(0),
            has_own_atime: Word::new(0),
            is_watched: Word::new(0),
            unreported: Word::new(0),
            listing: Mutex::new(()),
            inode: WriteOnce::default(),
        })
    }

    /// Sets the inode that it belongs to.
    pub(crate) fn set_inode(&self, inode: &Arc<Inode>) {
        self.inode.set(Arc::downgrade(inode));
    }

    /// The inode, while it lives.
    pub(crate) fn inode(&self) -> Option<Arc<Inode>> {
        self.inode.get()?.upgrade()
    }

    /// The node of `inode`, if that is one of this backend.
    pub(crate) fn of(inode: &Inode) -> Option<&Arc<Self>> {
        let ops: &NodeOps = inode.ops().as_any().downcast_ref()?;
        Some(&ops.0)
    }

    /// The node of `inode`.
    ///
    /// # Errors
    /// `EXDEV` if it is not an inode of the same tree.
    pub(crate) fn sibling<'a>(&self, inode: &'a Inode) -> Result<&'a Arc<Self>, Errno> {
        Self::of(inode)
            .filter(|node| Arc::ptr_eq(&node.tree, &self.tree))
            .ok_or(Errno::EXDEV)
    }

    pub(crate) fn is_dir(&self) -> bool {
        mode::is_dir(self.id.kind())
    }

    /// Whether it is a regular file of the host.
    pub(crate) fn is_file(&self) -> bool {
        mode::is_reg(self.id.kind())
    }

    /// Whether it can be the file that was found there: a directory has one alias.
    pub(crate) fn may_be_found_at(&self, alias: Option<&Alias>) -> bool {
        let known = self.last_alias();
        match (&known, alias) {
            _ if !self.is_dir() => true,
            (Some(known), Some(alias)) => {
                // Equal identity does not suffice. Others may have moved the directory below
                // another entry: then one inode would be under two entries, and a rename would lock
                // it twice.
                Arc::ptr_eq(&known.parent, &alias.parent) && known.name == alias.name
            }
            (None, None) => true,
            _ => false,
        }
    }

    /// The name it was last found under.
    pub(crate) fn last_alias(&self) -> Option<Alias> {
        self.aliases.lock().last().cloned()
    }

    /// The names it was found under, the latest first.
    pub(crate) fn aliases(&self) -> Vec<Alias> {
        self.aliases.lock().all()
    }

    /// The alias that a name in this directory is.
    pub(crate) fn alias_of(self: &Arc<Self>, name: &[u8]) -> Alias {
        Alias {
            parent: Arc::clone(self),
            name: name.into(),
        }
    }

    /// The path of a name in this directory, from the root of the tree.
    pub(crate) fn path_of(&self, name: &[u8]) -> Vec<u8> {
        let mut parts = vec![name.to_vec()];
        let mut above = self.last_alias();
        while let Some(alias) = above {
            parts.push(alias.name.to_vec());
            above = alias.parent.last_alias();
        }
        parts.reverse();
        parts.join(&b'/')
    }

    /// Notes where it was found; a directory stays where it is, unless we move it.
    pub(crate) fn add_alias(&self, alias: Alias) {
        if self.is_dir() {
            return;
        }
        let over = self.aliases.lock().add(alias);
        drop(over);
    }

    /// Notes that we moved it.
    pub(crate) fn move_alias(&self, from: &Alias, to: Alias) {
        if self.is_dir() {
            let before = self.aliases.lock().replace(to);
            drop(before);
            return;
        }
        let mut aliases = self.aliases.lock();
        let gone = (aliases.remove(from), aliases.add(to));
        drop(aliases);
        drop(gone);
    }

    /// Notes that it is no longer found there.
    pub(crate) fn remove_alias(&self, alias: &Alias) {
        let gone = self.aliases.lock().remove(alias);
        drop(gone);
    }

    /// Whether it has a known name.
    pub(crate) fn has_alias(&self) -> bool {
        self.aliases.lock().last().is_some()
    }

    pub(crate) fn is_root(&self) -> bool {
        !self.has_alias() && self.is_dir()
    }

    /// Reports what was found at the path of a directory on the way to a mount of enforced flags;
    /// whether the flags of a mount were lost by this.
    pub(crate) fn check_enforced_path(
        &self,
        name: &[u8],
        found: &Result<Arc<Inode>, Errno>,
    ) -> bool {
        if !self.leads_to_enforced {
            return false;
        }
        let Some(held) = &self.tree.options.held else {
            return false;
        };
        match found {
            Ok(inode) => {
                held.check_ancestor(&self.path_of(name), Node::of(inode).map(|node| node.id))
            }
            Err(Errno::EAGAIN) => false,
            Err(_) => held.check_ancestor(&self.path_of(name), None),
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Directories are dropped one by one, because a path may be deeper than the stack.
        let aliases = self.aliases.get_mut();
        while let Some(alias) = aliases.pop() {
            let mut above = Some(alias.parent);
            while let Some(mut node) = above.take().and_then(Arc::into_inner) {
                above = node.aliases.get_mut().pop().map(|alias| alias.parent);
            }
        }
    }
}
