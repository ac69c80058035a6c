// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads file attributes: stat(2), lstat(2), fstat(2), newfstatat(2), statx(2).
//!
//! # Rules
//! R1. The core's attributes answer: no backend is called, except in trees that confirm; nothing is
//!     allocated and no lock is taken. They are read once, so that all of an answer belongs to one
//!     moment.

use super::at_lookup;
use super::resolve;
use crate::config::Profile;
use crate::file::PathStart;
use crate::file_ops::Fd;
use crate::inode::{Attr, WaitMode, flag};
use crate::target::Target;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_NO_AUTOMOUNT, AT_STATX_SYNC_TYPE, AT_SYMLINK_NOFOLLOW,
};
use openpath_abi::limits::PAGE_SIZE;
use openpath_abi::mode::S_IFIFO;
use openpath_abi::statx::{
    STATX_ATTR_APPEND, STATX_ATTR_AUTOMOUNT, STATX_ATTR_DAX, STATX_ATTR_IMMUTABLE,
    STATX_ATTR_MOUNT_ROOT, STATX_ATTR_NODUMP, STATX_BASIC_STATS, STATX_BTIME, STATX_CTIME,
    STATX_MNT_ID, STATX_MNT_ID_UNIQUE, STATX_MTIME, STATX_RESERVED,
};
use openpath_abi::{AtFlags, Errno, Stat, Statx, StatxMask, Timespec, stat};

/// The flags that newfstatat(2) and statx(2) know.
const KNOWN: AtFlags = AtFlags::union_of(&[
    AT_SYMLINK_NOFOLLOW,
    AT_NO_AUTOMOUNT,
    AT_EMPTY_PATH,
    AT_STATX_SYNC_TYPE,
]);

/// The attributes that statx(2) can tell apart on every file system.
const GENERIC: u64 = STATX_ATTR_AUTOMOUNT | STATX_ATTR_DAX | STATX_ATTR_MOUNT_ROOT;
/// The attributes that statx(2) can tell apart.
const ATTRIBUTES: u64 = GENERIC | STATX_ATTR_APPEND | STATX_ATTR_IMMUTABLE | STATX_ATTR_NODUMP;

impl Task {
    /// The attributes of the file at `path`. Linux: stat(2).
    ///
    /// # Errors
    /// `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk.
    #[inline]
    pub fn stat(&self, path: &[u8]) -> Result<Stat, Errno> {
        let held = resolve(&self.core, PathStart::Cwd, path, lflag::FOLLOW)?;
        Ok(held.target()?.stat())
    }

    /// As [`Task::stat`], but a link in the last place is not followed. Linux: lstat(2).
    ///
    /// # Errors
    /// As [`Task::stat`].
    #[inline]
    pub fn lstat(&self, path: &[u8]) -> Result<Stat, Errno> {
        let held = resolve(&self.core, PathStart::Cwd, path, 0)?;
        Ok(held.target()?.stat())
    }

    /// The attributes of the file at `path`, relative to `dirfd`. Linux: newfstatat(2).
    ///
    /// With `AT_EMPTY_PATH`, an empty path and a descriptor that is not negative, no other flag is
    /// looked at.
    ///
    /// # Errors
    /// `EBADF` (such a descriptor, not open), `EINVAL` (flags), then as [`Task::stat`].
    #[doc(alias = "newfstatat")]
    pub fn fstatat(&self, dirfd: Fd, path: &[u8], at_flags: AtFlags) -> Result<Stat, Errno> {
        self.fstatat_by(dirfd, path, at_flags, 0)
    }

    /// As [`Task::fstatat`], walking with these flags besides.
    #[inline(always)]
    pub(super) fn fstatat_by(
        &self,
        dirfd: Fd,
        path: &[u8],
        at_flags: AtFlags,
        lookup: u32,
    ) -> Result<Stat, Errno> {
        if is_descriptor_alone(dirfd, path, at_flags) {
            return self.fstat_by(dirfd, lookup);
        }
        if at_flags.intersects(!KNOWN) {
            return Err(Errno::EINVAL);
        }
        let base = self.core.base(dirfd);
        let held = resolve(&self.core, base.at(), path, at_lookup(at_flags) | lookup)?;
        Ok(held.target()?.stat())
    }

    /// The attributes of the file at `path`, relative to `dirfd`, as far as `mask` (`STATX_*`)
    /// asks. Linux: statx(2).
    ///
    /// With `AT_EMPTY_PATH`, an empty path and a descriptor that is not negative, unknown flags are
    /// not looked at.
    ///
    /// # Errors
    /// `EINVAL` (reserved bit of the mask, both kinds of synchronisation), `EBADF` (such a
    /// descriptor, not open), `EINVAL` (flags), then as [`Task::stat`].
    pub fn statx(
        &self,
        dirfd: Fd,
        path: &[u8],
        at_flags: AtFlags,
        mask: StatxMask,
    ) -> Result<Statx, Errno> {
        self.statx_by(dirfd, path, (at_flags, mask), 0)
    }

    /// As [`Task::statx`], walking with these flags besides.
    #[inline(always)]
    pub(super) fn statx_by(
        &self,
        dirfd: Fd,
        path: &[u8],
        (at_flags, mask): (AtFlags, StatxMask),
        lookup: u32,
    ) -> Result<Statx, Errno> {
        if mask.contains(STATX_RESERVED) || at_flags.contains(AT_STATX_SYNC_TYPE) {
            return Err(Errno::EINVAL);
        }
        if is_descriptor_alone(dirfd, path, at_flags) {
            let file = self.core.fdget(dirfd)?;
            let target = file.target()?;
            let attr = target.confirmed_attr(lookup)?;
            return Ok(target.statx(&attr, mask));
        }
        if at_flags.intersects(!KNOWN) {
            return Err(Errno::EINVAL);
        }
        let base = self.core.base(dirfd);
        let held = resolve(&self.core, base.at(), path, at_lookup(at_flags) | lookup)?;
        let target = held.target()?;
        Ok(target.statx(&target.inode.attr(), mask))
    }
}

/// Whether the call is about the file at a descriptor, and about no path (`getname_maybe_null`).
fn is_descriptor_alone(dirfd: Fd, path: &[u8], at_flags: AtFlags) -> bool {
    dirfd >= 0 && path.is_empty() && at_flags.contains(AT_EMPTY_PATH)
}

impl Task {
    /// The attributes of the file at `fd`; works with `O_PATH` too. Linux: fstat(2).
    ///
    /// # Errors
    /// `EBADF`.
    pub fn fstat(&self, fd: Fd) -> Result<Stat, Errno> {
        self.fstat_by(fd, 0)
    }

    /// The type of the file at `fd` (`S_IFMT` of its mode), which never changes: no backend is
    /// asked. Works with `O_PATH` too.
    ///
    /// # Errors
    /// `EBADF`.
    pub fn kind_of(&self, fd: Fd) -> Result<u32, Errno> {
        let file = self.core.fdget(fd)?;
        Ok(file.target()?.inode.kind())
    }

    #[inline(always)]
    fn fstat_by(&self, fd: Fd, lookup: u32) -> Result<Stat, Errno> {
        let file = self.core.fdget(fd)?;
        let target = file.target()?;
        Ok(target.stat_of(&target.confirmed_attr(lookup)?))
    }
}

impl Target<'_> {
    #[inline(always)]
    fn stat(&self) -> Stat {
        self.stat_of(&self.inode.attr())
    }

    /// The attributes, up to date, for a call by a descriptor that would walk with these flags.
    #[inline(always)]
    fn confirmed_attr(&self, lookup: u32) -> Result<Attr, Errno> {
        self.inode.confirmed_attr(|_| {
            let wait_mode = if lookup & lflag::CACHED == 0 {
                WaitMode::Wait
            } else {
                WaitMode::Cached
            };
            self.refresh(wait_mode)
        })
    }

    #[inline(always)]
    fn stat_of(&self, a: &Attr) -> Stat {
        Stat {
            dev: self.mount.dev,
            ino: self.inode.ino(),
            mode: a.mode,
            nlink: u64::from(a.nlink),
            uid: a.uid,
            gid: a.gid,
            rdev: self.inode.rdev(),
            size: a.size.cast_signed(),
            blksize: PAGE_SIZE as i64,
            blocks: a.blocks.cast_signed(),
            atime: a.atime,
            mtime: a.mtime,
            ctime: a.ctime,
        }
    }

    fn statx(&self, attr: &Attr, mask: StatxMask) -> Statx {
        let s = self.stat_of(attr);
        let mut filled = STATX_BASIC_STATS | mask & STATX_BTIME;
        // Pipefs fills no more than every file system does.
        let bare = self.inode.kind() == S_IFIFO
            && self.core.vfs.pipe_mount.get() == Some(&self.path_ids.mount);
        if bare {
            filled &= !STATX_BTIME;
        }
        let (mut mtime, mut ctime) = (s.mtime, s.ctime);
        let changes = STATX_MTIME | STATX_CTIME;
        if !bare && !mask.intersects(changes) && self.core.vfs.config.profile >= Profile::V6_18 {
            // A request for the change time makes the next change visible, so it is not made
            // unasked.
            filled &= !changes;
            (mtime, ctime) = (Timespec::EPOCH, Timespec::EPOCH);
        }
        let btime = if !filled.contains(STATX_BTIME) {
            Timespec::EPOCH
        } else {
            self.inode.btime()
        };
        let (mnt_id, id_kind) = if !mask.contains(STATX_MNT_ID_UNIQUE) {
            (u64::from(self.path_ids.mount), STATX_MNT_ID)
        } else {
            (self.mount.id, STATX_MNT_ID_UNIQUE)
        };
        Statx {
            mask: filled | id_kind,
            blksize: PAGE_SIZE as u32,
            attributes: self.attributes(),
            attributes_mask: if bare { GENERIC } else { ATTRIBUTES },
            // A link count, and a mode, that came from 32 and 16 bits.
            nlink: s.nlink as u32,
            mode: s.mode as u16,
            uid: s.uid,
            gid: s.gid,
            ino: s.ino,
            size: s.size.cast_unsigned(),
            blocks: s.blocks.cast_unsigned(),
            atime: s.atime,
            btime,
            ctime,
            mtime,
            rdev_major: stat::major(s.rdev),
            rdev_minor: stat::minor(s.rdev),
            dev_major: stat::major(s.dev),
            dev_minor: stat::minor(s.dev),
            mnt_id,
            ..Statx::default()
        }
    }

    fn attributes(&self) -> u64 {
        let flags = self.inode.flags();
        let root = self.core.vfs.mounts.at(self.path_ids.mount).root.get();
        let mut attributes = 0;
        for (on, bit) in [
            (flags & flag::IMMUTABLE != 0, STATX_ATTR_IMMUTABLE),
            (flags & flag::APPEND_ONLY != 0, STATX_ATTR_APPEND),
            (self.path_ids.dentry == root, STATX_ATTR_MOUNT_ROOT),
        ] {
            if on {
                attributes |= bit;
            }
        }
        attributes
    }
}
