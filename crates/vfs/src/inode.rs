// SPDX-License-Identifier: MIT OR Apache-2.0
//! The inode: attributes that the core owns, and the trait through which a backend serves the rest.
//!
//! # Kernel analogue
//! `struct inode` with `inode_operations` and `file_operations`. As there, the core keeps mode,
//! owner, size, link
//! count and times, so that permission checks and `stat` need no backend; a backend updates them as
//! it works.
//!
//! # Fields
//! | field | written under | read under |
//! |---|---|---|
//! | flags | `set_flags` (one read-modify-write) | one load: the read-mostly word |
//! | attributes | the attribute sequence's change | the sequence ([`Inode::attr`]) |
//! | writers | `get_write_access` and its kin | the same |
//!
//! # Rules
//! R1. Directory operations that change names run with the directory's [`Inode::lock_names`] held
//!     for writing.
//! R2. No backend method is called in the lock-free walk, nor while a lock of the dentry cache is
//!     held.

use crate::lock_order::InodeNames;
use crate::path::VfsPath;
use openpath_abi::xattr::CAPABILITY_NAME;
use openpath_abi::{Errno, Timespec, mode};
use openpath_sync::{Life, RwLock, RwLockReadGuard, RwLockWriteGuard, Word, Word32};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// Bits of the read-mostly flags word.
pub mod flag {
    /// A lock context exists (posix locks, leases).
    pub const LOCK_CONTEXT: u64 = 1;
    /// An access control list may say otherwise than the mode.
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
    /// Has file capabilities (`security.capability`), which any change of data takes away. The core
    /// sets it when they are set; a backend that brings such a file sets it too.
    pub const FILE_CAPS: u64 = 1 << 8;
}

/// Attributes of an inode at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attr {
    /// File type and permission bits.
    pub mode: u32,
    /// Number of names.
    pub nlink: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Length in bytes.
    pub size: u64,
    /// Space used, in units of 512 bytes.
    pub blocks: u64,
    /// Last access.
    pub atime: Timespec,
    /// Last change of data.
    pub mtime: Timespec,
    /// Last change of the inode.
    pub ctime: Timespec,
}

/// [`Attr`] in shared words under a sequence.
#[derive(Default)]
struct AttrWords {
    seq: Life,
    mode_nlink: Word,
    ids: Word,
    size: Word,
    blocks: Word,
    atime: Word,
    mtime: Word,
    ctime: Word,
    /// Nanoseconds of access (low half) and data change (high half).
    ns: Word,
    ctime_ns: Word32,
}

const fn pair(low: u32, high: u32) -> u64 {
    low as u64 | (high as u64) << 32
}

const fn low(word: u64) -> u32 {
    (word & 0xffff_ffff) as u32
}

const fn high(word: u64) -> u32 {
    (word >> 32) as u32
}

impl AttrWords {
    fn read_words(&self) -> Attr {
        let (mode_nlink, ids, ns) = (self.mode_nlink.get(), self.ids.get(), self.ns.get());
        let time = |word: &Word, nsec| Timespec {
            sec: word.get().cast_signed(),
            nsec,
        };
        Attr {
            mode: low(mode_nlink),
            nlink: high(mode_nlink),
            uid: low(ids),
            gid: high(ids),
            size: self.size.get(),
            blocks: self.blocks.get(),
            atime: time(&self.atime, low(ns)),
            mtime: time(&self.mtime, high(ns)),
            ctime: time(&self.ctime, self.ctime_ns.get()),
        }
    }

    fn write_words(&self, a: &Attr) {
        self.mode_nlink.set(pair(a.mode, a.nlink));
        self.ids.set(pair(a.uid, a.gid));
        self.size.set(a.size);
        self.blocks.set(a.blocks);
        self.atime.set(a.atime.sec.cast_unsigned());
        self.mtime.set(a.mtime.sec.cast_unsigned());
        self.ctime.set(a.ctime.sec.cast_unsigned());
        self.ns.set(pair(a.atime.nsec, a.mtime.nsec));
        self.ctime_ns.set(a.ctime.nsec);
    }
}

/// A file of any type, whatever names it has.
pub struct Inode {
    flags: Word,
    ino: u64,
    rdev: u64,
    btime: Timespec,
    attr: AttrWords,
    /// Opens for writing if positive, denials of writing if negative (`i_writecount`), biased by
    /// 2^32.
    writers: Word,
    names: RwLock<(), InodeNames>,
    /// Body of a symbolic link, once it was read: what the lock-free walk follows.
    link: OnceLock<Box<[u8]>>,
    ops: Box<dyn InodeOps>,
}

const WRITERS_ZERO: u64 = 1 << 32;

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
            writers: Word::new(WRITERS_ZERO),
            names: RwLock::new(()),
            link: OnceLock::new(),
            ops,
        };
        inode.note_searchable(attr.mode);
        Arc::new(inode)
    }

    /// Number within its superblock.
    pub fn ino(&self) -> u64 {
        self.ino
    }
    /// Device number of a device node, in the kernel's 64-bit user form.
    pub fn rdev(&self) -> u64 {
        self.rdev
    }
    /// When it was made.
    pub fn btime(&self) -> Timespec {
        self.btime
    }
    /// What the backend serves it with.
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
            if !seq.busy() {
                let attr = self.attr.read_words();
                if self.attr.seq.still(seq) {
                    return attr;
                }
            }
            core::hint::spin_loop();
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
    /// As [`Inode::lock_names`] for a second inode, where the caller keeps the order (ancestor or
    /// lower address first).
    pub fn lock_names_nested(&self) -> RwLockWriteGuard<'_, (), InodeNames> {
        self.names.write_nested()
    }

    /// Counts one more opening for writing (`get_write_access`).
    ///
    /// # Errors
    /// `ETXTBSY` while writing is denied.
    pub fn get_write_access(&self) -> Result<(), Errno> {
        loop {
            let now = self.writers.get();
            if now < WRITERS_ZERO {
                return Err(Errno::ETXTBSY);
            }
            if self.writers.swap_if(now, now + 1) {
                return Ok(());
            }
        }
    }
    /// Ends one opening for writing.
    pub fn put_write_access(&self) {
        self.writers.sub(1);
    }
    /// Denies writing while a program runs from the file (`deny_write_access`).
    ///
    /// # Errors
    /// `ETXTBSY` while it is open for writing.
    pub fn deny_write_access(&self) -> Result<(), Errno> {
        loop {
            let now = self.writers.get();
            if now > WRITERS_ZERO {
                return Err(Errno::ETXTBSY);
            }
            if self.writers.swap_if(now, now - 1) {
                return Ok(());
            }
        }
    }
    /// Ends one denial.
    pub fn allow_write_access(&self) {
        self.writers.add(1);
    }
}

/// What a backend found under a name.
pub enum Found {
    /// This inode.
    Inode(Arc<Inode>),
    /// Nothing: the name does not exist.
    Absent,
    /// It would have to wait; asked with [`Patience::Cached`] only.
    WouldBlock,
}

/// Whether a backend may wait for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Patience {
    /// Take the time it takes.
    Wait,
    /// Answer from memory or say [`Found::WouldBlock`].
    Cached,
}

/// A new inode as the core wants it: mode after umask, owner and group already decided.
#[derive(Clone, Copy, Debug)]
pub struct NewInode<'a> {
    /// Type and permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device node, else 0.
    pub rdev: u64,
    /// Body of a symbolic link, else empty.
    pub body: &'a [u8],
    /// The time of the call: all four times of the new inode, and the directory's data and inode
    /// change.
    pub now: Timespec,
}

/// A rename as a backend carries it out. All checks are done; both directories are locked.
pub struct Rename<'a> {
    /// Directory of the source.
    pub old_dir: &'a Inode,
    /// Name of the source.
    pub old_name: &'a [u8],
    /// The source.
    pub source: &'a Arc<Inode>,
    /// Directory of the target; may be the same inode as `old_dir`.
    pub new_dir: &'a Inode,
    /// Name of the target.
    pub new_name: &'a [u8],
    /// What the target name means now.
    pub target: Option<&'a Arc<Inode>>,
    /// Swap the two instead of replacing the target.
    pub exchange: bool,
    /// Leave this under the old name (`RENAME_WHITEOUT`).
    pub whiteout: Option<NewInode<'a>>,
    /// The time of the call.
    pub now: Timespec,
}

/// One entry as a backend lists it.
#[derive(Clone, Copy, Debug)]
pub struct Listed<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Its inode's number.
    pub ino: u64,
    /// `DT_*`.
    pub kind: u8,
    /// Where to go on after this entry: greater than any earlier one's, stable while the directory
    /// changes.
    pub next: i64,
}

/// A change of attributes, already permitted and reduced to what will be set (`struct iattr`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// New permission bits (with the type bits as they are).
    pub mode: Option<u32>,
    /// New owner.
    pub uid: Option<u32>,
    /// New group.
    pub gid: Option<u32>,
    /// New length.
    pub size: Option<u64>,
    /// New access time.
    pub atime: Option<Timespec>,
    /// New data change time.
    pub mtime: Option<Timespec>,
    /// New inode change time.
    pub ctime: Option<Timespec>,
}

/// Where to seek to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The next byte of data (`SEEK_DATA`).
    Data,
    /// The next hole (`SEEK_HOLE`).
    Hole,
}

/// What a backend does for one inode. Every method has a default that refuses as Linux does without
/// the operation.
///
/// The core has checked types, permissions, read-only mounts, name lengths against
/// [`crate::SuperBlock`]'s limit, and holds the locks that R1 names. A method returns an errno and
/// leaves
/// everything as it was, or does all of it and updates the attributes of the inodes concerned.
#[expect(unused_variables, reason = "defaults refuse whatever they are asked")]
pub trait InodeOps: Send + Sync + 'static {
    /// For a backend that meets its own inodes in `link` and `rename`: itself.
    fn as_any(&self) -> &dyn core::any::Any;

    /// What `name` is in directory `dir`. Held: the directory's names, at least shared.
    ///
    /// # Errors
    /// Whatever the backend meets; `ENOTDIR` by default.
    fn lookup(&self, dir: &Inode, name: &[u8], patience: Patience) -> Result<Found, Errno> {
        Err(Errno::ENOTDIR)
    }

    /// Makes a file of any type under `name`, which is absent. Updates the directory's times (and
    /// links, for a
    /// directory).
    ///
    /// # Errors
    /// `EPERM` by default; `ENOSPC`, `EDQUOT` and what else the backend meets.
    fn create(&self, dir: &Inode, name: &[u8], new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        Err(Errno::EPERM)
    }

    /// Makes a regular file without a name (`O_TMPFILE`): link count 0.
    ///
    /// # Errors
    /// `EOPNOTSUPP` by default.
    fn tmpfile(&self, dir: &Inode, new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Gives `target` (not a directory) one more name. Updates times and link count.
    ///
    /// # Errors
    /// `EPERM` by default; `EMLINK`.
    fn link(
        &self,
        dir: &Inode,
        name: &[u8],
        target: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Removes `name`, which is `victim`, not a directory. Updates times and link count.
    ///
    /// # Errors
    /// `EPERM` by default.
    fn unlink(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Removes the directory `victim` under `name`; both are locked.
    ///
    /// # Errors
    /// `EPERM` by default; `ENOTEMPTY`.
    fn rmdir(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Carries out a rename.
    ///
    /// # Errors
    /// `EPERM` by default; `ENOTEMPTY` for a target directory that is not empty.
    fn rename(&self, rename: &Rename<'_>) -> Result<(), Errno> {
        Err(Errno::EPERM)
    }

    /// Lists entries from position `from` on (0: the first), without `.` and `..`, until `emit`
    /// says no.
    ///
    /// # Errors
    /// `ENOTDIR` by default.
    fn readdir(
        &self,
        dir: &Inode,
        from: i64,
        emit: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        Err(Errno::ENOTDIR)
    }

    /// The body of a symbolic link: asked once, since a body never changes.
    ///
    /// # Errors
    /// `EINVAL` by default.
    fn readlink(&self, inode: &Inode) -> Result<Cow<'_, [u8]>, Errno> {
        Err(Errno::EINVAL)
    }

    /// Where a magic link leads ([`flag::MAGIC`]).
    ///
    /// # Errors
    /// `EACCES` by default.
    fn jump(&self, inode: &Inode) -> Result<VfsPath, Errno> {
        Err(Errno::EACCES)
    }

    /// Reads at `offset`; less than asked for at the end, 0 past it.
    ///
    /// # Errors
    /// `EINVAL` by default.
    fn read_at(&self, inode: &Inode, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        Err(Errno::EINVAL)
    }

    /// Writes at `offset`, growing the file as needed; updates size, blocks and times.
    ///
    /// # Errors
    /// `EINVAL` by default; `ENOSPC`, `EFBIG`.
    fn write_at(
        &self,
        inode: &Inode,
        data: &[u8],
        offset: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        Err(Errno::EINVAL)
    }

    /// The next data or hole at or after `offset`.
    ///
    /// # Errors
    /// `EINVAL` by default; `ENXIO` past the end.
    fn seek_extent(&self, inode: &Inode, offset: u64, extent: Extent) -> Result<u64, Errno> {
        Err(Errno::EINVAL)
    }

    /// Applies a change of attributes. The default sets the core's attributes and refuses a change
    /// of length.
    ///
    /// # Errors
    /// `EINVAL` for a length by default; `EFBIG`, `ENOSPC`.
    fn setattr(&self, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        if change.size.is_some() {
            return Err(Errno::EINVAL);
        }
        inode.apply(change);
        Ok(())
    }

    /// Brings the core's attributes up to date where something else may have changed them.
    ///
    /// # Errors
    /// `EAGAIN` if it would have to wait and may not.
    fn refresh(&self, inode: &Inode, patience: Patience) -> Result<(), Errno> {
        Ok(())
    }

    /// The value of an extended attribute.
    ///
    /// # Errors
    /// `EOPNOTSUPP` by default; `ENODATA`.
    fn getxattr(&self, inode: &Inode, name: &[u8]) -> Result<Vec<u8>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Sets an extended attribute; `flags` as `XATTR_CREATE`, `XATTR_REPLACE`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` by default; `EEXIST`, `ENODATA`, `ENOSPC`.
    fn setxattr(
        &self,
        inode: &Inode,
        name: &[u8],
        value: &[u8],
        flags: u32,
        now: Timespec,
    ) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// The names of all extended attributes.
    ///
    /// # Errors
    /// `EOPNOTSUPP` by default.
    fn listxattr(&self, inode: &Inode) -> Result<Vec<Vec<u8>>, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `EOPNOTSUPP` by default; `ENODATA`.
    fn removexattr(&self, inode: &Inode, name: &[u8], now: Timespec) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }
}

impl Inode {
    /// Calls the backend; a panic in it becomes `EIO` and harms nobody else.
    ///
    /// # Errors
    /// Those of `call`; `EIO`.
    pub(crate) fn shielded<'a, R>(
        &'a self,
        call: impl FnOnce(&'a dyn InodeOps) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let call = std::panic::AssertUnwindSafe(|| call(&*self.ops));
        std::panic::catch_unwind(call).unwrap_or(Err(Errno::EIO))
    }

    /// Takes file capabilities away, if there are any (`security_inode_killpriv`).
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

    /// The body of a symbolic link, if it was read before.
    pub(crate) fn cached_link(&self) -> Option<&[u8]> {
        self.link.get().map(|body| &**body)
    }

    /// The body of a symbolic link, from the backend the first time (`get_link`).
    ///
    /// # Errors
    /// Those of [`InodeOps::readlink`]; `ENOENT` for an empty body.
    pub(crate) fn read_link(&self) -> Result<&[u8], Errno> {
        if let Some(body) = self.link.get() {
            return Ok(body);
        }
        let body = self.shielded(|ops| ops.readlink(self))?;
        if body.is_empty() {
            return Err(Errno::ENOENT);
        }
        Ok(self.link.get_or_init(|| body.into()))
    }

    /// Sets what `change` names, but for the length, in the core's attributes.
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
    }
}
