// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens files: open(2), openat(2), openat2(2), creat(2).
//!
//! # Kernel analogue
//! `do_sys_openat2`, `path_openat`, `open_last_lookups`, `do_open`, `do_dentry_open`.
//!
//! # Order of checks
//! arguments (`how`) -> path copied -> a descriptor is free (`EMFILE`) -> a file object is free
//! (`ENFILE`) -> walk (`walk`) -> last component (`last`) -> file type and permissions (`grant`) ->
//! backend -> truncation.

mod dry_run;
mod early;
mod grant;
mod how;
mod last;
mod reopen;
mod sticky;
mod tmpfile;
mod tried;

pub(crate) use dry_run::{dry_run, openat_op, openat2_op};
pub(crate) use how::OpenOp;

use crate::file::{Filp, PathStart};
use crate::file_ops::Fd;
use crate::task::{Core, Task};
use crate::tenant::count;
use crate::walk::{
    self, Mode, Walk, WalkError, WalkText,
    plain::{self, PlainResult},
};
use openpath_abi::fcntl::{
    AT_FDCWD, O_CLOEXEC, O_CREAT, O_PATH, O_TMPFILE_ONLY, O_TRUNC, O_WRONLY,
};
use openpath_abi::limits::PATH_MAX;
use openpath_abi::{Errno, OFlags, OpenHow};
use openpath_sync::Pin;

/// Checks a path as it comes from a caller (`getname`).
///
/// # Errors
/// `ENOENT` if it is empty and must not be, `ENAMETOOLONG` from 4096 bytes on.
#[inline(always)]
pub(crate) fn check_path(path: &[u8], may_be_empty: bool) -> Result<(), Errno> {
    if path.is_empty() && !may_be_empty {
        return Err(Errno::ENOENT);
    }
    if path.len() >= PATH_MAX {
        return Err(Errno::ENAMETOOLONG);
    }
    Ok(())
}

impl Task {
    /// Opens `path`, relative to the working directory. Linux: open(2).
    ///
    /// # Errors
    /// As [`Task::openat2`], but unknown flags and mode bits are dropped.
    #[doc(alias = "O_CREAT")]
    #[inline(always)]
    pub fn open(
        &self,
        path: &[u8],
        flags: OFlags,
        mode: impl Into<openpath_abi::Mode>,
    ) -> Result<Fd, Errno> {
        self.openat_with(AT_FDCWD, path, flags, mode.into().bits())
    }

    /// Opens `path`, relative to `dirfd`. Linux: openat(2).
    ///
    /// # Errors
    /// As [`Task::openat2`], but unknown flags and mode bits are dropped.
    #[inline(always)]
    pub fn openat(
        &self,
        dirfd: Fd,
        path: &[u8],
        flags: OFlags,
        mode: impl Into<openpath_abi::Mode>,
    ) -> Result<Fd, Errno> {
        self.openat_with(dirfd, path, flags, mode.into().bits())
    }

    /// [`Task::openat`] without its type parameter, so that there is one copy of the code.
    #[inline]
    fn openat_with(&self, dirfd: Fd, path: &[u8], flags: OFlags, mode: u32) -> Result<Fd, Errno> {
        if let Some(op) = how::plain(flags) {
            return do_open(&self.core, dirfd, path, &op);
        }
        self.openat_ruled(dirfd, path, flags, mode)
    }

    /// As [`Task::openat`] with flags that need their rules read.
    #[inline(never)]
    fn openat_ruled(&self, dirfd: Fd, path: &[u8], flags: OFlags, mode: u32) -> Result<Fd, Errno> {
        let profile = self.core.vfs.config.profile;
        let op = how::build(&how::lenient(flags, mode, profile), profile)?;
        do_open(&self.core, dirfd, path, &op)
    }

    /// Opens `path` for writing, made or truncated. Linux: creat(2).
    ///
    /// # Errors
    /// As [`Task::openat`].
    pub fn creat(&self, path: &[u8], mode: impl Into<openpath_abi::Mode>) -> Result<Fd, Errno> {
        self.open(path, O_CREAT | O_WRONLY | O_TRUNC, mode)
    }

    /// Opens `path`, relative to `dirfd`, as `how` says. Linux: openat2(2).
    ///
    /// # Errors
    /// In this order: `EINVAL` (flags, resolve bits, mode), `EAGAIN` (`RESOLVE_CACHED` with what
    /// cannot be cached), `ENOENT` (empty path), `ENAMETOOLONG`, `EMFILE`, `ENFILE`, then those of
    /// the walk, of the last component and of the file.
    #[doc(alias = "RESOLVE_BENEATH")]
    #[doc(alias = "RESOLVE_CACHED")]
    #[inline]
    pub fn openat2(&self, dirfd: Fd, path: &[u8], how: &OpenHow) -> Result<Fd, Errno> {
        self.openat2_by(dirfd, path, how, 0)
    }

    /// As [`Task::openat2`], with further walk flags in `lookup`.
    #[inline(always)]
    pub(crate) fn openat2_by(
        &self,
        dirfd: Fd,
        path: &[u8],
        how: &OpenHow,
        lookup: u32,
    ) -> Result<Fd, Errno> {
        let mut op = how::build(&how::strict(how), self.core.vfs.config.profile)?;
        op.lookup |= lookup;
        do_open(&self.core, dirfd, path, &op)
    }

    /// As [`Task::openat2`], with `open_how` as the bytes that a guest passed: it says that they
    /// are `size`, of which `readable` can be read.
    ///
    /// # Errors
    /// `EINVAL` (smaller than 24), `E2BIG` (larger than a page), `EFAULT`, `E2BIG` (unknown fields
    /// that are not zero), then as [`Task::openat2`].
    pub fn openat2_raw(
        &self,
        dirfd: Fd,
        path: &[u8],
        readable: &[u8],
        size: usize,
    ) -> Result<Fd, Errno> {
        self.openat2(dirfd, path, &how::from_bytes(readable, size)?)
    }
}

/// Whether path and limits allow an open at all: a descriptor must be available before anything is
/// looked at or made.
///
/// # Errors
/// `ENOENT` (empty path), `ENAMETOOLONG`, `EMFILE`, `ENFILE`.
#[inline(always)]
pub(crate) fn admit(core: &Core, path: &[u8], op: &OpenOp) -> Result<(), Errno> {
    check_path(path, op.lookup & walk::lflag::EMPTY != 0)?;
    if !core.fds().has_room(core.fd_end()) {
        return Err(Errno::EMFILE);
    }
    core.check_files_max()
}

/// Opens with checked arguments (`do_sys_openat2` from the path on).
#[inline(always)]
fn do_open(core: &Core, dirfd: Fd, path: &[u8], op: &OpenOp) -> Result<Fd, Errno> {
    admit(core, path, op)?;
    if !core.vfs.config.tuning.failed_open_frees_inline {
        return early::open(core, dirfd, path, op);
    }
    open_file(core, dirfd, path, op)
}

/// Opens a cached file at once, and others by a full walk.
#[inline(always)]
fn open_file(core: &Core, dirfd: Fd, path: &[u8], op: &OpenOp) -> Result<Fd, Errno> {
    let base = core.base(dirfd);
    if !op.flags.intersects(LASTING) {
        match plain::walk(core, base.at(), path, op.lookup) {
            PlainResult::Absent if !op.has(O_CREAT) => {
                core.count(count::NEGATIVE_HITS);
                return Err(Errno::ENOENT);
            }
            PlainResult::End(end) if !op.has(core.locked_look) => {
                if let Some(pin) = end.pin_opened(core)
                    && let Some(file) = grant::at_once(core, pin, end.dentry, op)
                {
                    core.count(count::HITS);
                    return core.add_fd(file?, op.has(O_CLOEXEC));
                }
            }
            _ => {}
        }
    }
    open_reserved(core, base.at(), path, op)
}

/// Flags of an open that a close does not undo, or that is no plain open.
const LASTING: OFlags = O_TRUNC.union(O_TMPFILE_ONLY).union(O_PATH);

/// Opens by a full walk, with the descriptor reserved: for files that are uncached, not plain, or
/// must be made.
#[inline(never)]
fn open_reserved(core: &Core, at: PathStart<'_>, path: &[u8], op: &OpenOp) -> Result<Fd, Errno> {
    let reserved = core.reserve_fd(op.has(O_CLOEXEC))?;
    let file = if op.has(O_PATH) {
        let (pin, _) = walk::lookup(core, at, path, op.lookup)?;
        grant::place(core, pin, op)
    } else if op.has(O_TMPFILE_ONLY) {
        tmpfile::open(core, at, path, op)?
    } else {
        walk::climb(core, op.lookup, |mode| open_once(core, at, path, op, mode))?
    };
    reserved.install(file)
}

/// One attempt at an open (`path_openat`).
fn open_once<'t>(
    core: &'t Core,
    at: PathStart<'_>,
    path: &[u8],
    op: &OpenOp,
    mode: Mode,
) -> Result<Filp<'t>, WalkError> {
    let (pin, ended) = reach(core, at, path, op, mode)?;
    Ok(grant::finish(core, pin, ended, op)?)
}

/// One walk to the file to be opened, which may be made on the way.
#[inline(always)]
fn reach(
    core: &Core,
    at: PathStart<'_>,
    path: &[u8],
    op: &OpenOp,
    mode: Mode,
) -> Result<(Pin, grant::WalkEnd), WalkError> {
    let mut walk = Walk::begin(core, at, path, op.lookup, mode)?;
    let mut text = WalkText::new(path);
    let created = enter(&mut walk, &mut text, op);
    text.done(core);
    let created = created?;
    let (pin, sample) = walk.complete().map_err(|fail| match fail {
        // A file made on the way is there now: a second walk would find it.
        WalkError::Moved if created => WalkError::Errno(Errno::EXDEV),
        fail => fail,
    })?;
    let ended = grant::WalkEnd {
        sample,
        walked: walk.flags,
        created,
    };
    Ok((pin, ended))
}

/// Goes to the file to be opened, through links in the last place; whether it was made on the way.
#[inline(always)]
fn enter(walk: &mut Walk<'_>, text: &mut WalkText<'_>, op: &OpenOp) -> Result<bool, WalkError> {
    if text.bytes().is_empty() {
        return Ok(false);
    }
    loop {
        let last = walk.walk_to_last(text)?;
        match last::open_last(walk, text, &last, op)? {
            last::LastLookup::Existing => return Ok(false),
            last::LastLookup::Created => return Ok(true),
            last::LastLookup::Link => walk.follow_last(text)?,
        }
    }
}
