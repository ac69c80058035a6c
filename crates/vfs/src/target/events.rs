// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sends inotify(7) events about a file itself: opened, read, written, its attributes changed.
//!
//! The calls on open files and on paths use these methods where Linux calls `fsnotify_open` and its
//! like. Without a watch they cost one load. Events about names (created, moved, deleted) are in
//! `crate::events`.

use super::Target;
use crate::file::Filp;
use crate::inode::SetAttr;
use crate::notify::{EventSource, EventVia};
use openpath_abi::inotify::{IN_ACCESS, IN_ATTRIB, IN_MODIFY, IN_OPEN};

impl Filp<'_> {
    #[inline(always)]
    fn tell(&self, mask: u32) {
        if self.core.vfs.notify.is_active() {
            self.tell_watchers(mask);
        }
    }

    #[cold]
    fn tell_watchers(&self, mask: u32) {
        // An open file has an inode.
        if let Ok(target) = self.target() {
            target.event_source().tell(mask, EventVia::File);
        }
    }

    /// It was opened (`fsnotify_open`).
    pub(crate) fn tell_opened(&self) {
        self.tell(IN_OPEN);
    }

    /// Data was read from it (`fsnotify_access`): no bytes, no event.
    #[inline(always)]
    pub(crate) fn tell_read(&self, done: usize) {
        if done > 0 {
            self.tell(IN_ACCESS);
        }
    }

    /// The directory was listed, be it at its end (`iterate_dir`).
    pub(crate) fn tell_listed(&self) {
        self.tell(IN_ACCESS);
    }

    /// Data was written to it (`fsnotify_modify`): no bytes, no event.
    #[inline(always)]
    pub(crate) fn tell_written(&self, done: usize) {
        if done > 0 {
            self.tell(IN_MODIFY);
        }
    }

    /// Space was allocated in it, or freed (`vfs_fallocate`).
    pub(crate) fn tell_allocated(&self) {
        self.tell(IN_MODIFY);
    }
}

impl Target<'_> {
    fn event_source(&self) -> EventSource<'_> {
        EventSource {
            dcache: &self.core.vfs.dcache,
            mount_pins: &self.core.vfs.mount_pins,
            pins: Some(&self.core.pins),
            dentry: self.path_ids.dentry,
            inode: self.inode,
        }
    }

    /// Attributes changed (`fsnotify_change`): one event for all of them.
    pub(crate) fn tell_attributes(&self, change: &SetAttr) {
        let mask = mask_of(change);
        if mask != 0 && self.core.vfs.notify.is_active() {
            self.event_source().tell(mask, EventVia::Name);
        }
    }

    /// Extended attributes changed (`fsnotify_xattr`).
    pub(crate) fn tell_xattrs(&self) {
        if self.core.vfs.notify.is_active() {
            self.event_source().tell(IN_ATTRIB, EventVia::Name);
        }
    }
}

/// The event mask of a change of attributes: both times are set on purpose, one is set as if the
/// file had been read or written.
fn mask_of(change: &SetAttr) -> u32 {
    let mut mask = 0;
    if change.uid.is_some() || change.gid.is_some() || change.mode.is_some() {
        mask |= IN_ATTRIB;
    }
    if change.size.is_some() {
        mask |= IN_MODIFY;
    }
    mask | match (change.atime, change.mtime) {
        (Some(_), Some(_)) => IN_ATTRIB,
        (Some(_), None) => IN_ACCESS,
        (None, Some(_)) => IN_MODIFY,
        (None, None) => 0,
    }
}
