// SPDX-License-Identifier: MIT OR Apache-2.0
//! The events of each call, as the calls emit them.
//!
//! # Kernel analogue
//! The functions of `include/linux/fsnotify.h`.
//!
//! # Where they are emitted
//! | call | emitted | in this order |
//! |---|---|---|
//! | open | the inode is open, before it is cut | `OPEN` |
//! | open that cuts | after that | `MODIFY` (with `ATTRIB` if set-id bits go) |
//! | open that makes | the directory is locked | `CREATE`, later `OPEN` |
//! | last close | before the place is let go | `CLOSE_WRITE` or `CLOSE_NOWRITE` |
//! | read, write and kin | something was moved | `ACCESS`, `MODIFY` |
//! | change of attributes | the inode is locked | [`Target::tell_attributes`] |
//! | mkdir, mknod, symlink | the directory is locked | `CREATE` |
//! | link | the directory is locked | `ATTRIB` of the file, `CREATE` |
//! | unlink | the directory is locked | `ATTRIB` of the file, [`Inode::tell_gone`], `DELETE` |
//! | rmdir | the directory is locked | [`Inode::tell_gone`], `DELETE` |
//! | rename | the directories are locked | [`Shared::tell_moved`] |
//! | | the directories are let go | [`Inode::tell_gone`] of what was replaced |
//! | last unmount | nobody can look at the tree any more | `UNMOUNT`, `IGNORED` |
//!
//! Nothing is emitted for `O_PATH`, for what only looks, or for what failed.

use super::emit::{Scene, Through, kind};
use super::mark::News;
use crate::dcache::unlinked;
use crate::file::Filp;
use crate::inode::{Inode, SetAttr, flag};
use crate::instance::Shared;
use crate::object::{Pins, mflag};
use crate::ops::Target;
use crate::superblock::SuperBlock;
use openpath_abi::fcntl::{O_ACCMODE, O_PATH};
use openpath_abi::inotify::{
    IN_ACCESS, IN_ATTRIB, IN_CLOSE_NOWRITE, IN_CLOSE_WRITE, IN_CREATE, IN_DELETE, IN_DELETE_SELF,
    IN_MODIFY, IN_MOVE_SELF, IN_MOVED_FROM, IN_MOVED_TO, IN_OPEN,
};
use openpath_sync::{LastRef, Pin};

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
            target.scene().tell(mask, Through::File);
        }
    }

    /// It was opened (`fsnotify_open`).
    pub(crate) fn tell_opened(&self) {
        self.tell(IN_OPEN);
    }

    /// So much was read from it (`fsnotify_access`): of nothing, nobody hears.
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

    /// So much was written to it (`fsnotify_modify`): of nothing, nobody hears.
    #[inline(always)]
    pub(crate) fn tell_written(&self, done: usize) {
        if done > 0 {
            self.tell(IN_MODIFY);
        }
    }

    /// Room was allocated in it, or freed (`vfs_fallocate`).
    pub(crate) fn tell_allocated(&self) {
        self.tell(IN_MODIFY);
    }
}

impl Target<'_> {
    fn scene(&self) -> Scene<'_> {
        Scene {
            vfs: &self.core.vfs,
            pins: Some(&self.core.pins),
            dentry: self.spot.dentry,
            inode: self.inode,
        }
    }

    /// Attributes changed (`fsnotify_change`): one event of all that this means.
    pub(crate) fn tell_attributes(&self, change: &SetAttr) {
        let mask = mask_of(change);
        if mask != 0 && self.core.vfs.notify.is_active() {
            self.scene().tell(mask, Through::Name);
        }
    }

    /// Extended attributes changed (`fsnotify_xattr`).
    pub(crate) fn tell_xattrs(&self) {
        if self.core.vfs.notify.is_active() {
            self.scene().tell(IN_ATTRIB, Through::Name);
        }
    }
}

/// What a change of attributes means to listeners: both times are set on purpose, one is set as if
/// the file had been read or written.
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

impl Shared {
    /// There is a new name in `dir` (`fsnotify_create`, `fsnotify_mkdir`). Held: its names.
    pub(crate) fn tell_created(&self, dir: &Inode, name: &[u8], is_dir: bool) {
        if self.notify.is_active() {
            dir.tell_entry(IN_CREATE | kind(is_dir), name, 0);
        }
    }

    /// A file has got or lost a name (`fsnotify_link_count`).
    pub(crate) fn tell_links_changed(&self, inode: &Inode) {
        if self.notify.is_active() {
            inode.tell_self(IN_ATTRIB);
        }
    }

    /// A name in `dir` is gone (`fsnotify_delete`). Held: the directory's names.
    pub(crate) fn tell_deleted(&self, dir: &Inode, name: &[u8], is_dir: bool) {
        if self.notify.is_active() {
            dir.tell_entry(IN_DELETE | kind(is_dir), name, 0);
        }
    }

    /// An entry has moved (`fsnotify_move`); `replaced` is what had its new name. Both halves of a
    /// swap are told, one after the other. Held: both directories' names.
    pub(crate) fn tell_moved(
        &self,
        inode: &Inode,
        (old_dir, old_name): (&Inode, &[u8]),
        (new_dir, new_name): (&Inode, &[u8]),
        replaced: Option<&Inode>,
    ) {
        let (kind, cookie) = (kind(inode.is_dir()), self.notify.next_cookie());
        old_dir.tell_entry(IN_MOVED_FROM | kind, old_name, cookie);
        new_dir.tell_entry(IN_MOVED_TO | kind, new_name, cookie);
        if let Some(replaced) = replaced {
            replaced.tell_self(IN_ATTRIB);
        }
        inode.tell_self(IN_MOVE_SELF);
    }

    /// Nobody mounts the tree any more (`fsnotify_sb_delete`): watches in it end.
    pub(crate) fn tell_unmounted(&self, sb: &SuperBlock) {
        if self.notify.is_active() {
            for group in self.notify.groups() {
                group.unmounted(sb);
            }
        }
    }

    /// The last reference to a file goes (`fsnotify_close`). Whether, once its place is let go,
    /// [`Shared::end_waits`] has something to do.
    pub(crate) fn tell_closed(&self, pins: Option<&Pins>, last: &LastRef) -> bool {
        if !self.notify.is_active() {
            return self.is_awaited(last.pin());
        }
        let store = &self.dcache.store;
        let flags = store.file(last.id()).flags.get();
        let Some(inode) = store.dentry_payload(last.pin()) else {
            return false;
        };
        if flags & O_PATH == 0 {
            let scene = Scene {
                vfs: self,
                pins,
                dentry: last.pin().dentry(),
                inode,
            };
            let mask = if matches!(flags & O_ACCMODE, 1 | 2) {
                IN_CLOSE_WRITE
            } else {
                IN_CLOSE_NOWRITE
            };
            scene.tell(mask, Through::File);
        }
        self.is_awaited(last.pin())
    }

    /// Whether something waits for this place to be let go: the end of an unlinked inode that is
    /// watched, or of a mount that was taken off while it was in use.
    pub(crate) fn is_awaited(&self, pin: &Pin) -> bool {
        let mount = self.mounts.at(pin.mount()).word().sample();
        if mount.has(mflag::OUT) || !self.notify.is_active() {
            return mount.has(mflag::OUT);
        }
        let entry = self.dcache.at(pin.dentry()).word().sample();
        let inode = self.dcache.store.dentry_payload(pin);
        let watched = inode.is_some_and(|inode| inode.flags() & flag::WATCHED != 0);
        unlinked(entry) && watched
    }

    /// Ends what was waiting for a place to be let go. Held: no lock.
    #[cold]
    pub(crate) fn end_waits(&self) {
        self.dcache.collect();
        self.sweep_mounts();
    }
}

impl Inode {
    /// An entry of it went, and it has no name (`fsnotify_inoderemove`): its watches end.
    pub(crate) fn tell_gone(&self) {
        self.tell_last(News {
            mask: IN_DELETE_SELF,
            ..News::default()
        });
    }
}
