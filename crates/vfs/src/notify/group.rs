// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements notification groups: one for each inotify instance, with its watches, queue and open
//! file.
//!
//! # Kernel analogue
//! `struct fsnotify_group` with its `idr` of watches; `inotify_fops`.

use super::Notify;
use super::queue::Queue;
use crate::config::Limits;
use crate::file_ops::{FileOps, Io};
use crate::inode::{Inode, kind};
use crate::lock_order::NotifyWatches;
use crate::mark::{InodeEvent, Listener, Mark};
use crate::superblock::SuperBlock;
use openpath_abi::Errno;
use openpath_abi::inotify::{IN_IGNORED, IN_UNMOUNT};
use openpath_abi::poll::{POLLIN, POLLRDNORM};
use openpath_sync::Mutex;
use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

/// The request that asks how much there is to read (`FIONREAD`).
const FIONREAD: u32 = 0x541b;

/// One watch.
struct Watch {
    inode: Arc<Inode>,
    sb: Weak<SuperBlock>,
}

/// Watches by number, and the number handed out last.
#[derive(Default)]
struct Table {
    watches: BTreeMap<i32, Watch>,
    last: i32,
}

impl Table {
    /// The next number that is free, from 1 on (`idr_alloc_cyclic`).
    fn next(&mut self) -> Option<i32> {
        let after = |last: i32| last.checked_add(1).unwrap_or(1);
        let mut wd = after(self.last);
        for _ in 0..=self.watches.len() {
            if !self.watches.contains_key(&wd) {
                self.last = wd;
                return Some(wd);
            }
            wd = after(wd);
        }
        None
    }
}

/// Gives a group the notification state of its `Vfs`.
pub(crate) trait Watchers: Send + Sync {
    /// The state.
    fn notify(&self) -> &Notify;
}

/// One instance: its watches and its events.
pub(crate) struct NotifyGroup {
    vfs: Weak<dyn Watchers>,
    /// The user that instance and watches are counted for.
    uid: u32,
    table: Mutex<Table, NotifyWatches>,
    queue: Queue,
}

impl NotifyGroup {
    /// A group without watches, counted for `uid`.
    ///
    /// # Errors
    /// `EMFILE`: the user has as many as allowed.
    pub(crate) fn new<W: Watchers + 'static>(
        vfs: &Arc<W>,
        limits: &Limits,
        uid: u32,
    ) -> Result<Arc<Self>, Errno> {
        if !vfs.notify().add_instance(uid, limits.max_user_instances) {
            return Err(Errno::EMFILE);
        }
        let group = Arc::new(Self {
            vfs: Arc::downgrade(vfs) as Weak<dyn Watchers>,
            uid,
            table: Mutex::default(),
            queue: Queue::new(limits.max_queued_events),
        });
        vfs.notify().register(&group);
        Ok(group)
    }

    /// Its events.
    #[cfg(test)]
    pub(super) fn queue(&self) -> &Queue {
        &self.queue
    }

    /// Continues with the number after `last`, as after that many watches.
    #[cfg(test)]
    pub(crate) fn skip_to(&self, last: i32) {
        self.table.lock().last = last;
    }

    /// Watches `inode` as `arg` says, or changes the watch it has there; the watch's number
    /// (`inotify_update_watch`).
    ///
    /// # Errors
    /// `EEXIST` (`IN_MASK_CREATE`), `ENOSPC` (as many watches as the user may have).
    pub(crate) fn watch(
        self: &Arc<Self>,
        (notify, limit): (&Notify, u32),
        inode: Arc<Inode>,
        sb: &Arc<SuperBlock>,
        arg: u32,
    ) -> Result<i32, Errno> {
        let mut table = self.table.lock();
        if let Some(wd) = inode.update_mark(self, arg)? {
            return Ok(wd);
        }
        let wd = table.next().ok_or(Errno::ENOSPC)?;
        if !notify.add_watch(self.uid, limit) {
            return Err(Errno::ENOSPC);
        }
        inode.add_mark(Mark::new(self.clone(), wd, arg));
        let sb = Arc::downgrade(sb);
        table.watches.insert(wd, Watch { inode, sb });
        Ok(wd)
    }

    /// Ends a watch (`inotify_rm_watch`).
    ///
    /// # Errors
    /// `EINVAL`: no such watch.
    pub(crate) fn unwatch(self: &Arc<Self>, wd: i32) -> Result<(), Errno> {
        self.end(wd, None).ok_or(Errno::EINVAL)
    }

    /// Takes a watch out of the table and off its inode; `event` and `IN_IGNORED` are its last
    /// events.
    fn end(self: &Arc<Self>, wd: i32, event: Option<InodeEvent<'_>>) -> Option<()> {
        let watch = {
            let mut table = self.table.lock();
            let watch = table.watches.remove(&wd)?;
            watch.inode.remove_mark(self, wd, event);
            self.queue.push(wd, IN_IGNORED, 0, b"");
            watch
        };
        self.uncount(|notify| notify.end_watches(self.uid, 1));
        // This may drop the last reference to the inode: no lock is held.
        drop(watch);
        Some(())
    }

    /// Ends every watch in a tree that has no mount any more.
    pub(crate) fn unmounted(self: &Arc<Self>, sb: &SuperBlock) {
        let here = |watch: &Watch| std::ptr::eq(watch.sb.as_ptr(), sb);
        let gone: Vec<(i32, bool)> = {
            let table = self.table.lock();
            let gone = table.watches.iter().filter(|(_, watch)| here(watch));
            gone.map(|(&wd, watch)| (wd, watch.inode.is_dir()))
                .collect()
        };
        for (wd, is_dir) in gone {
            let event = InodeEvent {
                mask: IN_UNMOUNT | kind(is_dir),
                ..InodeEvent::default()
            };
            let _ended = self.end(wd, Some(event));
        }
    }

    /// Ends all watches and drops all events (`fsnotify_destroy_group`).
    fn close(self: &Arc<Self>) {
        let watches = core::mem::take(&mut self.table.lock().watches);
        for (&wd, watch) in &watches {
            watch.inode.remove_mark(self, wd, None);
        }
        self.queue.clear();
        // A table holds fewer than 2^31 watches.
        let count = watches.len() as u32;
        self.uncount(|notify| notify.end_watches(self.uid, count));
        drop(watches);
    }

    fn uncount(&self, end: impl FnOnce(&Notify)) {
        if let Some(vfs) = self.vfs.upgrade() {
            end(vfs.notify());
        }
    }
}

impl Listener for NotifyGroup {
    fn push(&self, wd: i32, mask: u32, cookie: u32, name: &[u8]) {
        self.queue.push(wd, mask, cookie, name);
    }

    /// Unless another thread has (`inotify_ignored_and_remove_idr`).
    fn forget(self: Arc<Self>, wd: i32) {
        let _ended = self.end(wd, None);
    }
}

impl Drop for NotifyGroup {
    fn drop(&mut self) {
        self.uncount(|notify| notify.end_instance(self.uid));
    }
}

/// The open file of a group: reading gives its events, closing ends it.
pub(crate) struct Instance(Arc<NotifyGroup>);

impl Instance {
    pub(crate) fn new(group: Arc<NotifyGroup>) -> Self {
        Self(group)
    }

    /// The group.
    pub(crate) fn group(&self) -> &Arc<NotifyGroup> {
        &self.0
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        self.0.close();
    }
}

impl FileOps for Instance {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn read(&self, buf: &mut [u8], io: &Io<'_>) -> Option<Result<usize, Errno>> {
        Some(self.0.queue.read(buf, io.wait))
    }

    fn splices(&self, _writing: bool) -> bool {
        false
    }

    fn poll(&self) -> Option<u32> {
        let some = self.0.queue.bytes() != 0;
        Some(if some { POLLIN | POLLRDNORM } else { 0 })
    }

    fn ioctl(&self, request: u32, arg: &mut [u8]) -> Option<Result<i64, Errno>> {
        if request != FIONREAD {
            return Some(Err(Errno::ENOTTY));
        }
        let Some(to) = arg.first_chunk_mut::<4>() else {
            return Some(Err(Errno::EFAULT));
        };
        let bytes = i32::try_from(self.0.queue.bytes()).unwrap_or(i32::MAX);
        *to = bytes.to_ne_bytes();
        Some(Ok(0))
    }
}
