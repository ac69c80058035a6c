// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on data, attributes, extended attributes and access control lists: each
//! goes to the layer inode, after copy-up if it changes that.

use crate::copy_up::ALL;
use crate::layer::{set_attr, with_lock};
use crate::node::Node;
use crate::options::Marks;
use crate::whiteout::{stored_change, stored_mode};
use openpath_abi::{Errno, Timespec, XattrFlags};
use openpath_vfs::fileattr::{FS_IOC_FSGETXATTR, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS};
use openpath_vfs::{Extent, Inode, InodeOps, SetAcl, SetAttr};
use std::borrow::Cow;
use std::sync::Arc;

/// Whether flags can be set in the tree of this directory, by its answer to an empty argument.
fn can_set_flags(dir: &Inode) -> bool {
    dir.ops().ioctl(dir, FS_IOC_SETFLAGS, &mut []) == Err(Errno::EFAULT)
}

impl Node {
    /// Changes the inode of the upper tree, and copies its attributes.
    fn change_upper<R>(
        &self,
        inode: &Inode,
        now: Timespec,
        run: impl FnOnce(&Arc<Inode>, &dyn InodeOps) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        let upper = self.copy_up(now, ALL)?;
        let done = with_lock(upper, |ops| run(upper, ops));
        self.copy_attr(inode);
        done
    }

    /// As `InodeOps::read_at`.
    pub(crate) fn read_data(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let real = self.real();
        real.ops().read_at(real, buf, offset)
    }

    /// As `InodeOps::with_pages`.
    pub(crate) fn lend_data(
        &self,
        offset: u64,
        len: usize,
        lend: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        let real = self.real();
        real.ops().with_pages(real, offset, len, lend)
    }

    /// As `InodeOps::seek_extent`.
    pub(crate) fn seek_data(&self, offset: u64, extent: Extent) -> Result<u64, Errno> {
        let real = self.real();
        real.ops().seek_extent(real, offset, extent)
    }

    /// As `InodeOps::write_at`.
    pub(crate) fn write_data(
        &self,
        inode: &Inode,
        data: &[u8],
        offset: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        self.change_upper(inode, now, |upper, ops| {
            ops.write_at(upper, data, offset, now)
        })
    }

    /// As `InodeOps::fallocate`.
    pub(crate) fn allocate(
        &self,
        inode: &Inode,
        how: u32,
        (offset, len): (u64, u64),
        now: Timespec,
    ) -> Result<(), Errno> {
        self.change_upper(inode, now, |upper, ops| {
            ops.fallocate(upper, how, offset, len, now)
        })
    }

    /// As `InodeOps::copy_range`.
    ///
    /// # Errors
    /// `EOPNOTSUPP` for two files of different layers.
    pub(crate) fn copy_data(
        &self,
        from: u64,
        (to, at): (&Inode, u64),
        len: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        let target = self.sibling(to)?;
        let into = target.copy_up(now, ALL)?;
        // It is copied up, if both are the same file.
        let source = self.upper().ok_or(Errno::EOPNOTSUPP)?;
        let done = with_lock(into, |_| {
            source.ops().copy_range(source, from, into, at, len, now)
        });
        target.copy_attr(to);
        done
    }

    /// As `InodeOps::fsync`. A file of a lower tree was not changed here.
    pub(crate) fn fsync_file(&self, data_only: bool) -> Result<(), Errno> {
        match self.upper() {
            Some(upper) => upper.ops().fsync(upper, data_only),
            None => Ok(()),
        }
    }

    /// As `InodeOps::ioctl`. A lower tree only answers queries. Flags are set in the upper tree
    /// after copy-up, if that tree has flags.
    pub(crate) fn ioctl(&self, inode: &Inode, request: u32, arg: &mut [u8]) -> Result<i64, Errno> {
        if request == FS_IOC_SETFLAGS {
            if !self
                .fs
                .upper
                .as_ref()
                .is_some_and(|upper| can_set_flags(&upper.root))
            {
                return Err(Errno::ENOTTY);
            }
            let now = self.fs.options.clock.now();
            return self.change_upper(inode, now, |upper, ops| ops.ioctl(upper, request, arg));
        }
        let asks = matches!(request, FS_IOC_GETFLAGS | FS_IOC_FSGETXATTR);
        if self.upper().is_none() && !asks {
            return Err(Errno::ENOTTY);
        }
        let real = self.real();
        real.ops().ioctl(real, request, arg)
    }

    /// As `InodeOps::setattr`.
    pub(crate) fn set_attributes(&self, inode: &Inode, to: &SetAttr) -> Result<(), Errno> {
        let access = SetAttr {
            atime: to.atime,
            ..SetAttr::default()
        };
        if *to == access {
            // A read moves the access time in the upper tree, and in no lower tree.
            if let Some(upper) = self.upper() {
                set_attr(upper, to)?;
                self.copy_attr(inode);
            }
            return Ok(());
        }
        let now = to.ctime.unwrap_or_else(|| self.fs.options.clock.now());
        let upper = self.copy_up(now, to.size.unwrap_or(ALL))?;
        let done = set_attr(upper, &stored_change(upper, to));
        self.copy_attr(inode);
        done
    }

    /// As `InodeOps::getxattr`.
    pub(crate) fn get_xattr(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        let real = self.real();
        let name = self.real_name(name);
        real.ops().getxattr(real, &name)
    }

    /// As `InodeOps::listxattr`.
    pub(crate) fn list_xattrs(&self) -> Result<Vec<Vec<u8>>, Errno> {
        let real = self.real();
        let names = real.ops().listxattr(real)?;
        Ok(match self.real_marks() {
            Some(marks) => names
                .iter()
                .filter_map(|name| marks.shown_name(name))
                .collect(),
            None => names,
        })
    }

    /// The marks of the layer of [`Node::real`]; `None`: it has none.
    fn real_marks(&self) -> Option<Marks> {
        match self.upper() {
            Some(_) => Some(self.fs.options.marks),
            None => self.fs.lower_marks(),
        }
    }

    /// The name of an attribute in that layer.
    fn real_name<'a>(&self, name: &'a [u8]) -> Cow<'a, [u8]> {
        self.real_marks()
            .map_or(Cow::Borrowed(name), |marks| marks.stored_name(name))
    }

    /// As `InodeOps::setxattr`.
    pub(crate) fn set_xattr(
        &self,
        inode: &Inode,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timespec,
    ) -> Result<(), Errno> {
        let name = self.fs.options.marks.stored_name(name);
        self.change_upper(inode, now, |upper, ops| {
            ops.setxattr(upper, &name, value, flags, now)
        })
    }

    /// As `InodeOps::set_acl`. A list that does not exist is not copied up to be removed.
    pub(crate) fn set_acl(&self, inode: &Inode, change: &SetAcl<'_>) -> Result<(), Errno> {
        let is_there = inode.acls().get(change.kind).is_some();
        if change.removes && self.upper().is_none() && !is_there {
            return Err(Errno::ENODATA);
        }
        self.change_upper(inode, change.now, |upper, ops| {
            let mode = change.mode.map(|mode| stored_mode(mode, upper.rdev()));
            ops.set_acl(upper, &SetAcl { mode, ..*change })
        })
    }

    /// As `InodeOps::removexattr`. An attribute that does not exist causes no copy-up.
    pub(crate) fn remove_xattr(
        &self,
        inode: &Inode,
        name: &[u8],
        now: Timespec,
    ) -> Result<(), Errno> {
        if self.upper().is_none() {
            let real = self.real();
            real.ops().getxattr(real, &self.real_name(name))?;
        }
        let name = self.fs.options.marks.stored_name(name);
        self.change_upper(inode, now, |upper, ops| ops.removexattr(upper, &name, now))
    }
}
