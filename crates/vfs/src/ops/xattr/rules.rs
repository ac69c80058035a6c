// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets, reads, lists and removes extended attributes at the backend, after the checks of
//! permission that each name space needs.
//!
//! # Kernel analogue
//! `vfs_setxattr`, `vfs_getxattr`, `vfs_removexattr`, `xattr_permission`,
//! `cap_inode_setxattr`, `cap_convert_nscap`.
//!
//! # Locks
//! A change holds the inode's `InodeNames` lock; reading holds nothing.

use super::values::Capability;
use crate::acl::AclKind;
use crate::inode::flag;
use crate::perm::{self, MAY_READ, MAY_WRITE};
use crate::target::Target;
use openpath_abi::xattr::{
    CAPABILITY_NAME, SECURITY_PREFIX, SYSTEM_PREFIX, TRUSTED_PREFIX, USER_PREFIX,
};
use openpath_abi::{Errno, XattrFlags, caps, mode};

impl Target<'_> {
    pub(super) fn setxattr(
        &self,
        name: &[u8],
        value: &[u8],
        flags: XattrFlags,
    ) -> Result<(), Errno> {
        let _writing = self.begin_write()?;
        if let Some(kind) = AclKind::of_name(name) {
            return self.set_acl(kind, value);
        }
        let capability = name == CAPABILITY_NAME;
        if capability && !value.is_empty() {
            if Capability::of(value).is_none() {
                return Err(Errno::EINVAL);
            }
            self.must_have(caps::CAP_SETFCAP)?;
        }
        self.core
            .past_delegations(|| self.setxattr_locked(name, value, flags))
    }

    fn setxattr_locked(&self, name: &[u8], value: &[u8], flags: XattrFlags) -> Result<(), Errno> {
        let inode = self.inode;
        let capability = name == CAPABILITY_NAME;
        let _held = inode.lock_names();
        self.may_touch(name, MAY_WRITE)?;
        if name.starts_with(SECURITY_PREFIX) && !capability {
            self.must_have(caps::CAP_SYS_ADMIN)?;
        }
        self.core.try_break(inode)?;
        let now = self.core.vfs.clock.now();
        if capability {
            inode.set_flags(flag::FILE_CAPS);
        }
        self.core
            .vfs
            .dcache
            .with_room(|| inode.shielded(|ops| ops.setxattr(inode, name, value, flags, now)))?;
        self.tell_xattrs();
        Ok(())
    }

    pub(super) fn getxattr(&self, name: &[u8]) -> Result<Vec<u8>, Errno> {
        if let Some(kind) = AclKind::of_name(name) {
            return self.get_acl(kind);
        }
        let inode = self.inode;
        self.may_touch(name, MAY_READ)?;
        let value = inode.shielded(|ops| ops.getxattr(inode, name))?;
        if name != CAPABILITY_NAME {
            return Ok(value);
        }
        let shown = Capability::of(&value).ok_or(Errno::EINVAL)?.shown();
        Ok(shown.into_owned())
    }

    pub(super) fn listxattr(&self) -> Result<Vec<u8>, Errno> {
        let inode = self.inode;
        let names = match inode.shielded(|ops| ops.listxattr(inode)) {
            Err(Errno::EOPNOTSUPP) => Vec::new(),
            other => other?,
        };
        let trusted = self.core.cred().capable(caps::CAP_SYS_ADMIN);
        let mut list = self.list_acls()?;
        for name in names {
            if AclKind::of_name(&name).is_some() {
                continue;
            }
            if trusted || !name.starts_with(TRUSTED_PREFIX) {
                list.extend_from_slice(&name);
                list.push(0);
            }
        }
        Ok(list)
    }

    pub(super) fn removexattr(&self, name: &[u8]) -> Result<(), Errno> {
        let _writing = self.begin_write()?;
        if let Some(kind) = AclKind::of_name(name) {
            return self.remove_acl(kind);
        }
        self.core.past_delegations(|| self.removexattr_locked(name))
    }

    fn removexattr_locked(&self, name: &[u8]) -> Result<(), Errno> {
        let inode = self.inode;
        let _held = inode.lock_names();
        self.may_touch(name, MAY_WRITE)?;
        if name == CAPABILITY_NAME {
            self.must_have(caps::CAP_SETFCAP)?;
        } else if name.starts_with(SECURITY_PREFIX) {
            self.must_have(caps::CAP_SYS_ADMIN)?;
        }
        self.core.try_break(inode)?;
        let now = self.core.vfs.clock.now();
        inode.shielded(|ops| ops.removexattr(inode, name, now))?;
        self.tell_xattrs();
        Ok(())
    }

    /// # Errors
    /// `EPERM` without the capability.
    fn must_have(&self, cap: u32) -> Result<(), Errno> {
        if self.core.cred().capable(cap) {
            Ok(())
        } else {
            Err(Errno::EPERM)
        }
    }

    /// Whether this task may access the attribute, as far as its name space decides
    /// (`xattr_permission`).
    ///
    /// # Errors
    /// `EPERM`, `ENODATA`, `EACCES`.
    fn may_touch(&self, name: &[u8], access: u32) -> Result<(), Errno> {
        let writes = access & MAY_WRITE != 0;
        if writes {
            self.must_be_free()?;
        }
        if name.starts_with(SECURITY_PREFIX) || name.starts_with(SYSTEM_PREFIX) {
            return Ok(());
        }
        let hidden = if writes { Errno::EPERM } else { Errno::ENODATA };
        let cred = self.core.cred();
        if name.starts_with(TRUSTED_PREFIX) {
            return if cred.capable(caps::CAP_SYS_ADMIN) {
                Ok(())
            } else {
                Err(hidden)
            };
        }
        if name.starts_with(USER_PREFIX) {
            let bits = self.inode.mode();
            let dir = mode::is_dir(bits);
            if !dir && !mode::is_reg(bits) {
                return Err(hidden);
            }
            let sticky = dir && bits & mode::S_ISVTX != 0;
            if sticky && writes && !cred.owner_or_capable(self.inode.ids().0) {
                return Err(Errno::EPERM);
            }
        }
        perm::inode_permission(&cred, &self.mount.sb, self.inode, access)
    }
}
