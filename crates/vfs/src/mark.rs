// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines marks: a mark is the watch of one inotify group on one inode. An inode keeps its marks
//! (`inode::marks`) and knows a group only as a [`Listener`]; `notify` has the groups.

use crate::lock_order::InodeMarks;
use openpath_abi::inotify::{
    IN_ALL_EVENTS, IN_DELETE_SELF, IN_EXCL_UNLINK, IN_ISDIR, IN_MOVE_SELF, IN_ONESHOT, IN_UNMOUNT,
};
use openpath_sync::Mutex;
use std::sync::Arc;

/// A notification group, as an inode knows it.
pub(crate) trait Listener: Send + Sync {
    /// Queues an event of watch `wd`.
    fn push(&self, wd: i32, mask: u32, cookie: u32, name: &[u8]);
    /// Ends watch `wd`, which the inode does not know any more.
    fn forget(self: Arc<Self>, wd: i32);
}

/// The marks on one inode.
pub(crate) type Marks = Mutex<Vec<Mark>, InodeMarks>;

/// The watch of one group on one inode.
pub(crate) struct Mark {
    pub(crate) group: Arc<dyn Listener>,
    pub(crate) wd: i32,
    /// Its events, and their options ([`IN_ONESHOT`], [`IN_EXCL_UNLINK`]).
    pub(crate) mask: u32,
}

/// The bits of the caller's mask that a mark keeps.
pub(crate) const KEPT: u32 = IN_ALL_EVENTS | IN_ONESHOT | IN_EXCL_UNLINK;

/// An event, for the listeners of one inode.
#[derive(Clone, Copy, Default)]
pub(crate) struct InodeEvent<'a> {
    /// One or more events, and [`IN_ISDIR`].
    pub(crate) mask: u32,
    /// The number that pairs it with another.
    pub(crate) cookie: u32,
    /// The entry it is about, for listeners of the directory.
    pub(crate) name: &'a [u8],
    /// It came through an open file whose name is gone.
    pub(crate) unlinked: bool,
}

impl Mark {
    /// A new mark with the mask `arg`.
    pub(crate) fn new(group: Arc<dyn Listener>, wd: i32, arg: u32) -> Self {
        Self {
            group,
            wd,
            mask: arg & KEPT,
        }
    }

    /// Whether it is one of this group.
    pub(crate) fn is_of<L: Listener>(&self, group: &Arc<L>) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.group), Arc::as_ptr(group))
    }

    /// Whether it wants this event (`fsnotify_handle_inode_event`).
    pub(crate) fn wants(&self, event: &InodeEvent<'_>) -> bool {
        let events = (self.mask & IN_ALL_EVENTS) | IN_UNMOUNT;
        event.mask & events != 0 && !(self.mask & IN_EXCL_UNLINK != 0 && event.unlinked)
    }

    pub(crate) fn tell(&self, event: &InodeEvent<'_>) {
        // An event of the watched inode as a whole comes without its kind.
        let kind = if event.mask & (IN_DELETE_SELF | IN_MOVE_SELF) != 0 {
            IN_ISDIR
        } else {
            0
        };
        let mask = event.mask & !kind;
        self.group.push(self.wd, mask, event.cookie, event.name);
    }
}
