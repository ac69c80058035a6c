// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes: `user.`, `trusted.` and `security.` names with a value each.
//!
//! # Kernel analogue
//! `simple_xattr`: kept in the order of their names and listed from the last to the first. While
//! the number of inodes is limited, each takes 40 bytes, its name and its value of the room for
//! inodes; a value that replaces another needs its own room first.

use crate::node::Node;
use crate::space::{Byte, Charge};
use openpath_abi::xattr::{
    ACL_ACCESS_NAME, ACL_DEFAULT_NAME, SECURITY_PREFIX, TRUSTED_PREFIX, USER_PREFIX, XATTR_CREATE,
    XATTR_REPLACE, XATTR_SIZE_MAX,
};
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::Inode;
use std::collections::BTreeMap;

/// The attributes of one inode that has some.
pub(crate) struct Xattrs {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    charge: Charge<Byte>,
}

/// What the name asks for.
enum Name {
    /// A name that is stored.
    Stored,
    /// An access control list, of which there is none.
    Acl,
}

/// # Errors
/// `EINVAL` for a prefix alone, `EOPNOTSUPP` for another name space.
fn classify(inode: &Inode, name: &[u8]) -> Result<Name, Errno> {
    for prefix in [USER_PREFIX, TRUSTED_PREFIX, SECURITY_PREFIX] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return if rest.is_empty() {
                Err(Errno::EINVAL)
            } else {
                Ok(Name::Stored)
            };
        }
    }
    let is_acl = name == ACL_ACCESS_NAME || name == ACL_DEFAULT_NAME;
    if is_acl && inode.kind() != mode::S_IFLNK {
        Ok(Name::Acl)
    } else {
        Err(Errno::EOPNOTSUPP)
    }
}

impl Xattrs {
    /// What an attribute takes of the room for inodes.
    fn room(&self, name: &[u8], value: &[u8]) -> u64 {
        let head = self.charge.payer.space.xattr_head();
        head + name.len() as u64 + value.len() as u64
    }

    /// # Errors
    /// In this order: `ENOSPC`, `EDQUOT`, `EEXIST`, `ENODATA`.
    fn set(&mut self, name: &[u8], value: &[u8], flags: u32) -> Result<(), Errno> {
        let needed = self.room(name, value);
        self.charge.take(needed)?;
        let old = self.values.get_mut(name);
        let refused = match old {
            Some(_) if flags & XATTR_CREATE != 0 => Some(Errno::EEXIST),
            None if flags & XATTR_REPLACE != 0 => Some(Errno::ENODATA),
            _ => None,
        };
        if let Some(refused) = refused {
            self.charge.give(needed);
            return Err(refused);
        }
        match old {
            Some(old) => {
                let old = std::mem::replace(old, value.into());
                self.charge.give(self.room(name, &old));
            }
            None => {
                self.values.insert(name.into(), value.into());
            }
        }
        Ok(())
    }

    /// # Errors
    /// `ENODATA`.
    fn remove(&mut self, name: &[u8]) -> Result<(), Errno> {
        let value = self.values.remove(name).ok_or(Errno::ENODATA)?;
        self.charge.give(self.room(name, &value));
        Ok(())
    }
}

impl Node {
    /// As `InodeOps::getxattr`.
    pub(crate) fn get_xattr(&self, inode: &Inode, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if let Name::Acl = classify(inode, name)? {
            return Err(Errno::ENODATA);
        }
        let xattrs = self.xattrs().read();
        let value = xattrs.as_ref().and_then(|x| x.values.get(name));
        value.map(|v| v.to_vec()).ok_or(Errno::ENODATA)
    }

    /// As `InodeOps::setxattr`.
    pub(crate) fn set_xattr(
        &self,
        inode: &Inode,
        name: &[u8],
        value: &[u8],
        flags: u32,
        now: Timespec,
    ) -> Result<(), Errno> {
        if let Name::Acl = classify(inode, name)? {
            return Err(Errno::EOPNOTSUPP);
        }
        if value.len() > XATTR_SIZE_MAX {
            return Err(Errno::E2BIG);
        }
        let mut xattrs = self.xattrs().write();
        let empty = || {
            let charge = Charge::none(self.payer());
            Box::new(Xattrs {
                values: BTreeMap::new(),
                charge,
            })
        };
        xattrs.get_or_insert_with(empty).set(name, value, flags)?;
        inode.update(|a| a.ctime = now);
        Ok(())
    }

    /// As `InodeOps::listxattr`.
    pub(crate) fn list_xattrs(&self) -> Vec<Vec<u8>> {
        let xattrs = self.xattrs().read();
        let names = xattrs.iter().flat_map(|x| x.values.keys().rev());
        names.map(|name| name.to_vec()).collect()
    }

    /// As `InodeOps::removexattr`. Removing a list that is not there succeeds, as in the kernel.
    pub(crate) fn remove_xattr(
        &self,
        inode: &Inode,
        name: &[u8],
        now: Timespec,
    ) -> Result<(), Errno> {
        let touched = match classify(inode, name)? {
            Name::Acl => name == ACL_ACCESS_NAME || inode.is_dir(),
            Name::Stored => {
                let mut xattrs = self.xattrs().write();
                xattrs.as_mut().ok_or(Errno::ENODATA)?.remove(name)?;
                true
            }
        };
        if touched {
            inode.update(|a| a.ctime = now);
        }
        Ok(())
    }
}
