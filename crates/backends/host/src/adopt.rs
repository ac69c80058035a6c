// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives a file of the host its inode: the known one, refreshed, or a new one. A file has one
//! inode, whatever its names; a directory that is found under another name or mount gets another.

use crate::node::{Alias, Node, NodeOps};
use crate::sys::HostStat;
use crate::tree::{Tree, key};
use openpath_abi::mode;
use openpath_vfs::{Acls, Inode, flag};
use std::sync::{Arc, Weak};

impl Tree {
    /// The inode of the file with these attributes, found under `alias`: the known one, or a new
    /// one. A look that began when the tree's count of changes was `seen` refreshes it. `acls`
    /// reads its lists; those of a file that `defers_acls` are read when they are first needed.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        stat: &HostStat,
        alias: Option<Alias>,
        (seen, defers_acls): (u64, bool),
        acls: impl FnOnce() -> Acls,
    ) -> Arc<Inode> {
        let key = key(stat.id, stat.mnt);
        let known = self.table.lock().get(&key).and_then(Weak::upgrade);
        if let Some(inode) = &known
            && let Some(node) = Node::of(inode)
            && node.id == stat.id
            && node.may_be_found_at(alias.as_ref())
        {
            if let Some(alias) = alias {
                node.add_alias(alias);
            }
            node.apply_if_newer(inode, stat, seen, acls);
            return Arc::clone(inode);
        }
        let acls = (!defers_acls).then(acls);
        let inode = self.make_inode(stat, alias, acls);
        // Two threads may make it at once: the first one entered wins.
        let mut table = self.table.lock();
        let other = table.get(&key).and_then(Weak::upgrade);
        if let Some(other) = other {
            let taken_over = known.as_ref().is_some_and(|k| Arc::ptr_eq(k, &other));
            let same = Node::of(&other).is_some_and(|node| node.id == stat.id);
            if !taken_over && same {
                drop(table);
                if let (Some(first), Some(late)) = (Node::of(&other), Node::of(&inode))
                    && let Some(alias) = late.last_alias()
                {
                    first.add_alias(alias);
                }
                return other;
            }
            table.insert(key, Arc::downgrade(&inode));
            drop(table);
            return inode;
        }
        table.insert(key, Arc::downgrade(&inode));
        inode
    }

    fn make_inode(
        self: &Arc<Self>,
        stat: &HostStat,
        alias: Option<Alias>,
        acls: Option<Acls>,
    ) -> Arc<Inode> {
        let node = Node::new(self, stat, alias);
        let special = mode::is_chr(stat.attr.mode) || mode::is_blk(stat.attr.mode);
        let rdev = if special { stat.rdev } else { 0 };
        let ops = Box::new(NodeOps(Arc::clone(&node)));
        let number = self.number(stat.id);
        let inode = Inode::new(number, rdev, stat.attr, stat.btime(), ops);
        let mut flags = 0;
        if matches!(stat.kind(), mode::S_IFREG | mode::S_IFDIR)
            && mode::file_type(stat.attr.mode) == stat.kind()
        {
            flags |= flag::OPEN_HOOK | flag::WRITE_HOOK;
        }
        if stat.immutable {
            flags |= flag::IMMUTABLE;
        }
        if stat.append_only {
            flags |= flag::APPEND_ONLY;
        }
        inode.set_flags(flags);
        match acls {
            Some(acls) => {
                inode.put_acls(acls);
                node.record_acl_time(stat);
            }
            None => inode.defer_acls(),
        }
        node.set_inode(&inode);
        inode
    }

    /// The inode of the file with these attributes, if it is known.
    pub(crate) fn find_known(&self, stat: &HostStat) -> Option<Arc<Inode>> {
        let known = self
            .table
            .lock()
            .get(&key(stat.id, stat.mnt))
            .and_then(Weak::upgrade);
        known.filter(|inode| Node::of(inode).is_some_and(|node| node.id == stat.id))
    }
}
