// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on extended attributes and access control lists.

use crate::node::Node;
use crate::xattr_map::Xattrs;
use openpath_abi::xattr::{SECURITY_PREFIX, TRUSTED_PREFIX, USER_PREFIX, XATTR_SIZE_MAX};
use openpath_abi::{Errno, Timespec, XattrFlags};
use openpath_vfs::{Acls, Inode, SetAcl};

/// # Errors
/// `EINVAL` for a prefix alone, `EOPNOTSUPP` for another namespace.
fn check_name(name: &[u8]) -> Result<(), Errno> {
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

impl Node {
    /// As `InodeOps::getxattr`.
    pub(crate) fn get_xattr(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        check_name(name)?;
        let xattrs = self.xattrs().read();
        let value = xattrs.as_ref().and_then(|x| x.get(name));
        value.map(<[u8]>::to_vec).ok_or(Errno::ENODATA)
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
        check_name(name)?;
        if value.len() > XATTR_SIZE_MAX {
            return Err(Errno::E2BIG);
        }
        let mut xattrs = self.xattrs().write();
        let xattrs = xattrs.get_or_insert_with(|| self.new_xattrs());
        xattrs.set(name, value, flags)?;
        inode.update(|a| a.ctime = now);
        Ok(())
    }

    /// As `InodeOps::listxattr`.
    pub(crate) fn list_xattrs(&self) -> Vec<Vec<u8>> {
        let xattrs = self.xattrs().read();
        let names = xattrs.iter().flat_map(|x| x.names());
        names.map(<[u8]>::to_vec).collect()
    }

    /// As `InodeOps::removexattr`.
    pub(crate) fn remove_xattr(
        &self,
        inode: &Inode,
        name: &[u8],
        now: Timespec,
    ) -> Result<(), Errno> {
        check_name(name)?;
        let mut xattrs = self.xattrs().write();
        xattrs.as_mut().ok_or(Errno::ENODATA)?.remove(name)?;
        drop(xattrs);
        inode.update(|a| a.ctime = now);
        Ok(())
    }

    fn new_xattrs(&self) -> Box<Xattrs> {
        Box::new(Xattrs::none(self.payer()))
    }

    /// As `InodeOps::set_acl`. The core keeps the list with the inode; it is charged here.
    pub(crate) fn change_acl(&self, inode: &Inode, change: &SetAcl<'_>) -> Result<(), Errno> {
        let mut xattrs = self.xattrs().write();
        let before = inode.acls();
        let before = before.get(change.kind);
        if before.is_some() || change.acl.is_some() {
            let xattrs = xattrs.get_or_insert_with(|| self.new_xattrs());
            xattrs.charge_acl(change.kind, before, change.acl)?;
        }
        inode.apply_acl(change);
        Ok(())
    }

    /// Gives a new inode its lists.
    ///
    /// # Errors
    /// `ENOSPC`, `EDQUOT`.
    pub(crate) fn set_first_acls(&self, inode: &Inode, acls: &Acls) -> Result<(), Errno> {
        if acls.is_empty() {
            return Ok(());
        }
        let mut xattrs = self.xattrs().write();
        let xattrs = xattrs.get_or_insert_with(|| self.new_xattrs());
        xattrs.charge_acls(acls)?;
        inode.put_acls(acls.clone());
        Ok(())
    }
}
