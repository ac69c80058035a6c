// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renames, replaces or exchanges files by one call of the host, and then updates their inodes and
//! aliases.

use crate::node::Node;
use crate::options::Ownership;
use crate::pool::HandleKind;
use crate::sys::{check_component, errno, stat_at};
use openpath_abi::Errno;
use openpath_vfs::{Rename, WaitMode};
use rustix::fs::{AtFlags, Gid, RenameFlags, Uid};
use std::sync::Arc;

const WAIT: WaitMode = WaitMode::Wait;

impl Node {
    /// As `InodeOps::rename`.
    ///
    /// # Errors
    /// `EXDEV` for an inode of another tree, `EINVAL` (a whiteout that would have to be stored in
    /// an attribute), `ENFILE`, those of the host.
    pub(crate) fn rename(self: &Arc<Self>, rename: &Rename<'_>) -> Result<(), Errno> {
        check_component(rename.old_name)?;
        check_component(rename.new_name)?;
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
            // A device 0:0, which any process may make. It stays a device even where owners are
            // stored in attributes, because it has none.
            flags |= RenameFlags::WHITEOUT;
        }
        let replaced = target.filter(|_| !rename.exchange);
        let (from_alias, to_alias) = (old.alias_of(rename.old_name), new.alias_of(rename.new_name));
        if let Some((node, inode)) = replaced {
            node.prepare_unlink(inode, &to_alias)?;
        }
        let from = old.handle(HandleKind::Path, WAIT)?;
        let to = new.handle(HandleKind::Path, WAIT)?;
        let done = match renameat(&from, rename.old_name, &to, rename.new_name, flags) {
            // A host without these flags.
            Err(Errno::EINVAL) if flags == RenameFlags::NOREPLACE => {
                let none = RenameFlags::empty();
                renameat(&from, rename.old_name, &to, rename.new_name, none)
            }
            done => done,
        };
        if let Some((node, inode)) = replaced {
            node.finish_unlink(inode, &to_alias, done.is_ok());
        }
        done?;
        source.move_alias(&from_alias, to_alias.clone());
        if let (Some((node, inode)), true) = (target, rename.exchange) {
            node.move_alias(&to_alias, from_alias);
            node.refresh_after_change(inode);
        }
        if let Some(whiteout) = &rename.whiteout
            && self.tree.options.ownership == Ownership::PassThrough
            && let Ok(stat) = stat_at(&*from, rename.old_name, WAIT)
            && (stat.attr.uid, stat.attr.gid) != (whiteout.uid, whiteout.gid)
        {
            let ids = (Uid::from_raw(whiteout.uid), Gid::from_raw(whiteout.gid));
            let flags = AtFlags::SYMLINK_NOFOLLOW;
            let _whoever_may_not =
                rustix::fs::chownat(&*from, rename.old_name, Some(ids.0), Some(ids.1), flags);
        }
        source.refresh_after_change(rename.source);
        old.refresh_after_change(rename.old_dir);
        if !Arc::ptr_eq(old, new) {
            new.refresh_after_change(rename.new_dir);
        }
        Ok(())
    }
}

fn renameat(
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
