// SPDX-License-Identifier: MIT OR Apache-2.0
//! Setting access control lists, on the host or beside the owner.

use crate::acl::{At, WAIT, keep, plain};
use crate::node::Node;
use crate::options::Ownership;
use crate::pool::Use;
use crate::sys::look;
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
        self.settle_with_acls(inode);
        done
    }

    fn change_acl_on_host(
        self: &Arc<Self>,
        inode: &Inode,
        change: &SetAcl<'_>,
    ) -> Result<(), Errno> {
        let mode_bits = change.mode.unwrap_or_else(|| inode.mode());
        if self.is_owned_by_attribute() {
            let file = self.handle(Use::Read, WAIT)?;
            keep(&*file, change.kind, change.acl.map(|acl| &**acl))?;
            return self.write_guest_mode(inode, mode_bits);
        }
        if matches!(self.tree.options.ownership, Ownership::Xattr { .. }) {
            return Err(Errno::EOPNOTSUPP);
        }
        let handle = self.handle(Use::Path, WAIT)?;
        let facts = look(&*handle, b"", WAIT)?;
        let set = |at: At<'_>| match (change.kind, change.acl) {
            // The host takes a list that says what the mode says for none, and sets that mode.
            (AclKind::Access, None) => at.write(change.kind, Some(&plain(mode_bits))),
            (kind, acl) => at.write(kind, acl.map(|acl| &**acl)),
        };
        match self.tree.with_acls(&facts, At::Fd(handle.as_fd()), set) {
            // L33: there was none to remove, but the time of the change moves.
            Err(Errno::EOPNOTSUPP) if change.acl.is_none() => {
                let time = SetAttr {
                    ctime: Some(change.now),
                    ..SetAttr::default()
                };
                self.change(inode, &time)?;
            }
            done => done?,
        }
        let after = look(&*handle, b"", WAIT)?;
        if change.mode.is_some() && mode::permissions(after.attr.mode ^ mode_bits) != 0 {
            let mode = SetAttr {
                mode: change.mode,
                ..SetAttr::default()
            };
            return self.change(inode, &mode);
        }
        Ok(())
    }
}
