// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the trait by which a backend or a device takes over calls on one open file, and the
//! arguments of these calls.

use openpath_abi::falloc::{
    RWF_APPEND, RWF_DSYNC, RWF_HIPRI, RWF_NOAPPEND, RWF_NOSIGNAL, RWF_SYNC,
};
use openpath_abi::{Errno, OFlags};
use openpath_sync::Waiter;
use std::io::{IoSlice, IoSliceMut};

/// A descriptor: a number below the table's limit. Negative ones are never open, but for
/// [`openpath_abi::fcntl::AT_FDCWD`] where a path is relative to it.
pub type Fd = i32;

/// The owner of a file (`struct f_owner_ex`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct OwnerEx {
    /// What it is: `F_OWNER_TID`, `F_OWNER_PID` or `F_OWNER_PGRP`.
    pub kind: u32,
    /// Its number; 0: none.
    pub pid: i32,
}

/// Not to wait: the file's backend is asked with [`crate::WaitMode::Cached`]. Ours alone, and gone
/// once the file is open.
pub(crate) const QUICK: OFlags = OFlags::from_bits_retain(1 << 31);
/// Opened as with `O_NONBLOCK`, which the file does not keep. Ours alone, as [`QUICK`] is.
pub(crate) const TRIED: OFlags = OFlags::from_bits_retain(1 << 30);

/// The `RWF_*` flags that every file takes whose data is read and written by vectors.
pub(crate) const RWF_COMMON: u32 =
    RWF_HIPRI | RWF_DSYNC | RWF_SYNC | RWF_APPEND | RWF_NOAPPEND | RWF_NOSIGNAL;

/// The arguments of one read or write (`struct kiocb`).
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct Io<'a> {
    /// Where, in a file that has positions.
    pub offset: u64,
    /// The flags of the open file as they are now (`F_GETFL`).
    pub flags: OFlags,
    /// The sleeper that waits for data or room; `None`: `EAGAIN` instead. A wait with it can be
    /// interrupted ([`crate::Interrupter`]).
    pub wait: Option<&'a Waiter>,
}

/// The state that a backend or a device keeps for one open file, and the calls it takes over
/// (`struct file_operations` where they differ from the inode's).
///
/// The inode serves a call that answers `None`; for a device there is no such fallback. Every call
/// may come from several threads at once; a panic in one becomes `EIO`.
pub trait FileOps: Send + Sync + 'static {
    /// Itself, for its maker to recognise it.
    fn as_any(&self) -> &dyn core::any::Any;

    /// Reads.
    fn read(&self, _buf: &mut [u8], _io: &Io<'_>) -> Option<Result<usize, Errno>> {
        None
    }

    /// Reads into several buffers as one call; `None`: buffer by buffer, until one stays short.
    fn read_vectored(
        &self,
        _bufs: &mut [IoSliceMut<'_>],
        _io: &Io<'_>,
    ) -> Option<Result<usize, Errno>> {
        None
    }

    /// Writes.
    fn write(&self, _data: &[u8], _io: &Io<'_>) -> Option<Result<usize, Errno>> {
        None
    }

    /// Writes several pieces as one call; `None`: piece by piece, until one is not written whole.
    fn write_vectored(&self, _data: &[IoSlice<'_>], _io: &Io<'_>) -> Option<Result<usize, Errno>> {
        None
    }

    /// Whether reads and writes are all left to the inode, which may do them while no
    /// thread waits ([`crate::InodeOps::async_io`]).
    fn leaves_data(&self) -> bool {
        false
    }

    /// The `RWF_*` flags that its reads (or, if `writing`, its writes) take.
    fn rw_flags(&self, _writing: bool) -> u32 {
        RWF_COMMON
    }

    /// Whether it is a stream: without positions (`stream_open`).
    fn is_stream(&self) -> bool {
        false
    }

    /// Whether reading and writing move its position; those of a regular file always do.
    fn moves(&self) -> bool {
        false
    }

    /// Where lseek(2) leads from position `at`; `None`: of a regular file what the inode says, of a
    /// device always to 0 (`null_lseek`).
    fn seek(&self, _at: i64, _offset: i64, _whence: u32) -> Option<Result<i64, Errno>> {
        None
    }

    /// Whether sendfile(2) can take data from it, or (`writing`) give data to it (`splice_read`,
    /// `splice_write`).
    fn splices(&self, _writing: bool) -> bool {
        true
    }

    /// Which of the `POLL*` events there are now.
    fn poll(&self) -> Option<u32> {
        None
    }

    /// A request of the device or file system; what it leaves in `arg` goes back to the caller.
    fn ioctl(&self, _request: u32, _arg: &mut [u8]) -> Option<Result<i64, Errno>> {
        None
    }

    /// A descriptor of the file is closed; others may be open.
    ///
    /// # Errors
    /// What close(2) is to return: the descriptor is gone all the same.
    fn flush(&self) -> Result<(), Errno> {
        Ok(())
    }

    /// The last reference is gone: called once, with no lock held, before the call that dropped it
    /// returns.
    fn release(&self) {}
}
