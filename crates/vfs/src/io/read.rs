// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads files: read(2), pread(2), readv(2), preadv(2), preadv2(2).
//!
//! # Kernel analogue
//! `vfs_read`, `vfs_readv`, `do_preadv`.

use super::{ONCE_MAX, PIECES_MAX, Position, check_flags, counted, has_positions, verify_area};
use crate::file::Filp;
use crate::file_ops::{Fd, Io};
use crate::inode::shield;
use crate::pipe::PipeEnd;
use crate::task::Task;
use openpath_abi::{Errno, mode};
use std::io::IoSliceMut;

impl Task {
    /// Reads at the position of the file at `fd`, and moves it. Linux: read(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`, not open for reading), `EINVAL` (the end overflows), `EISDIR`,
    /// `EAGAIN`, `EINTR` (a FIFO that is empty), what the backend or the device meets.
    #[inline]
    pub fn read(&self, fd: Fd, buf: &mut [u8]) -> Result<usize, Errno> {
        let file = self.core.fdget_full(fd)?;
        file.read(buf, Position::Current)
    }

    /// Reads from `offset` on, whatever the file's position. Linux: pread(2).
    ///
    /// # Errors
    /// `EINVAL` (negative), `EBADF` (not open, `O_PATH`), `ESPIPE` (a FIFO), then as
    /// [`Task::read`].
    #[inline]
    pub fn pread(&self, fd: Fd, buf: &mut [u8], offset: i64) -> Result<usize, Errno> {
        let position = Position::of(offset)?;
        let file = self.core.fdget_full(fd)?;
        if !has_positions(&file)? {
            return Err(Errno::ESPIPE);
        }
        file.read(buf, position)
    }

    /// As [`Task::read`], into several buffers one after the other. Linux: readv(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (more than 1024 buffers, or too long together), then
    /// as [`Task::read`].
    pub fn readv(&self, fd: Fd, bufs: &mut [IoSliceMut<'_>]) -> Result<usize, Errno> {
        self.preadv2(fd, bufs, -1, 0)
    }

    /// As [`Task::pread`], into several buffers one after the other. Linux: preadv(2).
    ///
    /// # Errors
    /// As [`Task::pread`] and [`Task::readv`].
    pub fn preadv(&self, fd: Fd, bufs: &mut [IoSliceMut<'_>], offset: i64) -> Result<usize, Errno> {
        Position::of(offset)?;
        self.preadv2(fd, bufs, offset, 0)
    }

    /// As [`Task::preadv`] with `RWF_*` flags; with offset -1 as [`Task::readv`]. Linux:
    /// preadv2(2).
    ///
    /// # Errors
    /// As [`Task::preadv`] or [`Task::readv`]; `EOPNOTSUPP` and `EINVAL` for flags where the data
    /// is reached.
    pub fn preadv2(
        &self,
        fd: Fd,
        bufs: &mut [IoSliceMut<'_>],
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
        let done = file.read_pieces(bufs, position, flags)?;
        // Unlike read(2), and unlike writev(2), of nothing too.
        file.tell_listed();
        Ok(done)
    }
}

impl Filp<'_> {
    pub(super) fn read(&self, buf: &mut [u8], position: Position) -> Result<usize, Errno> {
        if !self.readable() {
            return Err(Errno::EBADF);
        }
        let Position::At(offset) = position else {
            let _held = self.hold_pos();
            let from = self.pos();
            verify_area(from, buf.len())?;
            let done = self.read_at(buf, from)?;
            self.advance(from, done)?;
            self.tell_read(done);
            return Ok(done);
        };
        verify_area(offset, buf.len())?;
        let done = self.read_at(buf, offset)?;
        self.tell_read(done);
        Ok(done)
    }

    fn read_pieces(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        position: Position,
        flags: u32,
    ) -> Result<usize, Errno> {
        if bufs.len() > PIECES_MAX {
            return Err(Errno::EINVAL);
        }
        let total = bufs
            .iter()
            .try_fold(0usize, |sum, b| sum.checked_add(b.len()));
        let total = total.ok_or(Errno::EINVAL)?;
        if !self.readable() {
            return Err(Errno::EBADF);
        }
        if total == 0 {
            return Ok(0);
        }
        let _held = match position {
            Position::Current => self.hold_pos(),
            Position::At(_) => None,
        };
        let from = match position {
            Position::Current => self.pos(),
            Position::At(offset) => offset,
        };
        verify_area(from, total.min(ONCE_MAX))?;
        check_flags(self, flags, false)?;
        let done = match self.read_vectored(bufs, &self.io(from, flags))? {
            Some(done) => done,
            None => self.read_each(bufs, from)?,
        };
        if matches!(position, Position::Current) {
            self.advance(from, done)?;
        }
        Ok(done)
    }

    /// Lets the opening read, if it takes reads over as a whole.
    fn read_vectored(
        &self,
        bufs: &mut [IoSliceMut<'_>],
        io: &Io<'_>,
    ) -> Result<Option<usize>, Errno> {
        let Some(own) = self.own_ops() else {
            return Ok(None);
        };
        let done = shield(|| own.read_vectored(bufs, io).transpose())?;
        if let Some(done) = done {
            counted(done, bufs.iter().map(|buf| buf.len()).sum())?;
            self.note_piped(done);
        }
        Ok(done)
    }

    /// Reads buffer by buffer until one stays short.
    fn read_each(&self, bufs: &mut [IoSliceMut<'_>], from: i64) -> Result<usize, Errno> {
        let mut done = 0;
        for buf in bufs {
            let at = from.saturating_add_unsigned(done as u64);
            let len = buf.len().min(ONCE_MAX - done);
            match self.read_at(&mut buf[..len], at) {
                Ok(read) => {
                    done += read;
                    if read < len {
                        break;
                    }
                }
                Err(_) if done > 0 => break,
                Err(errno) => return Err(errno),
            }
            if done == ONCE_MAX {
                break;
            }
        }
        Ok(done)
    }

    /// Moves the file on from `from`, if it has positions that reading moves.
    pub(super) fn advance(&self, from: i64, done: usize) -> Result<(), Errno> {
        if self.moves()? {
            self.set_pos(from.saturating_add_unsigned(done as u64));
        }
        Ok(())
    }

    /// Reads once; access and area were checked.
    pub(crate) fn read_at(&self, buf: &mut [u8], offset: i64) -> Result<usize, Errno> {
        let len = buf.len().min(ONCE_MAX);
        let buf = &mut buf[..len];
        if let Some(own) = self.own_ops() {
            let io = self.io(offset, 0);
            if let Some(done) = shield(|| own.read(buf, &io).transpose())? {
                counted(done, len)?;
                self.note_piped(done);
                return Ok(done);
            }
        }
        let target = self.target()?;
        let inode = target.inode;
        match inode.kind() {
            mode::S_IFREG => {}
            mode::S_IFDIR => return Err(Errno::EISDIR),
            _ => return Err(Errno::EINVAL),
        }
        let from = offset.cast_unsigned();
        let done = inode.shielded(|ops| ops.read_at(inode, buf, from))?;
        counted(done, len)?;
        self.accessed_by_read(&target, len);
        Ok(done)
    }

    /// Notes that so much was read from a FIFO.
    fn note_piped(&self, done: usize) {
        if done > 0
            && self.pipe_end().is_some_and(PipeEnd::is_named)
            && let Ok(target) = self.target()
        {
            self.accessed(&target);
        }
    }
}
