// SPDX-License-Identifier: MIT OR Apache-2.0
//! Who changes something through a mount, and who wants that nobody does.
//!
//! # Kernel analogue
//! `mnt_want_write`, `mnt_make_readonly`, `sb_prepare_remount_readonly`.
//!
//! # Rules
//! R1. A writer counts itself in, then asks for the read-only flags; who sets such a flag puts the
//!     mark into the same word first, and takes it out when the flag is set. So either the count is
//!     seen and the flag is refused, or the writer waits for the mark to go and sees the flag.

use super::{MountData, mflag};
use crate::instance::Shared;
use openpath_abi::Errno;

/// The mark in a mount's count of writers: someone asks whether there are any.
const ASKED: u64 = 1 << 63;

/// A change through a mount going on, or a file open for writing; dropping it ends it.
#[must_use]
pub(crate) struct Writing<'a>(&'a MountData);

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writers.sub(1);
    }
}

/// Nobody can begin to write through a mount until this is dropped.
#[must_use]
pub(crate) struct NoWriters<'a>(&'a MountData);

impl Drop for NoWriters<'_> {
    fn drop(&mut self) {
        self.0.writers.sub(ASKED);
    }
}

impl Writing<'_> {
    /// Leaves the writer counted: who takes it back, takes one off the mount's writers.
    pub(crate) fn keep(self) {
        core::mem::forget(self);
    }
}

impl Shared {
    /// Begins a change through the mount at `index` (`mnt_want_write`).
    ///
    /// # Errors
    /// `EROFS`: the mount or its superblock is read-only.
    #[inline]
    pub(crate) fn want_write<'a>(
        &self,
        index: u32,
        mount: &'a MountData,
    ) -> Result<Writing<'a>, Errno> {
        let writing = mount.begin_write();
        let flags = self.mounts.at(index).word().sample();
        if flags.has(mflag::READ_ONLY) || mount.sb.is_read_only() {
            return Err(Errno::EROFS);
        }
        Ok(writing)
    }
}

impl MountData {
    /// Counts one more writer, who then asks for the read-only flags.
    pub(crate) fn begin_write(&self) -> Writing<'_> {
        while self.writers.add(1) & ASKED != 0 {
            self.writers.sub(1);
            std::thread::yield_now();
        }
        Writing(self)
    }

    /// Keeps writers out, if there are none. Held: the topology lock, so that only one asks.
    pub(crate) fn keep_writers_out(&self) -> Option<NoWriters<'_>> {
        let before = self.writers.add(ASKED);
        let kept_out = NoWriters(self);
        (before == 0).then_some(kept_out)
    }
}
