// SPDX-License-Identifier: MIT OR Apache-2.0
//! One call, with everything it needs in its own memory, and what comes of it.

use crate::Bytes;
use openpath_abi::fcntl::O_NONBLOCK;
use openpath_abi::{Errno, OpenHow, Stat, Statx};
use openpath_vfs::{DirEntry, Fd, OpenFile, Task};
use std::any::Any;
use std::fmt;

/// A file that an operation is about: by its descriptor, or by its slot among the direct
/// descriptors of the ring (`IOSQE_FIXED_FILE`).
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

/// Where a file goes that is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Where {
    /// To the lowest free descriptor of the task.
    #[default]
    Fd,
    /// To this slot of the ring; what is there is closed.
    Slot(u32),
    /// To the lowest free slot (`IORING_FILE_INDEX_ALLOC`).
    AnySlot,
}

/// What a path is relative to, and the path.
#[derive(Debug)]
pub(crate) struct Place {
    pub(crate) dir: Fd,
    pub(crate) path: Bytes,
}

impl Place {
    #[inline(always)]
    pub(crate) fn new(dir: Fd, path: impl Into<Bytes>) -> Self {
        let path = path.into();
        Self { dir, path }
    }
}

/// A call.
#[derive(Debug)]
pub(crate) enum Op {
    Open(Place, How, Where),
    Stat(Place, u32),
    Statx(Place, u32, u32),
    Close(File),
    Read(File, Vec<u8>, i64),
    Readv(File, Vec<Vec<u8>>, i64),
    Write(File, Bytes, i64),
    Writev(File, Vec<Bytes>, i64),
    /// With data alone, or the attributes too.
    Sync(File, bool),
    Truncate(File, i64),
    Allocate(File, u32, i64, i64),
    List(File, usize),
    Unlink(Place, u32),
    Rename(Place, Place, u32),
    Mkdir(Place, u32),
    /// The target first.
    Symlink(Bytes, Place),
    Link(Place, Place, u32),
    /// Calls that the owner chose.
    Own(Own),
}

/// What calls that the owner chose give it.
pub(crate) type Came = Result<Box<dyn Any + Send>, Errno>;

/// They, as a worker makes them.
pub(crate) type Calls = Box<dyn FnOnce(&Task, [Fd; 2]) -> Came + Send>;

/// Calls that the owner chose.
#[derive(Default)]
pub(crate) struct Own {
    /// The files that they are about.
    pub(crate) files: [Option<Fd>; 2],
    pub(crate) work: Option<Calls>,
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Own")
            .field("files", &self.files)
            .finish_non_exhaustive()
    }
}

/// How to open, by either call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum How {
    /// openat(2): unknown flags are dropped.
    Flags(u32, u32),
    /// openat2(2).
    Strict(OpenHow),
}

impl How {
    pub(crate) fn flags(&self) -> u64 {
        match self {
            Self::Flags(flags, _) => u64::from(*flags),
            Self::Strict(how) => how.flags,
        }
    }

    /// The same with `O_NONBLOCK`.
    pub(crate) fn nonblocking(&self) -> Self {
        match self {
            Self::Flags(flags, mode) => Self::Flags(flags | O_NONBLOCK, *mode),
            Self::Strict(how) => Self::Strict(OpenHow {
                flags: how.flags | u64::from(O_NONBLOCK),
                ..*how
            }),
        }
    }

    pub(crate) fn resolve(&self) -> u64 {
        match self {
            Self::Flags(..) => 0,
            Self::Strict(how) => how.resolve,
        }
    }
}

impl Op {
    /// The number of the operation in `linux/io_uring.h`; a listing has none there, nor have calls
    /// of the owner's choosing.
    pub(crate) fn code(&self) -> u8 {
        match self {
            Self::Open(_, How::Flags(..), _) => 18,
            Self::Open(_, How::Strict(_), _) => 28,
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
            Self::List(..) | Self::Own(_) => 255,
        }
    }

    /// The file it is about, unless it goes by paths.
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

    /// What its file must be open for: to read or to write (true), if it matters.
    pub(crate) fn writes(&self) -> Option<bool> {
        match self {
            Self::Read(..) | Self::Readv(..) => Some(false),
            Self::Write(..) | Self::Writev(..) => Some(true),
            _ => None,
        }
    }

    /// What its paths are relative to.
    pub(crate) fn dirs(&self) -> [Option<Fd>; 2] {
        match self {
            Self::Open(at, ..)
            | Self::Stat(at, _)
            | Self::Statx(at, ..)
            | Self::Unlink(at, _)
            | Self::Mkdir(at, _)
            | Self::Symlink(_, at) => [Some(at.dir), None],
            Self::Rename(at, to, _) | Self::Link(at, to, _) => [Some(at.dir), Some(to.dir)],
            Self::Own(own) => own.files,
            _ => [None, None],
        }
    }
}

/// What an operation gives besides its result.
#[derive(Debug, Default)]
#[non_exhaustive]
pub enum Output {
    /// Nothing.
    #[default]
    None,
    /// The buffer of a read, as long as what was read; whole and as it was given if it failed.
    Buffer(Vec<u8>),
    /// The buffers of a read into several, each as long as what was read into it.
    Buffers(Vec<Vec<u8>>),
    /// Attributes, of a stat.
    Stat(Stat),
    /// Attributes, of a statx.
    Statx(Statx),
    /// Entries of a directory.
    Entries(Vec<DirEntry>),
}

/// What came of a call.
#[derive(Default)]
pub(crate) struct Done {
    pub(crate) result: u64,
    pub(crate) output: Output,
    /// What it opened, not in any table yet, and whether it is closed on exec.
    pub(crate) opened: Option<(OpenFile, bool)>,
    /// The descriptor that its result is the first to tell of.
    pub(crate) installed: Option<Fd>,
    /// Whether it did less than it was asked for, which breaks a chain.
    pub(crate) short: bool,
    /// What calls that the owner chose gave.
    pub(crate) own: Option<Box<dyn Any + Send>>,
}

/// Buffers that come back from an operation that failed.
#[derive(Default)]
pub(crate) enum Returned {
    #[default]
    None,
    One(Vec<u8>),
    Many(Vec<Vec<u8>>),
}

impl From<Returned> for Output {
    fn from(buffers: Returned) -> Self {
        match buffers {
            Returned::None => Self::None,
            Returned::One(buf) => Self::Buffer(buf),
            Returned::Many(bufs) => Self::Buffers(bufs),
        }
    }
}

/// A failure, and the buffers that come back.
pub(crate) struct Failed {
    pub(crate) errno: Errno,
    pub(crate) returned: Returned,
}

impl From<Errno> for Failed {
    fn from(errno: Errno) -> Self {
        Self {
            errno,
            returned: Returned::None,
        }
    }
}

/// What a call ends with.
pub(crate) type Outcome = Result<Done, Failed>;

impl Done {
    pub(crate) fn of(result: u64) -> Self {
        Self {
            result,
            ..Self::default()
        }
    }

    /// A descriptor that was installed for it.
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
