// SPDX-License-Identifier: MIT OR Apache-2.0
//! Creates files on the host, with a name or without one, and links a file under another name.
//!
//! # Rules
//! R1. A file is made with the requested mode and then looked at. What the host changed (its umask,
//!     the process's own user) is corrected before anyone here can find the file. Until then other
//!     programs on the host see the process's own file.
//! R2. Access control lists are corrected last, because owner and mode change them.
//! R3. A file that cannot be corrected is removed again.

use crate::acl::AclTarget;
use crate::handles::fd_name;
use crate::node::Node;
use crate::options::Ownership;
use crate::owner::StoredAttr;
use crate::pool::{Handle, HandleKind};
use crate::sys::{ALWAYS, HostStat, bits, check_component, errno, stat_at};
use crate::tree::AtimeSource;
use openpath_abi::stat::{major, minor};
use openpath_abi::{Errno, mode};
use openpath_vfs::{Inode, NewInode, WaitMode};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use std::sync::Arc;

const WAIT: WaitMode = WaitMode::Wait;
/// Modes on the host of a file and a directory with their own mode in an attribute.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// A new file as the host is asked to make it.
struct Plan {
    kind: u32,
    mode: Mode,
    /// The attributes to store.
    stored: Option<StoredAttr>,
}

impl Node {
    /// As `InodeOps::create`.
    pub(crate) fn create_child(
        self: &Arc<Self>,
        dir: &Inode,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Arc<Inode>, Errno> {
        check_component(name)?;
        let base = self.handle(HandleKind::Path, WAIT)?;
        let plan = self.plan(new)?;
        let seen = self.tree.change_count.get();
        let fd = match self.make_on_host(&base, name, new, &plan) {
            Err(Errno::ENOENT) => {
                self.check_not_removed()?;
                return Err(Errno::ENOENT);
            }
            made => made?,
        };
        let made = self.finish(&base, name, new, &plan, fd, seen);
        if made.is_err() {
            let flags = if plan.kind == mode::S_IFDIR {
                AtFlags::REMOVEDIR
            } else {
                AtFlags::empty()
            };
            let _stays_if_it_must = rustix::fs::unlinkat(&*base, name, flags);
        }
        self.refresh_after_change(dir);
        made
    }

    /// Plans what the host is asked for.
    ///
    /// # Errors
    /// `EINVAL` for a type that does not exist.
    fn plan(&self, new: &NewInode<'_>) -> Result<Plan, Errno> {
        let kind = mode::file_type(new.mode);
        if mode::dirent_type(new.mode) == openpath_abi::dirent::DT_UNKNOWN {
            return Err(Errno::EINVAL);
        }
        let kept = matches!(self.tree.options.ownership, Ownership::Xattr { .. });
        if !kept || kind == mode::S_IFLNK {
            return Ok(Plan {
                kind,
                mode: bits(new.mode),
                stored: None,
            });
        }
        let (kind, mode) = match kind {
            mode::S_IFDIR => (kind, DIR_MODE),
            _ => (mode::S_IFREG, FILE_MODE),
        };
        Ok(Plan {
            kind,
            mode: bits(mode),
            stored: Some(StoredAttr {
                mode: new.mode,
                uid: new.uid,
                gid: new.gid,
                rdev: new.rdev,
            }),
        })
    }

    fn make_on_host(
        &self,
        base: &Handle,
        name: &[u8],
        new: &NewInode<'_>,
        plan: &Plan,
    ) -> Result<Option<OwnedFd>, Errno> {
        let node = |kind| {
            let rdev = rustix::fs::makedev(major(new.rdev), minor(new.rdev));
            rustix::fs::mknodat(base, name, kind, plan.mode, rdev)
        };
        let made = match plan.kind {
            mode::S_IFREG => {
                let mut flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOCTTY;
                if self.tree.atime_source() == AtimeSource::Own {
                    flags |= OFlags::NOATIME;
                }
                return self
                    .tree
                    .opener
                    .open(base, name, flags, plan.mode, WAIT)
                    .map(Some);
            }
            mode::S_IFDIR => rustix::fs::mkdirat(base, name, plan.mode),
            mode::S_IFLNK => rustix::fs::symlinkat(new.body, base, name),
            mode::S_IFIFO => node(FileType::Fifo),
            mode::S_IFSOCK => node(FileType::Socket),
            mode::S_IFCHR => node(FileType::CharacterDevice),
            _ => node(FileType::BlockDevice),
        };
        made.map_err(errno).map(|()| None)
    }

    /// Corrects the new file, and makes an inode of it.
    fn finish(
        self: &Arc<Self>,
        base: &Handle,
        name: &[u8],
        new: &NewInode<'_>,
        plan: &Plan,
        fd: Option<OwnedFd>,
        seen: u64,
    ) -> Result<Arc<Inode>, Errno> {
        let alias = self.alias_of(name);
        let (stat, fd) = match fd {
            Some(fd) => (self.fix_attributes(&fd, new, plan)?, Some(fd)),
            None => self.fix_attributes_at(base, name, new, plan)?,
        };
        let stat = match plan.stored {
            Some(stored) => self.tree.apply_stored(stat, Some(stored)),
            None => self.tree.apply_ownership(stat, None)?,
        };
        let acls = || new.acls.cloned().unwrap_or_default();
        let inode = self.tree.adopt(&stat, Some(alias), (seen, false), acls);
        if let Some(fd) = fd {
            let handle_kind = if plan.kind == mode::S_IFREG {
                HandleKind::Write
            } else {
                HandleKind::Read
            };
            self.sibling(&inode)?
                .install_handle(fd, handle_kind, true)?;
        }
        Ok(inode)
    }

    /// Gives an open file its owner, mode and lists; returns the host's attributes of it.
    ///
    /// # Errors
    /// `EPERM` if the process may not.
    fn fix_attributes(
        &self,
        fd: &OwnedFd,
        new: &NewInode<'_>,
        plan: &Plan,
    ) -> Result<HostStat, Errno> {
        if let Some(stored) = plan.stored {
            stored.write(fd)?;
            let stat = stat_at(fd, b"", WAIT)?;
            self.tree
                .give_acls(&stat, AclTarget::Fd(fd.as_fd()), new.acls, new.mode)?;
            return stat_at(fd, b"", WAIT);
        }
        let mut stat = stat_at(fd, b"", WAIT)?;
        let owner = self.wrong_owner(&stat, new);
        if let Some((uid, gid)) = owner {
            rustix::fs::fchown(fd, Some(uid), Some(gid)).map_err(errno)?;
            stat = stat_at(fd, b"", WAIT)?;
        }
        let other_mode = mode_differs(&stat, new);
        if other_mode {
            rustix::fs::fchmod(fd, bits(new.mode)).map_err(errno)?;
        }
        let at = AclTarget::Fd(fd.as_fd());
        let other_lists = self.tree.give_acls(&stat, at, new.acls, new.mode)?;
        if other_mode || other_lists {
            stat = stat_at(fd, b"", WAIT)?;
        }
        Ok(stat)
    }

    /// As [`Node::fix_attributes`], for a file that was made without being opened.
    fn fix_attributes_at(
        &self,
        base: &Handle,
        name: &[u8],
        new: &NewInode<'_>,
        plan: &Plan,
    ) -> Result<(HostStat, Option<OwnedFd>), Errno> {
        let stat = stat_at(base, name, WAIT)?;
        if stat.kind() != plan.kind {
            return Err(Errno::ESTALE);
        }
        if plan.stored.is_some() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let fd = self
                .tree
                .opener
                .open(base, name, flags, Mode::empty(), WAIT)?;
            return Ok((self.fix_attributes(&fd, new, plan)?, Some(fd)));
        }
        let mut stat = stat;
        let mut changed = false;
        if let Some((uid, gid)) = self.wrong_owner(&stat, new) {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(base, name, Some(uid), Some(gid), flags).map_err(errno)?;
            stat = stat_at(base, name, WAIT)?;
        }
        if plan.kind != mode::S_IFLNK && mode_differs(&stat, new) {
            let fd = self
                .tree
                .opener
                .open(base, name, OFlags::PATH, Mode::empty(), WAIT)?;
            if stat_at(&fd, b"", WAIT)?.id != stat.id {
                return Err(Errno::ESTALE);
            }
            self.tree.chmod_path_fd(&fd, new.mode)?;
            changed = true;
        }
        let at = AclTarget::Name(base, name);
        changed |= self.tree.give_acls(&stat, at, new.acls, new.mode)?;
        if changed {
            stat = stat_at(base, name, WAIT)?;
        }
        Ok((stat, None))
    }

    /// Owner and group, if the host's must change.
    fn wrong_owner(&self, stat: &HostStat, new: &NewInode<'_>) -> Option<(Uid, Gid)> {
        let passes = self.tree.options.ownership == Ownership::PassThrough;
        let right = (stat.attr.uid, stat.attr.gid) == (new.uid, new.gid);
        (passes && !right).then(|| (Uid::from_raw(new.uid), Gid::from_raw(new.gid)))
    }

    /// As `InodeOps::tmpfile`.
    pub(crate) fn create_tmpfile(
        self: &Arc<Self>,
        new: &NewInode<'_>,
    ) -> Result<Arc<Inode>, Errno> {
        if !mode::is_reg(new.mode) || !self.is_dir() {
            return Err(Errno::EOPNOTSUPP);
        }
        let base = self.handle(HandleKind::Path, WAIT)?;
        let plan = self.plan(new)?;
        let seen = self.tree.change_count.get();
        let mut flags = OFlags::RDWR | OFlags::TMPFILE | ALWAYS.difference(OFlags::NOFOLLOW);
        if self.tree.atime_source() == AtimeSource::Own {
            flags |= OFlags::NOATIME;
        }
        let fd = rustix::fs::openat(&*base, ".", flags, plan.mode).map_err(errno)?;
        let stat = self.fix_attributes(&fd, new, &plan)?;
        let stat = self.tree.apply_stored(stat, plan.stored);
        let acls = || new.acls.cloned().unwrap_or_default();
        let inode = self.tree.adopt(&stat, None, (seen, false), acls);
        let node = self.sibling(&inode)?;
        node.set_nameless(true);
        node.install_handle(fd, HandleKind::Write, true)?;
        Ok(inode)
    }

    /// As `InodeOps::link`.
    pub(crate) fn link_child(
        self: &Arc<Self>,
        dir: &Inode,
        name: &[u8],
        target: &Arc<Inode>,
    ) -> Result<(), Errno> {
        check_component(name)?;
        let node = self.sibling(target)?;
        let base = self.handle(HandleKind::Path, WAIT)?;
        let file = node.handle(HandleKind::Path, WAIT)?;
        let linked = rustix::fs::linkat(&*file, "", &*base, name, AtFlags::EMPTY_PATH);
        let linked = match (linked, &self.tree.proc) {
            // Not every process may link a file by its descriptor alone.
            (Err(rustix::io::Errno::NOENT), Some(proc)) => {
                let from = fd_name(&file);
                rustix::fs::linkat(proc, from, &*base, name, AtFlags::SYMLINK_FOLLOW)
            }
            (linked, _) => linked,
        };
        linked.map_err(errno)?;
        node.add_alias(self.alias_of(name));
        node.refresh_after_change(target);
        node.set_nameless(false);
        self.refresh_after_change(dir);
        Ok(())
    }
}

/// Whether the host gave the file another mode than requested.
fn mode_differs(stat: &HostStat, new: &NewInode<'_>) -> bool {
    (stat.attr.mode ^ new.mode) & mode::S_IALLUGO != 0
}
