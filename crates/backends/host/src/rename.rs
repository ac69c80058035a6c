// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renames, carried out by the host in one call.

use crate::node::Node;
use crate::options::Ownership;
use crate::pool::Use;
use crate::sys::{errno, look, proper};
use openpath_abi::Errno;
use openpath_vfs::{Patience, Rename};
use rustix::fs::{AtFlags, Gid, RenameFlags, Uid};
use std::sync::Arc;

const WAIT: Patience = Patience::Wait;

impl Node {
    /// As `InodeOps::rename`.
    ///
    /// # Errors
    /// `EXDEV` for another tree's, `EINVAL` (a whiteout that would have to be kept in an
    /// attribute), `ENFILE`, those of the host.
    pub(crate) fn rename(self: &Arc<Self>, rename: &Rename<'_>) -> Result<(), Errno> {
        proper(rename.old_name)?;
        proper(rename.new_name)?;
        let (old, new) = (self.sibling(rename.old_dir)?, self.sibling(rename.new_dir)?);
        let source = self.sibling(rename.source)?;
        let target = match rename.target {
            Some(target) => Some((self.sibling(target)?, target)),
            None => None,
        };
        let mut flags = if rename.exchange {
            RenameFlags::EXCHANGE
        } else if target.is_none() {
            RenameFlags::NOREPLACE
        } else {
            RenameFlags::empty()
        };
        if rename.whiteout.is_some() {
            // A device 0:0 that anyone may make: it is what it is also where owners are kept in
            // attributes, of which it has none.
            flags |= RenameFlags::WHITEOUT;
        }
        let loses = target.filter(|_| !rename.exchange);
        let (from_place, to_place) = (old.place_of(rename.old_name), new.place_of(rename.new_name));
        if let Some((node, inode)) = loses {
            node.prepare_loss(inode, &to_place)?;
        }
        let from = old.handle(Use::Path, WAIT)?;
        let to = new.handle(Use::Path, WAIT)?;
        let done = match carry_out(&from, rename.old_name, &to, rename.new_name, flags) {
            // A host without these flags.
            Err(Errno::EINVAL) if flags == RenameFlags::NOREPLACE => {
                let none = RenameFlags::empty();
                carry_out(&from, rename.old_name, &to, rename.new_name, none)
            }
            done => done,
        };
        if let Some((node, inode)) = loses {
            node.after_loss(inode, &to_place, done.is_ok());
        }
        done?;
        source.moved(&from_place, to_place.clone());
        if let (Some((node, inode)), true) = (target, rename.exchange) {
            node.moved(&to_place, from_place);
            node.settle(inode);
        }
        if let Some(whiteout) = &rename.whiteout
            && self.tree.options.ownership == Ownership::PassThrough
            && let Ok(facts) = look(&*from, rename.old_name, WAIT)
            && (facts.attr.uid, facts.attr.gid) != (whiteout.uid, whiteout.gid)
        {
            let ids = (Uid::from_raw(whiteout.uid), Gid::from_raw(whiteout.gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let _whoever_may_not =
                rustix::fs::chownat(&*from, rename.old_name, Some(ids.0), Some(ids.1), flags);
        }
        source.settle(rename.source);
        old.settle(rename.old_dir);
        if !Arc::ptr_eq(old, new) {
            new.settle(rename.new_dir);
        }
        Ok(())
    }
}

fn carry_out(
    from: &crate::pool::Handle,
    old: &[u8],
    to: &crate::pool::Handle,
    new: &[u8],
    flags: RenameFlags,
) -> Result<(), Errno> {
    #[cfg(test)]
    crate::stall::pass(from, old, WAIT)?;
    rustix::fs::renameat_with(from, old, to, new, flags).map_err(errno)
}
