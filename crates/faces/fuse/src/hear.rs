// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the kernel is made to forget: what changes other than through the mount, which it then asks
//! for again, and what it keeps beyond our bound.
//!
//! # Rules
//! R1. Who tells is not held up: what is told is put down, and passed on by a thread of its own.
//!     The kernel takes the lock of a directory to forget a name in it, which whoever waits for an
//!     answer of ours may hold.
//! R2. What cannot be put down is not lost: then everything is taken back. Lengths are compared
//!     when a name is looked up again (R4); what nobody changed stays the node that it is.
//! R3. A name is made to be asked for again, not thrown away: what still means the same stays what
//!     it is to who uses it, and keeps what is mounted on it.
//! R4. Where writes are kept back the kernel believes no length but its own. So of a file that
//!     others made longer it is given the last byte, and believes that length; one that they made
//!     shorter is another node from the next lookup on, which its tree tells to make. What is open
//!     keeps the length that it had.
//! R5. From three quarters of the nodes that may be on, the kernel is asked to give back a quarter:
//!     it does so with what nobody uses. It is asked again when they are fewer, or have grown by a
//!     sixteenth all the same, or there is no room for one more. A kernel before 6.18 does not know
//!     how, and gives back as it likes.
//! R6. What is told while an answer is made may come before the kernel knows the node. So tells are
//!     counted: where one came since the attributes were read the answer holds for nothing; and
//!     who is not known is told once more a moment later.

use crate::told::Name;
use crate::view::View;
use openpath_sync::Word;
use openpath_vfs::{Above, Inode};
use rustix::io::Errno;
use std::cmp::Ordering;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long an answer that is made already may take to the kernel.
const MOMENT: Duration = Duration::from_millis(1);
/// What may be put down at once.
const EVENTS: usize = 4096;

/// What is to be passed on.
enum Event {
    /// A name in a directory, by its nodes.
    Name(Vec<u64>, Arc<[u8]>),
    /// All names in one.
    Names(Vec<u64>),
    /// What is known of a file, which is so long now.
    Inode(Vec<u64>, u64),
    /// A name in a directory by its node, which did not change.
    Displaced(Name),
    /// Everything.
    All,
    /// Something was not put down (R2).
    Lost,
    /// There are many nodes.
    Crowd,
}

/// Where it is put down.
pub(crate) struct Queue {
    events: SyncSender<Event>,
    /// Something was not put down (R2).
    lost: Word,
}

impl Queue {
    fn put(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.lost.set(1);
            // All may have been read meanwhile; else this finds no room either, and is not needed.
            let _needless = self.events.try_send(Event::Lost);
        }
    }

    /// A name that is not noted any more.
    pub(crate) fn displaced(&self, name: Name) {
        self.put(Event::Displaced(name));
    }

    /// There are many nodes; whether that was put down.
    pub(crate) fn crowd(&self) -> bool {
        self.events.try_send(Event::Crowd).is_ok()
    }
}

/// What trees tell.
struct Hearing {
    view: Weak<View>,
    queue: Arc<Queue>,
}

impl Hearing {
    fn put(&self, inode: &Inode, event: impl FnOnce(Vec<u64>) -> Event) {
        if let Some(view) = self.view.upgrade() {
            // Before the look (R6).
            view.tells.add(1);
            let nodes = view.nodes.of_inode(inode.identity(), inode.ino());
            if !nodes.is_empty() {
                self.queue.put(event(nodes));
            }
        }
    }
}

impl Above for Hearing {
    fn name(&self, dir: &Arc<Inode>, name: &[u8]) {
        self.put(dir, |nodes| Event::Name(nodes, Arc::from(name)));
    }

    fn names_of(&self, dir: &Arc<Inode>) {
        self.put(dir, Event::Names);
    }

    fn all(&self) {
        self.queue.put(Event::All);
    }

    fn attributes(&self, inode: &Arc<Inode>) {
        self.put(inode, |nodes| Event::Inode(nodes, inode.attr().size));
    }
}

/// Makes what hears for a view; its thread ends when that and the view are gone.
///
/// # Errors
/// `EAGAIN`: no thread.
pub(crate) fn begin(view: &Arc<View>) -> std::io::Result<(Arc<dyn Above>, JoinHandle<()>)> {
    let (events, told) = sync_channel(EVENTS);
    let queue = Arc::new(Queue {
        events,
        lost: Word::new(0),
    });
    view.queue.set(Arc::downgrade(&queue));
    let weak = Arc::downgrade(view);
    let lost = Arc::downgrade(&queue);
    let pass_on = move || pass_on(&weak, &lost, told);
    let thread = std::thread::Builder::new()
        .name("openpath-fuse-told".to_owned())
        .spawn(pass_on)?;
    let view = Arc::downgrade(view);
    Ok((Arc::new(Hearing { view, queue }), thread))
}

fn pass_on(view: &Weak<View>, queue: &Weak<Queue>, told: Receiver<Event>) {
    for event in told {
        let Some(view) = view.upgrade() else { return };
        view.take_back(event);
        let lost = queue.upgrade().is_some_and(|q| q.lost.swap_if(1, 0));
        if lost {
            view.take_back(Event::All);
        }
    }
}

impl View {
    /// Notes that the kernel is told of a name, where that may have to be taken back.
    pub(crate) fn note(&self, parent: u64, name: &[u8]) {
        if !self.hears {
            return;
        }
        let Some(queue) = self.queue.get().and_then(Weak::upgrade) else {
            return;
        };
        let displaced = self.told.lock().note(parent, name);
        if let Some(displaced) = displaced {
            queue.displaced(displaced);
        }
    }

    /// Has a name taken back that is not noted any more.
    pub(crate) fn displace(&self, parent: u64, name: &[u8]) {
        if let Some(queue) = self.queue.get().and_then(Weak::upgrade) {
            queue.displaced((parent, Arc::from(name)));
        }
    }

    /// Nodes of a file are so long, which the kernel does not know of them yet.
    pub(crate) fn has_length(&self, nodes: Vec<u64>, len: u64) {
        if !nodes.is_empty()
            && let Some(queue) = self.queue.get().and_then(Weak::upgrade)
        {
            queue.put(Event::Inode(nodes, len));
        }
    }

    fn take_back(&self, event: Event) {
        match event {
            Event::Crowd => self.prune(),
            Event::Displaced((parent, name)) => self.forget_name(parent, &name),
            // It is looked at after each.
            Event::Lost => {}
            Event::Name(parents, name) => {
                for parent in parents {
                    self.forget_inode(parent);
                    self.forget_name(parent, &name);
                }
            }
            Event::Names(parents) => {
                let names = self.told.lock().within(&parents);
                for parent in parents {
                    self.forget_inode(parent);
                }
                for (parent, name) in names {
                    self.forget_name(parent, &name);
                }
            }
            Event::Inode(nodes, len) => {
                let unknown: Vec<u64> = nodes
                    .into_iter()
                    .filter(|node| !self.tell_length(*node, len))
                    .collect();
                if !unknown.is_empty() {
                    std::thread::sleep(MOMENT);
                    for node in unknown {
                        self.tell_length(node, len);
                    }
                }
            }
            Event::All => {
                let names = self.told.lock().all();
                for node in self.nodes.all() {
                    self.forget_inode(node);
                }
                for (parent, name) in names {
                    self.forget_name(parent, &name);
                }
            }
        }
    }

    /// Asks the kernel to give nodes back (R5).
    fn prune(&self) {
        let all = self.nodes.all();
        if let Some(notifier) = self.notifier.get() {
            // Who does not know how gives back as he likes.
            let _asked = notifier.prune(&all[..all.len() / 4]);
        }
        self.nodes.pruned();
    }

    /// Has the kernel ask again for a file that is so long; false if it does not know it, though we
    /// do (R6).
    fn tell_length(&self, node: u64, len: u64) -> bool {
        let known = self.forget_inode(node);
        if known {
            self.resize(node, len);
        }
        known || self.nodes.place(node).is_err()
    }

    /// Others made a file so long (R4). What was written here has come: the kernel wrote it back
    /// before it forgot what it had.
    fn resize(&self, node: u64, len: u64) {
        if !self.writeback {
            return;
        }
        match self.nodes.resized(node, len) {
            Ordering::Less => self.nodes.retire(node),
            Ordering::Equal => {}
            Ordering::Greater => self.lengthen(node, len),
        }
    }

    /// Gives the kernel a byte at the end of a file, and has it ask for what is there.
    fn lengthen(&self, node: u64, len: u64) {
        // What the kernel does not have it need not know.
        if let Some(notifier) = self.notifier.get()
            && notifier.store(node, len - 1, 0).is_ok()
        {
            self.forget_inode(node);
        }
    }

    /// Attributes, data and listings are asked for again; whether the kernel has any. What it does
    /// not have it need not forget.
    fn forget_inode(&self, node: u64) -> bool {
        let notifier = self.notifier.get();
        notifier.is_some_and(|notifier| notifier.inode(node, 0, 0) != Err(Errno::NOENT))
    }

    /// A name is asked for again.
    fn forget_name(&self, parent: u64, name: &[u8]) {
        if let Some(notifier) = self.notifier.get() {
            // As above.
            let _forgotten = notifier.expire(parent, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::begin;
    use crate::nodes::ROOT;
    use crate::options::Options;
    use crate::view::View;
    use crate::worker::Who;
    use openpath_abi::Errno;
    use openpath_abi::fcntl::O_RDWR;
    use openpath_mem::{MemFs, MemOptions};
    use openpath_vfs::{Cred, Vfs};
    use std::sync::Arc;

    #[test]
    fn names_and_nodes_of_removed_files_are_not_kept() {
        let tree = MemFs::new(MemOptions::default());
        let vfs = Vfs::builder().build(tree).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        let (view, mut workers) = View::new(&task, &Options::default()).expect("a view");
        let view = Arc::new(View {
            hears: true,
            ..view
        });
        let (_above, _thread) = begin(&view).expect("a thread");
        let (w, who) = (&mut workers[0], Who::Owner(0, 0));
        let counts = || {
            let names = view.told.lock().all().len();
            (names, view.nodes.len())
        };
        let before = counts();
        for cycle in 0..100 {
            for file in 0..20 {
                let name = format!("{cycle}-{file}").into_bytes();
                let absent = view.lookup(w, (ROOT, &name)).err();
                assert_eq!(absent, Some(Errno::ENOENT));
                let made = view.create(w, who, (ROOT, &name), 0o600, O_RDWR);
                let number = made.expect("made").0.number;
                let moved = [&name[..], b"-moved"].concat();
                view.rename(w, who, (ROOT, &name), (ROOT, &moved), 0)
                    .expect("renamed");
                view.remove(w, (ROOT, &moved), false).expect("removed");
                view.forget(w, [(number, 1)]);
            }
            assert_eq!(counts(), before, "{cycle}");
        }
        // What fails leaves nothing that is believed and not noted.
        assert_eq!(view.remove(w, (ROOT, b"none"), false), Err(Errno::ENOENT));
    }
}
