// SPDX-License-Identifier: MIT OR Apache-2.0
//! Delivers events to the marks of an inode, of its directory, or of both.
//!
//! # Kernel analogue
//! `fsnotify_inode`, `fsnotify_name`, `__fsnotify_parent`.

use crate::dcache::Dcache;
use crate::inode::{Inode, flag, kind};
use crate::lock_order::MountPins;
use crate::mark::InodeEvent;
use crate::object::{Pins, dflag};
use openpath_sync::{Mutex, Pin};

/// The scene of an event: an inode and the entry through which it is reached. The caller pins both.
#[derive(Clone, Copy)]
pub(crate) struct EventSource<'a> {
    pub(crate) dcache: &'a Dcache,
    pub(crate) mount_pins: &'a Mutex<Pins, MountPins>,
    /// Pins of the calling task; `None`: the `Vfs`'s own are used.
    pub(crate) pins: Option<&'a Pins>,
    pub(crate) dentry: u32,
    pub(crate) inode: &'a Inode,
}

/// The way in which an event reaches its inode.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventVia {
    /// An open file: a mark that excludes unlinked entries gets no event of one.
    File,
    /// A name, or the place of an open file: every mark gets the event.
    Name,
}

impl EventSource<'_> {
    /// Tells the marks of the entry's directory, with its name, then those of the inode
    /// (`fsnotify_parent`).
    #[cold]
    pub(crate) fn tell(&self, mask: u32, through: EventVia) {
        let entry = self.dcache.at(self.dentry).word().sample_steady();
        let is_root = entry.has(dflag::ROOT);
        let event = InodeEvent {
            mask: mask | kind(self.inode.is_dir()),
            unlinked: through == EventVia::File && entry.has(dflag::UNHASHED) && !is_root,
            ..InodeEvent::default()
        };
        if !is_root {
            self.tell_parent(event);
        }
        self.inode.tell(event);
    }

    /// Tells the marks of the directory that the entry is in at this moment, or was in when it was
    /// unlinked.
    fn tell_parent(&self, event: InodeEvent<'_>) {
        let dcache = self.dcache;
        loop {
            let parent = dcache.at(self.dentry).parent.get();
            if parent == self.dentry {
                return;
            }
            let Some(pin) = self.pin(parent) else { return };
            let watched = dcache
                .store
                .dentry_payload(&pin)
                .filter(|dir| dir.flags() & flag::WATCHED != 0);
            // The pinned directory is the parent only if the entry has not moved meanwhile; an
            // entry keeps its parent in place.
            let still = match watched {
                None => dcache.at(self.dentry).parent.get() == parent,
                Some(dir) => match dcache.name_of(self.dentry) {
                    Some((name, now)) if now == parent => {
                        dir.tell(InodeEvent {
                            name: &name,
                            ..event
                        });
                        true
                    }
                    _ => false,
                },
            };
            self.unpin(pin);
            if still {
                return;
            }
            openpath_sync::relax();
        }
    }

    fn pin(&self, dentry: u32) -> Option<Pin> {
        match self.pins {
            Some(pins) => pins.pin_now(0, dentry),
            None => self.mount_pins.lock().pin_now(0, dentry),
        }
    }

    fn unpin(&self, pin: Pin) {
        match self.pins {
            Some(pins) => pins.release(pin),
            None => self.dcache.store.release(pin),
        }
    }
}
