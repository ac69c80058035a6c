// SPDX-License-Identifier: MIT OR Apache-2.0
//! The way of before for opens that fail: the file is made first, and a failure leaves it to be
//! freed later.
//!
//! # Kernel analogue
//! `alloc_empty_file` before the walk, and `fput` of a file that was never opened by way of
//! `task_work`, as before Linux 6.7. Today nothing is made before the open has succeeded.

use crate::file::{Filp, Making};
use crate::task::Core;
use openpath_abi::Errno;

/// A file made before its walk; dropping it queues it to be freed when the call ends.
#[must_use]
pub(super) struct Early<'t>(Option<Filp<'t>>);

impl<'t> Early<'t> {
    /// Makes one if opens that fail are to leave something ([`crate::Tuning`]).
    ///
    /// # Errors
    /// `ENOMEM` when there are no pins left.
    #[inline(always)]
    pub(super) fn make(core: &'t Core) -> Result<Self, Errno> {
        if core.vfs.config.tuning.failed_open_frees_inline {
            return Ok(Self(None));
        }
        Self::really(core)
    }

    #[cold]
    fn really(core: &'t Core) -> Result<Self, Errno> {
        let nowhere = core.pins.blank().ok_or(Errno::ENOMEM)?;
        let making = Making {
            flags: 0,
            created: false,
            shared: true,
        };
        let file = core.make_file(nowhere, making);
        Ok(Self(Some(Filp::hold(core, file))))
    }

    /// The open did not fail: nothing is left for later.
    #[inline(always)]
    pub(super) fn succeeded(mut self) {
        drop(self.0.take());
    }
}

impl Drop for Early<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(file) = self.0.take() {
            free_later(file);
        }
    }
}

/// Queues the file, and frees what is queued, as a call does on its way back to its program.
#[cold]
fn free_later(file: Filp<'_>) {
    let core = file.core;
    core.deferred.lock().push(file.into_ref());
    let queued = core::mem::take(&mut *core.deferred.lock());
    for file in queued {
        drop(Filp::hold(core, file));
    }
}
