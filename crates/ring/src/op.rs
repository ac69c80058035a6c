// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines an operation of a ring or a future: a system call with its arguments, which it owns so
//! that a worker can make it, and its result.

use openpath_abi::fcntl::O_NONBLOCK;
use openpath_abi::{
    AtFlags, Errno, Mode, OFlags, OpenHow, RenameFlags, ResolveFlags, Stat, Statx, StatxMask,
};
use openpath_vfs::{Bytes, DirEntry, Fd, OpenFile, Task};
use std::any::Any;
use std::fmt;

/// The file of an operation: a descriptor, or a slot among the direct descriptors of the ring
/// (`IOSQE_FIXED_FILE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum File {
    /// A descriptor of the task.
    Fd(Fd),
    /// A slot of the ring.
    Slot(u32),
}

impl From<Fd> for File {
    fn from(fd: Fd) -> Self {
        Self::Fd(fd)
    }
}

/// The destination of a file that is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Destination {
    /// The lowest free descriptor of the task.
    #[default]
    Fd,
    /// This slot of the ring; the file there is closed.
    Slot(u32),
    /// The lowest free slot (`IORING_FILE_INDEX_ALLOC`).
    AnySlot,
}

/// A path, and the directory that it is relative to.
#[derive(Debug)]
pub(crate) struct PathArg {
    pub(crate) dir: Fd,
    pub(crate) path: Bytes,
}

impl PathArg {
    #[inline(always)]
    pub(crate) fn new(dir: Fd, path: impl Into<Bytes>) -> Self {
        let path = path.into();
        Self { dir, path }
    }
}

/// A call.
#[derive(Debug)]
pub(crate) enum Op {
    Open(PathArg, OpenCall, Destination),
    Stat(PathArg, AtFlags),
    Statx(PathArg, AtFlags, StatxMask),
    Close(File),
    Read(File, Vec<u8>, i64),
    Readv(File, Vec<Vec<u8>>, i64),
    Write(File, Bytes, i64),
    Writev(File, Vec<Bytes>, i64),
    /// Of the data alone if true, else of the attributes too.
    Sync(File, bool),
    Truncate(File, i64),
    Allocate(File, u32, i64, i64),
    List(File, usize),
    Unlink(PathArg, AtFlags),
    Rename(PathArg, PathArg, RenameFlags),
    Mkdir(PathArg, Mode),
    /// The target comes first.
    Symlink(Bytes, PathArg),
    Link(PathArg, PathArg, AtFlags),
    /// A function of the caller.
    Custom(Custom),
}

/// The result of a function of the caller.
pub(crate) type CustomResult = Result<Box<dyn Any + Send>, Errno>;

/// A function that a worker calls.
pub(crate) type CustomFn = Box<dyn FnOnce(&Task, [Fd; 2]) -> CustomResult + Send>;

/// A function of the caller, and its files.
#[derive(Default)]
pub(crate) struct Custom {
    /// The files that it uses.
    pub(crate) files: [Option<Fd>; 2],
    pub(crate) work: Option<CustomFn>,
}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// The arguments of either call that opens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OpenCall {
    /// openat(2): unknown flags are dropped.
    Openat(OFlags, Mode),
    /// openat2(2).
    Openat2(OpenHow),
}

impl OpenCall {
    pub(crate) fn flags(&self) -> u64 {
        match self {
            Self::Openat(flags, _) => u64::from(*flags),
            Self::Openat2(how) => how.flags,
        }
    }

    /// With `O_NONBLOCK` as well.
    pub(crate) fn nonblocking(&self) -> Self {
        match self {
            Self::Openat(flags, mode) => Self::Openat(*flags | O_NONBLOCK, *mode),
            Self::Openat2(how) => Self::Openat2(OpenHow {
                flags: how.flags | u64::from(O_NONBLOCK),
                ..*how
            }),
        }
    }

    pub(crate) fn resolve(&self) -> ResolveFlags {
        match self {
            Self::Openat(..) => ResolveFlags::empty(),
            Self::Openat2(how) => how.resolve,
        }
    }
}

impl Op {
    /// The number of the operation in `linux/io_uring.h`; listings and functions of the caller have
    /// none there.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Open(_, OpenCall::Openat(..), _) => 18,
            Self::Open(_, OpenCall::Openat2(_), _) => 28,
            Self::Stat(..) | Self::Statx(..) => 21,
            Self::Close(_) => 19,
            Self::Read(..) => 22,
            Self::Readv(..) => 1,
            Self::Write(..) => 23,
            Self::Writev(..) => 2,
            Self::Sync(..) => 3,
            Self::Truncate(..) => 55,
            Self::Allocate(..) => 17,
            Self::Unlink(..) => 36,
            Self::Rename(..) => 35,
            Self::Mkdir(..) => 37,
            Self::Symlink(..) => 38,
            Self::Link(..) => 39,
            Self::List(..) | Self::Custom(_) => 255,
        }
    }

    /// The file of the operation, unless it uses paths.
    pub(crate) fn file(&self) -> Option<File> {
        match self {
            Self::Close(file)
            | Self::Read(file, ..)
            | Self::Readv(file, ..)
            | Self::Write(file, ..)
            | Self::Writev(file, ..)
            | Self::Sync(file, _)
            | Self::Truncate(file, _)
            | Self::Allocate(file, ..)
            | Self::List(file, _) => Some(*file),
            _ => None,
        }
    }

    /// Whether its file must be open for writing (true) or reading, if that matters.
    pub(crate) fn writes(&self) -> Option<bool> {
        match self {
            Self::Read(..) | Self::Readv(..) => Some(false),
            Self::Write(..) | Self::Writev(..) => Some(true),
            _ => None,
        }
    }

    /// The directories that its paths are relative to.
    pub(crate) fn dirs(&self) -> [Option<Fd>; 2] {
        match self {
            Self::Open(at, ..)
            | Self::Stat(at, _)
            | Self::Statx(at, ..)
            | Self::Unlink(at, _)
            | Self::Mkdir(at, _)
            | Self::Symlink(_, at) => [Some(at.dir), None],
            Self::Rename(at, to, _) | Self::Link(at, to, _) => [Some(at.dir), Some(to.dir)],
            Self::Custom(custom) => custom.files,
            _ => [None, None],
        }
    }
}

/// What an operation returns besides its result.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Output {
    /// Nothing.
    #[default]
    None,
    /// The buffer of a read, cut to the bytes that were read; unchanged if the read failed.
    Buffer(Vec<u8>),
    /// The buffers of a read into several, each cut to the bytes that were read into it.
    Buffers(Vec<Vec<u8>>),
    /// Attributes, of a stat.
    Stat(Stat),
    /// Attributes, of a statx.
    Statx(Statx),
    /// Entries of a directory.
    Entries(Vec<DirEntry>),
}

/// The result of a call that succeeded.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) result: u64,
    pub(crate) output: Output,
    /// The file that it opened, not in any table yet, and whether it is closed on exec.
    pub(crate) opened: Option<(OpenFile, bool)>,
    /// The descriptor that this result is the first to report.
    pub(crate) installed: Option<Fd>,
    /// It did less than was asked for, which breaks a chain.
    pub(crate) short: bool,
    /// The result of a function of the caller.
    pub(crate) custom: Option<Box<dyn Any + Send>>,
}

/// Buffers that a failed operation gives back.
#[derive(Default)]
pub(crate) enum ReturnedBuffers {
    #[default]
    None,
    One(Vec<u8>),
    Many(Vec<Vec<u8>>),
}

impl From<ReturnedBuffers> for Output {
    fn from(buffers: ReturnedBuffers) -> Self {
        match buffers {
            ReturnedBuffers::None => Self::None,
            ReturnedBuffers::One(buf) => Self::Buffer(buf),
            ReturnedBuffers::Many(bufs) => Self::Buffers(bufs),
        }
    }
}

/// An error, and the buffers that come back.
pub(crate) struct Failed {
    pub(crate) errno: Errno,
    pub(crate) returned: ReturnedBuffers,
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Self {
            errno,
            returned: ReturnedBuffers::None,
        }
    }
}

/// The result of a call.
pub(crate) type Outcome = Result<Done, Failed>;

impl Done {
    pub(crate) fn of(result: u64) -> Self {
        Self {
            result,
            ..Self::default()
        }
    }

    /// The result of a call that installed a descriptor.
    pub(crate) fn installed(fd: Fd) -> Self {
        Self {
            installed: Some(fd),
            // A descriptor is not negative.
            ..Self::of(u64::from(fd.cast_unsigned()))
        }
    }

    pub(crate) fn with(output: Output) -> Self {
        Self {
            output,
            ..Self::default()
        }
    }
}
