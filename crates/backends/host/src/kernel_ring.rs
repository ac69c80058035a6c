// SPDX-License-Identifier: MIT OR Apache-2.0
//! The kernel's io_uring of one tree, made when it is first needed.

use openpath_sync::WriteOnce;
use openpath_uring::KernelRing;

/// A tree's ring of the kernel, made when it is first asked for; none if the kernel gives none.
#[derive(Default)]
pub(crate) struct Lazy(WriteOnce<Option<KernelRing>>);

impl Lazy {
    /// The ring; `places` are those it is made with.
    pub(crate) fn get(&self, places: u32) -> Option<&KernelRing> {
        if places == 0 {
            return None;
        }
        let made = match self.0.get() {
            Some(made) => made,
            None => self.0.set(KernelRing::new(places, "openpath-uring").ok()),
        };
        made.as_ref()
    }
}
