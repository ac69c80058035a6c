// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the inode: attributes that the core owns, and the backend's operations for the rest.
//!
//! # Kernel analogue
//! `struct inode` with `inode_operations` and `file_operations`. As there, the core keeps mode,
//! owner, size, link count and times, so that permission checks and `stat` need no backend; a
//! backend updates them as it works.
//!
//! An inode also holds its locks, marks, access control lists, layouts and pipe. The modules that
//! define these types (`lock`, `mark`, `acl`, `lease`, `pipe`) do not know the inode.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | flags | `set_flags` (one read-modify-write) | one load: the read-mostly word |
//! | attributes | the attribute sequence's change | the sequence ([`Inode::attr`]) |
//! | rare | once; each part under its own lock | the same |
//! | denials | `deny_writing`, `allow_writing` | one load, after a writer's mark |
//! | access control lists, in rare | `InodeAcls` | the same, where the flags word has their bit |
//!
//! # Rules
//! R1. Directory operations that change names run with the directory's [`Inode::lock_names`] held
//!     for writing.
//! R2. No backend method is called in the lock-free walk, nor while a lock of the dentry cache is
//!     held.

mod acls;
mod async_io;
mod attr;
mod entries;
mod marks;
mod ops;

pub use async_io::{AsyncIo, IoCompletion, IoKind, IoRequest};
pub use attr::Attr;
pub(crate) use marks::kind;
pub use ops::{Extent, InodeOps, ListedEntry, LookupResult, NewInode, Rename, SetAttr, WaitMode};

use crate::acl::Acls;
use crate::lease::Layouts;
use crate::lock::LockContext;
use crate::lock_order::{InodeAcls, InodeEntries, InodeNames, Stacked};
use crate::mark::Marks;
use crate::pipe::InodePipe;
use attr::{AttrWords, high, low};
use openpath_abi::xattr::CAPABILITY_NAME;
use openpath_abi::{Errno, Timespec, mode};
use openpath_sync::{
    Mutex, OwnedReadGuard, RwLock, RwLockReadGuard, RwLockWriteGuard, Word, Word32, WriteOnce,
};
use std::sync::Arc;

/// Bits of the read-mostly flags word.
pub mod flag {
    /// It has, or had, locks ([`crate::Task::fcntl_setlk`], [`crate::Task::flock`]). The core's
    /// own: backends leave it alone.
    pub const LOCK_CONTEXT: u64 = 1;
    /// It has an access control list ([`crate::Acls::access`]), which may say otherwise than the
    /// mode, or may have one ([`ACLS_UNREAD`]). Set and cleared by [`super::Inode::put_acls`] and
    /// [`super::Inode::defer_acls`] alone.
    pub const ACL: u64 = 1 << 1;
    /// Everyone may search this directory: mode has all x bits and there is no ACL.
    pub const SEARCHABLE_BY_ALL: u64 = 1 << 2;
    /// Cannot be changed, linked or unlinked (`FS_IMMUTABLE_FL`).
    pub const IMMUTABLE: u64 = 1 << 3;
    /// Can only be appended to (`FS_APPEND_FL`).
    pub const APPEND_ONLY: u64 = 1 << 4;
    /// A directory that was removed: no name can be found or made in it (`S_DEAD`).
    pub const DEAD: u64 = 1 << 7;
    /// Without a name, but may be given one (`O_TMPFILE` without `O_EXCL`; `I_LINKABLE`).
    pub const LINKABLE: u64 = 1 << 5;
    /// A magic link: following it jumps (`/proc/self/fd`-like).
    pub const MAGIC: u64 = 1 << 6;
    /// Has file capabilities (`security.capability`), which any change of data removes. The core
    /// sets it when they are set; a backend that brings such a file sets it too.
    pub const FILE_CAPS: u64 = 1 << 8;
    /// The backend is asked at each open ([`super::InodeOps::open`]).
    pub const OPEN_HOOK: u64 = 1 << 9;
    /// As [`OPEN_HOOK`], at each open for writing.
    pub const WRITE_HOOK: u64 = 1 << 11;
    /// It has a lease or a delegation ([`crate::Task::fcntl`], `F_SETLEASE`). The core's own:
    /// backends leave it alone.
    pub const LEASED: u64 = 1 << 12;
    /// It has watches ([`crate::Task::inotify_add_watch`]). The core's own: backends leave it
    /// alone.
    pub const WATCHED: u64 = 1 << 10;
    /// A directory with a default access control list. As [`ACL`].
    pub const DEFAULT_ACL: u64 = 1 << 13;
    /// Its access control lists were not read yet: the backend reads them when they are first
    /// needed ([`super::InodeOps::read_acls`]). Set by [`super::Inode::defer_acls`] alone, of files
    /// that are no directories, and together with [`ACL`].
    pub const ACLS_UNREAD: u64 = 1 << 15;
    /// A read of no bytes is no access (`backing_file_read_iter`). The backend's own.
    pub const EMPTY_READ_NO_ACCESS: u64 = 1 << 14;
}

/// The parts that few inodes have, made when the first of them is needed.
#[derive(Default)]
pub(crate) struct RareParts {
    /// The marks of its watches.
    pub(crate) marks: Marks,
    /// The pipe of a FIFO that is open.
    pub(crate) pipe: InodePipe,
    /// Its locks.
    pub(crate) locks: WriteOnce<Arc<LockContext>>,
    /// Its layouts: uses of its blocks in the backend.
    pub(crate) layouts: Layouts,
    /// Its access control lists.
    acls: RwLock<Acls, InodeAcls>,
    /// Entries of a directory besides its first: from before a move outside the core.
    entries: Mutex<Vec<u32>, InodeEntries>,
}

/// A file of any type, whatever names it has.
pub struct Inode {
    flags: Word,
    ino: u64,
    rdev: u64,
    btime: Timespec,
    attr: AttrWords,
    /// How often writing is denied (`i_writecount` below 0); its pins show the writers.
    denials: Word,
    names: RwLock<(), InodeNames>,
    /// Of a directory: the entry it has in the cache, or 0; further ones are in `rare`.
    entry: Word32,
    /// Body of a symbolic link, once it was read, for the lock-free walk.
    link: WriteOnce<Box<[u8]>>,
    /// The parts that few inodes have.
    rare: WriteOnce<RareParts>,
    ops: Box<dyn InodeOps>,
}

impl Inode {
    /// An inode with these attributes, served by `ops`.
    #[must_use]
    pub fn new(
        ino: u64,
        rdev: u64,
        attr: Attr,
        btime: Timespec,
        ops: Box<dyn InodeOps>,
    ) -> Arc<Self> {
        let words = AttrWords::default();
        words.write_words(&attr);
        let inode = Self {
            flags: Word::new(0),
            ino,
            rdev,
            btime,
            attr: words,
            denials: Word::new(0),
            names: RwLock::new(()),
            entry: Word32::new(0),
            link: WriteOnce::default(),
            rare: WriteOnce::default(),
            ops,
        };
        inode.note_searchable(attr.mode);
        Arc::new(inode)
    }

    /// Number within its superblock.
    pub fn ino(&self) -> u64 {
        self.ino
    }

    /// A number that no other inode has at the same time; the inode number may be another one's
    /// too.
    pub fn identity(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Device number of a device node, in the kernel's 64-bit user form.
    pub fn rdev(&self) -> u64 {
        self.rdev
    }
    /// When it was made.
    pub fn btime(&self) -> Timespec {
        self.btime
    }
    /// The backend's operations.
    pub fn ops(&self) -> &dyn InodeOps {
        &*self.ops
    }

    /// The read-mostly flags word ([`flag`]).
    #[inline]
    pub fn flags(&self) -> u64 {
        self.flags.get()
    }
    /// Sets bits of [`flag`].
    pub fn set_flags(&self, mask: u64) {
        self.flags.set_bits(mask);
    }
    /// Clears bits of [`flag`].
    pub fn clear_flags(&self, mask: u64) {
        self.flags.clear_bits(mask);
    }

    /// Type and permission bits, by one load.
    #[inline]
    pub fn mode(&self) -> u32 {
        low(self.attr.mode_nlink.get())
    }
    /// The type bits of the mode (`S_IFMT`).
    #[inline]
    pub fn kind(&self) -> u32 {
        self.mode() & mode::S_IFMT
    }
    /// Whether it is a directory.
    pub fn is_dir(&self) -> bool {
        self.kind() == mode::S_IFDIR
    }
    /// Owner and group, by one load.
    #[inline]
    pub fn ids(&self) -> (u32, u32) {
        let ids = self.attr.ids.get();
        (low(ids), high(ids))
    }
    /// Number of names, by one load.
    pub fn nlink(&self) -> u32 {
        high(self.attr.mode_nlink.get())
    }
    /// Length in bytes, by one load.
    pub fn size(&self) -> u64 {
        self.attr.size.get()
    }

    /// All attributes, as they were together at one moment.
    pub fn attr(&self) -> Attr {
        loop {
            let seq = self.attr.seq.sample();
            if !seq.is_busy() {
                let attr = self.attr.read_words();
                if self.attr.seq.is_unchanged(seq) {
                    return attr;
                }
            }
            openpath_sync::relax();
        }
    }

    /// Changes attributes; readers see all of the change or none of it. `change` must not call back
    /// into the inode.
    pub fn update(&self, change: impl FnOnce(&mut Attr)) {
        let seq = self.attr.seq.change();
        let mut attr = self.attr.read_words();
        change(&mut attr);
        self.attr.write_words(&attr);
        self.note_searchable(attr.mode);
        drop(seq);
    }

    fn note_searchable(&self, mode_bits: u32) {
        let open = mode_bits & 0o111 == 0o111 && self.flags.get() & flag::ACL == 0;
        if open != (self.flags.get() & flag::SEARCHABLE_BY_ALL != 0) {
            if open {
                self.flags.set_bits(flag::SEARCHABLE_BY_ALL);
            } else {
                self.flags.clear_bits(flag::SEARCHABLE_BY_ALL);
            }
        }
    }

    /// As [`Inode::hold_names`], if they are not locked.
    pub(crate) fn try_hold_names(&self) -> Option<RwLockReadGuard<'_, (), InodeNames>> {
        self.names.try_read()
    }
    /// As [`Inode::try_hold_names`], until the result is dropped, even in another thread.
    pub(crate) fn try_keep_names(self: &Arc<Self>) -> Option<OwnedReadGuard<Self, (), InodeNames>> {
        OwnedReadGuard::attempt(self, |inode| &inode.names)
    }
    /// Holds the names in this directory, or the file's data and attributes, as they are
    /// (`i_rwsem`, shared).
    pub fn hold_names(&self) -> RwLockReadGuard<'_, (), InodeNames> {
        self.names.read()
    }
    /// Locks the names in this directory, or the file's data and attributes, for a change
    /// (`i_rwsem`).
    pub fn lock_names(&self) -> RwLockWriteGuard<'_, (), InodeNames> {
        self.names.write()
    }
    /// As [`Inode::lock_names_nested`], if they are neither locked nor held.
    pub(crate) fn try_lock_names(&self) -> Option<RwLockWriteGuard<'_, (), InodeNames>> {
        self.names.try_write()
    }
    /// Waits until they are not locked. Held: no lock that their holder may wait for.
    pub(crate) fn wait_for_names(&self) {
        drop(self.names.write());
    }
    /// As [`Inode::lock_names`] for a second inode, where the caller keeps the order (ancestor or
    /// lower address first).
    pub fn lock_names_nested(&self) -> RwLockWriteGuard<'_, (), InodeNames> {
        self.names.write_nested()
    }

    /// As [`Inode::hold_names`], of an inode in a tree beneath the caller's: for stacked trees,
    /// whose own inodes the core has locked.
    pub fn hold_names_beneath(&self) -> RwLockReadGuard<'_, (), Stacked> {
        self.names.read_beneath()
    }
    /// As [`Inode::hold_names_beneath`], if they are not locked.
    pub fn try_hold_names_beneath(&self) -> Option<RwLockReadGuard<'_, (), Stacked>> {
        self.names.try_read_beneath()
    }
    /// As [`Inode::lock_names_nested`], of an inode in a tree beneath the caller's.
    pub fn lock_names_beneath(&self) -> RwLockWriteGuard<'_, (), Stacked> {
        self.names.write_beneath()
    }

    /// Whether writing is denied now (`i_writecount` below 0).
    #[inline]
    pub(crate) fn is_write_denied(&self) -> bool {
        self.denials.get() != 0
    }
    /// Denies writing once more; the caller then looks for writers.
    pub(crate) fn deny_writing(&self) {
        self.denials.add(1);
    }
    /// Ends one denial.
    pub(crate) fn allow_writing(&self) {
        self.denials.sub(1);
    }
}

/// Runs a backend's call; a panic in it becomes `EIO` and has no further effect.
///
/// # Errors
/// Those of `call`; `EIO`.
pub(crate) fn shield<R>(call: impl FnOnce() -> Result<R, Errno>) -> Result<R, Errno> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).unwrap_or(Err(Errno::EIO))
}

impl Inode {
    /// Calls the backend; a panic in it becomes `EIO` and has no further effect.
    ///
    /// # Errors
    /// Those of `call`; `EIO`.
    pub(crate) fn shielded<'a, R>(
        &'a self,
        call: impl FnOnce(&'a dyn InodeOps) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        shield(|| call(&*self.ops))
    }

    /// Removes file capabilities, if there are any (`security_inode_killpriv`).
    ///
    /// # Errors
    /// What the backend meets.
    pub(crate) fn drop_capabilities(&self, now: Timespec) -> Result<(), Errno> {
        if self.flags() & flag::FILE_CAPS == 0 {
            return Ok(());
        }
        match self.shielded(|ops| ops.removexattr(self, CAPABILITY_NAME, now)) {
            Ok(()) | Err(Errno::ENODATA | Errno::EOPNOTSUPP) => {
                self.clear_flags(flag::FILE_CAPS);
                Ok(())
            }
            Err(errno) => Err(errno),
        }
    }

    /// The parts that few inodes have.
    pub(crate) fn rare(&self) -> &RareParts {
        match self.rare.get() {
            Some(rare) => rare,
            None => self.rare.set(RareParts::default()),
        }
    }

    /// The marks of its watches.
    pub(crate) fn marks(&self) -> &Marks {
        &self.rare().marks
    }

    /// Its locks, if it ever had some (`locks_inode_context`).
    pub(crate) fn locks(&self) -> Option<&Arc<LockContext>> {
        self.rare.get()?.locks.get()
    }

    /// The body of a symbolic link, if it was read before.
    pub(crate) fn cached_link(&self) -> Option<&[u8]> {
        self.link.get().map(|body| &**body)
    }

    /// The body of a symbolic link, from the backend the first time (`get_link`).
    ///
    /// # Errors
    /// Those of [`InodeOps::readlink`]; `ENOENT` for an empty body.
    pub(crate) fn read_link(&self, wait_mode: WaitMode) -> Result<&[u8], Errno> {
        if let Some(body) = self.link.get() {
            return Ok(body);
        }
        let body = self.shielded(|ops| ops.readlink(self, wait_mode))?;
        if body.is_empty() {
            return Err(Errno::ENOENT);
        }
        Ok(self.link.set(body.into()))
    }

    /// Applies the fields of `change`, except the length, to the core's attributes; an access
    /// control list follows a new mode.
    pub fn apply(&self, change: &SetAttr) {
        self.update(|a| {
            if let Some(mode_bits) = change.mode {
                a.mode = (a.mode & mode::S_IFMT) | (mode_bits & !mode::S_IFMT);
            }
            a.uid = change.uid.unwrap_or(a.uid);
            a.gid = change.gid.unwrap_or(a.gid);
            a.atime = change.atime.unwrap_or(a.atime);
            a.mtime = change.mtime.unwrap_or(a.mtime);
            a.ctime = change.ctime.unwrap_or(a.ctime);
        });
        if let Some(mode_bits) = change.mode {
            self.note_mode_in_acl(mode_bits);
        }
    }
}
