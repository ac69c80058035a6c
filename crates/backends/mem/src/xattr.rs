// SPDX-License-Identifier: MIT OR Apache-2.0
//! Extended attributes: `user.`, `trusted.` and `security.` names with a value each.
//!
//! # Kernel analogue
//! `simple_xattr`: kept in the order of their names and listed from the last to the first. While
//! the number of inodes is limited, each takes 40 bytes, its name and its value of the room for
//! inodes; a value that replaces another needs its own room first. Access control lists are kept by
//! the core ([`Inode::put_acls`]) and paid for here, like the attributes that show them.

use crate::node::Node;
use crate::space::{Byte, Charge};
use openpath_abi::xattr::{
    SECURITY_PREFIX, TRUSTED_PREFIX, USER_PREFIX, XATTR_CREATE, XATTR_REPLACE, XATTR_SIZE_MAX,
};
use openpath_abi::{Errno, Timespec};
use openpath_vfs::{Acl, AclKind, Acls, Inode, SetAcl};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The attributes of one inode that has some.
pub(crate) struct Xattrs {
    values: BTreeMap<Box<[u8]>, Box<[u8]>>,
    charge: Charge<Byte>,
}

/// # Errors
/// `EINVAL` for a prefix alone, `EOPNOTSUPP` for another name space.
fn must_be_kept(name: &[u8]) -> Result<(), Errno> {
    for prefix in [USER_PREFIX, TRUSTED_PREFIX, SECURITY_PREFIX] {
        if let Some(rest) = name.strip_prefix(prefix) {
            return if rest.is_empty() {
                Err(Errno::EINVAL)
            } else {
                Ok(())
            };
        }
    }
    Err(Errno::EOPNOTSUPP)
}

impl Xattrs {
    /// What an attribute takes of the room for inodes.
    fn room(&self, name: &[u8], value: &[u8]) -> u64 {
        let head = self.charge.payer.space.xattr_head();
        head + name.len() as u64 + value.len() as u64
    }

    /// What an access control list takes: as much as the attribute that shows it.
    fn room_of_acl(&self, kind: AclKind, acl: Option<&Arc<Acl>>) -> u64 {
        let head = self.charge.payer.space.xattr_head();
        acl.map_or(0, |acl| {
            head + kind.name().len() as u64 + acl.value_len() as u64
        })
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
    pub(crate) fn get_xattr(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        must_be_kept(name)?;
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
        must_be_kept(name)?;
        if value.len() > XATTR_SIZE_MAX {
            return Err(Errno::E2BIG);
        }
        let mut xattrs = self.xattrs().write();
        let xattrs = xattrs.get_or_insert_with(|| self.no_xattrs());
        xattrs.set(name, value, flags)?;
        inode.update(|a| a.ctime = now);
        Ok(())
    }

    /// As `InodeOps::listxattr`.
    pub(crate) fn list_xattrs(&self) -> Vec<Vec<u8>> {
        let xattrs = self.xattrs().read();
        let names = xattrs.iter().flat_map(|x| x.values.keys().rev());
        names.map(|name| name.to_vec()).collect()
    }

    /// As `InodeOps::removexattr`.
    pub(crate) fn remove_xattr(
        &self,
        inode: &Inode,
        name: &[u8],
        now: Timespec,
    ) -> Result<(), Errno> {
        must_be_kept(name)?;
        let mut xattrs = self.xattrs().write();
        xattrs.as_mut().ok_or(Errno::ENODATA)?.remove(name)?;
        drop(xattrs);
        inode.update(|a| a.ctime = now);
        Ok(())
    }

    fn no_xattrs(&self) -> Box<Xattrs> {
        Box::new(Xattrs {
            values: BTreeMap::new(),
            charge: Charge::none(self.payer()),
        })
    }

    /// As `InodeOps::set_acl`. The core keeps the list with the inode; here it is paid for.
    pub(crate) fn change_acl(&self, inode: &Inode, change: &SetAcl<'_>) -> Result<(), Errno> {
        let mut xattrs = self.xattrs().write();
        let before = inode.acls();
        let before = before.get(change.kind);
        if before.is_some() || change.acl.is_some() {
            let xattrs = xattrs.get_or_insert_with(|| self.no_xattrs());
            let room = |acl: Option<&Arc<Acl>>| xattrs.room_of_acl(change.kind, acl);
            let (freed, needed) = (room(before), room(change.acl));
            xattrs.charge.take(needed)?;
            xattrs.charge.give(freed);
        }
        inode.apply_acl(change);
        Ok(())
    }

    /// Gives a new inode its lists.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn take_acls(&self, inode: &Inode, acls: &Acls) -> Result<(), Errno> {
        if acls.is_empty() {
            return Ok(());
        }
        let mut xattrs = self.xattrs().write();
        let xattrs = xattrs.get_or_insert_with(|| self.no_xattrs());
        let kinds = [AclKind::Access, AclKind::Default].into_iter();
        let needed = kinds
            .map(|kind| xattrs.room_of_acl(kind, acls.get(kind)))
            .sum();
        xattrs.charge.take(needed)?;
        inode.put_acls(acls.clone());
        Ok(())
    }
}
