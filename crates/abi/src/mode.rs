// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the type `Mode`, the file types and permission bits of inode(7), and functions that read
//! the type and the permissions from a mode.

use crate::dirent;

/// Permission bits that a call takes, and for mknod(2) the type: a number in octal becomes one.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Mode(u32);

impl Mode {
    /// The mode of a number, with its unknown bits.
    #[inline(always)]
    #[must_use]
    pub const fn from_bits_retain(bits: u32) -> Self {
        Self(bits)
    }

    /// The number, as the system call takes it.
    #[inline(always)]
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }
}

// The only conversion into `Mode`, so that a literal is inferred.
impl From<u32> for Mode {
    #[inline(always)]
    fn from(bits: u32) -> Self {
        Self(bits)
    }
}

impl core::fmt::Debug for Mode {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Mode({:#o})", self.0)
    }
}

/// The bits of the type.
pub const S_IFMT: u32 = 0o170000;
/// FIFO.
pub const S_IFIFO: u32 = 0o10000;
/// Character device.
pub const S_IFCHR: u32 = 0o20000;
/// Directory.
pub const S_IFDIR: u32 = 0o40000;
/// Block device.
pub const S_IFBLK: u32 = 0o60000;
/// Regular file.
pub const S_IFREG: u32 = 0o100000;
/// Symbolic link.
pub const S_IFLNK: u32 = 0o120000;
/// Socket.
pub const S_IFSOCK: u32 = 0o140000;
/// Set the user id on execution.
pub const S_ISUID: u32 = 0o4000;
/// Set the group id on execution; on a directory: inherit its group.
pub const S_ISGID: u32 = 0o2000;
/// Sticky: in such a directory only owners remove.
pub const S_ISVTX: u32 = 0o1000;
/// Owner: all.
pub const S_IRWXU: u32 = 0o700;
/// Owner: read.
pub const S_IRUSR: u32 = 0o400;
/// Owner: write.
pub const S_IWUSR: u32 = 0o200;
/// Owner: execute or search.
pub const S_IXUSR: u32 = 0o100;
/// Group: all.
pub const S_IRWXG: u32 = 0o70;
/// Group: read.
pub const S_IRGRP: u32 = 0o40;
/// Group: write.
pub const S_IWGRP: u32 = 0o20;
/// Group: execute or search.
pub const S_IXGRP: u32 = 0o10;
/// Others: all.
pub const S_IRWXO: u32 = 0o7;
/// Others: read.
pub const S_IROTH: u32 = 0o4;
/// Others: write.
pub const S_IWOTH: u32 = 0o2;
/// Others: execute or search.
pub const S_IXOTH: u32 = 0o1;
/// The permission bits of all three classes.
pub const S_IRWXUGO: u32 = 0o777;
/// Execute or search in any class.
pub const S_IXUGO: u32 = 0o111;
/// Every bit that chmod(2) can set.
pub const S_IALLUGO: u32 = 0o7777;

/// The type bits of a mode.
#[inline]
#[must_use]
pub const fn file_type(mode: u32) -> u32 {
    mode & S_IFMT
}

/// The bits of a mode that chmod(2) can set.
#[inline]
#[must_use]
pub const fn permissions(mode: u32) -> u32 {
    mode & S_IALLUGO
}

/// Is it a directory?
#[inline]
#[must_use]
pub const fn is_dir(mode: u32) -> bool {
    file_type(mode) == S_IFDIR
}

/// Is it a regular file?
#[inline]
#[must_use]
pub const fn is_reg(mode: u32) -> bool {
    file_type(mode) == S_IFREG
}

/// Is it a symbolic link?
#[inline]
#[must_use]
pub const fn is_lnk(mode: u32) -> bool {
    file_type(mode) == S_IFLNK
}

/// Is it a FIFO?
#[inline]
#[must_use]
pub const fn is_fifo(mode: u32) -> bool {
    file_type(mode) == S_IFIFO
}

/// Is it a socket?
#[inline]
#[must_use]
pub const fn is_sock(mode: u32) -> bool {
    file_type(mode) == S_IFSOCK
}

/// Is it a character device?
#[inline]
#[must_use]
pub const fn is_chr(mode: u32) -> bool {
    file_type(mode) == S_IFCHR
}

/// Is it a block device?
#[inline]
#[must_use]
pub const fn is_blk(mode: u32) -> bool {
    file_type(mode) == S_IFBLK
}

/// The type as getdents64(2) reports it; `DT_UNKNOWN` for a type that does not exist.
#[inline]
#[must_use]
pub const fn dirent_type(mode: u32) -> u8 {
    match file_type(mode) {
        S_IFIFO => dirent::DT_FIFO,
        S_IFCHR => dirent::DT_CHR,
        S_IFDIR => dirent::DT_DIR,
        S_IFBLK => dirent::DT_BLK,
        S_IFREG => dirent::DT_REG,
        S_IFLNK => dirent::DT_LNK,
        S_IFSOCK => dirent::DT_SOCK,
        _ => dirent::DT_UNKNOWN,
    }
}
