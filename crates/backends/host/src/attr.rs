// SPDX-License-Identifier: MIT OR Apache-2.0
//! Attributes: changing them on the host, and bringing the core's up to date.
//!
//! # Times
//! The host's clock sets the times of what is changed there. Where nobody else changes the files,
//! reading moves the access time here and not there, since to set it there would count as a change
//! of the inode: it is known for as long as the inode is, and the host is read from without moving
//! its own (`O_NOATIME`, of the process's own files). Else access times are the host's.

use crate::acl::keep;
use crate::node::Node;
use crate::options::Ownership;
use crate::owner::Guest;
use crate::pool::{Handle, Use};
use crate::sys::{bits, errno};
use crate::tree::{Access, Tree};
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{AclKind, Inode, Patience, SetAttr};
use rustix::fd::{AsFd, AsRawFd as _};
use rustix::fs::{AtFlags, Gid, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use std::sync::Arc;

const WAIT: Patience = Patience::Wait;

impl Tree {
    /// Sets the permission bits of what a place leads to.
    ///
    /// # Errors
    /// Those of the host; `EOPNOTSUPP` where it has no `/proc`.
    pub(crate) fn chmod_place(&self, place: impl AsFd, mode_bits: u32) -> Result<(), Errno> {
        let proc = self.proc.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        let name = place.as_fd().as_raw_fd().to_string();
        rustix::fs::chmodat(proc, name, bits(mode_bits), AtFlags::empty()).map_err(errno)
    }
}

impl Node {
    /// As `InodeOps::setattr`.
    pub(crate) fn change(self: &Arc<Self>, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        let only_access = SetAttr {
            atime: change.atime,
            ..SetAttr::default()
        };
        if *change == only_access {
            if self.tree.access() == Access::Ours {
                self.was_read(inode, change);
            }
            return Ok(());
        }
        let done = self.change_on_host(inode, change);
        let access = match change.atime {
            Some(_) => Access::Hosts,
            None => self.tree.access(),
        };
        let acls = change.mode.is_some();
        let _seen_later = self.refresh_all(inode, WAIT, (access, acls));
        done
    }

    /// Sets the mode that is kept in an attribute, and moves the time of the change.
    pub(crate) fn write_guest_mode(
        self: &Arc<Self>,
        inode: &Inode,
        mode_bits: u32,
    ) -> Result<(), Errno> {
        let mut guest = Guest::of(&inode.attr(), inode.rdev());
        guest.mode = mode_bits;
        guest.write(&*self.handle(Use::Read, WAIT)?)
    }

    fn change_on_host(self: &Arc<Self>, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        if let Some(size) = change.size {
            self.change_length(inode, change, size)?;
        }
        let only_change = SetAttr {
            ctime: change.ctime,
            ..SetAttr::default()
        };
        if *change == only_change {
            // An owner set to nobody: the time of the change is all.
            let handle = self.handle(Use::Path, WAIT)?;
            let flags = AtFlags::EMPTY_PATH;
            return rustix::fs::chownat(&*handle, "", None, None, flags).map_err(errno);
        }
        let (mode, uid, gid) = (change.mode, change.uid, change.gid);
        if mode.is_some() || uid.is_some() || gid.is_some() {
            self.change_owner(inode, change)?;
        }
        // A new length sets its times there.
        if change.size.is_none() && (change.atime.is_some() || change.mtime.is_some()) {
            self.change_times(change)?;
        }
        Ok(())
    }

    fn change_length(
        self: &Arc<Self>,
        inode: &Inode,
        change: &SetAttr,
        size: u64,
    ) -> Result<(), Errno> {
        if !self.is_file() || !mode::is_reg(inode.mode()) {
            return Err(Errno::EINVAL);
        }
        // By a path the times change with the length alone, by a descriptor in any case.
        if change.mtime.is_none() && self.stat(WAIT)?.attr.size == size {
            return Ok(());
        }
        let handle = self.handle(Use::Write, WAIT)?;
        rustix::fs::ftruncate(&*handle, size).map_err(errno)
    }

    fn change_owner(self: &Arc<Self>, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        if self.is_owned_by_attribute() {
            let attr = inode.attr();
            let mut guest = Guest::of(&attr, inode.rdev());
            if let Some(bits) = change.mode {
                guest.mode = mode::file_type(attr.mode) | mode::permissions(bits);
            }
            guest.uid = change.uid.unwrap_or(guest.uid);
            guest.gid = change.gid.unwrap_or(guest.gid);
            let file = self.handle(Use::Read, WAIT)?;
            if let Some(bits) = change.mode {
                self.keep_acl_with_mode(inode, &file, bits)?;
            }
            return guest.write(&*file);
        }
        let handle = self.handle(Use::Path, WAIT)?;
        match self.tree.options.ownership {
            Ownership::PassThrough => {
                if change.uid.is_some() || change.gid.is_some() {
                    let (uid, gid) = (change.uid.map(Uid::from_raw), change.gid.map(Gid::from_raw));
                    let flags = AtFlags::EMPTY_PATH;
                    rustix::fs::chownat(&*handle, "", uid, gid, flags).map_err(errno)?;
                }
            }
            Ownership::Squash { uid, gid } | Ownership::Xattr { uid, gid } => {
                let other = change.uid.is_some_and(|id| id != uid)
                    || change.gid.is_some_and(|id| id != gid);
                if other {
                    return Err(Errno::EPERM);
                }
            }
        }
        match change.mode {
            Some(bits) => self.change_mode(&handle, bits),
            None => Ok(()),
        }
    }

    /// The kept access list follows a new mode.
    ///
    /// # Errors
    /// Those of the host.
    fn keep_acl_with_mode(
        &self,
        inode: &Inode,
        file: &Handle,
        mode_bits: u32,
    ) -> Result<(), Errno> {
        let Some(acl) = inode.acls().access else {
            return Ok(());
        };
        keep(file, AclKind::Access, Some(&acl.after_chmod(mode_bits)))
    }

    fn change_mode(self: &Arc<Self>, handle: &Handle, mode_bits: u32) -> Result<(), Errno> {
        if handle.what != Use::Path {
            return rustix::fs::fchmod(handle, bits(mode_bits)).map_err(errno);
        }
        match self.tree.chmod_place(handle, mode_bits) {
            Err(Errno::EOPNOTSUPP | Errno::ENOENT) if self.is_file() || self.is_dir() => {
                let file = self.handle(Use::Read, WAIT)?;
                rustix::fs::fchmod(&*file, bits(mode_bits)).map_err(errno)
            }
            done => done,
        }
    }

    fn change_times(self: &Arc<Self>, change: &SetAttr) -> Result<(), Errno> {
        let stamp = |time: Option<Timespec>| {
            let (sec, nsec) = match time {
                None => (0, UTIME_OMIT),
                // The host's own clock, so that it is not before what it set itself.
                Some(_) if time == change.ctime => (0, UTIME_NOW),
                Some(time) => (time.sec, i64::from(time.nsec)),
            };
            rustix::fs::Timespec {
                tv_sec: sec,
                tv_nsec: nsec,
            }
        };
        let times = Timestamps {
            last_access: stamp(change.atime),
            last_modification: stamp(change.mtime),
        };
        let handle = self.handle(Use::Path, WAIT)?;
        rustix::fs::utimensat(&*handle, "", &times, AtFlags::EMPTY_PATH).map_err(errno)
    }

    /// As `InodeOps::readlink`.
    pub(crate) fn body(self: &Arc<Self>, patience: Patience) -> Result<Vec<u8>, Errno> {
        if !mode::is_lnk(self.id.kind()) {
            return Err(Errno::EINVAL);
        }
        let handle = self.handle(Use::Path, patience)?;
        let body = rustix::fs::readlinkat(&*handle, "", Vec::new()).map_err(errno)?;
        Ok(body.into_bytes())
    }
}
