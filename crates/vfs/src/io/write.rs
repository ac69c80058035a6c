// SPDX-License-Identifier: MIT OR Apache-2.0
//! Writes files: write(2), pwrite(2), writev(2), pwritev(2), pwritev2(2).
//!
//! # Kernel analogue
//! `vfs_write`, `vfs_writev`, `generic_write_checks`, `generic_write_sync`.
//!
//! # Rules
//! R1. All pieces of one call are written while the inode's lock is held: with `O_APPEND` they lie
//!     together at the end.

use super::{ONCE_MAX, PIECES_MAX, Position, check_flags, counted, has_positions, verify_area};
use crate::file::Filp;
use crate::file_ops::{Fd, Io};
use crate::inode::{SetAttr, flag, shield};
use crate::pipe::PipeEnd;
use crate::target::Target;
use crate::task::Task;
use openpath_abi::falloc::{RWF_APPEND, RWF_DSYNC, RWF_NOAPPEND, RWF_SYNC};
use openpath_abi::fcntl::{O_DSYNC, O_SYNC_ONLY};
use openpath_abi::limits::MAX_LFS_FILESIZE;
use openpath_abi::{Errno, mode};
use std::io::IoSlice;

impl Task {
    /// Writes at the position of the file at `fd`, or at its end with `O_APPEND`, and moves it.
    /// Linux: write(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`, not open for writing), `EINVAL` (the end overflows), `EFBIG`,
    /// `EPIPE`, `EAGAIN`, `EINTR` (a FIFO), what the backend or the device meets.
    pub fn write(&self, fd: Fd, data: &[u8]) -> Result<usize, Errno> {
        let file = self.core.fdget_full(fd)?;
        let done = file.write(data, Position::Current)?;
        file.tell_written(done);
        Ok(done)
    }

    /// Writes at `offset`, whatever the file's position; with `O_APPEND` at the end, as Linux does.
    /// Linux: pwrite(2).
    ///
    /// # Errors
    /// `EINVAL` (negative), `EBADF` (not open, `O_PATH`), `ESPIPE` (a FIFO), then as
    /// [`Task::write`].
    pub fn pwrite(&self, fd: Fd, data: &[u8], offset: i64) -> Result<usize, Errno> {
        let position = Position::of(offset)?;
        let file = self.core.fdget_full(fd)?;
        if !has_positions(&file)? {
            return Err(Errno::ESPIPE);
        }
        let done = file.write(data, position)?;
        file.tell_written(done);
        Ok(done)
    }

    /// As [`Task::write`], from several buffers one after the other. Linux: writev(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (more than 1024 buffers, or too long together), then
    /// as [`Task::write`].
    pub fn writev(&self, fd: Fd, data: &[IoSlice<'_>]) -> Result<usize, Errno> {
        self.pwritev2(fd, data, -1, 0)
    }

    /// As [`Task::pwrite`], from several buffers one after the other. Linux: pwritev(2).
    ///
    /// # Errors
    /// As [`Task::pwrite`] and [`Task::writev`].
    pub fn pwritev(&self, fd: Fd, data: &[IoSlice<'_>], offset: i64) -> Result<usize, Errno> {
        Position::of(offset)?;
        self.pwritev2(fd, data, offset, 0)
    }

    /// As [`Task::pwritev`] with `RWF_*` flags; with offset -1 as [`Task::writev`]. Linux:
    /// pwritev2(2).
    ///
    /// # Errors
    /// As [`Task::pwritev`] or [`Task::writev`]; `EOPNOTSUPP`, `EINVAL` and `EPERM`
    /// (`RWF_NOAPPEND` for an append-only file) for flags where the data is reached.
    pub fn pwritev2(
        &self,
        fd: Fd,
        data: &[IoSlice<'_>],
        offset: i64,
        flags: u32,
    ) -> Result<usize, Errno> {
        let position = if offset == -1 {
            Position::Current
        } else {
            Position::of(offset)?
        };
        let file = self.core.fdget_full(fd)?;
        if matches!(position, Position::At(_)) && !has_positions(&file)? {
            return Err(Errno::ESPIPE);
        }
        let done = file.write_pieces(data, position, flags)?;
        file.tell_written(done);
        Ok(done)
    }
}

impl Filp<'_> {
    fn write(&self, data: &[u8], position: Position) -> Result<usize, Errno> {
        // A device is asked even if there is nothing to write.
        if data.is_empty()
            && self.writable()
            && let Some(own) = self.own_ops()
        {
            let io = self.io(0, 0);
            if let Some(done) = shield(|| own.write(data, &io).transpose())? {
                return counted(done, 0);
            }
        }
        self.write_pieces(&[IoSlice::new(data)], position, 0)
    }

    pub(super) fn write_pieces(
        &self,
        data: &[IoSlice<'_>],
        position: Position,
        flags: u32,
    ) -> Result<usize, Errno> {
        if data.len() > PIECES_MAX {
            return Err(Errno::EINVAL);
        }
        let total = data
            .iter()
            .try_fold(0usize, |sum, d| sum.checked_add(d.len()));
        let total = total.ok_or(Errno::EINVAL)?;
        if !self.writable() {
            return Err(Errno::EBADF);
        }
        if total == 0 {
            return Ok(0);
        }
        let _held = match position {
            Position::Current => self.hold_pos(),
            Position::At(_) => None,
        };
        let offset = match position {
            Position::Current => self.pos(),
            Position::At(offset) => offset,
        };
        verify_area(offset, total.min(ONCE_MAX))?;
        check_flags(self, flags, true)?;
        let (done, end) = self.write_at(data, offset, flags)?;
        if matches!(position, Position::Current) {
            self.set_pos(end);
        }
        // A sync has no effect on pipes and devices.
        let regular = self.inode()?.kind() == mode::S_IFREG;
        let syncs = self.flags().contains(O_DSYNC) || flags & (RWF_DSYNC | RWF_SYNC) != 0;
        if syncs && done > 0 && regular {
            let whole = self.flags().contains(O_SYNC_ONLY) || flags & RWF_SYNC != 0;
            self.sync(!whole)?;
        }
        Ok(done)
    }

    /// Writes; how much, and the offset after it. Access and area were checked.
    pub(super) fn write_at(
        &self,
        data: &[IoSlice<'_>],
        offset: i64,
        flags: u32,
    ) -> Result<(usize, i64), Errno> {
        if self.own_ops().is_some()
            && let Some(done) = self.write_own(data, &self.io(offset, flags))?
        {
            let moved = if self.moves()? { done as u64 } else { 0 };
            return Ok((done, offset.saturating_add_unsigned(moved)));
        }
        let target = self.target()?;
        let inode = target.inode;
        if inode.kind() != mode::S_IFREG {
            return Err(Errno::EINVAL);
        }
        let _held = inode.lock_names();
        let at_end = self.at_end(&target, flags)?;
        let from = (!at_end).then_some(offset.cast_unsigned());
        let (done, end) = write_locked(&target, data, from)?;
        Ok((done, end.cast_signed()))
    }

    /// Whether this call writes at the end.
    ///
    /// # Errors
    /// `EPERM`: it would not, and the file is append-only.
    pub(super) fn at_end(&self, target: &Target<'_>, flags: u32) -> Result<bool, Errno> {
        if flags & RWF_NOAPPEND != 0 {
            if self.appends() && target.inode.flags() & flag::APPEND_ONLY != 0 {
                return Err(Errno::EPERM);
            }
            return Ok(false);
        }
        Ok(self.appends() || flags & RWF_APPEND != 0)
    }

    /// Lets the opening write, if it takes writes over.
    fn write_own(&self, data: &[IoSlice<'_>], io: &Io<'_>) -> Result<Option<usize>, Errno> {
        let Some(own) = self.own_ops() else {
            return Ok(None);
        };
        if let Some(done) = shield(|| own.write_vectored(data, io).transpose())? {
            counted(done, data.iter().map(|piece| piece.len()).sum())?;
            self.note_piped_to(done);
            return Ok(Some(done));
        }
        let mut done = 0;
        for piece in data {
            let io = Io {
                offset: io.offset.saturating_add(done as u64),
                ..*io
            };
            match shield(|| own.write(piece, &io).transpose()) {
                Ok(Some(written)) => {
                    counted(written, piece.len())?;
                    done += written;
                    if written < piece.len() {
                        break;
                    }
                }
                Ok(None) => return Ok(None),
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(Some(done))
    }

    /// Notes that so much was written to a FIFO (`file_update_time`).
    fn note_piped_to(&self, done: usize) {
        if done > 0
            && self.pipe_end().is_some_and(PipeEnd::is_named)
            && let Ok(target) = self.target()
            && !target.is_read_only()
        {
            let now = self.core.vfs.clock.now();
            let change = SetAttr {
                mtime: Some(now),
                ctime: Some(now),
                ..SetAttr::default()
            };
            let inode = target.inode;
            // Written data stays written, even if its time cannot be noted.
            let _noted = inode.shielded(|ops| ops.setattr(inode, &change));
        }
    }
}

/// Writes piece by piece until one is not written whole.
fn each(
    data: &[IoSlice<'_>],
    mut write: impl FnMut(&IoSlice<'_>) -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let mut done = 0;
    for piece in data {
        match write(piece) {
            Ok(written) => {
                done += written;
                if written < piece.len() {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Writes to a regular file from `from` on, or where it ends; how much, and the offset after it.
/// Held: the inode's lock.
///
/// # Errors
/// `EFBIG`, what the backend meets.
pub(super) fn write_locked(
    target: &Target<'_>,
    data: &[IoSlice<'_>],
    from: Option<u64>,
) -> Result<(usize, u64), Errno> {
    let inode = target.inode;
    let at_end = from.is_none();
    if at_end {
        target.confirm()?;
    }
    let from = from.unwrap_or_else(|| inode.size());
    let room = MAX_LFS_FILESIZE.cast_unsigned().saturating_sub(from);
    if room == 0 {
        return Err(Errno::EFBIG);
    }
    let now = target.core.vfs.clock.now();
    if let Some(kept) = target.drop_privileges(now)? {
        target.setattr(&SetAttr {
            mode: Some(kept),
            ctime: Some(now),
            ..SetAttr::default()
        })?;
    }
    let dcache = &target.core.vfs.dcache;
    if at_end {
        let append = || inode.shielded(|ops| ops.append(inode, data, now));
        if let Some((done, end)) = dcache.with_room(append)? {
            counted(done, data.iter().map(|piece| piece.len()).sum())?;
            let is_possible = end >= done as u64 && end <= MAX_LFS_FILESIZE.cast_unsigned();
            return is_possible.then_some((done, end)).ok_or(Errno::EIO);
        }
    }
    let room = usize::try_from(room).unwrap_or(usize::MAX).min(ONCE_MAX);
    let mut done = 0;
    each(data, |piece| {
        let len = piece.len().min(room - done);
        let write = |begin: usize| {
            let at = from + (done + begin) as u64;
            let written = inode.shielded(|ops| ops.write_at(inode, &piece[begin..len], at, now))?;
            counted(written, len - begin)
        };
        let before = dcache.freed();
        let mut written = dcache.with_room(|| write(0))?;
        if written < len && dcache.frees_since(before) {
            // As in `with_room`; written data counts, even if the rest fails.
            written += write(written).unwrap_or(0);
        }
        done += written;
        Ok(written)
    })?;
    Ok((done, from.saturating_add(done as u64)))
}
