// SPDX-License-Identifier: MIT OR Apache-2.0
//! Making inodes of what the host says, one for each file.

use crate::node::{Face, Node, Place};
use crate::sys::Facts;
use crate::tree::{Tree, key};
use openpath_abi::mode;
use openpath_vfs::{Acls, Inode, flag};
use std::sync::{Arc, Weak};

impl Tree {
    /// The inode that `facts` tell of, found under `place`: the one that is known, or a new one.
    /// A look that began when `changes` was `seen` brings it up to date. `acls` reads its lists,
    /// where they are needed.
    pub(crate) fn adopt(
        self: &Arc<Self>,
        facts: &Facts,
        place: Option<Place>,
        seen: u64,
        acls: impl FnOnce() -> Acls,
    ) -> Arc<Inode> {
        let key = key(facts.id, facts.mnt);
        let known = self.table.lock().get(&key).and_then(Weak::upgrade);
        if let Some(inode) = &known
            && let Some(node) = Node::of(inode)
            && node.id == facts.id
            && node.may_be_at(place.as_ref())
        {
            if let Some(place) = place {
                node.found_at(place);
            }
            node.learn(inode, facts, seen, acls);
            return Arc::clone(inode);
        }
        let inode = self.make(facts, place, acls());
        // Two may make it at once: the first one entered is it.
        let mut table = self.table.lock();
        let other = table.get(&key).and_then(Weak::upgrade);
        if let Some(other) = other {
            let taken_over = known.as_ref().is_some_and(|k| Arc::ptr_eq(k, &other));
            let same = Node::of(&other).is_some_and(|node| node.id == facts.id);
            if !taken_over && same {
                drop(table);
                if let (Some(first), Some(late)) = (Node::of(&other), Node::of(&inode))
                    && let Some(place) = late.place()
                {
                    first.found_at(place);
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

    fn make(self: &Arc<Self>, facts: &Facts, place: Option<Place>, acls: Acls) -> Arc<Inode> {
        let node = Node::new(self, facts, place);
        let special = mode::is_chr(facts.attr.mode) || mode::is_blk(facts.attr.mode);
        let rdev = if special { facts.rdev } else { 0 };
        let ops = Box::new(Face(Arc::clone(&node)));
        let number = self.number(facts.id);
        let inode = Inode::new(number, rdev, facts.attr, facts.btime(), ops);
        let mut flags = 0;
        if matches!(facts.kind(), mode::S_IFREG | mode::S_IFDIR)
            && mode::file_type(facts.attr.mode) == facts.kind()
        {
            flags |= flag::OPEN_HOOK | flag::WRITE_HOOK;
        }
        if facts.immutable {
            flags |= flag::IMMUTABLE;
        }
        if facts.append_only {
            flags |= flag::APPEND_ONLY;
        }
        inode.set_flags(flags);
        inode.put_acls(acls);
        node.note_acls(facts);
        node.belongs_to(&inode);
        inode
    }

    /// The inode that `facts` tell of, if it is known.
    pub(crate) fn known(&self, facts: &Facts) -> Option<Arc<Inode>> {
        let known = self
            .table
            .lock()
            .get(&key(facts.id, facts.mnt))
            .and_then(Weak::upgrade);
        known.filter(|inode| Node::of(inode).is_some_and(|node| node.id == facts.id))
    }
}
