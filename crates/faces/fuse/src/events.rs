// SPDX-License-Identifier: MIT OR Apache-2.0
//! Queues invalidation events, which are changes of a tree that did not come through the mount, for
//! the thread that tells the kernel ([`crate::invalidation`]). It also says whether the kernel may
//! cache a reply.
//!
//! # Rules
//! R1. The sender is never blocked: an event that finds the queue full is replaced by
//!     [`Event::All`] (R2 of `invalidation`).

use crate::cached_names::{CachedNames, OwnedName};
use openpath_sync::{Mutex, Word, WriteOnce};
use openpath_vfs::lock_order::FuseTold;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};

/// Capacity of the queue.
const EVENTS_MAX: usize = 4096;

/// What the kernel is to be told.
pub(crate) enum Event {
    /// A name changed in a directory, which has these nodes.
    Name(Vec<u64>, Arc<[u8]>),
    /// All names in a directory changed.
    Names(Vec<u64>),
    /// Attributes or data of a file changed; its size is now this.
    Inode(Vec<u64>, u64),
    /// A name that did not change is no longer tracked.
    Evicted(OwnedName),
    /// Everything changed.
    All,
    /// An event was lost because the queue was full.
    Lost,
    /// There are so many nodes that the kernel is to give some back.
    Prune,
}

/// The sending end of the queue.
pub(crate) struct EventQueue {
    events: SyncSender<Event>,
    /// 1 if an event did not fit.
    lost: Word,
}

impl EventQueue {
    /// A queue and its receiving end.
    pub(crate) fn new() -> (Self, Receiver<Event>) {
        let (events, received) = sync_channel(EVENTS_MAX);
        let lost = Word::new(0);
        (Self { events, lost }, received)
    }

    /// Queues an event, or marks that one was lost.
    pub(crate) fn push(&self, event: Event) {
        if self.events.try_send(event).is_err() {
            self.lost.set(1);
            // The queue may have been drained meanwhile. If it is still full, this send fails too,
            // and the thread sees the mark after one of the queued events.
            let _needless = self.events.try_send(Event::Lost);
        }
    }

    /// Asks for a prune; returns whether the request was queued.
    pub(crate) fn request_prune(&self) -> bool {
        self.events.try_send(Event::Prune).is_ok()
    }

    /// Whether an event was lost since the last call.
    pub(crate) fn take_lost(&self) -> bool {
        self.lost.swap_if(1, 0)
    }
}

/// What a mount keeps so that it can invalidate what the kernel has cached.
pub(crate) struct Events {
    /// Set once the thread of `invalidation` runs.
    pub(crate) queue: WriteOnce<Weak<EventQueue>>,
    /// How many events trees have reported.
    pub(crate) count: Word,
    /// Names that an event may have to invalidate.
    pub(crate) names: Mutex<CachedNames, FuseTold>,
    /// Whether any tree reports changes, so that names are tracked.
    pub(crate) tracks_names: bool,
}

impl Events {
    /// Without a source; at most `names_max` names are tracked once there is one.
    pub(crate) fn new(names_max: usize) -> Self {
        Self {
            queue: WriteOnce::default(),
            count: Word::new(0),
            names: Mutex::new(CachedNames::new(names_max)),
            tracks_names: false,
        }
    }

    /// The queue, while its thread runs.
    pub(crate) fn queue(&self) -> Option<Arc<EventQueue>> {
        self.queue.get().and_then(Weak::upgrade)
    }

    /// Records that the kernel is about to cache a name.
    pub(crate) fn track_name(&self, parent: u64, name: &[u8]) {
        if !self.tracks_names {
            return;
        }
        let Some(queue) = self.queue() else { return };
        let evicted = self.names.lock().track(parent, name);
        if let Some(evicted) = evicted {
            queue.push(Event::Evicted(evicted));
        }
    }

    /// Records that the kernel is about to move its dentries between these names: which nodes they
    /// lead to then, no reply says.
    pub(crate) fn renaming(&self, both: [(u64, &[u8]); 2]) {
        if self.tracks_names {
            let mut names = self.names.lock();
            for (parent, name) in both {
                names.forget_node(parent, name);
            }
        }
    }

    /// A reply gives this node for a name, if it has one; returns whether the kernel may cache the
    /// reply: no event came since `count`, and later ones find the name.
    pub(crate) fn set_reply(&self, count: u64, name: Option<(u64, &[u8])>, node: u64) -> bool {
        let Some((parent, name)) = name.filter(|_| self.tracks_names) else {
            return self.count.get() == count;
        };
        let mut names = self.names.lock();
        // With the lock held: an event that is counted from now on sees this node.
        self.count.get() == count && names.set_node(parent, name, node)
    }

    /// Removes a name by `change`, and stops tracking it: the kernel drops it as well. A name that
    /// is looked up meanwhile stays tracked.
    pub(crate) fn removing_name<E>(
        &self,
        (parent, name): (u64, &[u8]),
        change: impl FnOnce() -> Result<(), E>,
    ) -> Result<(), E> {
        if !self.tracks_names {
            return change();
        }
        let before = self.names.lock().tracked_at(parent, name);
        change()?;
        if let Some(before) = before {
            self.names.lock().remove(parent, name, before);
        }
        Ok(())
    }

    /// Has the kernel learn the size of a file that it knows by these nodes.
    pub(crate) fn size_changed(&self, nodes: Vec<u64>, size: u64) {
        if !nodes.is_empty()
            && let Some(queue) = self.queue()
        {
            queue.push(Event::Inode(nodes, size));
        }
    }
}
