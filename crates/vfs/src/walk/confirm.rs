// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asks a backend for a name, compares the answer with the cached entry, and drops an entry that
//! has another meaning (`d_revalidate`, `d_invalidate`).

use super::Reason;
use crate::inode::{Inode, LookupResult, WaitMode};
use crate::instance::Shared;
use crate::task::Core;
use openpath_abi::Errno;
use openpath_sync::{Pin, Sample};
use std::sync::Arc;

/// A cached entry, compared with the backend's answer.
pub(super) enum Revalidated {
    /// The same, in this state.
    Same(Sample),
    /// Not comparable: it was evicted, moved or invalidated meanwhile.
    Moved,
    /// Another meaning: it is unhashed, and must be freed later.
    Other,
}

impl Core {
    /// Asks the backend for `name` in `dir`. Held: the directory's names.
    ///
    /// # Errors
    /// What the backend meets; `EAGAIN` if it would have to wait and may not.
    pub(super) fn ask_backend(
        &self,
        dir: &Inode,
        name: &[u8],
        wait_mode: WaitMode,
    ) -> Result<Option<Arc<Inode>>, Errno> {
        match dir.shielded(|ops| ops.lookup(dir, name, wait_mode)) {
            Ok(LookupResult::Inode(inode)) => Ok(Some(inode)),
            Ok(LookupResult::Absent) => Ok(None),
            Ok(LookupResult::WouldBlock) if wait_mode == WaitMode::Cached => {
                Err(self.give_up(Reason::WouldWait))
            }
            Ok(LookupResult::WouldBlock) => Err(Errno::EIO),
            Err(errno) => Err(self.would_wait(wait_mode, errno)),
        }
    }

    /// Compares an entry, sampled before its backend was asked, with the answer, and unhashes it if
    /// it is something else. Held: the directory's names exclusively, or shared with the flight of
    /// the name.
    pub(super) fn compare(&self, child: u32, was: Sample, inode: Option<&Inode>) -> Revalidated {
        let Some(pin) = self.pins.try_pin(0, Sample::default(), child, was) else {
            return Revalidated::Moved;
        };
        let compared = self.compare_pinned(&pin, was, inode);
        self.pins.release(pin);
        compared
    }

    fn compare_pinned(&self, pin: &Pin, was: Sample, inode: Option<&Inode>) -> Revalidated {
        let dcache = &self.vfs.dcache;
        let same = match (dcache.store.dentry_payload(pin), inode) {
            (None, None) => true,
            (Some(a), Some(b)) => core::ptr::eq(a, b),
            _ => false,
        };
        if !same {
            dcache.disown(pin.dentry());
            return Revalidated::Other;
        }
        match dcache.confirm(pin.dentry(), was, inode) {
            Some(sample) => Revalidated::Same(sample),
            None => Revalidated::Moved,
        }
    }
}

impl Shared {
    /// Buries an entry that had another meaning, and unmounts what covers it and what is below
    /// (`d_invalidate`). Held: no lock.
    #[cold]
    pub(super) fn defer_free_disowned(&self, entry: u32) {
        for point in self.dcache.mounted_below(entry) {
            self.detach_mounts(point);
        }
        self.dcache.defer_free(entry);
    }
}
