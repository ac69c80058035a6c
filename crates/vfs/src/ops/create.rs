// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates names: mkdir(2), mknod(2), symlink(2) and their `at` forms.
//!
//! # Kernel analogue
//! `filename_create`, `do_mkdirat`, `do_mknodat`, `do_symlinkat`.
//!
//! # Order of checks
//! arguments -> walk to the directory -> kind of the last component -> its name (`EEXIST`, or
//! `ENOENT` for a slash after a name that is no directory's) -> read-only mount -> permission ->
//! the operation's own -> backend.

use super::{Parent, PinnedPath, resolve_parent};
use crate::file::PathStart;
use crate::file_ops::Fd;
use crate::inode::{Inode, NewInode};
use crate::open::check_path;
use crate::perm::{self, new_file};
use crate::superblock::SuperBlock;
use crate::task::{Core, Task, WriteAccess};
use crate::tenant_lru::Kind;
use crate::walk::{Disowned, Last, LastKind};
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::mode::{S_IALLUGO, S_IFCHR, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG};
use openpath_abi::{Errno, Mode, caps, mode};
use std::sync::Arc;

/// Whether a slash may follow the new name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Slash {
    /// It becomes a directory.
    Allowed,
    /// It does not.
    Refused,
}

/// A name that does not exist yet, in a locked directory that may be written.
pub(super) struct NewEntry<'a> {
    core: &'a Core,
    /// The directory.
    pub(super) dir: &'a PinnedPath<'a>,
    /// Its inode, locked.
    pub(super) inode: &'a Inode,
    /// The name.
    pub(super) name: &'a [u8],
}

/// Finds the place of a new name, walking with `lookup`, and lets `make` fill it
/// (`filename_create`).
///
/// # Errors
/// Those of the walk, `EEXIST`, `ENOENT` (slash refused), `ENAMETOOLONG`, `EROFS`, those of `make`.
pub(super) fn make_name(
    core: &Core,
    at: PathStart<'_>,
    path: &[u8],
    (slash, lookup): (Slash, u32),
    make: impl Fn(&NewEntry<'_>) -> Result<Arc<Inode>, Errno>,
) -> Result<(), Errno> {
    let Parent { dir, last, name } = resolve_parent(core, at, path, lookup)?;
    if last.kind != LastKind::Norm {
        return Err(Errno::EEXIST);
    }
    // Other errors go first, so that mkdir -p says EEXIST on a read-only mount.
    let writing = dir.begin_write();
    core.past_delegations(|| make_locked(core, &dir, &last, &name, (slash, &writing), &make))
}

/// The same with the directory found.
fn make_locked(
    core: &Core,
    dir: &PinnedPath<'_>,
    last: &Last,
    name: &[u8],
    (slash, writing): (Slash, &Result<WriteAccess<'_>, Errno>),
    make: impl Fn(&NewEntry<'_>) -> Result<Arc<Inode>, Errno>,
) -> Result<(), Errno> {
    let inode = dir.inode()?;
    let disowned = Disowned::new(core);
    let _names = inode.lock_names();
    let seen = core.vfs.dcache.seen(dir.path_ids().dentry);
    let entry = dir.new_child(name, &disowned)?;
    if entry.as_ref().is_some_and(|e| !e.is_negative()) {
        return Err(Errno::EEXIST);
    }
    let place = NewEntry {
        core,
        dir,
        inode,
        name,
    };
    let made = if last.slash && slash == Slash::Refused {
        Err(Errno::ENOENT)
    } else {
        writing.as_ref().map_err(|e| *e).and_then(|_| make(&place))
    };
    match (made, entry) {
        (Ok(made), entry) => {
            let is_dir = made.is_dir();
            match entry {
                Some(entry) => {
                    let tenant = core.tenant();
                    let dcache = &core.vfs.dcache;
                    dcache.instantiate(tenant.lru(), entry.path_ids().dentry, made);
                }
                None => dir.locked(&disowned)?.note(name, Some(made), seen),
            }
            core.vfs.tell_created(inode, name, is_dir);
            Ok(())
        }
        (Err(errno), entry) => {
            if entry.is_none() {
                dir.locked(&disowned)?.note(name, None, seen);
            }
            Err(errno)
        }
    }
}

impl NewEntry<'_> {
    /// The superblock that the directory is in.
    pub(super) fn superblock(&self) -> Result<&SuperBlock, Errno> {
        Ok(&self.dir.mount()?.sb)
    }

    /// Whether the task may make a name here (`may_create`).
    ///
    /// # Errors
    /// `ENOENT` (removed directory), `EPERM` (immutable directory), `EACCES`.
    pub(super) fn may_create(&self) -> Result<(), Errno> {
        perm::may_create(&self.core.cred(), self.superblock()?, self.inode)
    }

    /// Lets the backend make a new inode here.
    fn create(&self, wanted: u32, rdev: u64, body: &[u8]) -> Result<Arc<Inode>, Errno> {
        let core = self.core;
        core.try_break(self.inode)?;
        core.room(Kind::Positive)?;
        let file = new_file(&core.cred(), self.inode, wanted, core.umask.get())?;
        let new = NewInode {
            mode: file.mode,
            uid: file.uid,
            gid: file.gid,
            rdev,
            body,
            now: core.vfs.clock.now(),
            tenant: Some(&core.tenant()),
            acls: file.acls.as_ref(),
        };
        core.vfs.dcache.with_room(|| {
            self.inode
                .shielded(|ops| ops.create(self.inode, self.name, &new))
        })
    }
}

/// Whether mknod(2) makes such a file (`may_mknod`); the mode with its type, where 0 means a
/// regular file.
///
/// # Errors
/// `EPERM` (directory), `EINVAL` (no such type).
fn mknod_mode(mode_bits: u32) -> Result<u32, Errno> {
    match mode_bits & S_IFMT {
        0 => Ok(mode_bits | S_IFREG),
        S_IFREG | S_IFCHR | mode::S_IFBLK | mode::S_IFIFO | mode::S_IFSOCK => Ok(mode_bits),
        S_IFDIR => Err(Errno::EPERM),
        _ => Err(Errno::EINVAL),
    }
}

impl Task {
    /// Makes a directory, relative to the working directory. Linux: mkdir(2).
    ///
    /// # Errors
    /// As [`Task::mkdirat`].
    pub fn mkdir(&self, path: &[u8], mode: impl Into<Mode>) -> Result<(), Errno> {
        self.mkdirat(AT_FDCWD, path, mode)
    }

    /// Makes a directory. Linux: mkdirat(2).
    ///
    /// # Errors
    /// In this order:
    /// * `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk;
    /// * `EEXIST` (any name that is there, `.`, `..` and `/` included); `ENAMETOOLONG` (name);
    /// * `EROFS`; `ENOENT` (removed directory), `EPERM` (immutable directory), `EACCES`;
    /// * `EINTR` (while it waited for a delegation);
    /// * `EMLINK`, `ENOSPC` and others that the backend meets.
    pub fn mkdirat(&self, dirfd: Fd, path: &[u8], mode: impl Into<Mode>) -> Result<(), Errno> {
        self.mkdirat_by(dirfd, path, mode.into().bits(), 0)
    }

    /// As [`Task::mkdirat`], walking with these flags besides.
    pub(super) fn mkdirat_by(
        &self,
        dirfd: Fd,
        path: &[u8],
        mode: u32,
        lookup: u32,
    ) -> Result<(), Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        // Of the bits above the permissions, only the sticky one can be asked for.
        let wanted = S_IFDIR | mode & (0o777 | mode::S_ISVTX);
        make_name(&self.core, at, path, (Slash::Allowed, lookup), |place| {
            place.may_create()?;
            place.create(wanted, 0, b"")
        })
    }

    /// Makes a file of any type but a directory or a link, relative to the working directory.
    /// Linux: mknod(2).
    ///
    /// # Errors
    /// As [`Task::mknodat`].
    pub fn mknod(&self, path: &[u8], mode: impl Into<Mode>, dev: u64) -> Result<(), Errno> {
        self.mknodat(AT_FDCWD, path, mode, dev)
    }

    /// Makes a regular file, FIFO, socket or device. Linux: mknodat(2).
    ///
    /// Type 0 is a regular file. `dev` is in the kernel's form for users, of 32 bits.
    ///
    /// # Errors
    /// In this order: `EPERM` (a directory), `EINVAL` (a link, an unknown type); then as
    /// [`Task::mkdirat`], with `ENOENT` for a slash after an absent name before `EROFS`; `EPERM`
    /// (a device other than a whiteout, without `CAP_MKNOD`) after the permissions.
    pub fn mknodat(
        &self,
        dirfd: Fd,
        path: &[u8],
        mode: impl Into<Mode>,
        dev: u64,
    ) -> Result<(), Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        let wanted = mknod_mode(mode.into().bits() & (S_IFMT | S_IALLUGO))?;
        let (is_device, rdev) = match wanted & S_IFMT {
            S_IFCHR | mode::S_IFBLK => (true, dev & u64::from(u32::MAX)),
            _ => (false, 0),
        };
        let is_whiteout = wanted & S_IFMT == S_IFCHR && rdev == 0;
        make_name(&self.core, at, path, (Slash::Refused, 0), |place| {
            place.may_create()?;
            if is_device && !is_whiteout && !self.core.cred().capable(caps::CAP_MKNOD) {
                return Err(Errno::EPERM);
            }
            place.create(wanted, rdev, b"")
        })
    }

    /// Makes a symbolic link at `path` with the body `target`. Linux: symlink(2).
    ///
    /// # Errors
    /// As [`Task::symlinkat`].
    pub fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), Errno> {
        self.symlinkat(target, AT_FDCWD, path)
    }

    /// Makes a symbolic link at `path` with the body `target`. Linux: symlinkat(2).
    ///
    /// # Errors
    /// In this order: `ENOENT` (empty target), `ENAMETOOLONG` (target of 4096 bytes or more); then
    /// as [`Task::mkdirat`], with `ENOENT` for a slash after an absent name before `EROFS`.
    pub fn symlinkat(&self, target: &[u8], dirfd: Fd, path: &[u8]) -> Result<(), Errno> {
        self.symlinkat_by(target, dirfd, path, 0)
    }

    /// As [`Task::symlinkat`], walking with these flags besides.
    pub(super) fn symlinkat_by(
        &self,
        target: &[u8],
        dirfd: Fd,
        path: &[u8],
        lookup: u32,
    ) -> Result<(), Errno> {
        let base = self.core.base(dirfd);
        let at = base.at();
        check_path(target, false)?;
        make_name(&self.core, at, path, (Slash::Refused, lookup), |place| {
            place.may_create()?;
            place.create(S_IFLNK | 0o777, 0, target)
        })
    }
}
