// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets the access control list of a file, on the host or in an attribute that the tree keeps
//! there.

use crate::acl::{AclTarget, WAIT, acl_of_mode, store_acl};
use crate::node::Node;
use crate::options::Ownership;
use crate::pool::HandleKind;
use crate::sys::stat_at;
use openpath_abi::{Errno, mode};
use openpath_vfs::{AclKind, Inode, SetAcl, SetAttr};
use rustix::fd::AsFd as _;
use std::sync::Arc;

impl Node {
    /// As `InodeOps::set_acl`.
    pub(crate) fn change_acl(
        self: &Arc<Self>,
        inode: &Inode,
        change: &SetAcl<'_>,
    ) -> Result<(), Errno> {
        let done = self.change_acl_on_host(inode, change);
        self.refresh_after_acl_change(inode);
        done
    }

    fn change_acl_on_host(
        self: &Arc<Self>,
        inode: &Inode,
        change: &SetAcl<'_>,
    ) -> Result<(), Errno> {
        let mode_bits = change.mode.unwrap_or_else(|| inode.mode());
        if self.stores_attr() {
            let file = self.handle(HandleKind::Read, WAIT)?;
            store_acl(&*file, change.kind, change.acl.map(|acl| &**acl))?;
            return self.store_mode(inode, mode_bits);
        }
        if matches!(self.tree.options.ownership, Ownership::Xattr { .. }) {
            return Err(Errno::EOPNOTSUPP);
        }
        let handle = self.handle(HandleKind::Path, WAIT)?;
        let stat = stat_at(&*handle, b"", WAIT)?;
        let set = |at: AclTarget<'_>| match (change.kind, change.acl) {
            // The host treats a list that is equivalent to a mode as none, and sets that mode.
            (AclKind::Access, None) => at.write(change.kind, Some(&acl_of_mode(mode_bits))),
            (kind, acl) => at.write(kind, acl.map(|acl| &**acl)),
        };
        match self
            .tree
            .with_acls(&stat, AclTarget::Fd(handle.as_fd()), set)
        {
            // L33: there was none to remove, but the change time moves.
            Err(Errno::EOPNOTSUPP) if change.acl.is_none() => {
                let time = SetAttr {
                    ctime: Some(change.now),
                    ..SetAttr::default()
                };
                self.set_attributes(inode, &time)?;
            }
            done => done?,
        }
        let after = stat_at(&*handle, b"", WAIT)?;
        if change.mode.is_some() && mode::permissions(after.attr.mode ^ mode_bits) != 0 {
            let mode = SetAttr {
                mode: change.mode,
                ..SetAttr::default()
            };
            return self.set_attributes(inode, &mode);
        }
        Ok(())
    }
}
