// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removes names, and keeps a file reachable that loses its last known name.
//!
//! # Rules
//! R1. A file that loses its last known name gets a handle first, which its open files then use.

use crate::node::{Alias, Node};
use crate::pool::HandleKind;
use crate::sys::{check_component, errno};
use openpath_abi::Errno;
use openpath_vfs::{Inode, WaitMode};
use rustix::fs::AtFlags;
use std::sync::Arc;

impl Node {
    /// As `InodeOps::unlink` and, if it `is_dir`, `InodeOps::rmdir`.
    pub(crate) fn remove_child(
        self: &Arc<Self>,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        is_dir: bool,
    ) -> Result<(), Errno> {
        check_component(name)?;
        let base = self.handle(HandleKind::Path, WaitMode::Wait)?;
        let node = self.sibling(victim)?;
        let alias = self.alias_of(name);
        node.prepare_unlink(victim, &alias)?;
        let flags = if is_dir {
            AtFlags::REMOVEDIR
        } else {
            AtFlags::empty()
        };
        let done = rustix::fs::unlinkat(&*base, name, flags).map_err(errno);
        node.finish_unlink(victim, &alias, done.is_ok());
        if done.is_ok() {
            self.refresh_after_change(dir);
        }
        done
    }

    /// Opens a handle for a file that is about to lose this name. The handle stays if no other name
    /// leads to the file.
    ///
    /// # Errors
    /// `ENFILE`, and those of the host.
    pub(crate) fn prepare_unlink(
        self: &Arc<Self>,
        inode: &Inode,
        alias: &Alias,
    ) -> Result<(), Errno> {
        self.add_alias(alias.clone());
        self.handle(HandleKind::Path, WaitMode::Wait)?;
        // The count may be outdated: dead names are taken out whatever it says.
        if !self.is_dir() && self.has_other_alias(alias) && inode.nlink() > 1 {
            return Ok(());
        }
        self.set_nameless(true);
        if self.held_handle(HandleKind::Path).is_none() {
            // The handle was evicted in between, for another one.
            self.set_nameless(false);
            self.handle(HandleKind::Path, WaitMode::Wait)?;
            self.set_nameless(true);
        }
        Ok(())
    }

    /// Whether another known name leads to the file; dead ones before that are taken out.
    fn has_other_alias(&self, lost: &Alias) -> bool {
        for alias in self.aliases() {
            if alias.is(lost) {
                continue;
            }
            if self.stat_alias(&alias, WaitMode::Wait).is_ok() {
                return true;
            }
            self.remove_alias(&alias);
        }
        false
    }

    /// Refreshes a file that was about to lose a name, and notes whether it did.
    pub(crate) fn finish_unlink(self: &Arc<Self>, inode: &Inode, alias: &Alias, lost: bool) {
        if lost && !self.is_dir() {
            self.remove_alias(alias);
        }
        self.refresh_after_change(inode);
        self.set_nameless(inode.nlink() == 0);
    }
}
