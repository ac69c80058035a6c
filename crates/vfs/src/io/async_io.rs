// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes asynchronous calls: a backend does a read, write or sync while the submitting thread goes
//! on.
//!
//! # Kernel analogue
//! `io_read`, `io_write` and `io_fsync` with a `kiocb` that completes later; of direct writes
//! `inode_dio_begin` and `file_remove_privs` before they begin.
//!
//! # States
//! Asked for ([`Task::prepare_io`]): there is none, or it is given -> begun
//! ([`PreparedIo::begin`]), with buffers of its own -> done, in a thread of the backend -> closed
//! ([`Task::finish_io`]), which takes the steps of a call after the data.
//!
//! # Rules
//! R1. Only ordinary calls are asynchronous. A call that fails a check, appends, makes the file
//!     longer, syncs as it writes, removes privileges or moves the access time runs in a thread. So
//!     no errno is found here, and no rule is explained twice.
//! R2. An error under way is left to a thread's call too: it reads again, or writes the rest. A
//!     sync is not repeated, since a disk reports a failure once.
//! R3. A write holds the file's lock shared while it is under way: this allows other such writes
//!     and keeps out truncation, appends and chmod(2). It releases the lock before anything waits
//!     for anything. It makes no file longer, so the size that others read then is right.

use super::{ONCE_MAX, Position, counted, verify_area};
use crate::file::{Filp, OpenFile};
use crate::file_ops::FileOps;
use crate::inode::{AsyncIo, Inode, IoRequest, shield};
use crate::lock_order::InodeNames;
use crate::task::Task;
use openpath_abi::falloc::RWF_NOAPPEND;
use openpath_abi::fcntl::{O_DSYNC, O_NOATIME};
use openpath_abi::{Errno, mode};
use openpath_sync::OwnedReadGuard;
use std::io::IoSlice;
use std::sync::Arc;

/// One asynchronous call, before it begins.
#[must_use]
pub struct PreparedIo {
    operation: Box<dyn AsyncIo>,
    held: Option<OwnedReadGuard<Inode, (), InodeNames>>,
    offset: u64,
}

impl PreparedIo {
    /// Begins, and does not wait. `then` is called once, when it is done, by a thread of the
    /// backend, and must not block it; its arguments are for [`Task::finish_io`].
    pub fn begin(
        self,
        request: IoRequest,
        then: impl FnOnce(IoRequest, Result<usize, Errno>) + Send + 'static,
    ) {
        let Self {
            operation,
            held,
            offset,
        } = self;
        let then = move |request, moved| {
            // R3
            drop(held);
            then(request, moved);
        };
        operation.begin(request, offset, Box::new(then));
    }
}

impl IoRequest {
    /// Whether [`Task::finish_io`] may have to wait after this.
    #[must_use]
    pub fn may_wait(&self, moved: &Result<usize, Errno>) -> bool {
        match self {
            Self::Read(_) => moved.is_err(),
            Self::Write(_) => true,
            Self::Sync(_) => was_not_done(moved),
        }
    }
}

/// Whether it ended without having been done.
fn was_not_done(moved: &Result<usize, Errno>) -> bool {
    matches!(moved, Err(Errno::ECANCELED | Errno::EINTR | Errno::EAGAIN))
}

impl Task {
    /// The asynchronous call that moves `request` at `offset` of `file`; none if a thread must make
    /// it (R1). It does not wait itself.
    #[must_use]
    pub fn prepare_io(
        &self,
        file: &OpenFile,
        request: &IoRequest,
        offset: i64,
    ) -> Option<PreparedIo> {
        let file = Filp::hold(&self.core, file.lend(&self.core).ok()?);
        file.prepare_io(request, offset)
    }

    /// Takes the last steps after a backend did `request` with the result `moved`; the answer of
    /// the call. If [`IoRequest::may_wait`] says so, it may wait.
    ///
    /// # Errors
    /// As [`Task::pread`], [`Task::pwrite`], [`Task::fsync`].
    pub fn finish_io(
        &self,
        file: &OpenFile,
        request: &mut IoRequest,
        offset: i64,
        moved: Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let file = Filp::hold(&self.core, file.lend(&self.core)?);
        match request {
            IoRequest::Read(buf) => match moved {
                Ok(done) => {
                    counted(done, buf.len())?;
                    file.tell_read(done);
                    Ok(done)
                }
                Err(_) => file.read(buf, Position::At(offset)),
            },
            IoRequest::Write(data) => file.written(data, offset, moved.unwrap_or(0)),
            IoRequest::Sync(data_only) if was_not_done(&moved) => file.sync(*data_only).map(|()| 0),
            IoRequest::Sync(_) => moved,
        }
    }
}

impl Filp<'_> {
    /// As [`Task::prepare_io`].
    fn prepare_io(&self, request: &IoRequest, offset: i64) -> Option<PreparedIo> {
        let store = &self.core.vfs.dcache.store;
        let inode = store.share_dentry_payload(self.file().pin())?;
        let leaves = self.own_ops().is_none_or(FileOps::leaves_data);
        if !leaves || self.is_path() || inode.kind() != mode::S_IFREG {
            return None;
        }
        let held = match request {
            IoRequest::Read(buf) if self.reads_plainly(buf.len(), offset) => None,
            IoRequest::Read(_) => return None,
            IoRequest::Write(data) => Some(self.hold_to_write(&inode, data.len(), offset)?),
            IoRequest::Sync(_) => None,
        };
        let operation = shield(|| Ok(inode.ops().async_io(&inode, request.kind())));
        Some(PreparedIo {
            operation: operation.ok()??,
            held,
            offset: offset.cast_unsigned(),
        })
    }

    /// Whether R1 allows a read.
    fn reads_plainly(&self, len: usize, offset: i64) -> bool {
        let moves_time = || {
            let due = self.target().map(|target| target.is_atime_due());
            !self.flags().contains(O_NOATIME) && due != Ok(false)
        };
        self.readable() && is_plain(len, offset) && !moves_time()
    }

    /// The file's lock for a write that R1 allows, if it is free (R3).
    fn hold_to_write(
        &self,
        inode: &Arc<Inode>,
        len: usize,
        offset: i64,
    ) -> Option<OwnedReadGuard<Inode, (), InodeNames>> {
        let target = self.target().ok()?;
        let plain = self.writable() && is_plain(len, offset) && !self.flags().contains(O_DSYNC);
        if !plain || self.at_end(&target, 0) != Ok(false) {
            return None;
        }
        let held = inode.try_keep_names()?;
        let end = offset.cast_unsigned().saturating_add(len as u64);
        (end <= inode.size() && target.keeps_privileges()).then_some(held)
    }

    /// Ends a write of which the backend wrote `done` bytes (R2).
    fn written(&self, data: &[u8], offset: i64, done: usize) -> Result<usize, Errno> {
        counted(done, data.len())?;
        let inode = self.inode()?;
        if done > 0 {
            // Written data stays written, even if its times cannot be noted.
            let _settled = inode.shielded(|ops| {
                ops.settle(inode);
                Ok(())
            });
            self.tell_written(done);
        }
        let Some(rest) = data.get(done..).filter(|rest| !rest.is_empty()) else {
            return Ok(data.len());
        };
        let at = Position::At(offset.saturating_add_unsigned(done as u64));
        match self.write_pieces(&[IoSlice::new(rest)], at, RWF_NOAPPEND) {
            Ok(more) => {
                self.tell_written(more);
                Ok(done + more)
            }
            Err(_) if done > 0 => Ok(done),
            Err(errno) => Err(errno),
        }
    }
}

/// Whether there is something to move, and one call moves it.
fn is_plain(len: usize, offset: i64) -> bool {
    len > 0 && len <= ONCE_MAX && offset >= 0 && verify_area(offset, len).is_ok()
}
