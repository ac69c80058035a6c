// SPDX-License-Identifier: MIT OR Apache-2.0
//! Changes length, owner, mode and times of a file on the host, and reads the target of a symbolic
//! link.
//!
//! # Times
//! The host's clock sets the times of changes. Where nobody else changes the files, a read moves
//! the access time here and not on the host, because setting it there would count as a change of
//! the inode. The access time then lives as long as the inode, and the host is read without moving
//! its own (`O_NOATIME`, for the process's own files). Otherwise access times are the host's.

use crate::acl::store_acl;
use crate::node::Node;
use crate::options::Ownership;
use crate::owner::StoredAttr;
use crate::pool::{Handle, HandleKind};
use crate::sys::{bits, errno};
use crate::tree::{AtimeSource, Tree};
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{AclKind, Inode, SetAttr, WaitMode};
use rustix::fd::{AsFd, AsRawFd as _};
use rustix::fs::{AtFlags, Gid, Timestamps, UTIME_NOW, UTIME_OMIT, Uid};
use std::sync::Arc;

const WAIT: WaitMode = WaitMode::Wait;

impl Tree {
    /// Sets the permission bits of the file of an `O_PATH` descriptor.
    ///
    /// # Errors
    /// Those of the host; `EOPNOTSUPP` where it has no `/proc`.
    pub(crate) fn chmod_path_fd(&self, fd: impl AsFd, mode_bits: u32) -> Result<(), Errno> {
        let proc = self.proc.as_ref().ok_or(Errno::EOPNOTSUPP)?;
        let name = fd.as_fd().as_raw_fd().to_string();
        rustix::fs::chmodat(proc, name, bits(mode_bits), AtFlags::empty()).map_err(errno)
    }
}

impl Node {
    /// As `InodeOps::setattr`.
    pub(crate) fn set_attributes(
        self: &Arc<Self>,
        inode: &Inode,
        change: &SetAttr,
    ) -> Result<(), Errno> {
        let only_access = SetAttr {
            atime: change.atime,
            ..SetAttr::default()
        };
        if *change == only_access {
            if self.tree.atime_source() == AtimeSource::Own {
                self.note_read(inode, change);
            }
            return Ok(());
        }
        let done = self.change_on_host(inode, change);
        let access = match change.atime {
            Some(_) => AtimeSource::Host,
            None => self.tree.atime_source(),
        };
        let acls = change.mode.is_some();
        let _seen_later = self.refresh_all(inode, WAIT, (access, acls));
        done
    }

    /// Sets the mode in the stored attributes, and moves the change time.
    pub(crate) fn store_mode(self: &Arc<Self>, inode: &Inode, mode_bits: u32) -> Result<(), Errno> {
        let mut stored = StoredAttr::of(&inode.attr(), inode.rdev());
        stored.mode = mode_bits;
        stored.write(&*self.handle(HandleKind::Read, WAIT)?)
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
            // A change of the owner to nobody moves only the change time.
            let handle = self.handle(HandleKind::Path, WAIT)?;
            let flags = AtFlags::EMPTY_PATH;
            return rustix::fs::chownat(&*handle, "", None, None, flags).map_err(errno);
        }
        let (mode, uid, gid) = (change.mode, change.uid, change.gid);
        if mode.is_some() || uid.is_some() || gid.is_some() {
            self.change_owner(inode, change)?;
        }
        // A new length sets the times on the host.
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
        let handle = self.handle(HandleKind::Write, WAIT)?;
        rustix::fs::ftruncate(&*handle, size).map_err(errno)
    }

    fn change_owner(self: &Arc<Self>, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        if self.stores_attr() {
            let attr = inode.attr();
            let mut stored = StoredAttr::of(&attr, inode.rdev());
            if let Some(bits) = change.mode {
                stored.mode = mode::file_type(attr.mode) | mode::permissions(bits);
            }
            stored.uid = change.uid.unwrap_or(stored.uid);
            stored.gid = change.gid.unwrap_or(stored.gid);
            let file = self.handle(HandleKind::Read, WAIT)?;
            if let Some(bits) = change.mode {
                self.keep_acl_with_mode(inode, &file, bits)?;
            }
            return stored.write(&*file);
        }
        let handle = self.handle(HandleKind::Path, WAIT)?;
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

    /// Updates the stored access list for a new mode.
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
        store_acl(file, AclKind::Access, Some(&acl.after_chmod(mode_bits)))
    }

    fn change_mode(self: &Arc<Self>, handle: &Handle, mode_bits: u32) -> Result<(), Errno> {
        if handle.kind != HandleKind::Path {
            return rustix::fs::fchmod(handle, bits(mode_bits)).map_err(errno);
        }
        match self.tree.chmod_path_fd(handle, mode_bits) {
            Err(Errno::EOPNOTSUPP | Errno::ENOENT) if self.is_file() || self.is_dir() => {
                let file = self.handle(HandleKind::Read, WAIT)?;
                rustix::fs::fchmod(&*file, bits(mode_bits)).map_err(errno)
            }
            done => done,
        }
    }

    fn change_times(self: &Arc<Self>, change: &SetAttr) -> Result<(), Errno> {
        let stamp = |time: Option<Timespec>| {
            let (sec, nsec) = match time {
                None => (0, UTIME_OMIT),
                // The host's own clock, so that it is not earlier than times that the host sets.
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
        let handle = self.handle(HandleKind::Path, WAIT)?;
        rustix::fs::utimensat(&*handle, "", &times, AtFlags::EMPTY_PATH).map_err(errno)
    }

    /// As `InodeOps::readlink`.
    pub(crate) fn read_link(self: &Arc<Self>, wait_mode: WaitMode) -> Result<Vec<u8>, Errno> {
        if !mode::is_lnk(self.id.kind()) {
            return Err(Errno::EINVAL);
        }
        let handle = self.handle(HandleKind::Path, wait_mode)?;
        let body = rustix::fs::readlinkat(&*handle, "", Vec::new()).map_err(errno)?;
        Ok(body.into_bytes())
    }
}
