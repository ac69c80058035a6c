// SPDX-License-Identifier: MIT OR Apache-2.0
//! Emits the inotify events about names, moves, last closes and unmounts, and lists when each call
//! emits its events.
//!
//! # Kernel analogue
//! The functions of `include/linux/fsnotify.h`.
//!
//! # Where they are emitted
//! | call | emitted | in this order |
//! |---|---|---|
//! | open | the inode is open, before truncation | `OPEN` |
//! | open with truncation | after that | `MODIFY` (with `ATTRIB` if set-id bits go) |
//! | open that makes | the directory is locked | `CREATE`, later `OPEN` |
//! | last close | before the place is let go | `CLOSE_WRITE` or `CLOSE_NOWRITE` |
//! | read, write and kin | something was moved | `ACCESS`, `MODIFY` |
//! | change of attributes | the inode is locked | `Target::tell_attributes` |
//! | mkdir, mknod, symlink | the directory is locked | `CREATE` |
//! | link | the directory is locked | `ATTRIB` of the file, `CREATE` |
//! | unlink | the directory is locked | `ATTRIB` of the file, [`Inode::tell_gone`], `DELETE` |
//! | rmdir | the directory is locked | [`Inode::tell_gone`], `DELETE` |
//! | rename | the directories are locked | [`Shared::tell_moved`] |
//! | | the directories are unlocked | [`Inode::tell_gone`] of the replaced file |
//! | last unmount | the tree cannot be reached any more | `UNMOUNT`, `IGNORED` |
//!
//! Nothing is emitted for `O_PATH`, for calls that only read attributes, or for failures.

use crate::dcache::unlinked;
use crate::inode::{Inode, flag, kind};
use crate::instance::Shared;
use crate::notify::{EventSource, EventVia};
use crate::object::{Pins, mflag};
use crate::superblock::SuperBlock;
use openpath_abi::OFlags;
use openpath_abi::fcntl::{O_ACCMODE, O_PATH, O_RDWR, O_WRONLY};
use openpath_abi::inotify::{
    IN_ATTRIB, IN_CLOSE_NOWRITE, IN_CLOSE_WRITE, IN_CREATE, IN_DELETE, IN_MOVE_SELF, IN_MOVED_FROM,
    IN_MOVED_TO,
};
use openpath_sync::{LastRef, Pin};

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

    /// An entry has moved (`fsnotify_move`); `replaced` had its new name. Both halves of a swap are
    /// reported, one after the other. Held: both directories' names.
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

    /// The tree has no mount any more (`fsnotify_sb_delete`): watches in it end.
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
        let flags = OFlags::from_bits_retain(store.file(last.id()).flags.get());
        let Some(inode) = store.dentry_payload(last.pin()) else {
            return false;
        };
        if !flags.contains(O_PATH) {
            let event_source = EventSource {
                dcache: &self.dcache,
                mount_pins: &self.mount_pins,
                pins,
                dentry: last.pin().dentry(),
                inode,
            };
            let mask = if matches!(flags & O_ACCMODE, O_WRONLY | O_RDWR) {
                IN_CLOSE_WRITE
            } else {
                IN_CLOSE_NOWRITE
            };
            event_source.tell(mask, EventVia::File);
        }
        self.is_awaited(last.pin())
    }

    /// Whether an event waits for this place to be let go: the end of a watched unlinked inode, or
    /// of a mount that was detached in use.
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
}
