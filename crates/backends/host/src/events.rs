// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processes inotify(7) events: forgets the names and attributes that other programs changed.
//!
//! # The window
//! A change by another program is seen here once the host has queued an event and the thread has
//! processed it; until then the old answer is given. [`crate::HostFs::catch_up`] waits for that.
//! A change of a file by a name in another directory, which is not watched, raises no event here.
//! One thread serves the whole tree: while it waits for a host that hangs, no event is processed.
//!
//! # Limits
//! * The names of a directory that cannot be watched are forgotten after each lookup in it. So no
//!   name outlives its watch, except until the thread has run.
//!
//! # Rules
//! R1. An event of a name has the name looked up. A name that still leads to the same file stays,
//!     with new attributes: so our own changes, which raise events as well, cost a look and no
//!     names, unless the event is processed while the call still runs. Any other name is forgotten.
//! R2. A name is also forgotten if its file became shorter, which a mount above can be told of by
//!     name only. So is one that may have come back: it may have been looked up before it went,
//!     and may have been reported as absent since.
//! R3. When events were lost, everything is forgotten.
//! R4. The thread holds the tree and its superblock weakly, and nothing waits for its end.

use crate::handles::fd_name;
use crate::node::{Alias, Node};
use crate::options::Policy;
use crate::pool::HandleKind;
use crate::refresh::same_but_access;
use crate::sys::{check_component, stat_at};
use crate::tree::Tree;
use crate::watches::{EVENTS_SIZE, Event, Watched, Watches};
use openpath_abi::Errno;
use openpath_vfs::{Attr, Inode, SuperBlock, WaitMode};
use rustix::fs::inotify::ReadFlags;
use std::mem::MaybeUninit;
use std::sync::{Arc, Weak};

impl Watches {
    /// Starts the thread that processes events.
    ///
    /// # Errors
    /// `EAGAIN`: there can be no more threads.
    pub(crate) fn start(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        sb: &Arc<SuperBlock>,
    ) -> Result<(), Errno> {
        let watches = Arc::clone(self);
        let (tree, sb) = (Arc::downgrade(tree), Arc::downgrade(sb));
        let thread = std::thread::Builder::new().name("openpath-watch".to_owned());
        let started = thread.spawn(move || watches.run(&tree, &sb));
        started.map(drop).map_err(|_| Errno::EAGAIN)
    }

    fn run(&self, tree: &Weak<Tree>, sb: &Weak<SuperBlock>) {
        while self.wait() {
            let processing = self.processing.lock();
            let (Some(tree), Some(sb)) = (tree.upgrade(), sb.upgrade()) else {
                return;
            };
            self.process_all(&tree, &sb);
            drop(processing);
        }
    }

    fn process_all(&self, tree: &Arc<Tree>, sb: &SuperBlock) {
        if self.take_forget_all() {
            sb.forget_all();
        }
        for dir in self.take_unwatched() {
            if let Some(inode) = dir.upgrade().and_then(|dir| dir.inode()) {
                sb.forget_names_of(&inode);
            }
        }
        let mut buffer = vec![MaybeUninit::uninit(); EVENTS_SIZE];
        loop {
            let events = self.read(&mut buffer);
            if events.is_empty() {
                return;
            }
            for event in events {
                self.process(tree, sb, event);
            }
        }
    }

    fn process(&self, tree: &Arc<Tree>, sb: &SuperBlock, event: Event) {
        if event.flags.contains(ReadFlags::QUEUE_OVERFLOW) {
            sb.forget_all();
            tree.refresh_all_inodes(sb);
            return;
        }
        let Some(watched) = self.watched(&event) else {
            return;
        };
        let Some(dir) = watched.inode() else { return };
        if event.flags.contains(ReadFlags::IGNORED) {
            watched.set_watched(false);
            sb.forget_names_of(&dir);
            return;
        }
        let Some(node) = Node::of(&dir) else { return };
        if let Some(name) = &event.name
            && event
                .flags
                .intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE)
            && node.check_enforced_path(name, &Err(Errno::ENOENT))
        {
            sb.forget_all();
        }
        node.refresh_and_forget(sb, &dir);
        if let Some(name) = event.name
            && check_component(&name).is_ok()
            && (!node.still_leads_there(sb, &name, event.flags.contains(ReadFlags::CREATE))
                || event.flags.contains(ReadFlags::MOVED_TO))
        {
            sb.forget_name(&dir, &name);
        }
    }
}

impl Watched for Node {
    fn inode(&self) -> Option<Arc<Inode>> {
        Self::inode(self)
    }

    fn set_watched(&self, watched: bool) {
        self.is_watched.set(u64::from(watched));
    }
}

impl Tree {
    /// Brings all known inodes up to date, because it is not known what changed.
    fn refresh_all_inodes(self: &Arc<Self>, sb: &SuperBlock) {
        for inode in self.all_inodes() {
            if let Some(node) = Node::of(&inode) {
                node.refresh_and_forget(sb, &inode);
            }
        }
    }
}

impl Node {
    /// Sees that changes of the names in this directory are heard of.
    pub(crate) fn watch_names(self: &Arc<Self>, wait_mode: WaitMode) -> Result<(), Errno> {
        let Some(watches) = &self.tree.watches else {
            return Ok(());
        };
        if self.tree.options.policy != Policy::Notify || self.is_watched.get() != 0 {
            return Ok(());
        }
        if wait_mode == WaitMode::Cached {
            return Err(Errno::EAGAIN);
        }
        let added = self
            .handle(HandleKind::Path, WaitMode::Wait)
            .and_then(|handle| watches.add(&format!("/proc/self/fd/{}", fd_name(&handle)), self));
        if added.is_err() {
            let dir: Weak<Self> = Arc::downgrade(self);
            watches.forget_names_later(dir);
        }
        Ok(())
    }

    /// Others may have changed its attributes.
    fn refresh_and_forget(self: &Arc<Self>, sb: &SuperBlock, inode: &Arc<Inode>) {
        // Nobody knows lists that were not read.
        let lists = || (!inode.are_acls_unread()).then(|| inode.acls());
        let (before, acls) = (inode.attr(), lists());
        self.refresh_after_change(inode);
        let (now, read) = (inode.attr(), lists());
        let permission = |attr: &Attr| (attr.mode, attr.uid, attr.gid);
        if inode.is_dir() && (permission(&before) != permission(&now) || acls != read) {
            self.unreported.set(0);
            sb.forget_permission(inode);
        } else if self.unreported.swap_if(1, 0) || !same_but_access(&before, &now) || acls != read {
            sb.forget_attributes(inode);
        }
    }

    /// Whether `name` means what it meant when it was last found; then its attributes are brought
    /// up to date. `made`: the name is new, and so is the file if it has no other.
    fn still_leads_there(self: &Arc<Self>, sb: &SuperBlock, name: &[u8], made: bool) -> bool {
        let Ok(base) = self.handle(HandleKind::Path, WaitMode::Wait) else {
            return false;
        };
        let Ok(stat) = stat_at(&*base, name, WaitMode::Wait) else {
            return false;
        };
        let Some(inode) = self.tree.find_known(&stat) else {
            return false;
        };
        let Some(node) = Node::of(&inode) else {
            return false;
        };
        // What was looked at meanwhile and not told may have been longer.
        let (len, seen_before) = (inode.attr().size, node.unreported.get() != 0);
        node.refresh_and_forget(sb, &inode);
        let shorter = !inode.is_dir() && (seen_before || inode.attr().size < len);
        if made && !inode.is_dir() && inode.attr().nlink > 1 {
            return false;
        }
        let same = |alias: &Alias| !shorter && alias.parent.id == self.id && *alias.name == *name;
        node.last_alias().is_some_and(|alias| same(&alias))
    }
}
