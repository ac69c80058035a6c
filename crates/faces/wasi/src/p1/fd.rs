// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the calls on descriptors: `fd_*`, except those for data and directories.

use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};
use crate::table::{Entry, Object};
use crate::types::{Fdstat, Filestat, fdflags, fstflags, rights, timespec};
use openpath_abi::fcntl::{F_GETFL, F_SETFL, O_APPEND, O_NONBLOCK, SEEK_CUR, SEEK_END, SEEK_SET};
use openpath_abi::{OFlags, TimeSet};

/// The advice of preview1, in its order, in the numbers of posix_fadvise(2).
const ADVICE: [u32; 6] = [0, 2, 1, 3, 4, 5];

/// A length or an offset as the engine's signed number.
fn signed(value: u64) -> Result<i64, Code> {
    i64::try_from(value).map_err(|_| Code::Inval)
}

pub(super) fn fd_advise(
    guest: &mut Guest,
    _: &mut Memory<'_>,
    fd: u32,
    offset: u64,
    len: u64,
    advice: u32,
) -> Outcome {
    let advice = *ADVICE.get(advice as usize).ok_or(Code::Inval)?;
    let file = guest.table.file(fd, rights::FD_ADVISE)?;
    let (offset, len) = (signed(offset)?, signed(len)?);
    guest.task.posix_fadvise(file.fd, offset, len, advice)?;
    Ok(())
}

pub(super) fn fd_allocate(
    guest: &mut Guest,
    _: &mut Memory<'_>,
    fd: u32,
    offset: u64,
    len: u64,
) -> Outcome {
    let file = guest.table.file(fd, rights::FD_ALLOCATE)?;
    let (offset, len) = (signed(offset)?, signed(len)?);
    guest.task.fallocate(file.fd, 0, offset, len)?;
    Ok(())
}

pub(super) fn fd_close(guest: &mut Guest, _: &mut Memory<'_>, fd: u32) -> Outcome {
    let entry = guest.table.remove(fd)?;
    close(guest, &entry)
}

/// Closes what a descriptor stood for.
fn close(guest: &mut Guest, entry: &Entry) -> Outcome {
    match entry.object {
        Object::Stdin => Ok(()),
        Object::Stdout => guest.stdout.flush().map_err(Into::into),
        Object::Stderr => guest.stderr.flush().map_err(Into::into),
        Object::Directory | Object::File => guest.task.close(entry.fd).map_err(Into::into),
    }
}

pub(super) fn fd_datasync(guest: &mut Guest, _: &mut Memory<'_>, fd: u32) -> Outcome {
    let entry = guest.table.tree(fd, rights::FD_DATASYNC)?;
    guest.task.fdatasync(entry.fd)?;
    Ok(())
}

pub(super) fn fd_sync(guest: &mut Guest, _: &mut Memory<'_>, fd: u32) -> Outcome {
    let entry = guest.table.tree(fd, rights::FD_SYNC)?;
    guest.task.fsync(entry.fd)?;
    Ok(())
}

pub(super) fn fd_fdstat_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    result: u32,
) -> Outcome {
    memory.check(result, Fdstat::SIZE as u32, 8)?;
    let entry = guest.table.get(fd)?;
    let mut flags = entry.sync;
    // A directory has neither flag.
    if entry.object == Object::File {
        let open = guest.task.fcntl(entry.fd, F_GETFL, 0)?;
        let open = OFlags::from_bits_retain(open as u32);
        for (theirs, ours) in [(O_APPEND, fdflags::APPEND), (O_NONBLOCK, fdflags::NONBLOCK)] {
            if open.contains(theirs) {
                flags |= ours;
            }
        }
    }
    let stat = Fdstat {
        filetype: entry.filetype,
        flags,
        base: entry.base,
        inheriting: entry.inheriting,
    };
    memory.put(result, &stat.bytes(), 8)?;
    Ok(())
}

/// Sets flags like `F_SETFL`: `APPEND` and `NONBLOCK` become as given, and the synchronisation
/// flags stay as they were at the open. Asking for one that was not set at the open is
/// [`Code::Inval`], which fcntl(2) ignores.
pub(super) fn fd_fdstat_set_flags(
    guest: &mut Guest,
    _: &mut Memory<'_>,
    fd: u32,
    flags: u32,
) -> Outcome {
    let flags = flags_of(flags, fdflags::ALL)?;
    let file = guest.table.file(fd, rights::FD_FDSTAT_SET_FLAGS)?;
    if flags & (fdflags::DSYNC | fdflags::SYNC | fdflags::RSYNC) & !file.sync != 0 {
        return Err(Code::Inval.into());
    }
    let mut open = OFlags::empty();
    for (ours, theirs) in [(fdflags::APPEND, O_APPEND), (fdflags::NONBLOCK, O_NONBLOCK)] {
        if flags & ours != 0 {
            open |= theirs;
        }
    }
    guest.task.fcntl(file.fd, F_SETFL, u64::from(open))?;
    Ok(())
}

/// Flags of 16 bits, if all are defined.
pub(super) fn flags_of(flags: u32, known: u16) -> Result<u16, Code> {
    match u16::try_from(flags) {
        Ok(flags) if flags & !known == 0 => Ok(flags),
        _ => Err(Code::Inval),
    }
}

/// Reduces the rights of a descriptor.
pub(super) fn fd_fdstat_set_rights(
    guest: &mut Guest,
    _: &mut Memory<'_>,
    fd: u32,
    base: u64,
    inheriting: u64,
) -> Outcome {
    if (base | inheriting) & !rights::ALL != 0 {
        return Err(Code::Inval.into());
    }
    let entry = guest.table.get_mut(fd)?;
    if base & !entry.base != 0 || inheriting & !entry.inheriting != 0 {
        return Err(Code::NotCapable.into());
    }
    entry.base = base;
    entry.inheriting = inheriting;
    Ok(())
}

pub(super) fn fd_filestat_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    result: u32,
) -> Outcome {
    memory.check(result, Filestat::SIZE as u32, 8)?;
    let entry = guest.table.get(fd)?;
    entry.need(rights::FD_FILESTAT_GET)?;
    let stat = if entry.is_stream() {
        Filestat::stream(entry.filetype)
    } else {
        Filestat::from(&guest.task.fstat(entry.fd)?)
    };
    memory.put(result, &stat.bytes(), 8)?;
    Ok(())
}

pub(super) fn fd_filestat_set_size(
    guest: &mut Guest,
    _: &mut Memory<'_>,
    fd: u32,
    size: u64,
) -> Outcome {
    let file = guest.table.file(fd, rights::FD_FILESTAT_SET_SIZE)?;
    guest.task.ftruncate(file.fd, signed(size)?)?;
    Ok(())
}

pub(super) fn fd_filestat_set_times(
    guest: &mut Guest,
    _: &mut Memory<'_>,
    fd: u32,
    atim: u64,
    mtim: u64,
    flags: u32,
) -> Outcome {
    let times = times(atim, mtim, flags)?;
    let entry = guest.table.tree(fd, rights::FD_FILESTAT_SET_TIMES)?;
    guest.task.futimens(entry.fd, times)?;
    Ok(())
}

/// The changes to the two timestamps.
pub(super) fn times(atim: u64, mtim: u64, flags: u32) -> Result<[TimeSet; 2], Code> {
    let flags = flags_of(flags, fstflags::ALL)?;
    let one = |given: u16, now: u16, time: u64| match (flags & given != 0, flags & now != 0) {
        (true, true) => Err(Code::Inval),
        (true, false) => Ok(TimeSet::At(timespec(time))),
        (false, true) => Ok(TimeSet::Now),
        (false, false) => Ok(TimeSet::Omit),
    };
    Ok([
        one(fstflags::ATIM, fstflags::ATIM_NOW, atim)?,
        one(fstflags::MTIM, fstflags::MTIM_NOW, mtim)?,
    ])
}

pub(super) fn fd_renumber(guest: &mut Guest, _: &mut Memory<'_>, from: u32, to: u32) -> Outcome {
    match guest.table.renumber(from, to)? {
        Some(gone) => close(guest, &gone),
        None => Ok(()),
    }
}

pub(super) fn fd_seek(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    offset: i64,
    whence: u32,
    result: u32,
) -> Outcome {
    memory.check(result, 8, 8)?;
    let whence = *[SEEK_SET, SEEK_CUR, SEEK_END]
        .get(whence as usize)
        .ok_or(Code::Inval)?;
    let right = if whence == SEEK_CUR && offset == 0 {
        rights::FD_TELL
    } else {
        rights::FD_SEEK
    };
    let to = seek(guest, fd, (offset, whence), right)?;
    memory.put_u64(result, to)?;
    Ok(())
}

pub(super) fn fd_tell(guest: &mut Guest, memory: &mut Memory<'_>, fd: u32, result: u32) -> Outcome {
    memory.check(result, 8, 8)?;
    let at = seek(guest, fd, (0, SEEK_CUR), rights::FD_TELL)?;
    memory.put_u64(result, at)?;
    Ok(())
}

/// Seeks in a file; returns the new position.
fn seek(guest: &Guest, fd: u32, (offset, whence): (i64, u32), right: u64) -> Outcome<u64> {
    if guest.table.get(fd)?.is_stream() {
        return Err(Code::Spipe.into());
    }
    let file = guest.table.file(fd, right)?;
    let to = guest.task.lseek(file.fd, offset, whence)?;
    Ok(to.cast_unsigned())
}
