// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the commands of fcntl(2) that pass no structure, and carries out those on
//! descriptors, file flags and seals. Commands on owners, pipes and leases go to other modules.
//!
//! # Kernel analogue
//! `do_fcntl`, `setfl`, `f_dupfd`, `memfd_fcntl`.

use crate::file::{Filp, signals};
use crate::file_ops::Fd;
use crate::inode::flag;
use crate::object::fbit;
use crate::task::{Core, Task};
use openpath_abi::fcntl::{
    F_ADD_SEALS, F_CREATED_QUERY, F_DUPFD, F_DUPFD_CLOEXEC, F_DUPFD_QUERY, F_GET_SEALS, F_GETFD,
    F_GETFL, F_GETOWN, F_GETPIPE_SZ, F_GETSIG, F_SEAL_EXEC, F_SEAL_FUTURE_WRITE, F_SEAL_GROW,
    F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_WRITE, F_SETFD, F_SETFL, F_SETOWN, F_SETPIPE_SZ, F_SETSIG,
    FD_CLOEXEC, O_APPEND, O_ASYNC, O_DIRECT, O_NOATIME, O_NONBLOCK,
};
use openpath_abi::lock::{F_GETLEASE, F_SETLEASE};
use openpath_abi::{Errno, OFlags, mode};

/// The flags that `F_SETFL` can change.
const CHANGEABLE: OFlags = OFlags::union_of(&[O_APPEND, O_NONBLOCK, O_DIRECT, O_NOATIME]);
/// All seals.
const SEALS: u32 =
    F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE | F_SEAL_EXEC;

impl Task {
    /// Runs the command `cmd` on `fd`; `arg` and result as registers hold them (`F_SETOWN` and
    /// `F_GETOWN` in the low 32 bits, signed). Commands that pass a structure are methods of their
    /// own. Linux: fcntl(2).
    ///
    /// # Errors
    /// `EBADF` (not open; `O_PATH` and a command about more than the descriptor), `EINVAL` (unknown
    /// command), then:
    /// * `F_DUPFD`: `EINVAL` (at or past the limit), `EMFILE`.
    /// * `F_SETFL`: `EPERM` (append-only; `O_NOATIME` by a task that is not the owner), `EINVAL`
    ///   (`O_DIRECT` where there is none).
    /// * `F_SETOWN`, `F_SETSIG`: `EINVAL`.
    /// * `F_ADD_SEALS`: `EPERM` (not open for writing), `EINVAL` (unknown seal, not sealable),
    ///   `EPERM` (sealed).
    /// * `F_GETPIPE_SZ`, `F_SETPIPE_SZ`: `EBADF` (no pipe), `EINVAL`, `EPERM`, `ENOMEM`, `EBUSY`
    ///   (more is in use).
    pub fn fcntl(&self, fd: Fd, cmd: u32, arg: u64) -> Result<u64, Errno> {
        let core = &self.core;
        let file = core.fdget(fd)?;
        let descriptor_only = matches!(
            cmd,
            F_DUPFD
                | F_DUPFD_CLOEXEC
                | F_DUPFD_QUERY
                | F_CREATED_QUERY
                | F_GETFD
                | F_SETFD
                | F_GETFL
        );
        if file.is_path() && !descriptor_only {
            return Err(Errno::EBADF);
        }
        match cmd {
            F_DUPFD => dup_from(core, file, arg, false),
            F_DUPFD_CLOEXEC => dup_from(core, file, arg, true),
            F_DUPFD_QUERY => is_same(core, &file, arg),
            F_CREATED_QUERY => Ok(u64::from(file.body().bits.peek() & fbit::CREATED != 0)),
            F_GETFD => Ok(u64::from(core.cloexec(fd)?) * u64::from(FD_CLOEXEC)),
            F_SETFD => {
                // Only the one flag.
                core.set_cloexec(fd, arg & u64::from(FD_CLOEXEC) != 0)
                    .map(|()| 0)
            }
            F_GETFL => Ok(u64::from(file.flags())),
            F_SETFL => file.setfl(OFlags::from_bits_retain(arg as u32)).map(|()| 0),
            F_GETOWN => Ok(u64::from(file.getown().cast_unsigned())),
            F_SETOWN => file.setown((arg as u32).cast_signed()).map(|()| 0),
            F_GETSIG => Ok(u64::from(file.getsig())),
            F_SETSIG => file.setsig(arg).map(|()| 0),
            // The kernel takes the argument as 32 bits.
            F_SETLEASE => file.setlease(fd, (arg as u32).cast_signed()).map(|()| 0),
            F_GETLEASE => file.getlease().map(u64::from),
            F_GET_SEALS => file.seals().map(u64::from),
            F_ADD_SEALS => file.add_seals(arg).map(|()| 0),
            F_GETPIPE_SZ => file.pipe_size(),
            // The kernel takes the argument as 32 bits.
            F_SETPIPE_SZ => file.set_pipe_size(arg as u32),
            _ => Err(Errno::EINVAL),
        }
    }
}

/// `F_DUPFD`: the lowest free descriptor from `start` on.
fn dup_from(core: &Core, file: Filp<'_>, start: u64, cloexec: bool) -> Result<u64, Errno> {
    let end = core.fd_end();
    // The kernel takes the argument as 32 bits.
    let start = start as u32;
    if start >= end {
        return Err(Errno::EINVAL);
    }
    let added = core.fds().add(file.into_ref(), start, end, cloexec);
    added.map(u64::from).map_err(|(errno, file)| {
        drop(Filp::hold(core, file));
        errno
    })
}

/// `F_DUPFD_QUERY`: whether the other descriptor has the same open file.
fn is_same(core: &Core, file: &Filp<'_>, other: u64) -> Result<u64, Errno> {
    let other = core.fdget((other as u32).cast_signed())?;
    Ok(u64::from(other.file().id() == file.file().id()))
}

impl Filp<'_> {
    /// `F_SETFL`: changes the flags that can change, and ignores the rest.
    ///
    /// # Errors
    /// `EPERM` (append-only; `O_NOATIME` by a task that is not the owner), `EINVAL` (`O_DIRECT`
    /// where there is none).
    fn setfl(&self, wanted: OFlags) -> Result<(), Errno> {
        let inode = self.inode()?;
        let body = self.body();
        let now = self.flags();
        if (wanted ^ now).contains(O_APPEND) && inode.flags() & flag::APPEND_ONLY != 0 {
            return Err(Errno::EPERM);
        }
        let stops_atime = wanted.contains(O_NOATIME) && !now.contains(O_NOATIME);
        if stops_atime && !self.core.cred().owner_or_capable(inode.ids().0) {
            return Err(Errno::EPERM);
        }
        let kind = inode.kind();
        if wanted.contains(O_DIRECT) && !matches!(kind, mode::S_IFREG | mode::S_IFIFO) {
            return Err(Errno::EINVAL);
        }
        let changeable = if signals(kind) {
            CHANGEABLE | O_ASYNC
        } else {
            CHANGEABLE
        };
        let (wanted, changeable) = (wanted.bits(), changeable.bits());
        loop {
            let now = body.flags.get();
            let new = wanted & changeable | now & !changeable;
            if body.flags.swap_if(now, new) {
                return Ok(());
            }
        }
    }

    fn seals(&self) -> Result<u32, Errno> {
        let inode = self.inode()?;
        inode.shielded(|ops| ops.seals(inode))
    }

    fn add_seals(&self, seals: u64) -> Result<(), Errno> {
        // The kernel refuses what does not fit into 32 bits.
        let seals = u32::try_from(seals).map_err(|_| Errno::EINVAL)?;
        let inode = self.inode()?;
        if !self.writable() {
            return Err(Errno::EPERM);
        }
        if seals & !SEALS != 0 {
            return Err(Errno::EINVAL);
        }
        inode.shielded(|ops| ops.seals(inode))?;
        let _held = inode.lock_names();
        inode.shielded(|ops| ops.add_seals(inode, seals))
    }
}
