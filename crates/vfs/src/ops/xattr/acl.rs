// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets, reads and removes access control lists as extended attributes.
//!
//! # Kernel analogue
//! `vfs_set_acl`, `vfs_get_acl`, `vfs_remove_acl`, `set_posix_acl`, `posix_acl_update_mode`.
//!
//! # Order of checks
//! value (read only) -> immutable or append-only -> delegations -> tree or type without lists ->
//! default list of a file that is no directory -> owner -> value (valid) -> backend.
//!
//! # Locks
//! A change holds the inode's `InodeNames` lock; reading holds nothing.

use super::super::attr::may_set_group_id;
use crate::acl::{Acl, AclKind, SetAcl};
use crate::target::Target;
use openpath_abi::mode::S_ISGID;
use openpath_abi::{Errno, mode};
use std::sync::Arc;

impl Target<'_> {
    /// Sets a list to the one in `value`; an empty value removes it. The caller may write.
    ///
    /// # Errors
    /// Those of [`Acl::parse`]; `EPERM` (immutable or append-only); `EOPNOTSUPP` (a link, a tree
    /// without lists); `EACCES` (a default list of a file that is no directory); `EPERM` (not the
    /// owner);
    /// `EINVAL` (no valid list); what the backend meets.
    pub(super) fn set_acl(&self, kind: AclKind, value: &[u8]) -> Result<(), Errno> {
        let acl = if value.is_empty() {
            None
        } else {
            Acl::parse(value)?.map(Arc::new)
        };
        let set = || self.set_acl_locked(kind, acl.as_ref());
        self.core.past_delegations(set)
    }

    /// As [`Target::set_acl`] without a list.
    pub(super) fn remove_acl(&self, kind: AclKind) -> Result<(), Errno> {
        let remove = || self.set_acl_locked(kind, None);
        self.core.past_delegations(remove)
    }

    fn set_acl_locked(&self, kind: AclKind, acl: Option<&Arc<Acl>>) -> Result<(), Errno> {
        let inode = self.inode;
        let _held = inode.lock_names();
        self.must_be_free()?;
        self.core.try_break(inode)?;
        self.must_have_acls()?;
        if kind == AclKind::Default && !inode.is_dir() {
            if acl.is_some() {
                return Err(Errno::EACCES);
            }
            self.tell_xattrs();
            return Ok(());
        }
        self.confirm()?;
        if !self.core.cred().owner_or_capable(inode.ids().0) {
            return Err(Errno::EPERM);
        }
        acl.map_or(Ok(()), |acl| acl.check())?;
        let removes = acl.is_none();
        let (acl, mode) = match kind {
            AclKind::Access => self.update_mode(acl),
            AclKind::Default => (acl, None),
        };
        let change = SetAcl {
            kind,
            acl,
            removes,
            mode,
            now: self.core.vfs.clock.now(),
        };
        let set = || inode.shielded(|ops| ops.set_acl(inode, &change));
        self.around_search(|| self.core.vfs.dcache.with_room(set))?;
        self.tell_xattrs();
        Ok(())
    }

    /// The access list to be kept, none if the mode says all of it, and that mode
    /// (`posix_acl_update_mode`).
    fn update_mode<'a>(&self, acl: Option<&'a Arc<Acl>>) -> (Option<&'a Arc<Acl>>, Option<u32>) {
        let mut bits = self.inode.mode();
        let mut kept = acl;
        if let Some(acl) = acl {
            let (nine, is_all) = acl.mode_bits();
            bits = bits & !0o777 | nine;
            kept = kept.filter(|_| !is_all);
        }
        if !may_set_group_id(&self.core.cred(), self.inode.ids().1) {
            bits &= !S_ISGID;
        }
        (kept, Some(bits))
    }

    /// The value of a list.
    ///
    /// # Errors
    /// `EOPNOTSUPP` (a link, a tree without lists), `ENODATA`, what the backend meets.
    pub(super) fn get_acl(&self, kind: AclKind) -> Result<Vec<u8>, Errno> {
        self.must_have_acls()?;
        self.confirm()?;
        let acls = self.inode.acls();
        let acl = acls.get(kind).ok_or(Errno::ENODATA)?;
        Ok(acl.encode())
    }

    /// The names of the existing lists, each with a NUL.
    ///
    /// # Errors
    /// What the backend meets.
    pub(super) fn list_acls(&self) -> Result<Vec<u8>, Errno> {
        let mut list = Vec::new();
        if self.must_have_acls().is_err() {
            return Ok(list);
        }
        self.confirm()?;
        let acls = self.inode.acls();
        for kind in [AclKind::Access, AclKind::Default] {
            if acls.get(kind).is_some() {
                list.extend_from_slice(kind.name());
                list.push(0);
            }
        }
        Ok(list)
    }

    /// # Errors
    /// `EOPNOTSUPP`.
    fn must_have_acls(&self) -> Result<(), Errno> {
        let has = self.mount.sb.options().acls && !mode::is_lnk(self.inode.mode());
        if has { Ok(()) } else { Err(Errno::EOPNOTSUPP) }
    }
}
