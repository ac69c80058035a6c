// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data: `fd_read`, `fd_pread`, `fd_write`, `fd_pwrite`.
//!
//! # Rules
//! R1. A read fills its buffers one after the other and ends where one is not filled; a failure
//!     after the first is told by the next call.
//! R2. The buffers are known before anything is moved ([`Spans`]).
//! R3. What is no regular file may make a read wait, and is read once for all the buffers: once
//!     something has come nothing is waited for.

use super::spans::Spans;
use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};
use crate::table::{Entry, What};
use crate::types::{Filetype, rights};
use std::io::IoSlice;

/// Buffers that are written by one call of the engine.
const BATCH: usize = 16;
/// Bytes that one read gives to several buffers.
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
    let spans = Spans::take(guest, memory, iovs, count)?;
    let read = |guest: &mut Guest, buf: &mut [u8]| {
        if entry.what == What::Stdin {
            guest.stdin.read(buf)
        } else {
            guest.task.read(entry.fd, buf).map_err(Code::from)
        }
    };
    let read = if entry.filetype == Filetype::RegularFile {
        fill(guest, memory, &spans, |guest, buf, _| read(guest, buf))?
    } else {
        fill_at_once(guest, memory, &spans, read)?
    };
    memory.put_u32(result, read)?;
    Ok(())
}

/// Whether something can be read from it.
fn readable(entry: &Entry) -> Result<(), Code> {
    match entry.what {
        What::Stdin | What::File => entry.need(rights::FD_READ),
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
    if entry.what == What::Stdin {
        return Err(Code::Spipe.into());
    }
    readable(&entry)?;
    entry.need(rights::FD_SEEK)?;
    let spans = Spans::take(guest, memory, iovs, count)?;
    let read = fill(guest, memory, &spans, |guest, buf, done| {
        let at = place(offset, done)?;
        guest.task.pread(entry.fd, buf, at).map_err(Code::from)
    })?;
    memory.put_u32(result, read)?;
    Ok(())
}

/// The offset, after this many bytes.
fn place(offset: u64, done: u32) -> Result<i64, Code> {
    offset
        .checked_add(u64::from(done))
        .and_then(|at| i64::try_from(at).ok())
        .ok_or(Code::Inval)
}

/// Has `read` fill the buffers one after the other, telling it what was read before (R1).
fn fill(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    spans: &Spans,
    mut read: impl FnMut(&mut Guest, &mut [u8], u32) -> Result<usize, Code>,
) -> Outcome<u32> {
    let mut done = 0;
    for span in spans.iter() {
        let got = match read(guest, memory.bytes_mut(span.at, span.len)?, done) {
            Ok(got) => got as u32,
            Err(_) if done > 0 => return Ok(done),
            Err(code) => return Err(code.into()),
        };
        done += got;
        if got < span.len {
            return Ok(done);
        }
    }
    if spans.bytes() == 0 {
        // Nothing at all is read too, so that it fails where something would.
        read(guest, &mut [], 0)?;
    }
    Ok(done)
}

/// Has `read` fill the buffers by one call, which may wait (R3).
fn fill_at_once(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    spans: &Spans,
    read: impl FnOnce(&mut Guest, &mut [u8]) -> Result<usize, Code>,
) -> Outcome<u32> {
    let mut each = spans.iter();
    let (first, second) = (each.next().unwrap_or_default(), each.next());
    if second.is_none() || first.len as usize >= PIECE {
        let got = read(guest, memory.bytes_mut(first.at, first.len)?)?;
        return Ok(got as u32);
    }
    let mut piece = vec![0; spans.bytes().min(PIECE)];
    let got = read(guest, &mut piece)?;
    let mut rest = &piece[..got];
    for span in spans.iter() {
        let (here, after) = rest.split_at(rest.len().min(span.len as usize));
        memory
            .bytes_mut(span.at, here.len() as u32)?
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
    let spans = Spans::take(guest, memory, iovs, count)?;
    let written = drain(guest, memory, &spans, |guest, bufs, _| match entry.what {
        What::Stdout => guest.stdout.write(bufs),
        What::Stderr => guest.stderr.write(bufs),
        _ => match bufs {
            [one] => guest.task.write(entry.fd, one),
            bufs => guest.task.writev(entry.fd, bufs),
        }
        .map_err(Code::from),
    })?;
    memory.put_u32(result, written)?;
    Ok(())
}

/// Whether something can be written to it.
fn writable(entry: &Entry) -> Result<(), Code> {
    match entry.what {
        What::Stdout | What::Stderr | What::File => entry.need(rights::FD_WRITE),
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
    if matches!(entry.what, What::Stdout | What::Stderr) {
        return Err(Code::Spipe.into());
    }
    writable(&entry)?;
    entry.need(rights::FD_SEEK)?;
    let spans = Spans::take(guest, memory, iovs, count)?;
    let written = drain(guest, memory, &spans, |guest, bufs, done| {
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

/// Has `write` take the buffers, a few at a time, telling it what was written before; it ends where
/// not all was taken.
fn drain(
    guest: &mut Guest,
    memory: &Memory<'_>,
    spans: &Spans,
    mut write: impl FnMut(&mut Guest, &[IoSlice<'_>], u32) -> Result<usize, Code>,
) -> Outcome<u32> {
    let (mut done, mut left) = (0, spans.iter().peekable());
    loop {
        let mut batch = [IoSlice::new(&[]); BATCH];
        let (mut used, mut wanted) = (0, 0);
        for (place, span) in batch.iter_mut().zip(&mut left) {
            *place = IoSlice::new(memory.bytes(span.at, span.len)?);
            used += 1;
            wanted += span.len;
        }
        // Nothing at all is written too, once, so that it fails where something would.
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
