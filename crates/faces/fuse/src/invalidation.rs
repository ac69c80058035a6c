// SPDX-License-Identifier: MIT OR Apache-2.0
//! Invalidates what the kernel has cached after changes that did not come through the mount, and
//! asks the kernel to give nodes back when it holds nearly as many as it may.
//!
//! # Rules
//! R1. A tree that reports a change is not blocked: the event is queued, and a thread of its own
//!     tells the kernel. To invalidate a name the kernel takes the lock of its directory, which a
//!     caller that waits for a reply of this server may hold.
//! R2. A change that does not fit into the queue is not lost: everything is invalidated instead.
//!     Sizes are compared at the next lookup (R4); a file that did not change keeps its node.
//! R3. A name that still leads to the node that the kernel was given is expired: its users keep
//!     their dentry and the mounts on it. Any other name is dropped. The kernel may apply a reply
//!     that was sent before the event after it: it trusts an expired name again by such a reply,
//!     but not a dropped one.
//! R4. With the writeback cache the kernel trusts no size but its own. If others made a file
//!     longer, the kernel is given the last byte, and believes that size. If others made it
//!     shorter, the file gets another node at the next lookup. Open files keep the size they had.
//! R5. From three quarters of [`crate::Options::nodes_max`] on, the kernel is asked for a quarter
//!     of the nodes, and gives back those that are not in use. It is asked for the next quarter, by
//!     number, when the nodes have grown by a sixteenth of the maximum since they were fewest, or
//!     there is no room for one more. It is asked for all if a sixteenth or less is free. A kernel
//!     before 6.18 does not know the request, and gives nodes back when it likes.
//! R6. An event may overtake the reply that introduces its node. So events are counted: if one came
//!     since the attributes were read, the reply is valid for no time; and a node that the kernel
//!     does not know is invalidated once more a moment later.

use crate::events::{Event, EventQueue};
use crate::fs::{FuseFs, PATH_ONLY, WANTED};
use openpath_abi::fcntl::AT_EMPTY_PATH;
use openpath_vfs::{Cred, Inode, InvalidationListener, Task};
use rustix::io::Errno;
use std::cmp::Ordering;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a reply may take on its way to the kernel.
const REPLY_TIME: Duration = Duration::from_millis(1);

/// Receives the changes that trees report.
struct TreeListener {
    fs: Weak<FuseFs>,
    queue: Arc<EventQueue>,
}

impl TreeListener {
    fn push(&self, inode: &Inode, event: impl FnOnce(Vec<u64>) -> Event) {
        if let Some(fs) = self.fs.upgrade() {
            // Before the nodes are looked up (R6).
            fs.events.count.add(1);
            let nodes = fs.nodes.of_inode(inode.identity(), inode.ino());
            if !nodes.is_empty() {
                self.queue.push(event(nodes));
            }
        }
    }
}

impl InvalidationListener for TreeListener {
    fn name(&self, dir: &Arc<Inode>, name: &[u8]) {
        self.push(dir, |nodes| Event::Name(nodes, Arc::from(name)));
    }

    fn names_of(&self, dir: &Arc<Inode>) {
        self.push(dir, Event::Names);
    }

    fn all(&self) {
        if let Some(fs) = self.fs.upgrade() {
            fs.events.count.add(1);
            self.queue.push(Event::All);
        }
    }

    fn attributes(&self, inode: &Arc<Inode>) {
        self.push(inode, |nodes| Event::Inode(nodes, inode.attr().size));
    }
}

/// Starts the thread that tells the kernel, which looks names up as `task`; returns the listener
/// for the trees. The thread ends when the listener and the file system are gone.
///
/// # Errors
/// `EAGAIN`: no thread.
pub(crate) fn start(
    fs: &Arc<FuseFs>,
    task: Task,
) -> std::io::Result<(Arc<dyn InvalidationListener>, JoinHandle<()>)> {
    let (queue, received) = EventQueue::new();
    let queue = Arc::new(queue);
    fs.events.queue.set(Arc::downgrade(&queue));
    let (weak, its_queue) = (Arc::downgrade(fs), Arc::downgrade(&queue));
    let thread = std::thread::Builder::new()
        .name("openpath-fuse-told".to_owned())
        .spawn(move || apply_events((&weak, &task), &its_queue, received))?;
    let fs = Arc::downgrade(fs);
    Ok((Arc::new(TreeListener { fs, queue }), thread))
}

fn apply_events(
    (fs, task): (&Weak<FuseFs>, &Task),
    queue: &Weak<EventQueue>,
    received: Receiver<Event>,
) {
    task.set_cred(Cred::root());
    for event in received {
        let Some(fs) = fs.upgrade() else { return };
        fs.apply_event(task, event);
        if queue.upgrade().is_some_and(|queue| queue.take_lost()) {
            fs.apply_event(task, Event::All);
        }
    }
}

impl FuseFs {
    fn apply_event(&self, task: &Task, event: Event) {
        match event {
            Event::Prune => self.prune(),
            Event::Evicted((parent, name)) => self.expire_name(parent, &name),
            // The mark is checked after each event.
            Event::Lost => {}
            Event::Name(parents, name) => {
                for parent in parents {
                    self.invalidate_inode(parent);
                    self.invalidate_name(task, parent, &name);
                }
            }
            Event::Names(parents) => {
                let names = self.events.names.lock().within(&parents);
                for parent in parents {
                    self.invalidate_inode(parent);
                }
                for (parent, name) in names {
                    self.invalidate_name(task, parent, &name);
                }
            }
            Event::Inode(nodes, size) => {
                let unknown: Vec<u64> = nodes
                    .into_iter()
                    .filter(|node| !self.invalidate_size(*node, size))
                    .collect();
                if !unknown.is_empty() {
                    std::thread::sleep(REPLY_TIME);
                    for node in unknown {
                        self.invalidate_size(node, size);
                    }
                }
            }
            Event::All => {
                let names = self.events.names.lock().all();
                for node in self.nodes.all() {
                    self.invalidate_inode(node);
                }
                for (parent, name) in names {
                    self.invalidate_name(task, parent, &name);
                }
            }
        }
    }

    /// Asks the kernel to give nodes back (R5).
    fn prune(&self) {
        if let Some(notifier) = self.notifier.get() {
            // A kernel that does not know the request gives back when it likes.
            let _asked = notifier.prune(&self.nodes.prune_candidates());
        }
        self.nodes.prune_requested();
    }

    /// Invalidates a file that has this size now; false if the kernel does not know the node yet,
    /// though it is in the table (R6).
    fn invalidate_size(&self, node: u64, size: u64) -> bool {
        let known = self.invalidate_inode(node);
        if known {
            self.resize(node, size);
        }
        known || self.nodes.path_fd(node).is_err()
    }

    /// Others gave a file this size (R4). Data that was written through the mount has arrived: the
    /// kernel wrote it back before it dropped its pages.
    fn resize(&self, node: u64, size: u64) {
        if !self.writeback {
            return;
        }
        match self.nodes.compare_size(node, size) {
            Ordering::Less => self.nodes.retire(node),
            Ordering::Equal => {}
            Ordering::Greater => self.extend_cached_size(node, size),
        }
    }

    /// Stores a byte at the end of a file in the kernel's cache, and has the kernel read the rest.
    fn extend_cached_size(&self, node: u64, size: u64) {
        // A file that the kernel does not have needs no new size.
        if let Some(notifier) = self.notifier.get()
            && notifier.store(node, size - 1, 0).is_ok()
        {
            self.invalidate_inode(node);
        }
    }

    /// Invalidates attributes, data and listings of a node; returns whether the kernel has it.
    fn invalidate_inode(&self, node: u64) -> bool {
        let notifier = self.notifier.get();
        notifier.is_some_and(|notifier| notifier.invalidate_inode(node, 0, 0) != Err(Errno::NOENT))
    }

    /// Invalidates a name (R3).
    fn invalidate_name(&self, task: &Task, parent: u64, name: &[u8]) {
        let replied = self.events.names.lock().node(parent, name);
        if replied.is_some() && self.present_node(task, parent, name) == replied {
            self.expire_name(parent, name);
        } else if let Some(notifier) = self.notifier.get() {
            // A name that the kernel does not have need not be dropped.
            let _dropped = notifier.drop_entry(parent, name);
        }
    }

    /// The node of the file that a name leads to, if it has one.
    fn present_node(&self, task: &Task, parent: u64, name: &[u8]) -> Option<u64> {
        let dir = self.nodes.path_fd(parent).ok()?;
        let path_fd = task.openat(dir, name, PATH_ONLY, 0).ok()?;
        let attr = task.statx(path_fd, b"", AT_EMPTY_PATH, WANTED);
        let number = attr.and_then(|attr| self.nodes.number_of(task, path_fd, &attr));
        // The error of this close concerns no caller: only this thread has the descriptor.
        let _closed = task.close(path_fd);
        number.ok().flatten()
    }

    /// Has the kernel look a name up again.
    fn expire_name(&self, parent: u64, name: &[u8]) {
        if let Some(notifier) = self.notifier.get() {
            // A name that the kernel does not have needs no expiry.
            let _expired = notifier.expire_entry(parent, name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::start;
    use crate::events::{Event, EventQueue};
    use crate::fs::FuseFs;
    use crate::nodes::ROOT;
    use crate::options::Options;
    use crate::wire::numbers::notice;
    use crate::wire::{Device, Notifier};
    use crate::worker::{ActingAs, Worker};
    use openpath_abi::Errno;
    use openpath_abi::fcntl::{AT_FDCWD, O_RDWR};
    use openpath_abi::rename::RENAME_EXCHANGE;
    use openpath_mem::{MemFs, MemOptions};
    use openpath_vfs::{Cred, Task, Vfs};
    use std::os::unix::net::UnixDatagram;
    use std::sync::Arc;

    /// An empty tree in memory, and a mount of it that tracks names.
    fn tracking() -> (Task, FuseFs, Vec<Worker>) {
        let tree = MemFs::new(MemOptions::default());
        let vfs = Vfs::builder().build(tree).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        let (mut fs, workers) = FuseFs::new(&task, &Options::default()).expect("a mount");
        fs.events.tracks_names = true;
        (task, fs, workers)
    }

    /// The kernel may apply a reply after an event that came later (R3): then only a dropped name
    /// is looked up again.
    #[test]
    fn a_name_is_expired_if_it_leads_to_the_same_node_and_dropped_otherwise() {
        let (task, fs, mut workers) = tracking();
        let (device, kernel) = UnixDatagram::pair().expect("sockets");
        kernel.set_nonblocking(true).expect("set");
        let device = Device::new(device.into()).expect("a device");
        fs.notifier.set(Notifier::new(Arc::new(device)));
        let (queue, _received) = EventQueue::new();
        let queue = Arc::new(queue);
        fs.events.queue.set(Arc::downgrade(&queue));
        let of_events = workers[0].task.clone_files().expect("a task");
        let w = &mut workers[0];
        // The flags in the invalidations of a name after an event.
        let flags = |event: Event| {
            fs.apply_event(&of_events, event);
            let (mut flags, mut message) = (Vec::new(), [0; 256]);
            while let Ok(len) = kernel.recv(&mut message) {
                if message[4..8] == notice::INVAL_ENTRY.to_ne_bytes() {
                    assert_eq!(&message[32..len], b"d\0");
                    flags.push(u32::from_ne_bytes(
                        message[28..32].try_into().expect("four"),
                    ));
                }
            }
            flags
        };
        let names = [
            || Event::Name(vec![ROOT], Arc::from(&b"d"[..])),
            || Event::Names(vec![ROOT]),
            || Event::All,
        ];
        task.mkdir(b"/d", 0o700).expect("made");
        task.mkdir(b"/e", 0o700).expect("made");
        fs.lookup(w, (ROOT, b"d")).expect("found");
        for event in names {
            assert_eq!(flags(event()), [notice::EXPIRE_ONLY]);
        }
        task.rename(b"/d", b"/f").expect("moved");
        for event in names {
            assert_eq!(flags(event()), [0], "absent");
        }
        task.rename(b"/e", b"/d").expect("moved");
        for event in names {
            assert_eq!(flags(event()), [0], "another directory");
        }
        fs.lookup(w, (ROOT, b"d")).expect("found");
        for event in names {
            assert_eq!(flags(event()), [notice::EXPIRE_ONLY]);
        }
        fs.events.count.add(1);
        let count = fs.events.count.get() - 1;
        assert!(
            !fs.events.set_reply(count, Some((ROOT, b"d")), 7),
            "an old reply"
        );
        assert_eq!(flags(names[0]()), [notice::EXPIRE_ONLY]);
        // The kernel swaps its dentries, and others swap the files back.
        let (d, f, actor) = ((ROOT, &b"d"[..]), (ROOT, &b"f"[..]), ActingAs::Owner(0, 0));
        fs.rename(w, actor, d, f, RENAME_EXCHANGE).expect("swapped");
        let back = task.renameat2(AT_FDCWD, b"/d", AT_FDCWD, b"/f", RENAME_EXCHANGE);
        back.expect("swapped back");
        assert_eq!(flags(names[0]()), [0], "swapped twice");
    }

    /// As after any other event (R6).
    #[test]
    fn reply_from_before_an_event_about_everything_is_not_cached() {
        let (_task, fs, workers) = tracking();
        let fs = Arc::new(fs);
        let its_task = workers[0].task.clone_files().expect("a task");
        let (listener, _thread) = start(&fs, its_task).expect("a thread");
        let count = fs.events.count.get();
        fs.events.track_name(ROOT, b"d");
        listener.all();
        assert!(!fs.events.set_reply(count, Some((ROOT, b"d")), 7));
        let count = fs.events.count.get();
        assert!(fs.events.set_reply(count, Some((ROOT, b"d")), 7));
    }

    #[test]
    fn names_and_nodes_of_removed_files_are_not_kept() {
        let (_task, fs, mut workers) = tracking();
        let fs = Arc::new(fs);
        let its_task = workers[0].task.clone_files().expect("a task");
        let (_listener, _thread) = start(&fs, its_task).expect("a thread");
        let (w, actor) = (&mut workers[0], ActingAs::Owner(0, 0));
        let counts = || {
            let names = fs.events.names.lock().all().len();
            (names, fs.nodes.len())
        };
        let before = counts();
        for cycle in 0..100 {
            for file in 0..20 {
                let name = format!("{cycle}-{file}").into_bytes();
                let absent = fs.lookup(w, (ROOT, &name)).err();
                assert_eq!(absent, Some(Errno::ENOENT));
                let made = fs.create(w, actor, (ROOT, &name), 0o600, O_RDWR);
                let number = made.expect("made").0.number;
                let moved = [&name[..], b"-moved"].concat();
                fs.rename(
                    w,
                    actor,
                    (ROOT, &name),
                    (ROOT, &moved),
                    openpath_abi::RenameFlags::empty(),
                )
                .expect("renamed");
                fs.remove(w, (ROOT, &moved), false).expect("removed");
                fs.forget(w, [(number, 1)]);
            }
            assert_eq!(counts(), before, "{cycle}");
        }
        // A failed removal leaves no name that the kernel has cached and that is not tracked.
        assert_eq!(fs.remove(w, (ROOT, b"none"), false), Err(Errno::ENOENT));
    }
}
