// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the core's `InodeOps` for a file in memory: most calls go to a method of `Node` in
//! another module.

use crate::make::{Naming, make_inode};
use crate::node::Node;
use openpath_abi::{Errno, Timespec, XattrFlags, mode};
use openpath_vfs::{
    Extent, Inode, InodeOps, ListedEntry, LookupResult, NewInode, Rename, SetAcl, SetAttr, WaitMode,
};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

impl InodeOps for Node {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(
        &self,
        _dir: &Inode,
        name: &[u8],
        _wait_mode: WaitMode,
    ) -> Result<LookupResult, Errno> {
        let entries = self.entries().ok_or(Errno::ENOTDIR)?.read();
        Ok(entries.get(name).map_or(LookupResult::Absent, |inode| {
            LookupResult::Inode(Arc::clone(inode))
        }))
    }

    fn names(&self, _dir: &Inode) -> Option<u64> {
        Some(self.entries()?.read().len())
    }

    fn create(&self, dir: &Inode, name: &[u8], new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        self.create_entry(dir, name, new)
    }

    fn tmpfile(&self, _dir: &Inode, new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        if self.entries().is_none() || !mode::is_reg(new.mode) {
            return Err(Errno::EOPNOTSUPP);
        }
        make_inode(self.space(), new, Naming::Nameless)
    }

    fn link(
        &self,
        dir: &Inode,
        name: &[u8],
        target: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        self.link_entry(dir, name, target, now)
    }

    fn unlink(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        if victim.is_dir() {
            return Err(Errno::EISDIR);
        }
        self.remove_entry(dir, name, victim, now)
    }

    fn rmdir(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        now: Timespec,
    ) -> Result<(), Errno> {
        self.sibling(victim)?.check_empty()?;
        self.remove_entry(dir, name, victim, now)
    }

    fn rename(&self, rename: &Rename<'_>) -> Result<(), Errno> {
        self.rename_entry(rename)
    }

    fn readdir(
        &self,
        _dir: &Inode,
        from: i64,
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        self.list_entries(from, emit)
    }

    fn readlink(&self, _inode: &Inode, _wait_mode: WaitMode) -> Result<Cow<'_, [u8]>, Errno> {
        let link = self.link_body().ok_or(Errno::EINVAL)?;
        Ok(Cow::Borrowed(link))
    }

    fn read_at(&self, inode: &Inode, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.read_data(inode, buf, offset)
    }

    fn write_at(
        &self,
        inode: &Inode,
        data: &[u8],
        offset: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        self.write_data(inode, data, offset, now)
    }

    fn fallocate(
        &self,
        inode: &Inode,
        mode: u32,
        offset: u64,
        len: u64,
        now: Timespec,
    ) -> Result<(), Errno> {
        self.allocate(inode, mode, offset, len, now)
    }

    fn copy_range(
        &self,
        inode: &Inode,
        from: u64,
        to: &Inode,
        at: u64,
        len: u64,
        now: Timespec,
    ) -> Result<usize, Errno> {
        self.copy_data((inode, from), (to, at), len, now)
    }

    fn with_pages(
        &self,
        inode: &Inode,
        offset: u64,
        len: usize,
        lend: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        self.lend_data(inode, offset, len, lend)
    }

    fn seals(&self, _inode: &Inode) -> Result<u32, Errno> {
        self.get_seals()
    }

    fn add_seals(&self, inode: &Inode, seals: u32) -> Result<(), Errno> {
        self.put_seals(inode, seals)
    }

    fn ioctl(&self, inode: &Inode, request: u32, arg: &mut [u8]) -> Result<i64, Errno> {
        self.set_or_get_flags(inode, request, arg)
    }

    fn seek_extent(&self, inode: &Inode, offset: u64, extent: Extent) -> Result<u64, Errno> {
        self.seek_data(inode, offset, extent)
    }

    fn setattr(&self, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        self.set_attributes(inode, change)
    }

    fn set_acl(&self, inode: &Inode, change: &SetAcl<'_>) -> Result<(), Errno> {
        self.change_acl(inode, change)
    }

    fn getxattr(&self, _inode: &Inode, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.get_xattr(name)
    }

    fn setxattr(
        &self,
        inode: &Inode,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
        now: Timespec,
    ) -> Result<(), Errno> {
        self.set_xattr(inode, name, value, flags, now)
    }

    fn listxattr(&self, _inode: &Inode) -> Result<Vec<Vec<u8>>, Errno> {
        Ok(self.list_xattrs())
    }

    fn removexattr(&self, inode: &Inode, name: &[u8], now: Timespec) -> Result<(), Errno> {
        self.remove_xattr(inode, name, now)
    }
}
