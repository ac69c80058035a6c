// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds and removes the inotify(7) marks of an inode, and sends the marks the events of the inode
//! and of a directory's entries.

use super::{Inode, flag};
use crate::mark::{InodeEvent, KEPT, Listener, Mark};
use openpath_abi::Errno;
use openpath_abi::inotify::{IN_DELETE_SELF, IN_ISDIR, IN_MASK_ADD, IN_MASK_CREATE, IN_ONESHOT};
use std::sync::Arc;

/// [`IN_ISDIR`] for a directory.
pub(crate) fn kind(is_dir: bool) -> u32 {
    if is_dir { IN_ISDIR } else { 0 }
}

impl Inode {
    /// Tells every mark of this inode; a one-shot mark is gone afterwards.
    ///
    /// Linux: `fsnotify` for the marks of one inode.
    pub(crate) fn tell(&self, event: InodeEvent<'_>) {
        if self.flags() & flag::WATCHED == 0 {
            return;
        }
        let mut spent = Vec::new();
        {
            let mut marks = self.marks().lock();
            marks.retain(|mark| {
                if !mark.wants(&event) {
                    return true;
                }
                mark.tell(&event);
                let stays = mark.mask & IN_ONESHOT == 0;
                if !stays {
                    spent.push((Arc::clone(&mark.group), mark.wd));
                }
                stays
            });
            self.note_watched(&marks);
        }
        for (group, wd) in spent {
            group.forget(wd);
        }
    }

    /// Tells every mark of this inode, and ends their watches.
    pub(crate) fn tell_last(&self, event: InodeEvent<'_>) {
        if self.flags() & flag::WATCHED == 0 {
            return;
        }
        let marks = {
            let mut marks = self.marks().lock();
            for mark in marks.iter().filter(|mark| mark.wants(&event)) {
                mark.tell(&event);
            }
            let gone = core::mem::take(&mut *marks);
            self.note_watched(&marks);
            gone
        };
        for mark in marks {
            mark.group.forget(mark.wd);
        }
    }

    /// Changes the mark of `group` as `arg` says; its number, or `None` if there is none
    /// (`inotify_update_existing_watch`).
    ///
    /// # Errors
    /// `EEXIST`: there is one, and `arg` wants a new one.
    pub(crate) fn update_mark<L: Listener>(
        &self,
        group: &Arc<L>,
        arg: u32,
    ) -> Result<Option<i32>, Errno> {
        let mut marks = self.marks().lock();
        let Some(mark) = marks.iter_mut().find(|mark| mark.is_of(group)) else {
            return Ok(None);
        };
        if arg & IN_MASK_CREATE != 0 {
            return Err(Errno::EEXIST);
        }
        let kept = if arg & IN_MASK_ADD != 0 { mark.mask } else { 0 };
        mark.mask = kept | arg & KEPT;
        Ok(Some(mark.wd))
    }

    /// Adds the mark of a group that has none here.
    pub(crate) fn add_mark(&self, mark: Mark) {
        let mut marks = self.marks().lock();
        marks.push(mark);
        self.note_watched(&marks);
    }

    /// Takes the mark of watch `wd` off, if it is there; with `event`, tells it that first.
    pub(crate) fn remove_mark<L: Listener>(
        &self,
        group: &Arc<L>,
        wd: i32,
        event: Option<InodeEvent<'_>>,
    ) {
        let removed = {
            let mut marks = self.marks().lock();
            // By number: the group may have got another mark here since this one was spent.
            let is_it = |mark: &Mark| mark.wd == wd && mark.is_of(group);
            let at = marks.iter().position(is_it);
            let removed = at.map(|at| marks.remove(at));
            if let (Some(mark), Some(event)) = (&removed, &event) {
                mark.tell(event);
            }
            self.note_watched(&marks);
            removed
        };
        drop(removed);
    }

    fn note_watched(&self, marks: &[Mark]) {
        if marks.is_empty() {
            self.clear_flags(flag::WATCHED);
        } else if self.flags() & flag::WATCHED == 0 {
            self.set_flags(flag::WATCHED);
        }
    }
}

impl Inode {
    /// Tells the watches of this inode itself (`fsnotify_inode`).
    pub(crate) fn tell_self(&self, mask: u32) {
        self.tell(InodeEvent {
            mask: mask | kind(self.is_dir()),
            ..InodeEvent::default()
        });
    }

    /// Tells the watches of this directory about its entry `name` (`fsnotify_name`).
    pub(crate) fn tell_entry(&self, mask: u32, name: &[u8], cookie: u32) {
        self.tell(InodeEvent {
            mask,
            cookie,
            name,
            unlinked: false,
        });
    }
}

impl Inode {
    /// An entry of it went, and it has no name (`fsnotify_inoderemove`): its watches end.
    pub(crate) fn tell_gone(&self) {
        self.tell_last(InodeEvent {
            mask: IN_DELETE_SELF,
            ..InodeEvent::default()
        });
    }
}
