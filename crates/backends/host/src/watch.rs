// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hearing of what others change, by inotify(7).
//!
//! # States
//! A directory is watched from the first lookup in it on. When there are too many, here or in the
//! host's eyes, the one that was watched longest loses its watch, and its names are forgotten; a
//! directory that cannot be watched has its names forgotten after each lookup. So no name stays
//! that nobody watches, but for the time until the thread of the watches has run.
//!
//! # The window
//! What another program changes is seen here once the host has queued an event and the thread has
//! dealt with it; until then the old answer is given. [`crate::HostFs::catch_up`] waits for that.
//! A file that is changed by a name in another directory, which is not watched, is not heard of.
//! One thread hears for the whole tree: while a look at the host stands still, nothing is told.
//!
//! # Rules
//! R1. An event of a name has the name looked at. If it means what it meant when it was last found
//!     here, its attributes are brought up to date and it stays: so changes of our own, which cause
//!     events as well, cost a look and no names, unless they are heard of while the call is still
//!     going on. Else it is forgotten; also if the file is shorter now, which a mount above can
//!     only say of a name, and if the name may have come back: what is known may have been found
//!     by it before it went, and may be said to be absent since.
//! R2. When events were lost everything is forgotten.
//! R3. The thread has the tree and its superblock weakly, and nobody waits for its end.

use crate::handles::number;
use crate::names::proper;
use crate::node::Node;
use crate::options::Policy;
use crate::places::Place;
use crate::pool::Use;
use crate::sys::{errno, look};
use crate::tree::Tree;
use openpath_abi::Errno;
use openpath_sync::{Mutex, Word};
use openpath_vfs::lock_order::{HostEvents, HostWatches};
use openpath_vfs::{Attr, Inode, Patience, SuperBlock};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use std::collections::{HashMap, VecDeque};
use std::mem::MaybeUninit;
use std::sync::{Arc, Weak};

/// Room for events that are read at once.
const ROOM: usize = 16 << 10;
/// What is heard of.
const HEARD: WatchFlags = WatchFlags::CREATE
    .union(WatchFlags::DELETE)
    .union(WatchFlags::MOVED_FROM)
    .union(WatchFlags::MOVED_TO)
    .union(WatchFlags::ATTRIB)
    .union(WatchFlags::MODIFY)
    .union(WatchFlags::ONLYDIR);

/// Who is watched, and whose names are to be forgotten.
#[derive(Default)]
struct Books {
    by_number: HashMap<i32, Weak<Node>>,
    /// In the order they came; some may be gone.
    order: VecDeque<i32>,
    /// What nobody watches any more.
    doubtful: Vec<Weak<Node>>,
}

/// The watches of one tree.
pub(crate) struct Watcher {
    max: usize,
    events: OwnedFd,
    wake: OwnedFd,
    stop: Word,
    /// All names are to be forgotten.
    forget: Word,
    books: Mutex<Books, HostWatches>,
    /// Held while events are dealt with.
    dealing: Mutex<(), HostEvents>,
}

/// One event, off the buffer.
struct Heard {
    number: i32,
    what: ReadFlags,
    name: Option<Vec<u8>>,
}

impl Watcher {
    /// # Errors
    /// `EMFILE`: the user has too many of these.
    pub(crate) fn new(max: usize) -> Result<Arc<Self>, Errno> {
        let flags = CreateFlags::CLOEXEC | CreateFlags::NONBLOCK;
        let events = inotify::init(flags).map_err(errno)?;
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let wake = eventfd(0, flags).map_err(errno)?;
        Ok(Arc::new(Self {
            max: max.max(1),
            events,
            wake,
            stop: Word::new(0),
            forget: Word::new(0),
            books: Mutex::new(Books::default()),
            dealing: Mutex::new(()),
        }))
    }

    /// Starts the thread that listens.
    ///
    /// # Errors
    /// `EAGAIN`: there can be no more threads.
    pub(crate) fn start(
        self: &Arc<Self>,
        tree: &Arc<Tree>,
        sb: &Arc<SuperBlock>,
    ) -> Result<(), Errno> {
        let watcher = Arc::clone(self);
        let (tree, sb) = (Arc::downgrade(tree), Arc::downgrade(sb));
        let thread = std::thread::Builder::new().name("openpath-watch".to_owned());
        let started = thread.spawn(move || watcher.listen(&tree, &sb));
        started.map(drop).map_err(|_| Errno::EAGAIN)
    }

    /// Ends the thread.
    pub(crate) fn end(&self) {
        self.stop.set(1);
        self.wake_up();
    }

    /// Has all names forgotten soon.
    pub(crate) fn forget_all(&self) {
        self.forget.set(1);
        self.wake_up();
    }

    fn wake_up(&self) {
        // Full means that it is awake already.
        let _woken = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn listen(&self, tree: &Weak<Tree>, sb: &Weak<SuperBlock>) {
        loop {
            let mut both = [
                PollFd::new(&self.events, PollFlags::IN),
                PollFd::new(&self.wake, PollFlags::IN),
            ];
            let _awake = poll(&mut both, None);
            if self.stop.get() != 0 {
                return;
            }
            let _counted = rustix::io::read(&self.wake, &mut [0u8; 8]);
            let dealing = self.dealing.lock();
            let (Some(tree), Some(sb)) = (tree.upgrade(), sb.upgrade()) else {
                return;
            };
            self.deal(&tree, &sb);
            drop(dealing);
        }
    }

    /// Waits until what happened before was dealt with.
    pub(crate) fn catch_up(&self) {
        loop {
            {
                let _dealt = self.dealing.lock();
                let none_left = rustix::io::ioctl_fionread(&self.events).is_ok_and(|n| n == 0);
                if none_left && self.books.lock().doubtful.is_empty() {
                    return;
                }
            }
            self.wake_up();
            std::thread::yield_now();
        }
    }

    /// Deals with all that was heard.
    fn deal(&self, tree: &Arc<Tree>, sb: &SuperBlock) {
        if self.forget.swap_if(1, 0) {
            sb.forget_all();
        }
        let doubtful = std::mem::take(&mut self.books.lock().doubtful);
        for node in doubtful {
            if let Some(inode) = node.upgrade().and_then(|node| node.inode()) {
                sb.forget_names_of(&inode);
            }
        }
        let mut room = vec![MaybeUninit::uninit(); ROOM];
        loop {
            let heard = self.read(&mut room);
            if heard.is_empty() {
                return;
            }
            for event in heard {
                self.deal_with(tree, sb, event);
            }
        }
    }

    fn read(&self, room: &mut [MaybeUninit<u8>]) -> Vec<Heard> {
        let mut heard = Vec::new();
        let mut reader = Reader::new(&self.events, room);
        while let Ok(event) = reader.next() {
            heard.push(Heard {
                number: event.wd(),
                what: event.events(),
                name: event.file_name().map(|name| name.to_bytes().to_vec()),
            });
            if reader.is_buffer_empty() {
                break;
            }
        }
        heard
    }

    fn deal_with(&self, tree: &Arc<Tree>, sb: &SuperBlock, event: Heard) {
        if event.what.contains(ReadFlags::QUEUE_OVERFLOW) {
            sb.forget_all();
            tree.doubt_all(sb);
            return;
        }
        let node = {
            let mut books = self.books.lock();
            if event.what.contains(ReadFlags::IGNORED) {
                books.by_number.remove(&event.number)
            } else {
                books.by_number.get(&event.number).cloned()
            }
        };
        let Some(node) = node.and_then(|node| node.upgrade()) else {
            return;
        };
        let Some(dir) = node.inode() else { return };
        if event.what.contains(ReadFlags::IGNORED) {
            node.watch.set(0);
            sb.forget_names_of(&dir);
            return;
        }
        if let Some(name) = &event.name
            && event
                .what
                .intersects(ReadFlags::MOVED_FROM | ReadFlags::DELETE)
            && node.mind_anchors(name, &Err(Errno::ENOENT))
        {
            sb.forget_all();
        }
        node.attributes_changed(sb, &dir);
        if let Some(name) = event.name
            && proper(&name).is_ok()
            && (!node.still_means(sb, &name, event.what.contains(ReadFlags::CREATE))
                || event.what.contains(ReadFlags::MOVED_TO))
        {
            sb.forget_name(&dir, &name);
        }
    }

    /// Has a directory's names forgotten soon.
    fn doubt(&self, node: &Arc<Node>) {
        self.books.lock().doubtful.push(Arc::downgrade(node));
        self.wake_up();
    }

    /// Watches a directory, in place of another one if there are too many.
    fn add(&self, node: &Arc<Node>) -> Result<(), Errno> {
        let handle = node.handle(Use::Path, Patience::Wait)?;
        let place = format!("/proc/self/fd/{}", number(&handle));
        let mut added = inotify::add_watch(&self.events, &place, HEARD);
        while matches!(added, Err(rustix::io::Errno::NOSPC)) && self.give_up_oldest() {
            added = inotify::add_watch(&self.events, &place, HEARD);
        }
        let number = added.map_err(errno)?;
        node.watch.set(1);
        let over = {
            let mut books = self.books.lock();
            books.by_number.insert(number, Arc::downgrade(node));
            books.order.push_back(number);
            books.by_number.len() > self.max
        };
        if over {
            self.give_up_oldest();
        }
        Ok(())
    }

    /// Takes the oldest watch away; whether there was one.
    fn give_up_oldest(&self) -> bool {
        let (number, node) = {
            let mut books = self.books.lock();
            loop {
                let Some(number) = books.order.pop_front() else {
                    return false;
                };
                if let Some(node) = books.by_number.remove(&number) {
                    break (number, node);
                }
            }
        };
        let _gone_already = inotify::remove_watch(&self.events, number);
        if let Some(node) = node.upgrade() {
            node.watch.set(0);
            self.doubt(&node);
        }
        true
    }
}

impl Tree {
    /// Brings all that is known up to date, because it is not known what changed.
    fn doubt_all(self: &Arc<Self>, sb: &SuperBlock) {
        for inode in self.all() {
            if let Some(node) = Node::of(&inode) {
                node.attributes_changed(sb, &inode);
            }
        }
    }
}

impl Node {
    /// Sees that changes of the names in this directory are heard of.
    pub(crate) fn watch_names(self: &Arc<Self>, patience: Patience) -> Result<(), Errno> {
        let Some(watcher) = &self.tree.watcher else {
            return Ok(());
        };
        if self.tree.options.policy != Policy::Notify || self.watch.get() != 0 {
            return Ok(());
        }
        if patience == Patience::Cached {
            return Err(Errno::EAGAIN);
        }
        if watcher.add(self).is_err() {
            watcher.doubt(self);
        }
        Ok(())
    }

    /// Others may have changed its attributes.
    fn attributes_changed(self: &Arc<Self>, sb: &SuperBlock, inode: &Arc<Inode>) {
        let (before, acls) = (inode.attr(), inode.acls());
        self.settle(inode);
        let now = inode.attr();
        let who = |attr: &Attr| (attr.mode, attr.uid, attr.gid);
        if inode.is_dir() && (who(&before) != who(&now) || acls != inode.acls()) {
            self.untold.set(0);
            sb.forget_permission(inode);
        } else if self.untold.swap_if(1, 0)
            || !same_but_access(&before, &now)
            || acls != inode.acls()
        {
            sb.forget_attributes(inode);
        }
    }

    /// Whether `name` means what it meant when it was last found; then its attributes are brought
    /// up to date. `made`: the name is new, and so is the file if it has no other.
    fn still_means(self: &Arc<Self>, sb: &SuperBlock, name: &[u8], made: bool) -> bool {
        let Ok(base) = self.handle(Use::Path, Patience::Wait) else {
            return false;
        };
        let Ok(facts) = look(&*base, name, Patience::Wait) else {
            return false;
        };
        let Some(inode) = self.tree.known(&facts) else {
            return false;
        };
        let Some(node) = Node::of(&inode) else {
            return false;
        };
        // What was looked at meanwhile and not told may have been longer.
        let (len, looked_at) = (inode.attr().size, node.untold.get() != 0);
        node.attributes_changed(sb, &inode);
        let shorter = !inode.is_dir() && (looked_at || inode.attr().size < len);
        if made && !inode.is_dir() && inode.attr().nlink > 1 {
            return false;
        }
        let same = |place: &Place| !shorter && place.parent.id == self.id && *place.name == *name;
        node.place().is_some_and(|place| same(&place))
    }
}

/// Whether nothing changed but the time of access.
pub(crate) fn same_but_access(before: &Attr, now: &Attr) -> bool {
    let atime = now.atime;
    *now == Attr { atime, ..*before }
}

impl Drop for Tree {
    fn drop(&mut self) {
        if let Some(watcher) = &self.watcher {
            watcher.end();
        }
    }
}
