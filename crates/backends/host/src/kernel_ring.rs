// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the kernel's io_uring of one tree when it is first needed.

use openpath_sync::WriteOnce;
use openpath_uring::KernelRing;

/// A tree's ring of the kernel, made when it is first needed; `None` if the kernel refuses it.
#[derive(Default)]
pub(crate) struct LazyRing(WriteOnce<Option<KernelRing>>);

impl LazyRing {
    /// The ring, made with so many entries.
    pub(crate) fn get(&self, entries: u32) -> Option<&KernelRing> {
        if entries == 0 {
            return None;
        }
        let made = match self.0.get() {
            Some(made) => made,
            None => self.0.set(KernelRing::new(entries, "openpath-uring").ok()),
        };
        made.as_ref()
    }
}
