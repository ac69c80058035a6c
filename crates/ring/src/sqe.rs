// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines submission queue entries: the operations that a ring takes, a constructor for each, and
//! the flags of an entry.
//!
//! # Kernel analogue
//! `struct io_uring_sqe`; each constructor names its opcode.

use crate::locks::LockRequest;
use crate::op::{Destination, File, Op, OpenCall, PathArg};
use openpath_abi::{AtFlags, Errno, Flock, Mode, OFlags, OpenHow, RenameFlags, StatxMask};
use openpath_vfs::{Bytes, Fd};
use std::time::Duration;

/// Flags of an entry (`linux/io_uring.h`).
pub(crate) mod sflag {
    /// Begins after all earlier entries are done, and before later ones.
    pub(crate) const DRAIN: u8 = 1 << 1;
    /// The next entry begins when this one is done, and not if it failed.
    pub(crate) const LINK: u8 = 1 << 2;
    /// The next entry begins when this one is done.
    pub(crate) const HARDLINK: u8 = 1 << 3;
    /// Without an inline attempt.
    pub(crate) const ASYNC: u8 = 1 << 4;
    /// No completion if it succeeds.
    pub(crate) const SKIP: u8 = 1 << 6;
}

/// Which operations are to be cancelled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cancel {
    /// Those with this `user_data`.
    UserData(u64),
    /// Those on this file (`IORING_ASYNC_CANCEL_FD`).
    File(File),
    /// All there are (`IORING_ASYNC_CANCEL_ANY`).
    Any,
}

/// What an entry does.
#[derive(Debug)]
pub(crate) enum Work {
    Nop,
    Call(Op),
    /// Reads repeatedly, at most this much at a time.
    ReadMany(File, usize),
    Timeout(Timeout),
    LinkTimeout(Duration),
    TimeoutRemove(u64),
    TimeoutUpdate(u64, Duration),
    Cancel(Cancel, bool),
    /// Makes a descriptor of the task for a slot, maybe closed on exec.
    Install(u32, bool),
    /// Puts a descriptor's file into a slot.
    FilesUpdate(Fd, Destination),
    /// Locks a file.
    Lock(File, LockRequest),
}

/// A time-out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeout {
    pub(crate) after: Duration,
    /// It also ends after so many other completions; 0: only by time.
    pub(crate) count: u32,
    /// How many times it expires; 0: until it is removed.
    pub(crate) times: u32,
    /// Whether expiry is a success for the chain.
    pub(crate) is_success: bool,
}

/// One entry of the submission queue.
///
/// Paths are relative to a directory descriptor, or to the working directory with `AT_FDCWD`; both
/// are what they are when the entry is submitted.
///
/// ```
/// use openpath_ring::Sqe;
/// use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
/// let open = Sqe::openat(AT_FDCWD, b"/etc/passwd", O_RDONLY, 0).user_data(7).link();
/// # let _ = open;
/// ```
#[derive(Debug)]
#[must_use]
pub struct Sqe {
    pub(crate) work: Work,
    pub(crate) user_data: u64,
    pub(crate) flags: u8,
}

impl Sqe {
    fn new(work: Work) -> Self {
        Self {
            work,
            user_data: 0,
            flags: 0,
        }
    }

    fn call(op: Op) -> Self {
        Self::new(Work::Call(op))
    }

    fn with(mut self, flag: u8) -> Self {
        self.flags |= flag;
        self
    }

    /// Sets the value that its completion carries.
    pub fn user_data(mut self, user_data: u64) -> Self {
        self.user_data = user_data;
        self
    }

    /// The next entry of the same submission begins when this one is done. If this one fails, or
    /// moves less than requested, the rest of the chain is cancelled (`IOSQE_IO_LINK`).
    pub fn link(self) -> Self {
        self.with(sflag::LINK)
    }

    /// As [`Sqe::link`], but the next entry begins whatever the result of this one
    /// (`IOSQE_IO_HARDLINK`).
    pub fn hardlink(self) -> Self {
        self.with(sflag::HARDLINK)
    }

    /// Begins when all earlier entries are done; later ones wait for it (`IOSQE_IO_DRAIN`).
    pub fn drain(self) -> Self {
        self.with(sflag::DRAIN)
    }

    /// Goes to a worker without an inline attempt (`IOSQE_ASYNC`).
    pub fn offload(self) -> Self {
        self.with(sflag::ASYNC)
    }

    /// Posts no completion if it succeeds and moves all that was requested. If it fails, the
    /// entries that are cancelled with it post none either (`IOSQE_CQE_SKIP_SUCCESS`).
    pub fn skip_success(self) -> Self {
        self.with(sflag::SKIP)
    }

    /// Opens into a direct descriptor. The result is its number, or 0 if the caller chose it. No
    /// effect on other operations.
    pub fn into_slot(mut self, place: Destination) -> Self {
        if let Work::Call(Op::Open(_, _, into)) = &mut self.work {
            *into = place;
        }
        self
    }

    /// Does nothing, and completes (`IORING_OP_NOP`).
    pub fn nop() -> Self {
        Self::new(Work::Nop)
    }

    /// openat(2); the result is the descriptor (`IORING_OP_OPENAT`).
    pub fn openat(dir: Fd, path: impl Into<Bytes>, flags: OFlags, mode: impl Into<Mode>) -> Self {
        let at = PathArg::new(dir, path);
        Self::call(Op::Open(
            at,
            OpenCall::Openat(flags, mode.into()),
            Destination::Fd,
        ))
    }

    /// openat2(2); the result is the descriptor (`IORING_OP_OPENAT2`).
    pub fn openat2(dir: Fd, path: impl Into<Bytes>, how: OpenHow) -> Self {
        let at = PathArg::new(dir, path);
        Self::call(Op::Open(at, OpenCall::Openat2(how), Destination::Fd))
    }

    /// close(2), of a descriptor or a slot (`IORING_OP_CLOSE`).
    pub fn close(file: impl Into<File>) -> Self {
        Self::call(Op::Close(file.into()))
    }

    /// newfstatat(2); the attributes are in the output. `io_uring` has statx alone.
    pub fn stat(dir: Fd, path: impl Into<Bytes>, at_flags: AtFlags) -> Self {
        Self::call(Op::Stat(PathArg::new(dir, path), at_flags))
    }

    /// statx(2); the attributes are in the output (`IORING_OP_STATX`).
    pub fn statx(dir: Fd, path: impl Into<Bytes>, at_flags: AtFlags, mask: StatxMask) -> Self {
        Self::call(Op::Statx(PathArg::new(dir, path), at_flags, mask))
    }

    /// pread(2) into `buf`, or read(2) with offset -1; the result is how much was read, and `buf`,
    /// cut to that, is in the output (`IORING_OP_READ`).
    pub fn read(file: impl Into<File>, buf: Vec<u8>, offset: i64) -> Self {
        Self::call(Op::Read(file.into(), buf, offset))
    }

    /// preadv(2) (`IORING_OP_READV`).
    pub fn readv(file: impl Into<File>, bufs: Vec<Vec<u8>>, offset: i64) -> Self {
        Self::call(Op::Readv(file.into(), bufs, offset))
    }

    /// Reads from a FIFO or another stream, up to `len` bytes at a time, with a completion for each
    /// read, until it fails, reads nothing or is cancelled (`IORING_OP_READ_MULTISHOT`).
    pub fn read_multishot(file: impl Into<File>, len: usize) -> Self {
        Self::new(Work::ReadMany(file.into(), len))
    }

    /// pwrite(2), or write(2) with offset -1; the result is how much was written
    /// (`IORING_OP_WRITE`).
    pub fn write(file: impl Into<File>, data: impl Into<Bytes>, offset: i64) -> Self {
        Self::call(Op::Write(file.into(), data.into(), offset))
    }

    /// pwritev(2) (`IORING_OP_WRITEV`).
    pub fn writev(file: impl Into<File>, data: Vec<Bytes>, offset: i64) -> Self {
        Self::call(Op::Writev(file.into(), data, offset))
    }

    /// fsync(2) (`IORING_OP_FSYNC`).
    pub fn fsync(file: impl Into<File>) -> Self {
        Self::call(Op::Sync(file.into(), false))
    }

    /// fdatasync(2) (`IORING_OP_FSYNC` with `IORING_FSYNC_DATASYNC`).
    pub fn fdatasync(file: impl Into<File>) -> Self {
        Self::call(Op::Sync(file.into(), true))
    }

    /// ftruncate(2) (`IORING_OP_FTRUNCATE`).
    pub fn ftruncate(file: impl Into<File>, len: i64) -> Self {
        Self::call(Op::Truncate(file.into(), len))
    }

    /// fallocate(2) (`IORING_OP_FALLOCATE`).
    pub fn fallocate(file: impl Into<File>, how: u32, offset: i64, len: i64) -> Self {
        Self::call(Op::Allocate(file.into(), how, offset, len))
    }

    /// getdents64(2); the result is the number of entries in the output. `io_uring` has none.
    pub fn getdents64(file: impl Into<File>, max_bytes: usize) -> Self {
        Self::call(Op::List(file.into(), max_bytes))
    }

    /// unlinkat(2) (`IORING_OP_UNLINKAT`).
    pub fn unlinkat(dir: Fd, path: impl Into<Bytes>, flags: AtFlags) -> Self {
        Self::call(Op::Unlink(PathArg::new(dir, path), flags))
    }

    /// renameat2(2) (`IORING_OP_RENAMEAT`).
    pub fn renameat2(
        dir: Fd,
        old: impl Into<Bytes>,
        new_dir: Fd,
        new: impl Into<Bytes>,
        flags: RenameFlags,
    ) -> Self {
        let (old, new) = (PathArg::new(dir, old), PathArg::new(new_dir, new));
        Self::call(Op::Rename(old, new, flags))
    }

    /// mkdirat(2) (`IORING_OP_MKDIRAT`).
    pub fn mkdirat(dir: Fd, path: impl Into<Bytes>, mode: impl Into<Mode>) -> Self {
        Self::call(Op::Mkdir(PathArg::new(dir, path), mode.into()))
    }

    /// symlinkat(2) (`IORING_OP_SYMLINKAT`).
    pub fn symlinkat(target: impl Into<Bytes>, dir: Fd, path: impl Into<Bytes>) -> Self {
        Self::call(Op::Symlink(target.into(), PathArg::new(dir, path)))
    }

    /// linkat(2) (`IORING_OP_LINKAT`).
    pub fn linkat(
        dir: Fd,
        old: impl Into<Bytes>,
        new_dir: Fd,
        new: impl Into<Bytes>,
        flags: AtFlags,
    ) -> Self {
        let (old, new) = (PathArg::new(dir, old), PathArg::new(new_dir, new));
        Self::call(Op::Link(old, new, flags))
    }

    fn lock(file: impl Into<File>, flock: LockRequest) -> Self {
        Self::new(Work::Lock(file.into(), flock))
    }

    /// fcntl(2) with `F_SETLK`: a lock of the task's descriptor table, or of the table of direct
    /// descriptors if the file is in a slot. `io_uring` has none.
    pub fn fcntl_setlk(file: impl Into<File>, flock: Flock) -> Self {
        Self::lock(file, LockRequest::Posix(flock))
    }

    /// fcntl(2) with `F_SETLKW`. It waits in the queue of the lock, and takes no worker. Cancelling
    /// it removes it from that queue; a lock that was granted at the same moment is kept, and the
    /// entry succeeds. `io_uring` has none.
    pub fn fcntl_setlkw(file: impl Into<File>, flock: Flock) -> Self {
        Self::lock(file, LockRequest::PosixWait(flock))
    }

    /// As [`Sqe::fcntl_setlk`], with `F_OFD_SETLK`: a lock of the open file.
    pub fn ofd_setlk(file: impl Into<File>, flock: Flock) -> Self {
        Self::lock(file, LockRequest::Ofd(flock))
    }

    /// As [`Sqe::fcntl_setlkw`], with `F_OFD_SETLKW`.
    pub fn ofd_setlkw(file: impl Into<File>, flock: Flock) -> Self {
        Self::lock(file, LockRequest::OfdWait(flock))
    }

    /// flock(2); without `LOCK_NB` it waits as [`Sqe::fcntl_setlkw`] does.
    pub fn flock(file: impl Into<File>, op: u32) -> Self {
        Self::lock(file, LockRequest::Flock(op))
    }

    fn timer(after: Duration) -> Timeout {
        Timeout {
            after,
            count: 0,
            times: 1,
            is_success: false,
        }
    }

    /// Fails with `ETIME` after that time (`IORING_OP_TIMEOUT`).
    pub fn timeout(after: Duration) -> Self {
        Self::new(Work::Timeout(Self::timer(after)))
    }

    /// As [`Sqe::timeout`], but succeeds as soon as so many later completions were posted.
    pub fn timeout_or(after: Duration, completions: u32) -> Self {
        let mut timeout = Self::timer(after);
        timeout.count = completions;
        Self::new(Work::Timeout(timeout))
    }

    /// Completes with `ETIME` so many times, or until it is removed if that is 0
    /// (`IORING_TIMEOUT_MULTISHOT`).
    pub fn timeout_multishot(every: Duration, times: u32) -> Self {
        let mut timeout = Self::timer(every);
        timeout.times = times;
        Self::new(Work::Timeout(timeout))
    }

    /// Expiry breaks no chain (`IORING_TIMEOUT_ETIME_SUCCESS`). No effect on other operations.
    pub fn etime_is_success(mut self) -> Self {
        if let Work::Timeout(timeout) = &mut self.work {
            timeout.is_success = true;
        }
        self
    }

    /// Follows an entry that is linked to it, and cancels that one if it is not done in time
    /// (`IORING_OP_LINK_TIMEOUT`): `ETIME` then, else `ECANCELED`.
    pub fn link_timeout(after: Duration) -> Self {
        Self::new(Work::LinkTimeout(after))
    }

    /// Ends a time-out early: `ENOENT` if there is none (`IORING_OP_TIMEOUT_REMOVE`).
    pub fn timeout_remove(user_data: u64) -> Self {
        Self::new(Work::TimeoutRemove(user_data))
    }

    /// Gives a time-out a new time, from now: `ENOENT` if there is none (`IORING_TIMEOUT_UPDATE`).
    pub fn timeout_update(user_data: u64, after: Duration) -> Self {
        Self::new(Work::TimeoutUpdate(user_data, after))
    }

    /// Cancels the first operation that matches (`IORING_OP_ASYNC_CANCEL`): `EBADF` if it names a
    /// file that is not open, `ENOENT` if there is none, `EALREADY` if a worker has begun it, which
    /// is then interrupted. With [`Cancel::Any`] it is [`Sqe::cancel_all`].
    pub fn cancel(which: Cancel) -> Self {
        Self::new(Work::Cancel(which, false))
    }

    /// Cancels all operations that match; the result is how many (`IORING_ASYNC_CANCEL_ALL`).
    pub fn cancel_all(which: Cancel) -> Self {
        Self::new(Work::Cancel(which, true))
    }

    /// Makes a descriptor of the task for the file in a slot; the result is the descriptor
    /// (`IORING_OP_FIXED_FD_INSTALL`).
    pub fn install(slot: u32, cloexec: bool) -> Self {
        Self::new(Work::Install(slot, cloexec))
    }

    /// Puts the file of a descriptor into a slot as well; the result is the slot's number, or 0 if
    /// the caller chose it (`IORING_OP_FILES_UPDATE` of one).
    pub fn files_update(fd: Fd, place: Destination) -> Self {
        Self::new(Work::FilesUpdate(fd, place))
    }
}

/// The submission queue is full; the entry comes back.
#[derive(Debug)]
pub struct Full(pub Sqe);

impl std::fmt::Display for Full {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the submission queue is full")
    }
}

impl std::error::Error for Full {}

impl From<Full> for Errno {
    fn from(_full: Full) -> Self {
        Self::EBUSY
    }
}
