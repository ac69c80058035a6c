// SPDX-License-Identifier: MIT OR Apache-2.0
//! Releases an open file when its last reference is dropped. Releases also a mount and dentry that
//! something other than an open file held ([`PathOwner::release_pin`]). Both free what waited for
//! the end of that use: unlinked files and detached mounts.
//!
//! # Kernel analogue
//! `__fput`.
//!
//! # Order of effects
//! 1. Watches of the file get their close event.
//! 2. Locks of the open file end.
//! 3. The backend's state of the open file is released ([`FileOps::release`]).
//! 4. One store ends write access to inode and mount, and lets mount and dentry go.
//! 5. An unlinked file without other users is freed. A small one may wait for others after
//!    [`crate::Task::close_lazily`].
//!
//! # Rules
//! R1. Everything here runs in the call that dropped the last reference, outside of every lock. A
//!     slow backend delays that call alone; if one panics, the file is released all the same.
//!
//! [`FileOps::release`]: crate::FileOps::release

use crate::dcache::unlinked;
use crate::inode::shield;
use crate::instance::Shared;
use crate::object::Pins;
use crate::object::fbit;
use crate::path::PathOwner;
use openpath_sync::{FileRef, LastRef, Pin};

/// A file of more blocks of 512 bytes is freed at once.
const LAZY_BLOCKS: u64 = 128;

impl PathOwner for Shared {
    fn release_pin(&self, pin: Pin) {
        let awaited = self.is_awaited(&pin);
        self.dcache.store.release(pin);
        if awaited {
            self.end_waits();
        }
    }
}

impl Shared {
    /// Frees what waited for a mount and dentry to be let go. Held: no lock.
    #[cold]
    pub(crate) fn end_waits(&self) {
        self.dcache.collect();
        self.sweep_mounts();
    }

    /// Puts back a reference to a file that may be shared (`fput`). Any thread may.
    pub(crate) fn fput(&self, file: FileRef) {
        if let Some(last) = self.dcache.store.put_file(file) {
            self.release_anywhere(last);
        }
    }

    /// Releases a file whose last reference was put back. Any thread may.
    pub(crate) fn release_anywhere(&self, last: LastRef) {
        let awaited = self.tell_closed(None, &last);
        self.end_locks_of(&last);
        let own = self.dcache.store.last_payload(&last).is_some();
        self.end_ops(&last);
        let unlinked = self.is_unlinked(&last);
        self.dcache.store.end_file(last);
        self.ended(unlinked);
        if awaited {
            self.end_waits();
        }
        if own {
            self.sweep_mounts();
        }
    }

    /// Releases a file whose last reference a task has put back.
    #[inline(always)]
    pub(crate) fn release_here(&self, pins: &Pins, last: LastRef) {
        if self.notify.is_active() || self.mounts.waiting.get() != 0 {
            self.release_watched(pins, last);
        } else {
            self.release_silently(pins, last);
        }
    }

    /// As [`Shared::release_here`], where nobody waits for what a small unlinked file gives back.
    pub(crate) fn release_lazily(&self, pins: &Pins, last: LastRef) {
        let is_small = || {
            let inode = self.dcache.store.dentry_payload(last.pin());
            inode.is_some_and(|inode| inode.attr().blocks <= LAZY_BLOCKS)
        };
        let watched = self.notify.is_active() || self.mounts.waiting.get() != 0;
        let own = self.dcache.store.last_payload(&last).is_some();
        if watched || own || !self.is_unlinked(&last) || !is_small() {
            return self.release_here(pins, last);
        }
        self.end_locks_of(&last);
        pins.end_file(last);
        if self.config.limits.files_max != u64::MAX {
            self.files.sub(1);
        }
        self.dcache.closed_small();
    }

    /// As [`Shared::release_here`], if a watch or a waiter may need to know.
    #[cold]
    fn release_watched(&self, pins: &Pins, last: LastRef) {
        let awaited = self.tell_closed(Some(pins), &last);
        self.release_silently(pins, last);
        if awaited {
            self.end_waits();
        }
    }

    #[inline(always)]
    fn release_silently(&self, pins: &Pins, last: LastRef) {
        self.end_locks_of(&last);
        let own = self.dcache.store.last_payload(&last).is_some();
        if own {
            self.end_ops(&last);
        }
        let unlinked = self.is_unlinked(&last);
        pins.end_file(last);
        self.ended(unlinked);
        if own {
            // A tree of mounts may have been the file's.
            self.sweep_mounts();
        }
    }

    /// Ends the locks of an open file, if it ever had some.
    #[inline(always)]
    fn end_locks_of(&self, last: &LastRef) {
        if self.dcache.store.file(last.id()).bits.get() & fbit::LOCKED != 0 {
            self.end_file_locks(last);
        }
    }

    /// Ends the backend's own state of an open file.
    #[cold]
    fn end_ops(&self, last: &LastRef) {
        let store = &self.dcache.store;
        if let Some(ops) = store.last_payload(last) {
            // No caller is left to report an error to.
            let _told = shield(|| {
                ops.release();
                Ok(())
            });
        }
        let own = store.take_file_payload(last);
        let _told = shield(|| {
            drop(own);
            Ok(())
        });
    }

    #[inline(always)]
    fn is_unlinked(&self, last: &LastRef) -> bool {
        let entry = self.dcache.at(last.pin().dentry());
        unlinked(entry.word().sample())
    }

    #[inline(always)]
    fn ended(&self, unlinked: bool) {
        if self.config.limits.files_max != u64::MAX {
            self.files.sub(1);
        }
        if unlinked {
            self.dcache.closed_unlinked();
        }
    }
}
