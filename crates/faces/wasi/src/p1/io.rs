// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements reads and writes of descriptors: `fd_read`, `fd_pread`, `fd_write`, `fd_pwrite`.
//!
//! # Rules
//! R1. A read fills its buffers in order and ends at the first that is not filled; an error after
//!     the first buffer is left to the next call.
//! R2. All buffers are read from the guest's list before any data moves ([`Iovecs`]).
//! R3. A read of anything but a regular file may wait, so one call of the engine reads for all the
//!     buffers: a read that has data never waits for more.

use super::iovecs::Iovecs;
use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};
use crate::table::{Entry, Object};
use crate::types::{Filetype, rights};
use std::io::IoSlice;

/// The most buffers in one write of the engine.
const BATCH: usize = 16;
/// The most bytes of one read for several buffers.
const PIECE: usize = 1 << 16;

pub(super) fn fd_read(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    result: u32,
) -> Outcome {
    memory.check(result, 4, 4)?;
    let entry = *guest.table.get(fd)?;
    readable(&entry)?;
    let iovecs = Iovecs::take(guest, memory, iovs, count)?;
    let read = |guest: &mut Guest, buf: &mut [u8]| {
        if entry.object == Object::Stdin {
            guest.stdin.read(buf)
        } else {
            guest.task.read(entry.fd, buf).map_err(Code::from)
        }
    };
    let read = if entry.filetype == Filetype::RegularFile {
        fill(guest, memory, &iovecs, |guest, buf, _| read(guest, buf))?
    } else {
        fill_at_once(guest, memory, &iovecs, read)?
    };
    memory.put_u32(result, read)?;
    Ok(())
}

/// Checks that an entry can be read from.
fn readable(entry: &Entry) -> Result<(), Code> {
    match entry.object {
        Object::Stdin | Object::File => entry.need(rights::FD_READ),
        _ => Err(Code::Badf),
    }
}

pub(super) fn fd_pread(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    offset: u64,
    result: u32,
) -> Outcome {
    memory.check(result, 4, 4)?;
    let entry = *guest.table.get(fd)?;
    if entry.object == Object::Stdin {
        return Err(Code::Spipe.into());
    }
    readable(&entry)?;
    entry.need(rights::FD_SEEK)?;
    let iovecs = Iovecs::take(guest, memory, iovs, count)?;
    let read = fill(guest, memory, &iovecs, |guest, buf, done| {
        let at = place(offset, done)?;
        guest.task.pread(entry.fd, buf, at).map_err(Code::from)
    })?;
    memory.put_u32(result, read)?;
    Ok(())
}

/// The offset after this many bytes, as a signed number.
fn place(offset: u64, done: u32) -> Result<i64, Code> {
    offset
        .checked_add(u64::from(done))
        .and_then(|at| i64::try_from(at).ok())
        .ok_or(Code::Inval)
}

/// Fills the buffers in order (R1). `read` gets the number of bytes read before.
fn fill(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    iovecs: &Iovecs,
    mut read: impl FnMut(&mut Guest, &mut [u8], u32) -> Result<usize, Code>,
) -> Outcome<u32> {
    let mut done = 0;
    for iovec in iovecs.iter() {
        let got = match read(guest, memory.bytes_mut(iovec.at, iovec.len)?, done) {
            Ok(got) => got as u32,
            Err(_) if done > 0 => return Ok(done),
            Err(code) => return Err(code.into()),
        };
        done += got;
        if got < iovec.len {
            return Ok(done);
        }
    }
    if iovecs.bytes() == 0 {
        // An empty read is made too, so that it fails where a longer one would.
        read(guest, &mut [], 0)?;
    }
    Ok(done)
}

/// Fills the buffers by one call of `read`, which may wait (R3).
fn fill_at_once(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    iovecs: &Iovecs,
    read: impl FnOnce(&mut Guest, &mut [u8]) -> Result<usize, Code>,
) -> Outcome<u32> {
    let mut each = iovecs.iter();
    let (first, second) = (each.next().unwrap_or_default(), each.next());
    if second.is_none() || first.len as usize >= PIECE {
        let got = read(guest, memory.bytes_mut(first.at, first.len)?)?;
        return Ok(got as u32);
    }
    let mut piece = vec![0; iovecs.bytes().min(PIECE)];
    let got = read(guest, &mut piece)?;
    let mut rest = &piece[..got];
    for iovec in iovecs.iter() {
        let (here, after) = rest.split_at(rest.len().min(iovec.len as usize));
        memory
            .bytes_mut(iovec.at, here.len() as u32)?
            .copy_from_slice(here);
        rest = after;
    }
    Ok(got as u32)
}

pub(super) fn fd_write(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    result: u32,
) -> Outcome {
    memory.check(result, 4, 4)?;
    let entry = *guest.table.get(fd)?;
    writable(&entry)?;
    let iovecs = Iovecs::take(guest, memory, iovs, count)?;
    let written = drain(guest, memory, &iovecs, |guest, bufs, _| {
        match entry.object {
            Object::Stdout => guest.stdout.write(bufs),
            Object::Stderr => guest.stderr.write(bufs),
            _ => match bufs {
                [one] => guest.task.write(entry.fd, one),
                bufs => guest.task.writev(entry.fd, bufs),
            }
            .map_err(Code::from),
        }
    })?;
    memory.put_u32(result, written)?;
    Ok(())
}

/// Checks that an entry can be written to.
fn writable(entry: &Entry) -> Result<(), Code> {
    match entry.object {
        Object::Stdout | Object::Stderr | Object::File => entry.need(rights::FD_WRITE),
        _ => Err(Code::Badf),
    }
}

pub(super) fn fd_pwrite(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    iovs: u32,
    count: u32,
    offset: u64,
    result: u32,
) -> Outcome {
    memory.check(result, 4, 4)?;
    let entry = *guest.table.get(fd)?;
    if matches!(entry.object, Object::Stdout | Object::Stderr) {
        return Err(Code::Spipe.into());
    }
    writable(&entry)?;
    entry.need(rights::FD_SEEK)?;
    let iovecs = Iovecs::take(guest, memory, iovs, count)?;
    let written = drain(guest, memory, &iovecs, |guest, bufs, done| {
        let at = place(offset, done)?;
        match bufs {
            [one] => guest.task.pwrite(entry.fd, one, at),
            bufs => guest.task.pwritev(entry.fd, bufs, at),
        }
        .map_err(Code::from)
    })?;
    memory.put_u32(result, written)?;
    Ok(())
}

/// Writes the buffers, a few at a time, until one call of `write` takes less than it was given.
/// `write` gets the number of bytes written before.
fn drain(
    guest: &mut Guest,
    memory: &Memory<'_>,
    iovecs: &Iovecs,
    mut write: impl FnMut(&mut Guest, &[IoSlice<'_>], u32) -> Result<usize, Code>,
) -> Outcome<u32> {
    let (mut done, mut left) = (0, iovecs.iter().peekable());
    loop {
        let mut batch = [IoSlice::new(&[]); BATCH];
        let (mut used, mut wanted) = (0, 0);
        for (place, iovec) in batch.iter_mut().zip(&mut left) {
            *place = IoSlice::new(memory.bytes(iovec.at, iovec.len)?);
            used += 1;
            wanted += iovec.len;
        }
        // An empty write is made too, once, so that it fails where a longer one would.
        match write(guest, &batch[..used.max(1)], done) {
            Ok(written) => {
                done += written as u32;
                if (written as u32) < wanted || left.peek().is_none() {
                    return Ok(done);
                }
            }
            Err(_) if done > 0 => return Ok(done),
            Err(code) => return Err(code.into()),
        }
    }
}
