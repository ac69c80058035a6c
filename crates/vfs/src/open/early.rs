// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the older order of a failing open, for comparison (`Tuning::failed_open_frees_inline`
//! off): the file is made before the walk, and a failure leaves it to be freed later.
//!
//! # Kernel analogue
//! `alloc_empty_file` before the walk, and `fput` of a file that was never opened by way of
//! `task_work`, as before Linux 6.7. Today nothing is made before the open has succeeded.

use super::{OpenOp, open_file};
use crate::file::NewFileArgs;
use crate::file_ops::Fd;
use crate::task::Core;
use openpath_abi::Errno;
use openpath_sync::FileRef;

/// Opens with a file made before the walk.
///
/// # Errors
/// `ENOMEM` when there are no pins left, then those of the open.
#[cold]
pub(super) fn open(core: &Core, dirfd: Fd, path: &[u8], op: &OpenOp) -> Result<Fd, Errno> {
    let nowhere = core.pins.reserve().ok_or(Errno::ENOMEM)?;
    let args = NewFileArgs {
        flags: op.flags,
        created: false,
        shared: true,
    };
    let file = core.make_file(nowhere, args);
    let opened = open_file(core, dirfd, path, op);
    match opened {
        Ok(_) => core.put_file(file),
        Err(_) => free_later(core, file),
    }
    opened
}

/// Queues the file, and frees what is queued, as a call does on its way back to its program.
fn free_later(core: &Core, file: FileRef) {
    core.deferred.lock().push(file);
    let queued = core::mem::take(&mut *core.deferred.lock());
    for file in queued {
        core.put_file(file);
    }
}
