// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the rights, flags and records of preview1 in their layout in a guest's memory, and
//! converts attributes and times of the engine to them.

use openpath_abi::{Stat, Timespec, dirent, mode};

/// The rights of a descriptor (`rights`).
pub mod rights {
    /// `fd_datasync`.
    pub const FD_DATASYNC: u64 = 1;
    /// `fd_read`, `fd_pread`.
    pub const FD_READ: u64 = 1 << 1;
    /// `fd_seek`.
    pub const FD_SEEK: u64 = 1 << 2;
    /// `fd_fdstat_set_flags`.
    pub const FD_FDSTAT_SET_FLAGS: u64 = 1 << 3;
    /// `fd_sync`.
    pub const FD_SYNC: u64 = 1 << 4;
    /// `fd_tell`, and an `fd_seek` that does not move.
    pub const FD_TELL: u64 = 1 << 5;
    /// `fd_write`, `fd_pwrite`.
    pub const FD_WRITE: u64 = 1 << 6;
    /// `fd_advise`.
    pub const FD_ADVISE: u64 = 1 << 7;
    /// `fd_allocate`.
    pub const FD_ALLOCATE: u64 = 1 << 8;
    /// `path_create_directory`.
    pub const PATH_CREATE_DIRECTORY: u64 = 1 << 9;
    /// `path_open` with `creat`.
    pub const PATH_CREATE_FILE: u64 = 1 << 10;
    /// `path_link` from here.
    pub const PATH_LINK_SOURCE: u64 = 1 << 11;
    /// `path_link` to here.
    pub const PATH_LINK_TARGET: u64 = 1 << 12;
    /// `path_open`.
    pub const PATH_OPEN: u64 = 1 << 13;
    /// `fd_readdir`.
    pub const FD_READDIR: u64 = 1 << 14;
    /// `path_readlink`.
    pub const PATH_READLINK: u64 = 1 << 15;
    /// `path_rename` from here.
    pub const PATH_RENAME_SOURCE: u64 = 1 << 16;
    /// `path_rename` to here.
    pub const PATH_RENAME_TARGET: u64 = 1 << 17;
    /// `path_filestat_get`.
    pub const PATH_FILESTAT_GET: u64 = 1 << 18;
    /// `path_open` with `trunc`.
    pub const PATH_FILESTAT_SET_SIZE: u64 = 1 << 19;
    /// `path_filestat_set_times`.
    pub const PATH_FILESTAT_SET_TIMES: u64 = 1 << 20;
    /// `fd_filestat_get`.
    pub const FD_FILESTAT_GET: u64 = 1 << 21;
    /// `fd_filestat_set_size`.
    pub const FD_FILESTAT_SET_SIZE: u64 = 1 << 22;
    /// `fd_filestat_set_times`.
    pub const FD_FILESTAT_SET_TIMES: u64 = 1 << 23;
    /// `path_symlink`.
    pub const PATH_SYMLINK: u64 = 1 << 24;
    /// `path_remove_directory`.
    pub const PATH_REMOVE_DIRECTORY: u64 = 1 << 25;
    /// `path_unlink_file`.
    pub const PATH_UNLINK_FILE: u64 = 1 << 26;
    /// `poll_oneoff` on it.
    pub const POLL_FD_READWRITE: u64 = 1 << 27;
    /// `sock_shutdown`.
    pub const SOCK_SHUTDOWN: u64 = 1 << 28;
    /// `sock_accept`.
    pub const SOCK_ACCEPT: u64 = 1 << 29;
    /// Every right; any other bit is refused.
    pub const ALL: u64 = (1 << 30) - 1;
    /// The rights that apply to a directory.
    pub const DIRECTORY: u64 = FD_SYNC
        | FD_DATASYNC
        | FD_FDSTAT_SET_FLAGS
        | PATH_CREATE_DIRECTORY
        | PATH_CREATE_FILE
        | PATH_LINK_SOURCE
        | PATH_LINK_TARGET
        | PATH_OPEN
        | FD_READDIR
        | PATH_READLINK
        | PATH_RENAME_SOURCE
        | PATH_RENAME_TARGET
        | PATH_FILESTAT_GET
        | PATH_FILESTAT_SET_SIZE
        | PATH_FILESTAT_SET_TIMES
        | FD_FILESTAT_GET
        | FD_FILESTAT_SET_TIMES
        | PATH_SYMLINK
        | PATH_REMOVE_DIRECTORY
        | PATH_UNLINK_FILE
        | POLL_FD_READWRITE;
    /// The rights that apply to a file that is not a directory.
    pub const FILE: u64 = FD_DATASYNC
        | FD_READ
        | FD_SEEK
        | FD_FDSTAT_SET_FLAGS
        | FD_SYNC
        | FD_TELL
        | FD_WRITE
        | FD_ADVISE
        | FD_ALLOCATE
        | FD_FILESTAT_GET
        | FD_FILESTAT_SET_SIZE
        | FD_FILESTAT_SET_TIMES
        | POLL_FD_READWRITE;
}

/// How a descriptor behaves (`fdflags`).
pub mod fdflags {
    /// Every write appends.
    pub const APPEND: u16 = 1;
    /// A write returns after its data is on the medium.
    pub const DSYNC: u16 = 1 << 1;
    /// Calls do not wait.
    pub const NONBLOCK: u16 = 1 << 2;
    /// Like `DSYNC` and `SYNC`, for reads.
    pub const RSYNC: u16 = 1 << 3;
    /// A write returns after its data and metadata are on the medium.
    pub const SYNC: u16 = 1 << 4;
    /// Every flag.
    pub const ALL: u16 = (1 << 5) - 1;
}

/// Further actions of `path_open` (`oflags`).
pub mod oflags {
    /// Create the file if it is missing.
    pub const CREAT: u16 = 1;
    /// Fail unless it is a directory.
    pub const DIRECTORY: u16 = 1 << 1;
    /// With `CREAT`: fail if the file exists.
    pub const EXCL: u16 = 1 << 2;
    /// Truncate the file.
    pub const TRUNC: u16 = 1 << 3;
    /// Every flag.
    pub const ALL: u16 = (1 << 4) - 1;
}

/// Which timestamps are set, and to what (`fstflags`).
pub mod fstflags {
    /// Set the access time to the given time.
    pub const ATIM: u16 = 1;
    /// Set the access time to now.
    pub const ATIM_NOW: u16 = 1 << 1;
    /// Set the modification time to the given time.
    pub const MTIM: u16 = 1 << 2;
    /// Set the modification time to now.
    pub const MTIM_NOW: u16 = 1 << 3;
    /// Every flag.
    pub const ALL: u16 = (1 << 4) - 1;
}

/// How a path is looked up (`lookupflags`).
pub mod lookupflags {
    /// Follow a link at the end of the path.
    pub const SYMLINK_FOLLOW: u32 = 1;
    /// Every flag.
    pub const ALL: u32 = 1;
}

/// The type of a file (`filetype`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
pub enum Filetype {
    /// Any other type, such as a FIFO, which preview1 does not name.
    Unknown = 0,
    /// A block device.
    BlockDevice = 1,
    /// A character device.
    CharacterDevice = 2,
    /// A directory.
    Directory = 3,
    /// A regular file.
    RegularFile = 4,
    /// A datagram socket.
    SocketDgram = 5,
    /// A stream socket.
    SocketStream = 6,
    /// A symbolic link.
    SymbolicLink = 7,
}

impl Filetype {
    /// From the type bits of a mode.
    #[must_use]
    pub fn of_mode(bits: u32) -> Self {
        match bits & mode::S_IFMT {
            mode::S_IFBLK => Self::BlockDevice,
            mode::S_IFCHR => Self::CharacterDevice,
            mode::S_IFDIR => Self::Directory,
            mode::S_IFREG => Self::RegularFile,
            mode::S_IFSOCK => Self::SocketStream,
            mode::S_IFLNK => Self::SymbolicLink,
            _ => Self::Unknown,
        }
    }

    /// From the type of a directory entry (`DT_*`).
    #[must_use]
    pub fn of_entry(kind: u8) -> Self {
        match kind {
            dirent::DT_BLK => Self::BlockDevice,
            dirent::DT_CHR => Self::CharacterDevice,
            dirent::DT_DIR => Self::Directory,
            dirent::DT_REG => Self::RegularFile,
            dirent::DT_SOCK => Self::SocketStream,
            dirent::DT_LNK => Self::SymbolicLink,
            _ => Self::Unknown,
        }
    }
}

/// The attributes of a file (`filestat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Filestat {
    /// Device of its file system.
    pub dev: u64,
    /// Inode number.
    pub ino: u64,
    /// The type.
    pub filetype: Filetype,
    /// Number of links.
    pub nlink: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last access, in nanoseconds.
    pub atim: u64,
    /// Last change of the data, in nanoseconds.
    pub mtim: u64,
    /// Last change of the inode, in nanoseconds.
    pub ctim: u64,
}

impl Filestat {
    /// Bytes of the record.
    pub const SIZE: usize = 64;

    /// A stream without attributes.
    #[must_use]
    pub const fn stream(filetype: Filetype) -> Self {
        Self {
            dev: 0,
            ino: 0,
            filetype,
            nlink: 0,
            size: 0,
            atim: 0,
            mtim: 0,
            ctim: 0,
        }
    }

    /// The record.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::SIZE] {
        let mut to = [0; Self::SIZE];
        let words = [
            (0, self.dev),
            (8, self.ino),
            (24, self.nlink),
            (32, self.size),
            (40, self.atim),
            (48, self.mtim),
            (56, self.ctim),
        ];
        for (at, word) in words {
            to[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        to[16] = self.filetype as u8;
        to
    }
}

impl From<&Stat> for Filestat {
    fn from(stat: &Stat) -> Self {
        Self {
            dev: stat.dev,
            ino: stat.ino,
            filetype: Filetype::of_mode(stat.mode),
            nlink: stat.nlink,
            size: stat.size.cast_unsigned(),
            atim: nanoseconds(stat.atime),
            mtim: nanoseconds(stat.mtime),
            ctim: nanoseconds(stat.ctime),
        }
    }
}

/// A time in nanoseconds. Times before the epoch become the epoch, and times after 2554 the last
/// one that fits.
#[must_use]
pub fn nanoseconds(time: Timespec) -> u64 {
    let sec = u64::try_from(time.sec).unwrap_or(0);
    let nsec = if time.sec < 0 {
        0
    } else {
        u64::from(time.nsec)
    };
    sec.saturating_mul(1_000_000_000).saturating_add(nsec)
}

/// A time from nanoseconds.
#[must_use]
pub fn timespec(nanoseconds: u64) -> Timespec {
    Timespec {
        sec: (nanoseconds / 1_000_000_000).cast_signed(),
        nsec: (nanoseconds % 1_000_000_000) as u32,
    }
}

/// The state of a descriptor (`fdstat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fdstat {
    /// The type of its file.
    pub filetype: Filetype,
    /// The flags ([`fdflags`]).
    pub flags: u16,
    /// The rights ([`rights`]).
    pub base: u64,
    /// The rights that descriptors opened from it can get.
    pub inheriting: u64,
}

impl Fdstat {
    /// Bytes of the record.
    pub const SIZE: usize = 24;

    /// The record.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::SIZE] {
        let mut to = [0; Self::SIZE];
        to[0] = self.filetype as u8;
        to[2..4].copy_from_slice(&self.flags.to_le_bytes());
        to[8..16].copy_from_slice(&self.base.to_le_bytes());
        to[16..24].copy_from_slice(&self.inheriting.to_le_bytes());
        to
    }
}
