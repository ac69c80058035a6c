// SPDX-License-Identifier: MIT OR Apache-2.0
//! The marks on an inode: which groups want to hear of what.

use super::Group;
use crate::inode::{Inode, flag};
use crate::lock_order::InodeMarks;
use openpath_abi::Errno;
use openpath_abi::inotify::{
    IN_ALL_EVENTS, IN_DELETE_SELF, IN_EXCL_UNLINK, IN_ISDIR, IN_MASK_ADD, IN_MASK_CREATE,
    IN_MOVE_SELF, IN_ONESHOT, IN_UNMOUNT,
};
use openpath_sync::Mutex;
use std::sync::Arc;

/// The marks on one inode.
pub(crate) type Marks = Mutex<Vec<Mark>, InodeMarks>;

/// One group's interest in one inode.
pub(crate) struct Mark {
    group: Arc<Group>,
    wd: i32,
    /// Events, and how they are wanted ([`IN_ONESHOT`], [`IN_EXCL_UNLINK`]).
    mask: u32,
}

/// What of the caller's mask stays with a mark.
const KEPT: u32 = IN_ALL_EVENTS | IN_ONESHOT | IN_EXCL_UNLINK;

/// Something that happened, as the listeners of one inode hear it.
#[derive(Clone, Copy, Default)]
pub(super) struct News<'a> {
    /// One or more events, and [`IN_ISDIR`].
    pub(super) mask: u32,
    /// What pairs it with another.
    pub(super) cookie: u32,
    /// The entry it is about, for listeners of the directory.
    pub(super) name: &'a [u8],
    /// It came through an open file whose name is gone.
    pub(super) unlinked: bool,
}

impl Mark {
    /// A new mark for what `arg` asks for.
    pub(super) fn new(group: Arc<Group>, wd: i32, arg: u32) -> Self {
        Self {
            group,
            wd,
            mask: arg & KEPT,
        }
    }

    /// Whether it wants to hear this (`fsnotify_handle_inode_event`).
    fn wants(&self, news: &News<'_>) -> bool {
        let events = (self.mask & IN_ALL_EVENTS) | IN_UNMOUNT;
        news.mask & events != 0 && !(self.mask & IN_EXCL_UNLINK != 0 && news.unlinked)
    }

    fn tell(&self, news: &News<'_>) {
        // What happens to the watched inode as a whole is told without its kind.
        let kind = if news.mask & (IN_DELETE_SELF | IN_MOVE_SELF) != 0 {
            IN_ISDIR
        } else {
            0
        };
        let mask = news.mask & !kind;
        self.group
            .queue()
            .push(self.wd, mask, news.cookie, news.name);
    }
}

impl Inode {
    /// Tells everyone who watches this inode; a mark for one event is gone afterwards.
    ///
    /// Linux: `fsnotify` for the marks of one inode.
    pub(super) fn tell(&self, news: News<'_>) {
        if self.flags() & flag::WATCHED == 0 {
            return;
        }
        let mut spent = Vec::new();
        {
            let mut marks = self.marks().lock();
            marks.retain(|mark| {
                if !mark.wants(&news) {
                    return true;
                }
                mark.tell(&news);
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

    /// Tells everyone who watches this inode, and ends their watches.
    pub(super) fn tell_last(&self, news: News<'_>) {
        if self.flags() & flag::WATCHED == 0 {
            return;
        }
        let marks = {
            let mut marks = self.marks().lock();
            for mark in marks.iter().filter(|mark| mark.wants(&news)) {
                mark.tell(&news);
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
    pub(super) fn update_mark(&self, group: &Arc<Group>, arg: u32) -> Result<Option<i32>, Errno> {
        let mut marks = self.marks().lock();
        let Some(mark) = marks.iter_mut().find(|m| Arc::ptr_eq(&m.group, group)) else {
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
    pub(super) fn add_mark(&self, mark: Mark) {
        let mut marks = self.marks().lock();
        marks.push(mark);
        self.note_watched(&marks);
    }

    /// Takes the mark of watch `wd` off, if it is there; with `news`, tells it that first.
    pub(super) fn remove_mark(&self, group: &Arc<Group>, wd: i32, news: Option<News<'_>>) {
        let removed = {
            let mut marks = self.marks().lock();
            // By number: the group may have got another mark here since this one was spent.
            let is_it = |mark: &Mark| mark.wd == wd && Arc::ptr_eq(&mark.group, group);
            let at = marks.iter().position(is_it);
            let removed = at.map(|at| marks.remove(at));
            if let (Some(mark), Some(news)) = (&removed, &news) {
                mark.tell(news);
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
