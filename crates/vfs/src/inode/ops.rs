// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the trait `InodeOps`, which has the operations that a backend implements for an inode,
//! with their arguments and results.

use super::{AsyncIo, Inode, IoKind};
use crate::acl::{Acls, SetAcl};
use crate::file_ops::FileOps;
use crate::lock_call::LockCall;
use crate::path::VfsPath;
use crate::tenant::TenantRef;
use openpath_abi::{Errno, OFlags, Timespec, XattrFlags};
use std::borrow::Cow;
use std::io::IoSlice;
use std::sync::Arc;

/// The result of a lookup in a backend.
#[derive(Debug)]
pub enum LookupResult {
    /// This inode.
    Inode(Arc<Inode>),
    /// Nothing: the name does not exist.
    Absent,
    /// It would have to wait; asked with [`WaitMode::Cached`] only.
    WouldBlock,
}

/// Whether a backend may wait for an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WaitMode {
    /// Wait as long as it takes.
    Wait,
    /// Answer from memory or say [`LookupResult::WouldBlock`].
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
    /// The tenant that its bytes and the inode itself are charged to; `None`: none.
    pub tenant: Option<&'a TenantRef>,
    /// Its access control lists, which match its mode; `None`: it has none.
    pub acls: Option<&'a Acls>,
}

/// A rename as a backend carries it out. All checks are done; both directories are locked.
#[derive(Debug)]
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
    /// The inode under the target name.
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
pub struct ListedEntry<'a> {
    /// The name.
    pub name: &'a [u8],
    /// Its inode's number.
    pub ino: u64,
    /// `DT_*`.
    pub kind: u8,
    /// The position after this entry. Given back as `from`, it lists all that follows and nothing
    /// before. Neither negative nor 0, no other entry's, and the same while the directory changes.
    /// It need not rise from entry to entry: positions are compared with nothing.
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

/// The target of a seek for data or a hole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extent {
    /// The next byte of data (`SEEK_DATA`).
    Data,
    /// The next hole (`SEEK_HOLE`).
    Hole,
}

/// A backend's operations on one inode. Every method has a default that refuses as Linux does
/// without the operation.
///
/// The core has checked types, permissions, read-only mounts, name lengths against
/// [`crate::SuperBlock`]'s limit, and holds the locks that R1 names. A method returns an errno and
/// leaves everything as it was, or completes and updates the attributes of the inodes concerned.
#[expect(unused_variables, reason = "defaults refuse whatever they are asked")]
pub trait InodeOps: Send + Sync + 'static {
    /// Itself, for a backend that gets its own inodes in `link` and `rename`.
    fn as_any(&self) -> &dyn core::any::Any;

    /// Looks up `name` in directory `dir`. Held: the directory's names, at least shared.
    ///
    /// # Errors
    /// Whatever the backend meets; `ENOTDIR` by default.
    fn lookup(&self, dir: &Inode, name: &[u8], wait_mode: WaitMode) -> Result<LookupResult, Errno> {
        Err(Errno::ENOTDIR)
    }

    /// How many names directory `dir` has, `.` and `..` not counted, if they come and go only by
    /// the calls below; `None` if they may by themselves.
    ///
    /// An answer is a promise: once the core has cached that many names, it knows that no other
    /// exists, and stops asking. Only for trees whose names may be of 255 bytes. Held: the
    /// directory's names, at least shared, or no other thread knows the directory yet.
    fn names(&self, dir: &Inode) -> Option<u64> {
        None
    }

    /// Makes a file of any type under `name`, which is absent. Updates the directory's times (and
    /// links, for a directory).
    ///
    /// # Errors
    /// `EPERM` by default; `ENOSPC`, `EDQUOT` and others that the backend meets.
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
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        Err(Errno::ENOTDIR)
    }

    /// The body of a symbolic link: read once, since a body never changes.
    ///
    /// # Errors
    /// `EINVAL` by default; `EAGAIN` if it would have to wait and may not.
    fn readlink(&self, inode: &Inode, wait_mode: WaitMode) -> Result<Cow<'_, [u8]>, Errno> {
        Err(Errno::EINVAL)
    }

    /// The target of a magic link ([`super::flag::MAGIC`]).
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

    /// Writes as much as there is room for, in one piece, at the end of the file, which others may
    /// move at any time. Updates size, blocks and times. Returns how much was written, and the
    /// offset after it. `None`, the default: [`InodeOps::write_at`] is called, with the size that
    /// is known.
    ///
    /// # Errors
    /// `ENOSPC`, `EFBIG`.
    fn append(
        &self,
        inode: &Inode,
        data: &[IoSlice<'_>],
        now: Timespec,
    ) -> Result<Option<(usize, u64)>, Errno> {
        Ok(None)
    }

    /// An asynchronous operation on this file, if one can be had without a wait. `None`, the
    /// default: a thread makes the call and waits.
    fn async_io(&self, inode: &Inode, kind: IoKind) -> Option<Box<dyn AsyncIo>> {
        None
    }

    /// Brings size, blocks and times up to date after a [`AsyncIo`] wrote; it may wait. Does the
    /// rest of `write_at`, besides writing.
    fn settle(&self, inode: &Inode) {}

    /// Begins one opening: the state it keeps and the calls it takes over, if any. Asked only while
    /// [`super::flag::OPEN_HOOK`] is set, or for writing [`super::flag::WRITE_HOOK`]; a backend may
    /// set and clear both at any time.
    ///
    /// # Errors
    /// The errno that open(2) returns, after everything else was granted; `EAGAIN` if it would have
    /// to wait and may not.
    fn open(
        &self,
        inode: &Inode,
        flags: OFlags,
        wait_mode: WaitMode,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        Ok(None)
    }

    /// Allocates, frees or moves space, as `mode` says (`FALLOC_FL_*`; combinations were checked).
    /// Held: the file's data, for writing. Updates size, blocks and times.
    ///
    /// # Errors
    /// `EOPNOTSUPP` by default and for modes it does not know; `ENOSPC`, `EFBIG`, `EPERM` (seals).
    fn fallocate(
        &self,
        inode: &Inode,
        mode: u32,
        offset: u64,
        len: u64,
        now: Timespec,
    ) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Brings the file's data to stable storage, and all of its attributes unless `data_only`.
    ///
    /// # Errors
    /// `EIO` and others that the backend meets.
    fn fsync(&self, inode: &Inode, data_only: bool) -> Result<(), Errno> {
        Ok(())
    }

    /// Copies up to `len` bytes from `from` to `at` in `to`, a file of the same superblock (maybe
    /// the same one, then without overlap). Held: the data of `to`, for writing.
    ///
    /// # Errors
    /// `EOPNOTSUPP` by default: the core copies by reading and writing. `ENOSPC`, `EFBIG`.
    fn copy_range(
        &self,
        inode: &Inode,
        from: u64,
        to: &Inode,
        at: u64,
        len: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Shows up to `len` bytes at `offset` in place, piece by piece and in order; how many there
    /// were. A hole is shown as zeroes.
    ///
    /// # Errors
    /// `EOPNOTSUPP` by default: the backend has no pages to lend.
    fn with_pages(
        &self,
        inode: &Inode,
        offset: u64,
        len: usize,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Keeps the locks of this file itself, as a file system of many machines does (`->lock`,
    /// `->flock`); `None`, the default: the core keeps them. A backend that answers once answers
    /// always. Held: nothing. A request that waits sleeps by the given sleeper, and ends with
    /// `EINTR`.
    ///
    /// A backend that set a lock is told when its owner's last one ends: by a request without a
    /// kind for the whole file.
    ///
    /// # Errors
    /// Those that fcntl(2) or flock(2) returns: `EAGAIN`, `EDEADLK`, `EINTR`, `ENOLCK`.
    fn lock(&self, inode: &Inode, call: LockCall<'_>) -> Option<Result<(), Errno>> {
        None
    }

    /// The file's seals (`F_GET_SEALS`).
    ///
    /// # Errors
    /// `EINVAL` by default: it cannot be sealed.
    fn seals(&self, inode: &Inode) -> Result<u32, Errno> {
        Err(Errno::EINVAL)
    }

    /// Adds seals (`F_ADD_SEALS`).
    ///
    /// # Errors
    /// `EINVAL` by default; `EPERM` (sealed against seals).
    fn add_seals(&self, inode: &Inode, seals: u32) -> Result<(), Errno> {
        Err(Errno::EINVAL)
    }

    /// A request of the device or file system; the reply in `arg` goes back to the caller.
    /// `FS_IOC_SETFLAGS` comes with permissions checked and the inode's names locked; a backend
    /// that has it answers a shorter argument with `EFAULT`.
    ///
    /// # Errors
    /// `ENOTTY` by default.
    fn ioctl(&self, inode: &Inode, request: u32, arg: &mut [u8]) -> Result<i64, Errno> {
        Err(Errno::ENOTTY)
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
    fn refresh(&self, inode: &Inode, wait_mode: WaitMode) -> Result<(), Errno> {
        Ok(())
    }

    /// Sets or removes an access control list, the mode that goes with it and the time of the
    /// change, and puts the list where the core finds it ([`Inode::put_acls`]). Asked only in trees
    /// with [`crate::SuperBlockOptions::acls`], and never of a symbolic link.
    ///
    /// # Errors
    /// `EOPNOTSUPP` by default; `ENOSPC`.
    fn set_acl(&self, inode: &Inode, change: &SetAcl<'_>) -> Result<(), Errno> {
        Err(Errno::EOPNOTSUPP)
    }

    /// Reads the access control lists of an inode that has them unread
    /// ([`super::Inode::defer_acls`]), and puts them where the core finds them
    /// ([`Inode::put_acls`]); without an effect, all but the owner are denied. It may wait, and
    /// locks of this inode that the core has are held.
    fn read_acls(&self, inode: &Inode) {}

    /// The value of an extended attribute. Access control lists are never asked for: the core has
    /// them from [`Inode::put_acls`].
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
        flags: XattrFlags,
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
