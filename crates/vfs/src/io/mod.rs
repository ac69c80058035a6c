// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on an open file's data: methods of [`crate::Task`], one file for each
//! family.
//!
//! # Kernel analogue
//! `vfs_read`, `vfs_write`, `vfs_fallocate`, `vfs_copy_file_range`, `generic_file_llseek`.
//!
//! # Locks
//! A call that moves the file's position holds the position lock if the file is shared; inside it,
//! a change of data holds the inode's `InodeNames` lock. A read or a seek to the end reads the
//! length once. A seek for data or a hole holds that lock shared; a read holds no lock of the core.
//! A FIFO is read and written by its end of the pipe, a device by its driver.

mod async_io;
mod copy;
pub mod fileattr;
mod lend;
mod read;
mod ready;
mod seek;
mod space;
mod splice;
mod sync;
mod wait;
mod write;

pub use async_io::PreparedIo;
pub use wait::DataWait;

use crate::file::Filp;
use crate::file_ops::{FileOps, Io, RWF_COMMON};
use crate::target::Target;
use openpath_abi::falloc::{
    RWF_APPEND, RWF_ATOMIC, RWF_DONTCACHE, RWF_HIPRI, RWF_NOAPPEND, RWF_NOWAIT,
};
use openpath_abi::fcntl::O_NOATIME;
use openpath_abi::{Errno, mode};

/// The most that one call moves (`MAX_RW_COUNT`).
const ONCE_MAX: usize = 0x7fff_f000;
/// The most pieces of one call (`UIO_MAXIOV`).
const PIECES_MAX: usize = 1024;

/// An offset as the caller gave it, and the end of what it asks for (`rw_verify_area`).
///
/// # Errors
/// `EINVAL` if the end is past the largest offset.
fn verify_area(offset: i64, len: usize) -> Result<(), Errno> {
    let len = i64::try_from(len).map_err(|_| Errno::EINVAL)?;
    offset.checked_add(len).map(|_| ()).ok_or(Errno::EINVAL)
}

/// How much a backend or a driver moved, by its own account, of the `asked` bytes.
///
/// # Errors
/// `EIO`: more.
#[inline]
fn counted(done: usize, asked: usize) -> Result<usize, Errno> {
    if done <= asked {
        Ok(done)
    } else {
        Err(Errno::EIO)
    }
}

/// Whether a file has positions to read and write at (`FMODE_PREAD`).
fn has_positions(file: &Filp<'_>) -> Result<bool, Errno> {
    match file.inode()?.kind() {
        mode::S_IFREG | mode::S_IFDIR => Ok(true),
        // 0: an anonymous inode.
        0 | mode::S_IFIFO | mode::S_IFSOCK => Ok(false),
        _ => Ok(!file.own_ops().is_some_and(FileOps::is_stream)),
    }
}

/// Checks flags of preadv2(2) and pwritev2(2) (`kiocb_set_rw_flags`).
///
/// # Errors
/// `EOPNOTSUPP` (unknown, or not for this file), `EINVAL` (both ways to append).
fn check_flags(file: &Filp<'_>, flags: u32, writing: bool) -> Result<(), Errno> {
    if flags == 0 {
        return Ok(());
    }
    // Files that are read piece by piece know one flag (`do_loop_readv_writev`).
    let by_pieces = matches!(file.inode()?.kind(), 0 | mode::S_IFDIR);
    let taken = match file.own_ops() {
        _ if by_pieces => RWF_HIPRI,
        Some(own) => own.rw_flags(writing),
        None => RWF_COMMON,
    };
    if taken == RWF_HIPRI && flags & !RWF_HIPRI != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    const REFUSED: u32 = RWF_NOWAIT | RWF_ATOMIC | RWF_DONTCACHE;
    if flags & !(RWF_COMMON | REFUSED) != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    if flags & RWF_APPEND != 0 && flags & RWF_NOAPPEND != 0 {
        return Err(Errno::EINVAL);
    }
    if flags & REFUSED & !taken != 0 {
        return Err(Errno::EOPNOTSUPP);
    }
    Ok(())
}

/// The position of a read or write.
#[derive(Clone, Copy)]
enum Position {
    /// The file's position; moved by the call.
    Current,
    /// This offset; the file's position stays.
    At(i64),
}

impl Position {
    /// The position that an offset of preadv2(2) and its kin means.
    ///
    /// # Errors
    /// `EINVAL`: negative.
    fn of(offset: i64) -> Result<Self, Errno> {
        if offset < 0 {
            return Err(Errno::EINVAL);
        }
        Ok(Self::At(offset))
    }
}

impl Filp<'_> {
    /// The arguments of a call with these `RWF_*` flags at `offset`, if the opening takes it over.
    fn io(&self, offset: i64, flags: u32) -> Io<'_> {
        Io {
            offset: offset.cast_unsigned(),
            flags: self.flags(),
            wait: self.waiter().filter(|_| flags & RWF_NOWAIT == 0),
        }
    }

    /// Whether reading and writing move its position.
    fn moves(&self) -> Result<bool, Errno> {
        let regular = self.inode()?.kind() == mode::S_IFREG;
        Ok(regular || self.own_ops().is_some_and(FileOps::moves))
    }

    /// As [`Filp::accessed`], after a read that asked for `len` bytes.
    pub(crate) fn accessed_by_read(&self, target: &Target<'_>, len: usize) {
        if len > 0 || target.inode.flags() & crate::flag::EMPTY_READ_NO_ACCESS == 0 {
            self.accessed(target);
        }
    }

    /// Moves the access time after reading through this file (`file_accessed`).
    pub(crate) fn accessed(&self, target: &Target<'_>) {
        if !self.flags().contains(O_NOATIME) {
            target.touch_atime();
        }
    }
}
