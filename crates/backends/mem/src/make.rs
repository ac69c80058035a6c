// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a new inode of any type: charges it to the limits of the tree and the tenant, and assigns
//! its number, content and first attributes.

use crate::data::{Data, SECTORS};
use crate::entries::{DIR_SIZE, Entries};
use crate::node::{Content, Node};
use crate::seal::Seals;
use crate::space::{InodeCharge, Payer, Space};
use crate::symlink::Link;
use openpath_abi::{Errno, mode};
use openpath_sync::RwLock;
use openpath_vfs::{Attr, Inode, NewInode};
use std::sync::Arc;

/// Whether a new inode gets a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Naming {
    /// It gets a name.
    Named,
    /// It gets none: a temporary file.
    Nameless,
}

/// A new inode of the tree of `space`.
///
/// # Errors
/// `EINVAL` for a type that does not exist; `ENOSPC`, `EDQUOT`.
pub(crate) fn make_inode(
    space: &Arc<Space>,
    new: &NewInode<'_>,
    names: Naming,
) -> Result<Arc<Inode>, Errno> {
    let mut attr = Attr {
        mode: new.mode,
        nlink: u32::from(names == Naming::Named),
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
    let charge = InodeCharge::new(Payer::new(space, new.tenant))?;
    let payer = &charge.payer;
    let ino = space.number();
    let content = match file_type {
        mode::S_IFDIR => {
            attr.nlink += 1;
            attr.size = DIR_SIZE;
            Content::Directory(RwLock::new(Entries::default()))
        }
        mode::S_IFREG => {
            let seals = Seals::new(space.sealable);
            Content::Regular(RwLock::new(Data::new(payer, ino, seals)))
        }
        mode::S_IFLNK => {
            let link = Link::new(new.body, payer)?;
            attr.size = link.body().len() as u64;
            attr.blocks = link.blocks() * SECTORS;
            Content::Symlink(link)
        }
        _ => Content::Special,
    };
    let is_device = file_type == mode::S_IFCHR || file_type == mode::S_IFBLK;
    let rdev = if is_device { new.rdev } else { 0 };
    let node = Node::new(charge, content);
    let inode = Inode::new(ino, rdev, attr, new.now, Box::new(node));
    if let (Some(acls), Some(node)) = (new.acls, Node::of(&inode)) {
        node.set_first_acls(&inode, acls)?;
    }
    Ok(inode)
}
