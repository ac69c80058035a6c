// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the core's `InodeOps` for a file of the host: most calls go to a method of `Node` in
//! another module.

use crate::node::{Node, NodeOps};
use crate::tree::AtimeSource;
use openpath_abi::{Errno, OFlags, Timespec};
use openpath_vfs::fileattr::inode_flags;
#[cfg(feature = "io-uring")]
use openpath_vfs::{AsyncIo, IoKind};
use openpath_vfs::{
    Extent, FileOps, Inode, InodeOps, ListedEntry, LookupResult, NewInode, Rename, SetAcl, SetAttr,
    WaitMode,
};
use std::any::Any;
use std::borrow::Cow;
use std::io::IoSlice;
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
        self.0.lookup_child(name, wait_mode)
    }

    fn create(&self, dir: &Inode, name: &[u8], new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        self.0.create_child(dir, name, new)
    }

    fn tmpfile(&self, _dir: &Inode, new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        self.0.create_tmpfile(new)
    }

    fn link(
        &self,
        dir: &Inode,
        name: &[u8],
        target: &Arc<Inode>,
        _now: Timespec,
    ) -> Result<(), Errno> {
        self.0.link_child(dir, name, target)
    }

    fn unlink(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        _now: Timespec,
    ) -> Result<(), Errno> {
        self.0.remove_child(dir, name, victim, false)
    }

    fn rmdir(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        _now: Timespec,
    ) -> Result<(), Errno> {
        self.0.remove_child(dir, name, victim, true)
    }

    fn rename(&self, rename: &Rename<'_>) -> Result<(), Errno> {
        self.0.rename(rename)
    }

    fn readdir(
        &self,
        _dir: &Inode,
        from: i64,
        emit: &mut dyn FnMut(ListedEntry<'_>) -> bool,
    ) -> Result<(), Errno> {
        self.0.list(from, emit)
    }

    fn readlink(&self, _inode: &Inode, wait_mode: WaitMode) -> Result<Cow<'_, [u8]>, Errno> {
        self.0.read_link(wait_mode).map(Cow::Owned)
    }

    fn open(
        &self,
        inode: &Inode,
        flags: OFlags,
        wait_mode: WaitMode,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        self.0.open(inode, flags, wait_mode)
    }

    fn read_at(&self, inode: &Inode, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.0.read_data(inode, buf, offset)
    }

    fn write_at(
        &self,
        inode: &Inode,
        data: &[u8],
        offset: u64,
        _now: Timespec,
    ) -> Result<usize, Errno> {
        self.0.write_data(inode, data, offset)
    }

    fn append(
        &self,
        inode: &Inode,
        data: &[IoSlice<'_>],
        _now: Timespec,
    ) -> Result<Option<(usize, u64)>, Errno> {
        self.0.append_data(inode, data)
    }

    #[cfg(feature = "io-uring")]
    fn async_io(&self, inode: &Inode, kind: IoKind) -> Option<Box<dyn AsyncIo>> {
        self.0.async_io(inode, kind)
    }

    fn settle(&self, inode: &Inode) {
        Node::refresh_after_change(&self.0, inode);
    }

    fn with_pages(
        &self,
        inode: &Inode,
        offset: u64,
        len: usize,
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        self.0.lend_data(inode, offset, len, show)
    }

    fn copy_range(
        &self,
        inode: &Inode,
        from: u64,
        to: &Inode,
        at: u64,
        len: u64,
        _now: Timespec,
    ) -> Result<usize, Errno> {
        self.0.copy_data((inode, from), (to, at), len)
    }

    fn fallocate(
        &self,
        inode: &Inode,
        mode: u32,
        offset: u64,
        len: u64,
        _now: Timespec,
    ) -> Result<(), Errno> {
        self.0.allocate(inode, mode, offset, len)
    }

    fn fsync(&self, _inode: &Inode, data_only: bool) -> Result<(), Errno> {
        self.0.fsync_file(data_only)
    }

    fn seals(&self, inode: &Inode) -> Result<u32, Errno> {
        self.0.get_seals(inode)
    }

    fn add_seals(&self, inode: &Inode, seals: u32) -> Result<(), Errno> {
        self.0.put_seals(inode, seals)
    }

    fn seek_extent(&self, inode: &Inode, offset: u64, extent: Extent) -> Result<u64, Errno> {
        self.0.seek_data(inode, offset, extent)
    }

    /// The flags as the host's statx(2) reports them. The host is never asked to set any.
    ///
    /// Divergence: L96.
    fn ioctl(&self, inode: &Inode, request: u32, arg: &mut [u8]) -> Result<i64, Errno> {
        inode_flags(inode, request, arg)
    }

    fn setattr(&self, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        self.0.set_attributes(inode, change)
    }

    fn refresh(&self, inode: &Inode, wait_mode: WaitMode) -> Result<(), Errno> {
        if self.0.tree.caches_attributes() {
            return Ok(());
        }
        Node::refresh(&self.0, inode, wait_mode, AtimeSource::Host)
    }

    fn set_acl(&self, inode: &Inode, change: &SetAcl<'_>) -> Result<(), Errno> {
        self.0.change_acl(inode, change)
    }

    fn read_acls(&self, inode: &Inode) {
        self.0.read_deferred_acls(inode);
    }

    fn getxattr(&self, _inode: &Inode, name: &[u8]) -> Result<Vec<u8>, Errno> {
        self.0.get_xattr(name)
    }

    fn setxattr(
        &self,
        inode: &Inode,
        name: &[u8],
        value: &[u8],
        flags: openpath_abi::XattrFlags,
        _now: Timespec,
    ) -> Result<(), Errno> {
        self.0.set_xattr(inode, name, value, flags)
    }

    fn listxattr(&self, _inode: &Inode) -> Result<Vec<Vec<u8>>, Errno> {
        self.0.list_xattrs()
    }

    fn removexattr(&self, inode: &Inode, name: &[u8], _now: Timespec) -> Result<(), Errno> {
        self.0.remove_xattr(inode, name)
    }
}

impl Drop for NodeOps {
    fn drop(&mut self) {
        self.0.tree.forget(self.0.id, self.0.mnt);
        self.0.release_handles();
    }
}
