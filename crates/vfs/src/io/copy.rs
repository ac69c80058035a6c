// SPDX-License-Identifier: MIT OR Apache-2.0
//! Copies data between open files: copy_file_range(2) and sendfile(2).
//!
//! # Kernel analogue
//! `vfs_copy_file_range`, `generic_copy_file_checks`, `do_sendfile`, `do_splice_direct`.

use super::write::write_locked;
use super::{ONCE_MAX, counted, verify_area};
use crate::file::Filp;
use crate::file_ops::Fd;
use crate::inode::{SetAttr, flag};
use crate::task::Task;
use openpath_abi::limits::MAX_LFS_FILESIZE;
use openpath_abi::{Errno, mode};
use std::io::IoSlice;
use std::sync::Arc;

/// Bytes of one read and write.
const BUFFER: usize = 1 << 16;

impl Task {
    /// Copies up to `len` bytes between two regular files of one file system; how many. A given
    /// offset is used and moved, and the file's position stays. Linux: copy_file_range(2).
    ///
    /// # Errors
    /// `EBADF` (not open, `O_PATH`), `EINVAL` (flags), `EISDIR`, `EINVAL` (not a regular file),
    /// `EBADF` (not open for reading or writing, `O_APPEND`), `EXDEV` (two file systems), `EPERM`
    /// (immutable), `EOVERFLOW`, `EFBIG`, `EINVAL` (overlap, negative offset), what the backend
    /// meets.
    pub fn copy_file_range(
        &self,
        fd_in: Fd,
        off_in: Option<&mut i64>,
        fd_out: Fd,
        off_out: Option<&mut i64>,
        len: usize,
        flags: u32,
    ) -> Result<usize, Errno> {
        let core = &self.core;
        let (from, to) = (core.fdget_full(fd_in)?, core.fdget_full(fd_out)?);
        if flags != 0 {
            return Err(Errno::EINVAL);
        }
        let start_in = off_in.as_ref().map_or_else(|| from.pos(), |off| **off);
        let start_out = off_out.as_ref().map_or_else(|| to.pos(), |off| **off);
        let len = check_copy(&from, start_in, &to, start_out, len)?;
        verify_area(start_in.max(0), len)?;
        if start_in < 0 || start_out < 0 {
            return Err(Errno::EINVAL);
        }
        let done = copy_range(&from, start_in, &to, start_out, len.min(ONCE_MAX))?;
        if done > 0 {
            move_on(&from, off_in, start_in, done);
            move_on(&to, off_out, start_out, done);
        }
        from.tell_read(done);
        to.tell_written(done);
        Ok(done)
    }

    /// Writes up to `count` bytes of the file at `fd_in` to the position of the file at `fd_out`;
    /// how many. A given offset says where to read and is moved instead of the position. Linux:
    /// sendfile(2).
    ///
    /// # Errors
    /// `EBADF` (`fd_in` not open, `O_PATH`, not open for reading), `ESPIPE` (offset into a FIFO),
    /// `EINVAL` (the end overflows), `EBADF` (`fd_out` not open, `O_PATH`, not open for writing),
    /// `EINVAL` (`O_APPEND`; `fd_in` has no pages), what the backend meets.
    pub fn sendfile(
        &self,
        fd_out: Fd,
        fd_in: Fd,
        offset: Option<&mut i64>,
        count: usize,
    ) -> Result<usize, Errno> {
        let core = &self.core;
        let from = core.fdget_full(fd_in)?;
        if !from.readable() {
            return Err(Errno::EBADF);
        }
        if offset.is_some() && !super::has_positions(&from)? {
            return Err(Errno::ESPIPE);
        }
        let start = offset.as_ref().map_or_else(|| from.pos(), |off| **off);
        if start < 0 {
            return Err(Errno::EINVAL);
        }
        verify_area(start, count)?;
        let count = count.min(ONCE_MAX);
        let to = core.fdget_full(fd_out)?;
        if !to.writable() {
            return Err(Errno::EBADF);
        }
        let end = to.pos();
        verify_area(end, count)?;
        let done = match to.pipe_end() {
            Some(end) => end.take_from(&from, start, count, to.waiter())?,
            None => send(&from, start, &to, end, count)?,
        };
        if done > 0 {
            if from.moves()? {
                move_on(&from, offset, start, done);
            }
            to.advance(end, done)?;
        }
        from.tell_read(done);
        to.tell_written(done);
        Ok(done)
    }
}

/// Sends to a file that is no pipe (`splice_direct_to_actor`).
fn send(
    from: &Filp<'_>,
    start: i64,
    to: &Filp<'_>,
    end: i64,
    count: usize,
) -> Result<usize, Errno> {
    if to.appends() {
        return Err(Errno::EINVAL);
    }
    if !super::has_positions(from)? {
        // Inotify descriptors accept an empty request at a position, unlike a FIFO.
        let asks_nothing = count == 0 && from.inode()?.kind() == 0;
        return asks_nothing.then_some(0).ok_or(Errno::EINVAL);
    }
    if count > 0 && !from.splices() {
        // It counts as an access all the same.
        from.accessed(&from.target()?);
        return Err(Errno::EINVAL);
    }
    pump(from, start, to, end, count)
}

impl Filp<'_> {
    /// Whether data can be taken from it by reference (`splice_read`).
    pub(crate) fn splices(&self) -> bool {
        let inode = self.inode();
        match self.own_ops() {
            Some(own) => own.splices(false) && !inode.is_ok_and(|inode| inode.is_dir()),
            None => inode.is_ok_and(|inode| !inode.is_dir()),
        }
    }

    /// Whether data can be given to it by reference (`splice_write`).
    fn takes_splices(&self) -> bool {
        self.own_ops().is_none_or(|own| own.splices(true))
    }
}

/// Moves the given offset, or the file's position.
fn move_on(file: &Filp<'_>, offset: Option<&mut i64>, start: i64, done: usize) {
    let end = start.saturating_add_unsigned(done as u64);
    match offset {
        Some(offset) => *offset = end,
        None => file.set_pos(end),
    }
}

/// Whether and how much may be copied (`generic_copy_file_checks`).
fn check_copy(
    from: &Filp<'_>,
    start_in: i64,
    to: &Filp<'_>,
    start_out: i64,
    len: usize,
) -> Result<usize, Errno> {
    let (inode_in, inode_out) = (from.inode()?, to.inode()?);
    if inode_in.is_dir() || inode_out.is_dir() {
        return Err(Errno::EISDIR);
    }
    if inode_in.kind() != mode::S_IFREG || inode_out.kind() != mode::S_IFREG {
        return Err(Errno::EINVAL);
    }
    if !from.readable() || !to.writable() || to.appends() {
        return Err(Errno::EBADF);
    }
    if !Arc::ptr_eq(&from.mount()?.sb, &to.mount()?.sb) {
        return Err(Errno::EXDEV);
    }
    if inode_out.flags() & flag::IMMUTABLE != 0 {
        return Err(Errno::EPERM);
    }
    let wide = i64::try_from(len).map_err(|_| Errno::EOVERFLOW)?;
    // The kernel adds without signs here: only an offset below 0 overflows.
    let end = |start: i64| start.cast_unsigned().checked_add(wide.cast_unsigned());
    end(start_in).zip(end(start_out)).ok_or(Errno::EOVERFLOW)?;
    from.target()?.confirm()?;
    let left = inode_in.size().cast_signed().saturating_sub(start_in);
    let mut count = wide.min(left.max(0));
    if count > 0 {
        let room = MAX_LFS_FILESIZE.saturating_sub(start_out);
        if room <= 0 {
            return Err(Errno::EFBIG);
        }
        count = count.min(room);
    }
    let overlap = start_out + count > start_in && start_out < start_in + count;
    if core::ptr::eq(inode_in, inode_out) && overlap {
        return Err(Errno::EINVAL);
    }
    Ok(usize::try_from(count).unwrap_or(0))
}

/// Copies by the backend's own means, or else by reading and writing.
fn copy_range(
    from: &Filp<'_>,
    start_in: i64,
    to: &Filp<'_>,
    start_out: i64,
    len: usize,
) -> Result<usize, Errno> {
    if len == 0 {
        return Ok(0);
    }
    let (source, target) = (from.target()?, to.target()?);
    let by_backend = {
        let _held = target.inode.lock_names();
        let now = target.core.vfs.clock.now();
        if let Some(kept) = target.drop_privileges(now)? {
            target.setattr(&SetAttr {
                mode: Some(kept),
                ctime: Some(now),
                ..SetAttr::default()
            })?;
        }
        let (at_in, at_out) = (start_in.cast_unsigned(), start_out.cast_unsigned());
        target.core.vfs.dcache.with_room(|| {
            source.inode.shielded(|ops| {
                ops.copy_range(source.inode, at_in, target.inode, at_out, len as u64, now)
            })
        })
    };
    match by_backend {
        Err(Errno::EOPNOTSUPP) => pump(from, start_in, to, start_out, len),
        Ok(done) => {
            from.accessed(&source);
            counted(done, len)
        }
        Err(errno) => Err(errno),
    }
}

/// Copies through memory, and counts as an access once more at the end.
fn pump(
    from: &Filp<'_>,
    start_in: i64,
    to: &Filp<'_>,
    start_out: i64,
    len: usize,
) -> Result<usize, Errno> {
    let done = pump_data(from, start_in, to, start_out, len);
    from.accessed(&from.target()?);
    done
}

/// Reads and writes until `len` bytes are moved, or one of the two stops.
fn pump_data(
    from: &Filp<'_>,
    start_in: i64,
    to: &Filp<'_>,
    start_out: i64,
    len: usize,
) -> Result<usize, Errno> {
    let mut buffer = vec![0; len.min(BUFFER)];
    let mut done = 0;
    while done < len {
        let at_in = start_in.saturating_add_unsigned(done as u64);
        let room = buffer.len().min(len - done);
        let read = match from.read_at(&mut buffer[..room], at_in) {
            Ok(0) => break,
            Ok(read) => read,
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        };
        let at_out = start_out.saturating_add_unsigned(done as u64);
        match put(to, &buffer[..read], at_out) {
            Ok(written) => {
                done += written;
                if written < read {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(errno) => return Err(errno),
        }
    }
    Ok(done)
}

/// Writes at `at`, whether or not the file appends.
fn put(to: &Filp<'_>, data: &[u8], at: i64) -> Result<usize, Errno> {
    let target = to.target()?;
    if target.inode.kind() != mode::S_IFREG {
        if !to.takes_splices() {
            return Err(Errno::EINVAL);
        }
        return to
            .write_at(&[IoSlice::new(data)], at, 0)
            .map(|(done, _)| done);
    }
    let _held = target.inode.lock_names();
    write_locked(&target, &[IoSlice::new(data)], Some(at.cast_unsigned())).map(|(done, _)| done)
}
