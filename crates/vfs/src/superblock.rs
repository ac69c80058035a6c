// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the superblock: one instance of a backend's tree, which can be mounted any number of
//! times in one `Vfs`. Defines also its options, the backend's operations on the whole tree, and
//! its list of invalidation listeners.
//!
//! # Kernel analogue
//! `struct super_block` with `super_operations`.

use crate::inode::{Inode, shield};
use crate::invalidation_listener::InvalidationListener;
use crate::lock_order::{RenameTopology, SuperListeners, SuperRoot};
use crate::path::PathOwner;
use crate::weak_list::remember;
use openpath_abi::{Errno, StatFs};
use openpath_sync::{Mutex, Word};
use std::sync::{Arc, Weak};

/// The operations of a backend on a whole tree.
pub trait SuperBlockOps: Send + Sync + 'static {
    /// Figures of the whole tree; the core adds the mount's flags.
    ///
    /// # Errors
    /// Whatever the backend meets.
    fn statfs(&self) -> Result<StatFs, Errno>;

    /// Brings everything to stable storage.
    ///
    /// # Errors
    /// `EIO` and others that the backend meets.
    fn sync(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// Gives back memory that it keeps for later use.
    fn trim(&self) {}
}

/// How long the core may rely on a backend's answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Caching {
    /// Names, absent ones too, and attributes stay until a call of ours changes them or the backend
    /// invalidates them ([`SuperBlock::forget_name`] and its kin).
    #[default]
    Keep,
    /// Each use of a cached name, absent ones too, asks [`crate::InodeOps::lookup`] again. A call
    /// by a descriptor, or one whose end no name led to, asks [`crate::InodeOps::refresh`]. Access
    /// times are the backend's own.
    Confirm,
}

/// The properties of a tree that the core must know.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SuperBlockOptions {
    /// Name of the file system type, as `/proc/mounts` shows it.
    pub kind: &'static str,
    /// Longest name in bytes (`NAME_MAX`); a longer one is `ENAMETOOLONG` when it is looked up, not
    /// before.
    pub name_max: usize,
    /// Device number that `stat` shows; 0 takes the next anonymous one of the `Vfs`.
    pub dev: u64,
    /// Nothing may be changed (a read-only superblock, a thing apart from a read-only mount).
    pub read_only: bool,
    /// How long names and attributes hold.
    pub caching: Caching,
    /// The backend answers at once, from memory or by saying that it would have to wait, whenever
    /// it is asked with [`crate::WaitMode::Cached`]. A call that must not wait then asks it; in
    /// other trees such a call uses cached state alone.
    pub tries: bool,
    /// Reading and writing data may wait, as for a disk: a ring leaves them to its workers. The
    /// core itself does not look at it.
    pub blocking_io: bool,
    /// Files have access control lists (`SB_POSIXACL`). Elsewhere their attributes are
    /// `EOPNOTSUPP`, and mode and owner alone decide.
    pub acls: bool,
}

impl Default for SuperBlockOptions {
    fn default() -> Self {
        Self {
            kind: "none",
            name_max: 255,
            dev: 0,
            read_only: false,
            caching: Caching::Keep,
            tries: false,
            blocking_io: false,
            acls: false,
        }
    }
}

crate::setters! {
    SuperBlockOptions {
        kind: &'static str,
        name_max: usize,
        dev: u64,
        read_only: bool,
        caching: Caching,
        tries: bool,
        blocking_io: bool,
        acls: bool,
    }
}

/// One tree of a backend.
pub struct SuperBlock {
    ops: Box<dyn SuperBlockOps>,
    root: Arc<Inode>,
    options: SuperBlockOptions,
    read_only: Word,
    /// Its `Vfs`, root dentry and number there.
    pub(crate) binding: Mutex<Option<SuperBinding>, SuperRoot>,
    /// Held while a directory moves to another one (`s_vfs_rename_mutex`).
    pub(crate) topology: Mutex<(), RenameTopology>,
    /// Names come and go by calls alone: cached directories are in their true places.
    ours_alone: bool,
    /// The listeners for invalidations.
    pub(crate) listeners: Mutex<Vec<Weak<dyn InvalidationListener>>, SuperListeners>,
}

/// A superblock's place in the one `Vfs` that uses it.
#[derive(Clone, Debug)]
pub(crate) struct SuperBinding {
    /// Which `Vfs`.
    pub(crate) vfs: u64,
    /// The same, for calls from the backend.
    pub(crate) owner: Weak<dyn PathOwner>,
    /// Its root dentry there.
    pub(crate) root: u32,
    /// Its number there, by which the path cache finds its clock.
    pub(crate) number: u32,
    /// Device number.
    pub(crate) dev: u64,
    /// How many mounts show it.
    pub(crate) mounts: u32,
}

impl SuperBlock {
    /// A tree that starts at `root`.
    #[must_use]
    pub fn new(
        root: Arc<Inode>,
        ops: Box<dyn SuperBlockOps>,
        options: SuperBlockOptions,
    ) -> Arc<Self> {
        let read_only = Word::new(u64::from(options.read_only));
        let ours_alone = root.shielded(|ops| Ok(ops.names(&root).is_some())) == Ok(true);
        Arc::new(Self {
            ops,
            root,
            options,
            read_only,
            binding: Mutex::new(None),
            topology: Mutex::new(()),
            ours_alone,
            listeners: Mutex::new(Vec::new()),
        })
    }

    /// Whether names come and go by calls alone. If not, a directory that another program moved may
    /// be cached at both places. Then two tasks may take opposite directories for the ancestor. So
    /// a task that locks a directory and one in it must not wait for the second, unless it holds
    /// the topology.
    pub(crate) fn is_ours_alone(&self) -> bool {
        self.ours_alone
    }

    /// The root directory.
    pub fn root(&self) -> &Arc<Inode> {
        &self.root
    }
    /// The backend's operations on the whole tree.
    pub fn ops(&self) -> &dyn SuperBlockOps {
        &*self.ops
    }
    /// Calls the backend; a panic in it becomes `EIO` and has no further effect.
    ///
    /// # Errors
    /// Those of `call`; `EIO`.
    pub(crate) fn shielded<R>(
        &self,
        call: impl FnOnce(&dyn SuperBlockOps) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        shield(|| call(&*self.ops))
    }
    /// The options it was made with.
    pub fn options(&self) -> &SuperBlockOptions {
        &self.options
    }
    /// Whether the whole tree is read-only.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only.get() != 0
    }
    /// Makes the whole tree read-only or writable; the caller has excluded writers.
    pub(crate) fn set_read_only(&self, read_only: bool) {
        self.read_only.set(u64::from(read_only));
    }
}

impl SuperBlock {
    /// From now on `listener` gets the invalidations of this tree, as long as it is
    /// kept elsewhere.
    pub fn add_listener(&self, listener: &Arc<dyn InvalidationListener>) {
        remember(&mut self.listeners.lock(), Arc::downgrade(listener));
    }

    /// Calls all listeners above.
    pub(crate) fn tell_listeners(&self, tell: impl Fn(&dyn InvalidationListener)) {
        let list: Vec<_> = {
            let list = self.listeners.lock();
            list.iter().filter_map(Weak::upgrade).collect()
        };
        for listener in list {
            let _harms_nobody = shield(|| {
                tell(&*listener);
                Ok(())
            });
        }
    }
}
