// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the core's `InodeOps` for a file of an overlay: most calls go to a method of `Node`
//! in another module.

use crate::node::NodeOps;
use openpath_abi::{Errno, OFlags, Timespec, XattrFlags};
use openpath_vfs::{
    Extent, FileOps, Inode, InodeOps, ListedEntry, LookupResult, NewInode, Rename, SetAcl, SetAttr,
    WaitMode,
};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

impl InodeOps for NodeOps {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(
        &self,
        _dir: &Inode,
        name: &[u8],
        wait_mode: WaitMode,
    ) -> Result<LookupResult, Errno> {
        if self.0.is_lent() {
            return Ok(LookupResult::Absent);
        }
        self.0.lookup(name, wait_mode)
    }

    fn names(&self, _dir: &Inode) -> Option<u64> {
        let upper = self.0.upper().filter(|_| !self.0.is_lent())?;
        if self.0.is_upper_only.get() == 0 {
            return None;
        }
        upper.ops().names(upper)
    }

    fn create(&self, dir: &Inode, name: &[u8], new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        self.0.check_not_lent()?;
        self.0.create(dir, name, new)
    }

    fn tmpfile(&self, _dir: &Inode, new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        self.0.check_not_lent()?;
        self.0.create_tmpfile(new)
    }

    fn link(
        &self,
        dir: &Inode,
        name: &[u8],
        target: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        self.0.check_not_lent()?;
        self.0.link(dir, name, target, now)
    }

    fn unlink(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        self.0.check_not_lent()?;
        self.0.remove(dir, name, victim, now)
    }

    fn rmdir(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        self.0.check_not_lent()?;
        self.0.check_stays(victim)?;
        self.0.remove(dir, name, victim, now)
    }

    fn rename(&self, rename: &Rename<'_>) -> Result<(), Errno> {
        self.0.check_rename(rename)?;
        self.0.rename(rename)
    }

    fn readdir(
        &self,
        _dir: &Inode,
        from: i64,
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        if self.0.is_lent() {
            return Ok(());
        }
        self.0.list(from, emit)
    }

    fn readlink(&self, _inode: &Inode, wait_mode: WaitMode) -> Result<Cow<'_, [u8]>, Errno> {
        let real = self.0.real();
        real.ops().readlink(real, wait_mode)
    }

    fn read_at(&self, _inode: &Inode, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.0.read_data(buf, offset)
    }

    fn write_at(
        &self,
        inode: &Inode,
        data: &[u8],
        offset: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        self.0.write_data(inode, data, offset, now)
    }

    fn open(
        &self,
        inode: &Inode,
        flags: OFlags,
        wait_mode: WaitMode,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        self.0.open(inode, flags, wait_mode)
    }

    fn fallocate(
        &self,
        inode: &Inode,
        mode: u32,
        offset: u64,
        len: u64,
        now: Timespec,
    ) -> Result<(), Errno> {
        self.0.allocate(inode, mode, (offset, len), now)
    }

    fn fsync(&self, _inode: &Inode, data_only: bool) -> Result<(), Errno> {
        self.0.fsync_file(data_only)
    }

    fn copy_range(
        &self,
        _inode: &Inode,
        from: u64,
        to: &Inode,
        at: u64,
        len: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        self.0.copy_data(from, (to, at), len, now)
    }

    fn with_pages(
        &self,
        _inode: &Inode,
        offset: u64,
        len: usize,
        lend: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        self.0.lend_data(offset, len, lend)
    }

    fn ioctl(&self, inode: &Inode, request: u32, arg: &mut [u8]) -> Result<i64, Errno> {
        self.0.check_not_lent()?;
        self.0.ioctl(inode, request, arg)
    }

    fn seek_extent(&self, _inode: &Inode, offset: u64, extent: Extent) -> Result<u64, Errno> {
        self.0.seek_data(offset, extent)
    }

    fn setattr(&self, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        self.0.check_not_lent()?;
        self.0.set_attributes(inode, change)
    }

    fn refresh(&self, inode: &Inode, wait_mode: WaitMode) -> Result<(), Errno> {
        if self.0.fs.revalidates {
            let real = self.0.real();
            real.ops().refresh(real, wait_mode)?;
            self.0.copy_attr(inode);
        }
        Ok(())
    }

    fn set_acl(&self, inode: &Inode, change: &SetAcl<'_>) -> Result<(), Errno> {
        self.0.check_not_lent()?;
        self.0.set_acl(inode, change)
    }

    fn read_acls(&self, inode: &Inode) {
        // Its layer reads them.
        let _read = self.0.real().acls();
        self.0.copy_attr(inode);
    }

    fn getxattr(&self, _inode: &Inode, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.0.get_xattr(name)
    }

    fn setxattr(
        &self,
        inode: &Inode,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timespec,
    ) -> Result<(), Errno> {
        self.0.check_not_lent()?;
        self.0.set_xattr(inode, name, value, flags, now)
    }

    fn listxattr(&self, _inode: &Inode) -> Result<Vec<Vec<u8>>, Errno> {
        self.0.list_xattrs()
    }

    fn removexattr(&self, inode: &Inode, name: &[u8], now: Timespec) -> Result<(), Errno> {
        self.0.check_not_lent()?;
        self.0.remove_xattr(inode, name, now)
    }
}

impl Drop for NodeOps {
    fn drop(&mut self) {
        self.0.fs.forget(self.0.all_keys(), self.0.address());
    }
}
