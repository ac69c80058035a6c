// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making files: with a name, as another name, and without one.
//!
//! # Rules
//! R1. A file is made with the mode asked for and then looked at: what the host made of it (its
//!     umask, the process's own user) is put right before anyone here can find it. For others on
//!     the host it is the process's own for that moment.
//! R2. Access control lists are put right last, since owner and mode change them.
//! R3. What cannot be put right is removed again.

use crate::acl::At;
use crate::handles::number;
use crate::node::Node;
use crate::options::Ownership;
use crate::owner::Guest;
use crate::pool::{Handle, Use};
use crate::sys::{ALWAYS, Facts, bits, errno, look, proper};
use crate::tree::Access;
use openpath_abi::stat::{major, minor};
use openpath_abi::{Errno, mode};
use openpath_vfs::{Inode, NewInode, Patience};
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::{AtFlags, FileType, Gid, Mode, OFlags, Uid};
use std::sync::Arc;

const WAIT: Patience = Patience::Wait;
/// Mode on the host of a file and of a directory whose own is kept in an attribute.
const FILE_MODE: u32 = 0o600;
const DIR_MODE: u32 = 0o700;

/// A new file as the host is to make it.
struct Plan {
    kind: u32,
    mode: Mode,
    /// What is kept in an attribute.
    guest: Option<Guest>,
}

impl Node {
    /// As `InodeOps::create`.
    pub(crate) fn make(
        self: &Arc<Self>,
        dir: &Inode,
        name: &[u8],
        new: &NewInode<'_>,
    ) -> Result<Arc<Inode>, Errno> {
        proper(name)?;
        let base = self.handle(Use::Path, WAIT)?;
        let plan = self.plan(new)?;
        let seen = self.tree.changes.get();
        let fd = match self.make_on_host(&base, name, new, &plan) {
            Err(Errno::ENOENT) => {
                self.must_be_there()?;
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
        self.settle(dir);
        made
    }

    /// What the host is asked for.
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
                guest: None,
            });
        }
        let (kind, mode) = match kind {
            mode::S_IFDIR => (kind, DIR_MODE),
            _ => (mode::S_IFREG, FILE_MODE),
        };
        Ok(Plan {
            kind,
            mode: bits(mode),
            guest: Some(Guest {
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
                if self.tree.access() == Access::Ours {
                    flags |= OFlags::NOATIME;
                }
                return self
                    .tree
                    .way
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

    /// Puts right what was made, and makes an inode of it.
    fn finish(
        self: &Arc<Self>,
        base: &Handle,
        name: &[u8],
        new: &NewInode<'_>,
        plan: &Plan,
        fd: Option<OwnedFd>,
        seen: u64,
    ) -> Result<Arc<Inode>, Errno> {
        let place = self.place_of(name);
        let (facts, fd) = match fd {
            Some(fd) => (self.put_right(&fd, new, plan)?, Some(fd)),
            None => self.put_right_at(base, name, new, plan)?,
        };
        let facts = match plan.guest {
            Some(guest) => self.tree.shown_as(facts, Some(guest)),
            None => self.tree.shown(facts, None)?,
        };
        let acls = || new.acls.cloned().unwrap_or_default();
        let inode = self.tree.adopt(&facts, Some(place), seen, acls);
        if let Some(fd) = fd {
            let what = if plan.kind == mode::S_IFREG {
                Use::Write
            } else {
                Use::Read
            };
            self.sibling(&inode)?.keep(fd, what, true)?;
        }
        Ok(inode)
    }

    /// Gives an open file the owner and mode it is to have; what the host says of it then.
    ///
    /// # Errors
    /// `EPERM` if the process may not.
    fn put_right(&self, fd: &OwnedFd, new: &NewInode<'_>, plan: &Plan) -> Result<Facts, Errno> {
        if let Some(guest) = plan.guest {
            guest.write(fd)?;
            let facts = look(fd, b"", WAIT)?;
            self.tree
                .give_acls(&facts, At::Fd(fd.as_fd()), new.acls, new.mode)?;
            return look(fd, b"", WAIT);
        }
        let mut facts = look(fd, b"", WAIT)?;
        let owner = self.wrong_owner(&facts, new);
        if let Some((uid, gid)) = owner {
            rustix::fs::fchown(fd, Some(uid), Some(gid)).map_err(errno)?;
            facts = look(fd, b"", WAIT)?;
        }
        if is_wrong(&facts, new) {
            rustix::fs::fchmod(fd, bits(new.mode)).map_err(errno)?;
        }
        self.tree
            .give_acls(&facts, At::Fd(fd.as_fd()), new.acls, new.mode)?;
        look(fd, b"", WAIT)
    }

    /// As [`Node::put_right`] for what was made without being opened.
    fn put_right_at(
        &self,
        base: &Handle,
        name: &[u8],
        new: &NewInode<'_>,
        plan: &Plan,
    ) -> Result<(Facts, Option<OwnedFd>), Errno> {
        let facts = look(base, name, WAIT)?;
        if facts.kind() != plan.kind {
            return Err(Errno::ESTALE);
        }
        if plan.guest.is_some() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let fd = self.tree.way.open(base, name, flags, Mode::empty(), WAIT)?;
            return Ok((self.put_right(&fd, new, plan)?, Some(fd)));
        }
        let mut facts = facts;
        if let Some((uid, gid)) = self.wrong_owner(&facts, new) {
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            rustix::fs::chownat(base, name, Some(uid), Some(gid), flags).map_err(errno)?;
            facts = look(base, name, WAIT)?;
        }
        if plan.kind != mode::S_IFLNK && is_wrong(&facts, new) {
            let fd = self
                .tree
                .way
                .open(base, name, OFlags::PATH, Mode::empty(), WAIT)?;
            if look(&fd, b"", WAIT)?.id != facts.id {
                return Err(Errno::ESTALE);
            }
            self.tree.chmod_place(&fd, new.mode)?;
        }
        let at = At::Name(base, name);
        self.tree.give_acls(&facts, at, new.acls, new.mode)?;
        Ok((look(base, name, WAIT)?, None))
    }

    /// Owner and group, if the host's are to be others.
    fn wrong_owner(&self, facts: &Facts, new: &NewInode<'_>) -> Option<(Uid, Gid)> {
        let passes = self.tree.options.ownership == Ownership::PassThrough;
        let right = (facts.attr.uid, facts.attr.gid) == (new.uid, new.gid);
        (passes && !right).then(|| (Uid::from_raw(new.uid), Gid::from_raw(new.gid)))
    }

    /// As `InodeOps::tmpfile`.
    pub(crate) fn make_nameless(self: &Arc<Self>, new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        if !mode::is_reg(new.mode) || !self.is_dir() {
            return Err(Errno::EOPNOTSUPP);
        }
        let base = self.handle(Use::Path, WAIT)?;
        let plan = self.plan(new)?;
        let seen = self.tree.changes.get();
        let mut flags = OFlags::RDWR | OFlags::TMPFILE | ALWAYS.difference(OFlags::NOFOLLOW);
        if self.tree.access() == Access::Ours {
            flags |= OFlags::NOATIME;
        }
        let fd = rustix::fs::openat(&*base, ".", flags, plan.mode).map_err(errno)?;
        let facts = self.put_right(&fd, new, &plan)?;
        let facts = self.tree.shown_as(facts, plan.guest);
        let acls = || new.acls.cloned().unwrap_or_default();
        let inode = self.tree.adopt(&facts, None, seen, acls);
        let node = self.sibling(&inode)?;
        node.set_nameless(true);
        node.keep(fd, Use::Write, true)?;
        Ok(inode)
    }

    /// As `InodeOps::link`.
    pub(crate) fn add_name(
        self: &Arc<Self>,
        dir: &Inode,
        name: &[u8],
        target: &Arc<Inode>,
    ) -> Result<(), Errno> {
        proper(name)?;
        let node = self.sibling(target)?;
        let base = self.handle(Use::Path, WAIT)?;
        let file = node.handle(Use::Path, WAIT)?;
        let linked = rustix::fs::linkat(&*file, "", &*base, name, AtFlags::EMPTY_PATH);
        let linked = match (linked, &self.tree.proc) {
            // Not everyone may name a file by its descriptor alone.
            (Err(rustix::io::Errno::NOENT), Some(proc)) => {
                let from = number(&file);
                rustix::fs::linkat(proc, from, &*base, name, AtFlags::SYMLINK_FOLLOW)
            }
            (linked, _) => linked,
        };
        linked.map_err(errno)?;
        node.found_at(self.place_of(name));
        node.settle(target);
        node.set_nameless(false);
        self.settle(dir);
        Ok(())
    }
}

/// Whether the host gave it another mode than it is to have.
fn is_wrong(facts: &Facts, new: &NewInode<'_>) -> bool {
    (facts.attr.mode ^ new.mode) & mode::S_IALLUGO != 0
}
