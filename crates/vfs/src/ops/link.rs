// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes hard links: link(2), linkat(2).
//!
//! # Kernel analogue
//! `do_linkat`, `may_linkat`, `vfs_link`.
//!
//! # Locks
//! The directory, then the file.

use super::create::{NewEntry, Slash, make_name};
use super::{PinnedPath, resolve};
use crate::file_ops::Fd;
use crate::inode::{Inode, flag};
use crate::perm::{self, MAY_READ, MAY_WRITE};
use crate::task::{Core, Task};
use crate::walk::lflag;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_SYMLINK_FOLLOW};
use openpath_abi::{AtFlags, Errno, mode};
use std::sync::Arc;

impl Task {
    /// Gives the file `old` the name `new` as well; a link in the last place of `old` is not
    /// followed. Linux: link(2).
    ///
    /// # Errors
    /// As [`Task::linkat`].
    pub fn link(&self, old: &[u8], new: &[u8]) -> Result<(), Errno> {
        self.linkat(AT_FDCWD, old, AT_FDCWD, new, AtFlags::empty())
    }

    /// Gives the file `old` the name `new` as well. Linux: linkat(2).
    ///
    /// # Errors
    /// In this order:
    /// * `EINVAL` (flags);
    /// * those of the walk to `old` (`ENOENT` for another task's descriptor with `AT_EMPTY_PATH`);
    /// * those of the walk to `new`;
    /// * `EEXIST`, `ENOENT` (slash after an absent name), `ENAMETOOLONG`; `EROFS`;
    /// * `EXDEV` (another mount, even of the same tree); `EPERM` (`protected_hardlinks`);
    /// * `ENOENT` (removed directory), `EACCES`; `EPERM` (append-only or immutable file,
    ///   directory);
    /// * `ENOENT` (a file without a name that may not get one);
    /// * `EINTR` (while it waited for a delegation);
    /// * `EMLINK`, `ENOSPC` and others that the backend meets.
    #[doc(alias = "AT_EMPTY_PATH")]
    pub fn linkat(
        &self,
        dirfd: Fd,
        old: &[u8],
        new_dirfd: Fd,
        new: &[u8],
        flags: AtFlags,
    ) -> Result<(), Errno> {
        self.linkat_by(dirfd, old, (new_dirfd, new), flags, 0)
    }

    /// As [`Task::linkat`], walking with these flags besides.
    pub(super) fn linkat_by(
        &self,
        dirfd: Fd,
        old: &[u8],
        (new_dirfd, new): (Fd, &[u8]),
        flags: AtFlags,
        walks: u32,
    ) -> Result<(), Errno> {
        let (base, new_base) = (self.core.base(dirfd), self.core.base(new_dirfd));
        let (at, new_at) = (base.at(), new_base.at());
        if flags.intersects(!(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH)) {
            return Err(Errno::EINVAL);
        }
        let mut lookup = walks;
        if flags.contains(AT_EMPTY_PATH) {
            lookup |= lflag::EMPTY | lflag::LINKAT_EMPTY;
        }
        if flags.contains(AT_SYMLINK_FOLLOW) {
            lookup |= lflag::FOLLOW;
        }
        let core = &self.core;
        let source = resolve(core, at, old, lookup)?;
        make_name(core, new_at, new, (Slash::Refused, walks), |place| {
            if place.dir.path_ids().mount != source.path_ids().mount {
                return Err(Errno::EXDEV);
            }
            may_link(core, &source)?;
            place.may_create()?;
            link_locked(core, place, &source)
        })
    }
}

/// Whether the task may give the file another name at all (`may_linkat`).
fn may_link(core: &Core, source: &PinnedPath<'_>) -> Result<(), Errno> {
    if !core.vfs.config.sysctl.protected_hardlinks {
        return Ok(());
    }
    let inode = source.inode()?;
    let cred = core.cred();
    if cred.owner_or_capable(inode.ids().0) {
        return Ok(());
    }
    let bits = inode.mode();
    let group_runs = mode::S_ISGID | mode::S_IXGRP;
    let is_safe = bits & mode::S_IFMT == mode::S_IFREG
        && bits & mode::S_ISUID == 0
        && bits & group_runs != group_runs
        && perm::inode_permission(&cred, &source.mount()?.sb, inode, MAY_READ | MAY_WRITE).is_ok();
    if is_safe { Ok(()) } else { Err(Errno::EPERM) }
}

/// Links with the directory locked (`vfs_link`).
fn link_locked(
    core: &Core,
    place: &NewEntry<'_>,
    source: &PinnedPath<'_>,
) -> Result<Arc<Inode>, Errno> {
    let target = source.share_inode()?;
    if target.flags() & (flag::APPEND_ONLY | flag::IMMUTABLE) != 0 || target.is_dir() {
        return Err(Errno::EPERM);
    }
    let file = target.lock_names_nested();
    if target.nlink() == 0 && target.flags() & flag::LINKABLE == 0 {
        return Err(Errno::ENOENT);
    }
    core.try_break(place.inode)?;
    core.try_break(&target)?;
    let now = core.vfs.clock.now();
    core.vfs.dcache.with_room(|| {
        let dir = place.inode;
        dir.shielded(|ops| ops.link(dir, place.name, &target, now))
    })?;
    target.clear_flags(flag::LINKABLE);
    drop(file);
    core.vfs.tell_links_changed(&target);
    Ok(target)
}
