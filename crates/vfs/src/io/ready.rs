// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements poll(2) and ioctl(2): the core answers some requests itself, and passes the others to
//! the device or file system.
//!
//! # Kernel analogue
//! `vfs_poll`, `do_vfs_ioctl`.

use super::fileattr::{FS_IOC_FSGETXATTR, FS_IOC_FSSETXATTR, FS_IOC_GETFLAGS, FS_IOC_SETFLAGS};
use crate::file::{Filp, signals};
use crate::file_ops::Fd;
use crate::inode::shield;
use crate::task::Task;
use openpath_abi::fcntl::{O_ASYNC, O_NONBLOCK};
use openpath_abi::poll::{POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDNORM, POLLWRNORM};
use openpath_abi::{Errno, OFlags, mode};

/// Close the descriptor on exec (`FIOCLEX`).
const FIOCLEX: u32 = 0x5451;
/// Do not (`FIONCLEX`).
const FIONCLEX: u32 = 0x5450;
/// Set `O_NONBLOCK` (`FIONBIO`).
const FIONBIO: u32 = 0x5421;
/// Set `O_ASYNC` (`FIOASYNC`).
const FIOASYNC: u32 = 0x5452;
/// How much there is to read (`FIONREAD`).
const FIONREAD: u32 = 0x541b;
/// How much space the file has (`FIOQSIZE`).
const FIOQSIZE: u32 = 0x5460;
/// The block size of the file system (`FIGETBSZ`).
const FIGETBSZ: u32 = 2;

/// What a file without readiness of its own always is (`DEFAULT_POLLMASK`).
const ALWAYS: u32 = POLLIN | POLLOUT | POLLRDNORM | POLLWRNORM;

impl Task {
    /// Which of `events` (`POLL*`), or of those reported always, there are for `fd` now. It does
    /// not wait. Linux: poll(2) of one descriptor, without time.
    #[must_use]
    pub fn poll(&self, fd: Fd, events: u32) -> u32 {
        // A negative number is passed over.
        if fd < 0 {
            return 0;
        }
        let Ok(file) = self.core.fdget_full(fd) else {
            return POLLNVAL;
        };
        let ready = file
            .own_ops()
            .and_then(|own| shield(|| Ok(own.poll())).unwrap_or(Some(POLLERR)));
        ready.unwrap_or(ALWAYS) & (events | POLLERR | POLLHUP)
    }

    /// A request to the file at `fd`, its device or its file system; what it leaves in `arg` goes
    /// back to the caller. Linux: ioctl(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EFAULT` (`arg` too short), `ENOTTY` (not known here); of
    /// flags of a file ([`crate::fileattr`]) `EROFS`, `EPERM`, `EOPNOTSUPP`; what the backend
    /// meets.
    pub fn ioctl(&self, fd: Fd, request: u32, arg: &mut [u8]) -> Result<i64, Errno> {
        let file = self.core.fdget_full(fd)?;
        match request {
            FIOCLEX => self.core.set_cloexec(fd, true).map(|()| 0),
            FIONCLEX => self.core.set_cloexec(fd, false).map(|()| 0),
            FIONBIO => file.set_flag(O_NONBLOCK, read_int(arg)? != 0),
            FIOASYNC => file.set_async(read_int(arg)? != 0),
            FIOQSIZE => file.space(arg),
            FIGETBSZ => {
                let size = file.target()?.statfs()?.bsize;
                // As in Linux, what does not fit is cut.
                write_int(arg, size as i32)
            }
            FS_IOC_SETFLAGS | FS_IOC_FSSETXATTR => file.set_inode_flags(request, arg),
            _ => file.ioctl(request, arg),
        }
    }
}

/// The number that a program passed by address.
fn read_int(arg: &[u8]) -> Result<i32, Errno> {
    let bytes = arg.first_chunk().ok_or(Errno::EFAULT)?;
    Ok(i32::from_ne_bytes(*bytes))
}

/// Leaves a number where a program wants it.
fn write_int(arg: &mut [u8], value: i32) -> Result<i64, Errno> {
    *arg.first_chunk_mut().ok_or(Errno::EFAULT)? = value.to_ne_bytes();
    Ok(0)
}

impl Filp<'_> {
    /// Of what cannot signal, only a flag that is so already can be asked for.
    fn set_async(&self, on: bool) -> Result<i64, Errno> {
        if on == self.flags().contains(O_ASYNC) {
            return Ok(0);
        }
        if !signals(self.inode()?.kind()) {
            return Err(Errno::ENOTTY);
        }
        self.set_flag(O_ASYNC, on)
    }

    /// `FIOQSIZE`: of what has data.
    fn space(&self, arg: &mut [u8]) -> Result<i64, Errno> {
        let inode = self.inode()?;
        if !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR) {
            return Err(Errno::ENOTTY);
        }
        let bytes = (inode.attr().blocks << 9).to_ne_bytes();
        *arg.first_chunk_mut().ok_or(Errno::EFAULT)? = bytes;
        Ok(0)
    }

    fn set_flag(&self, flag: OFlags, on: bool) -> Result<i64, Errno> {
        let flags = &self.body().flags;
        if on {
            flags.set_bits(flag.bits());
        } else {
            flags.clear_bits(flag.bits());
        }
        Ok(0)
    }

    fn ioctl(&self, request: u32, arg: &mut [u8]) -> Result<i64, Errno> {
        if let Some(own) = self.own_ops() {
            let asked = || own.ioctl(request, arg).transpose();
            if let Some(answer) = shield(asked)? {
                return Ok(answer);
            }
        }
        let inode = self.inode()?;
        if request == FIONREAD && inode.kind() == mode::S_IFREG {
            self.target()?.confirm()?;
            let left = inode.size().cast_signed().wrapping_sub(self.pos());
            // As in Linux, what does not fit is cut.
            return write_int(arg, left as i32);
        }
        if matches!(request, FS_IOC_GETFLAGS | FS_IOC_FSGETXATTR) {
            self.target()?.confirm()?;
        }
        inode.shielded(|ops| ops.ioctl(inode, request, arg))
    }
}
