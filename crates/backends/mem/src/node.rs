// SPDX-License-Identifier: MIT OR Apache-2.0
//! What is behind one inode, and the making of inodes.
//!
//! # States
//! Made by [`make`] with its room charged and its number given; gone, with everything it was
//! charged, when the last owner of its inode drops it.

use crate::data::{Data, SECTORS};
use crate::dir::{DIR_SIZE, Entries};
use crate::page_map::PAGE;
use crate::seal::Seals;
use crate::space::{Payer, Places, Space};
use crate::symlink::Link;
use crate::xattr::Xattrs;
use openpath_abi::{Errno, Timespec, mode};
use openpath_sync::RwLock;
use openpath_vfs::lock_order::{MemData, MemDir, MemXattr};
use openpath_vfs::{
    Attr, Extent, Found, Inode, InodeOps, Listed, NewInode, Patience, Rename, SetAcl, SetAttr,
};
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;

/// What an inode of each type keeps.
enum Kind {
    Directory(RwLock<Entries, MemDir>),
    Regular(RwLock<Data, MemData>),
    Symlink(Link),
    /// FIFO, socket or device: nothing but its attributes.
    Special,
}

/// One inode's side of this backend.
pub(crate) struct Node {
    places: Places,
    kind: Kind,
    xattrs: RwLock<Option<Box<Xattrs>>, MemXattr>,
}

/// Whether a new inode gets a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Names {
    /// One.
    One,
    /// None: a temporary file.
    None,
}

/// A new inode of the tree that `space` counts.
///
/// # Errors
/// `EINVAL` for a type that does not exist; `ENOSPC`, `EDQUOT`.
pub(crate) fn make(
    space: &Arc<Space>,
    new: &NewInode<'_>,
    names: Names,
) -> Result<Arc<Inode>, Errno> {
    let mut attr = Attr {
        mode: new.mode,
        nlink: u32::from(names == Names::One),
        uid: new.uid,
        gid: new.gid,
        atime: new.now,
        mtime: new.now,
        ctime: new.now,
        ..Attr::default()
    };
    let file_type = mode::file_type(new.mode);
    if mode::dirent_type(new.mode) == openpath_abi::dirent::DT_UNKNOWN {
        return Err(Errno::EINVAL);
    }
    let places = Places::new(Payer::new(space, new.tenant))?;
    let payer = &places.payer;
    let ino = space.number();
    let kind = match file_type {
        mode::S_IFDIR => {
            attr.nlink += 1;
            attr.size = DIR_SIZE;
            Kind::Directory(RwLock::new(Entries::default()))
        }
        mode::S_IFREG => {
            let seals = Seals::new(space.sealable);
            Kind::Regular(RwLock::new(Data::new(payer, ino, seals)))
        }
        mode::S_IFLNK => {
            let link = Link::new(new.body, payer)?;
            attr.size = link.body().len() as u64;
            attr.blocks = link.blocks() * SECTORS;
            Kind::Symlink(link)
        }
        _ => Kind::Special,
    };
    let is_device = file_type == mode::S_IFCHR || file_type == mode::S_IFBLK;
    let rdev = if is_device { new.rdev } else { 0 };
    let node = Node {
        places,
        kind,
        xattrs: RwLock::new(None),
    };
    let inode = Inode::new(ino, rdev, attr, new.now, Box::new(node));
    if let (Some(acls), Some(node)) = (new.acls, Node::behind(&inode)) {
        node.take_acls(&inode, acls)?;
    }
    Ok(inode)
}

impl Node {
    /// What is behind `inode`, if it is one of this backend's.
    pub(crate) fn behind(inode: &Inode) -> Option<&Self> {
        inode.ops().as_any().downcast_ref()
    }

    /// What is behind `inode`.
    ///
    /// # Errors
    /// `EXDEV` if it is not an inode of the same tree.
    pub(crate) fn sibling<'a>(&self, inode: &'a Inode) -> Result<&'a Self, Errno> {
        Self::behind(inode)
            .filter(|n| Arc::ptr_eq(n.space(), self.space()))
            .ok_or(Errno::EXDEV)
    }

    /// The tree's counters.
    pub(crate) fn space(&self) -> &Arc<Space> {
        &self.places.payer.space
    }

    /// Who pays for it.
    pub(crate) fn payer(&self) -> &Payer {
        &self.places.payer
    }

    /// The places of the inode and its names.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The names in it, if it is a directory.
    pub(crate) fn entries(&self) -> Option<&RwLock<Entries, MemDir>> {
        if let Kind::Directory(entries) = &self.kind {
            Some(entries)
        } else {
            None
        }
    }

    /// The data, if it is a regular file.
    pub(crate) fn data(&self) -> Option<&RwLock<Data, MemData>> {
        if let Kind::Regular(data) = &self.kind {
            Some(data)
        } else {
            None
        }
    }

    /// The extended attributes, if there ever were any.
    pub(crate) fn xattrs(&self) -> &RwLock<Option<Box<Xattrs>>, MemXattr> {
        &self.xattrs
    }
}

impl InodeOps for Node {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(&self, _dir: &Inode, name: &[u8], _patience: Patience) -> Result<Found, Errno> {
        let entries = self.entries().ok_or(Errno::ENOTDIR)?.read();
        Ok(entries
            .get(name)
            .map_or(Found::Absent, |inode| Found::Inode(Arc::clone(inode))))
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
        make(self.space(), new, Names::None)
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
        self.sibling(victim)?.must_be_empty()?;
        self.remove_entry(dir, name, victim, now)
    }

    fn rename(&self, rename: &Rename<'_>) -> Result<(), Errno> {
        self.rename_entry(rename)
    }

    fn readdir(
        &self,
        _dir: &Inode,
        from: i64,
        emit: &mut dyn FnMut(Listed<'_>) -> bool,
    ) -> Result<(), Errno> {
        self.list_entries(from, emit)
    }

    fn readlink(&self, _inode: &Inode, _patience: Patience) -> Result<Cow<'_, [u8]>, Errno> {
        let Kind::Symlink(link) = &self.kind else {
            return Err(Errno::EINVAL);
        };
        Ok(Cow::Borrowed(link.body()))
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
        show: &mut dyn FnMut(&[u8]),
    ) -> Result<usize, Errno> {
        self.show_data(inode, offset, len, show)
    }

    fn seals(&self, _inode: &Inode) -> Result<u32, Errno> {
        self.get_seals()
    }

    fn add_seals(&self, inode: &Inode, seals: u32) -> Result<(), Errno> {
        self.put_seals(inode, seals)
    }

    fn ioctl(&self, inode: &Inode, request: u32, arg: &mut [u8]) -> Result<i64, Errno> {
        self.answer_request(inode, request, arg)
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
        flags: u32,
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

const _: () = assert!(PAGE as u64 == SECTORS * 512);
