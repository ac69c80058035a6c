// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking a backend, and comparing what it says with what is cached (`d_revalidate`,
//! `d_invalidate`).

use super::Reason;
use crate::inode::{Found, Inode, Patience};
use crate::instance::Shared;
use crate::task::Core;
use openpath_abi::Errno;
use openpath_sync::{Pin, Sample};
use std::sync::Arc;

/// What a cached entry is, by what its backend says now.
pub(super) enum Compared {
    /// What it was, in this state.
    Same(Sample),
    /// Nothing that could be compared: it was evicted, moved or forgotten meanwhile.
    Moved,
    /// It meant something else, and is out of sight now, to be buried.
    Other,
}

impl Core {
    /// What `name` in `dir` is. Held: the directory's names.
    ///
    /// # Errors
    /// What the backend meets; `EAGAIN` if it would have to wait and may not.
    pub(super) fn ask_backend(
        &self,
        dir: &Inode,
        name: &[u8],
        patience: Patience,
    ) -> Result<Option<Arc<Inode>>, Errno> {
        match dir.shielded(|ops| ops.lookup(dir, name, patience)) {
            Ok(Found::Inode(inode)) => Ok(Some(inode)),
            Ok(Found::Absent) => Ok(None),
            Ok(Found::WouldBlock) if patience == Patience::Cached => {
                Err(self.give_up(Reason::WouldWait))
            }
            Ok(Found::WouldBlock) => Err(Errno::EIO),
            Err(errno) => Err(self.would_wait(patience, errno)),
        }
    }

    /// Compares an entry, sampled before its backend was asked, with what that said, and takes it
    /// out of sight if it is something else. Held: the directory's names exclusively, or shared
    /// with the flight of the name.
    pub(super) fn compare(&self, child: u32, was: Sample, inode: Option<&Inode>) -> Compared {
        let Some(pin) = self.pins.try_pin(0, Sample::default(), child, was) else {
            return Compared::Moved;
        };
        let compared = self.compare_pinned(&pin, was, inode);
        self.pins.release(pin);
        compared
    }

    fn compare_pinned(&self, pin: &Pin, was: Sample, inode: Option<&Inode>) -> Compared {
        let dcache = &self.vfs.dcache;
        let same = match (dcache.store.dentry_payload(pin), inode) {
            (None, None) => true,
            (Some(a), Some(b)) => core::ptr::eq(a, b),
            _ => false,
        };
        if !same {
            dcache.disown(pin.dentry());
            return Compared::Other;
        }
        match dcache.confirm(pin.dentry(), was, inode) {
            Some(sample) => Compared::Same(sample),
            None => Compared::Moved,
        }
    }
}

impl Shared {
    /// Lets go of an entry that means something else by now, and of what is mounted on it and below
    /// (`d_invalidate`). Held: no lock.
    #[cold]
    pub(super) fn bury_disowned(&self, entry: u32) {
        for point in self.dcache.mounted_below(entry) {
            self.detach_mounts(point);
        }
        self.dcache.bury(entry);
    }
}
