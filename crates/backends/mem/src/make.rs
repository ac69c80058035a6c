// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making inodes.

use crate::data::{Data, SECTORS};
use crate::entries::{DIR_SIZE, Entries};
use crate::node::{Kind, Node};
use crate::seal::Seals;
use crate::space::{Payer, Places, Space};
use crate::symlink::Link;
use openpath_abi::{Errno, mode};
use openpath_sync::RwLock;
use openpath_vfs::{Attr, Inode, NewInode};
use std::sync::Arc;

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
    let node = Node::new(places, kind);
    let inode = Inode::new(ino, rdev, attr, new.now, Box::new(node));
    if let (Some(acls), Some(node)) = (new.acls, Node::behind(&inode)) {
        node.take_acls(&inode, acls)?;
    }
    Ok(inode)
}
