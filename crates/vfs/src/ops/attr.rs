// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes mode and owner of files: chmod(2), fchmod(2), fchmodat2(2), chown(2), lchown(2),
//! fchown(2), fchownat(2).
//!
//! # Kernel analogue
//! `chmod_common`, `chown_common`, `notify_change`, `setattr_prepare`, `setattr_copy`.
//!
//! # Locks
//! A change holds the inode's `InodeNames` lock from its first look at the attributes to the end.
//!
//! # Rules
//! R1. A directory's new mode, owner or access control list may change its search permission: the
//!     change runs inside a `DirChange`, and the entry says afterwards whether walks must ask.

use super::at_lookup;
use super::resolve;
use crate::cred::Cred;
use crate::file_ops::Fd;
use crate::inode::SetAttr;
use crate::target::Target;
use crate::task::Task;
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_NOFOLLOW};
use openpath_abi::mode::{S_IALLUGO, S_IFLNK, S_ISGID, S_ISUID, S_IXGRP};
use openpath_abi::{AtFlags, Errno, Mode, caps};

impl Task {
    /// Sets the permission bits of `path`. Linux: chmod(2).
    ///
    /// # Errors
    /// As [`Task::fchmodat2`].
    pub fn chmod(&self, path: &[u8], mode: impl Into<Mode>) -> Result<(), Errno> {
        self.fchmodat2(AT_FDCWD, path, mode, AtFlags::empty())
    }

    /// Sets the permission bits of `path`, relative to `dirfd`. Linux: fchmodat2(2).
    ///
    /// The set-group-id bit is dropped if the caller is not in the file's group.
    ///
    /// # Errors
    /// `EINVAL` (flags), `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk, `EROFS`, `EPERM`
    /// (immutable or append-only), `EOPNOTSUPP` (a link), `EPERM` (not the owner), what the backend
    /// meets.
    pub fn fchmodat2(
        &self,
        dirfd: Fd,
        path: &[u8],
        mode: impl Into<Mode>,
        at_flags: AtFlags,
    ) -> Result<(), Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        if at_flags.intersects(!(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) {
            return Err(Errno::EINVAL);
        }
        let held = resolve(&self.core, at, path, at_lookup(at_flags))?;
        held.target()?.chmod(mode.into().bits())
    }

    /// Sets owner and group of `path`; `u32::MAX` leaves one as it is. Linux: chown(2).
    ///
    /// # Errors
    /// As [`Task::fchownat`].
    pub fn chown(&self, path: &[u8], uid: u32, gid: u32) -> Result<(), Errno> {
        self.fchownat(AT_FDCWD, path, uid, gid, AtFlags::empty())
    }

    /// As [`Task::chown`], but a link in the last place is the file itself. Linux: lchown(2).
    ///
    /// # Errors
    /// As [`Task::fchownat`].
    pub fn lchown(&self, path: &[u8], uid: u32, gid: u32) -> Result<(), Errno> {
        self.fchownat(AT_FDCWD, path, uid, gid, AT_SYMLINK_NOFOLLOW)
    }

    /// Sets owner and group of `path`, relative to `dirfd`; `u32::MAX` leaves one as it is. Linux:
    /// fchownat(2).
    ///
    /// A file that is no directory loses its set-id bits, also when neither is set.
    ///
    /// # Errors
    /// `EINVAL` (flags), `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk, `EROFS`, `EPERM`
    /// (immutable or append-only; not the owner and no `CAP_CHOWN`; a group the owner is not in;
    /// set-id bits of another user's file without `CAP_FOWNER`), what the backend meets.
    pub fn fchownat(
        &self,
        dirfd: Fd,
        path: &[u8],
        uid: u32,
        gid: u32,
        at_flags: AtFlags,
    ) -> Result<(), Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        if at_flags.intersects(!(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) {
            return Err(Errno::EINVAL);
        }
        let held = resolve(&self.core, at, path, at_lookup(at_flags))?;
        held.target()?.chown(uid, gid)
    }
}

impl Task {
    /// Sets the permission bits of the file at `fd`. Linux: fchmod(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), then as [`Task::fchmodat2`] from `EROFS` on.
    pub fn fchmod(&self, fd: Fd, mode: impl Into<Mode>) -> Result<(), Errno> {
        let file = self.core.fdget_full(fd)?;
        let target = file.target()?;
        target.confirm()?;
        target.chmod(mode.into().bits())
    }

    /// Sets owner and group of the file at `fd`; `u32::MAX` leaves one as it is. Linux: fchown(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), then as [`Task::fchownat`] from `EROFS` on.
    pub fn fchown(&self, fd: Fd, uid: u32, gid: u32) -> Result<(), Errno> {
        let file = self.core.fdget_full(fd)?;
        let target = file.target()?;
        target.confirm()?;
        target.chown(uid, gid)
    }
}

/// The kind of anonymous files: no task may change them.
pub(super) const ANONYMOUS: u32 = 0;

/// Whether the set-group-id bit may be on a file of this group (`in_group_or_capable`).
pub(super) fn may_set_group_id(cred: &Cred, gid: u32) -> bool {
    cred.in_group(gid) || cred.capable(caps::CAP_FSETID)
}

/// Whether a new owner drops the set-group-id bit (`setattr_should_drop_sgid`).
fn drops_group_id(cred: &Cred, mode: u32, gid: u32) -> bool {
    mode & S_ISGID != 0 && (mode & S_IXGRP != 0 || !may_set_group_id(cred, gid))
}

impl Target<'_> {
    fn chmod(&self, mode: u32) -> Result<(), Errno> {
        let _writing = self.begin_write()?;
        self.core.past_delegations(|| self.chmod_locked(mode))
    }

    fn chmod_locked(&self, mode: u32) -> Result<(), Errno> {
        let inode = self.inode;
        let _held = inode.lock_names();
        self.must_be_free()?;
        if matches!(inode.kind(), S_IFLNK | ANONYMOUS) {
            return Err(Errno::EOPNOTSUPP);
        }
        self.core.try_break(inode)?;
        let (uid, gid) = inode.ids();
        let mut mode = mode & S_IALLUGO;
        {
            let cred = self.core.cred();
            if !cred.owner_or_capable(uid) {
                return Err(Errno::EPERM);
            }
            if !may_set_group_id(&cred, gid) {
                mode &= !S_ISGID;
            }
        }
        self.change(&SetAttr {
            mode: Some(mode),
            ctime: Some(self.core.vfs.clock.now()),
            ..SetAttr::default()
        })
    }

    fn chown(&self, uid: u32, gid: u32) -> Result<(), Errno> {
        let _writing = self.begin_write()?;
        let wanted = |id: u32| (id != u32::MAX).then_some(id);
        let ids = (wanted(uid), wanted(gid));
        self.core.past_delegations(|| self.chown_locked(ids))
    }

    fn chown_locked(&self, (uid, gid): (Option<u32>, Option<u32>)) -> Result<(), Errno> {
        let inode = self.inode;
        let _held = inode.lock_names();
        if uid.is_some() || gid.is_some() {
            self.must_be_free()?;
        }
        if inode.kind() == ANONYMOUS {
            return Err(Errno::EOPNOTSUPP);
        }
        self.core.try_break(inode)?;
        let mode = self.may_chown(uid, gid)?;
        let now = self.core.vfs.clock.now();
        if !inode.is_dir() {
            inode.drop_capabilities(now)?;
        }
        self.change(&SetAttr {
            mode,
            uid,
            gid,
            ctime: Some(now),
            ..SetAttr::default()
        })
    }

    /// Whether this task may set these ids; the mode without set-id bits, if it changes with them.
    ///
    /// # Errors
    /// `EPERM`.
    fn may_chown(&self, uid: Option<u32>, gid: Option<u32>) -> Result<Option<u32>, Errno> {
        let cred = self.core.cred();
        let inode = self.inode;
        let (mode, (old_uid, old_gid)) = (inode.mode(), inode.ids());
        let mut kept = mode;
        if !inode.is_dir() {
            kept &= !S_ISUID;
            if drops_group_id(&cred, mode, old_gid) {
                kept &= !S_ISGID;
            }
        }
        let owner = cred.fsuid == old_uid;
        let may_give = owner && uid.is_none_or(|u| u == old_uid);
        let may_share = owner && gid.is_none_or(|g| g == old_gid || cred.in_group(g));
        let chowns = cred.capable(caps::CAP_CHOWN);
        if uid.is_some() && !may_give && !chowns || gid.is_some() && !may_share && !chowns {
            return Err(Errno::EPERM);
        }
        if kept == mode {
            return Ok(None);
        }
        // Dropping bits is a change of mode, for which CAP_CHOWN is not enough.
        if !cred.owner_or_capable(old_uid) {
            return Err(Errno::EPERM);
        }
        if !may_set_group_id(&cred, gid.unwrap_or(old_gid)) {
            kept &= !S_ISGID;
        }
        Ok(Some(kept))
    }

    /// Applies a change of mode or owner. The inode is locked.
    ///
    /// # Errors
    /// What the backend meets.
    fn change(&self, change: &SetAttr) -> Result<(), Errno> {
        self.around_search(|| self.setattr(change))
    }

    /// Runs a change that may alter the search permission, if the target is a directory (R1).
    /// The inode is locked.
    pub(super) fn around_search<T>(&self, change: impl FnOnce() -> T) -> T {
        if !self.inode.is_dir() {
            return change();
        }
        let dcache = &self.core.vfs.dcache;
        let dir = self.path_ids.dentry;
        // R1
        let moved = dcache.begin_dir_change(dir);
        let result = change();
        dcache.note_search(dir, self.inode);
        drop(moved);
        result
    }
}
