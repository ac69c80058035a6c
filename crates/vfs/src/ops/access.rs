// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checks access with the real IDs or the effective ones: access(2), faccessat(2), faccessat2(2).

use super::at_lookup;
use super::resolve;
use crate::cred::Cred;
use crate::file_ops::Fd;
use crate::object::mflag;
use crate::perm;
use crate::steps::Check;
use crate::task::Task;
use crate::walk::lflag;
use openpath_abi::access::{R_OK, W_OK, X_OK};
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::fcntl::{AT_EACCESS, AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use openpath_abi::{AtFlags, Errno, mode};

impl Task {
    /// Whether the real user may access `path` in the ways of `want` (`R_OK`, `W_OK`, `X_OK`; 0: it
    /// exists). Linux: access(2).
    ///
    /// # Errors
    /// As [`Task::faccessat2`].
    pub fn access(&self, path: &[u8], want: u32) -> Result<(), Errno> {
        self.faccessat2(AT_FDCWD, path, want, AtFlags::empty())
    }

    /// Whether the real user (`AT_EACCESS`: the effective one) may access `path`, relative to
    /// `dirfd`. Linux: faccessat2(2).
    ///
    /// The walk is the same user's as well.
    ///
    /// # Errors
    /// `EINVAL` (`want`, then flags), `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk,
    /// `EACCES` (a regular file on a `noexec` mount), `EROFS` (superblock), `EPERM` (immutable),
    /// `EACCES`, `EROFS` (mount).
    pub fn faccessat2(
        &self,
        dirfd: Fd,
        path: &[u8],
        want: u32,
        at_flags: AtFlags,
    ) -> Result<(), Errno> {
        self.faccessat2_by(dirfd, path, (want, at_flags), 0)
    }

    /// As [`Task::faccessat2`], walking with these flags besides.
    #[inline(always)]
    pub(super) fn faccessat2_by(
        &self,
        dirfd: Fd,
        path: &[u8],
        (want, at_flags): (u32, AtFlags),
        lookup: u32,
    ) -> Result<(), Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        if want & !(R_OK | W_OK | X_OK) != 0 {
            return Err(Errno::EINVAL);
        }
        if at_flags.intersects(!(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH)) {
            return Err(Errno::EINVAL);
        }
        let core = &self.core;
        let real = {
            let cred = core.cred();
            (!at_flags.contains(AT_EACCESS) && !is_real(&cred)).then(|| cred.as_real())
        };
        let _acting = real.map(|cred| core.act_as(cred));
        let held = resolve(core, at, path, at_lookup(at_flags) | lookup)?;
        let target = held.target()?;
        let kind = target.inode.kind();
        if want & X_OK != 0 && kind == mode::S_IFREG && target.mount_flags().has(mflag::NO_EXEC) {
            return Err(core.refused(Check::NoPrograms, Errno::EACCES));
        }
        if lookup & lflag::CACHED != 0 {
            core.can_check_now(target.inode)?;
        }
        perm::inode_permission(&core.cred(), &target.mount.sb, target.inode, want)
            .map_err(|errno| core.denied(target.inode, want, errno))?;
        let special = !matches!(kind, mode::S_IFREG | mode::S_IFDIR | mode::S_IFLNK);
        if want & W_OK != 0 && !special && target.is_read_only() {
            return Err(core.refused(Check::ReadOnlyMount, Errno::EROFS));
        }
        Ok(())
    }
}

/// Whether the credentials are already the ones that access(2) checks.
fn is_real(cred: &Cred) -> bool {
    let caps = if cred.uid == 0 { Cred::root().caps } else { 0 };
    cred.fsuid == cred.uid && cred.fsgid == cred.gid && cred.caps == caps
}
