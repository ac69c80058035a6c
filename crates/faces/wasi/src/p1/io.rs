// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data: `fd_read`, `fd_pread`, `fd_write`, `fd_pwrite`.
//!
//! # Rules
//! R1. A read fills its buffers one after the other and ends where one is not filled; a failure
//!     after the first is told by the next call.
//! R2. Buffers are taken as they come, a few at a time: how many there are costs no memory.

use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Fault, Memory, Outcome};
use crate::table::{Entry, What};
use crate::types::rights;
use std::io::IoSlice;

/// Buffers that are written by one call of the engine.
const BATCH: usize = 16;

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
    let read = fill(guest, memory, iovs, count, |guest, buf, _| {
        if entry.what == What::Stdin {
            guest.stdin.read(buf)
        } else {
            guest.task.read(entry.fd, buf).map_err(Code::from)
        }
    })?;
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
    let read = fill(guest, memory, iovs, count, |guest, buf, done| {
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

/// Has `read` fill the buffers, telling it what was read before (R1).
fn fill(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    iovs: u32,
    count: u32,
    mut read: impl FnMut(&mut Guest, &mut [u8], u32) -> Result<usize, Code>,
) -> Outcome<u32> {
    total(guest, memory, iovs, count)?;
    let mut done = 0u32;
    let mut asked = false;
    for n in 0..count {
        let span = memory.span(iovs, n)?;
        if span.len == 0 && (asked || n + 1 < count) {
            continue;
        }
        asked = true;
        let got = match read(guest, memory.bytes_mut(span.at, span.len)?, done) {
            Ok(got) => got as u32,
            Err(_) if done > 0 => break,
            Err(code) => return Err(code.into()),
        };
        done += got;
        if got < span.len {
            break;
        }
    }
    Ok(done)
}

/// Checks all buffers before anything is done: how many, where, and how long together.
fn total(guest: &Guest, memory: &Memory<'_>, iovs: u32, count: u32) -> Outcome<u32> {
    if count > guest.limits.buffers {
        return Err(Code::Inval.into());
    }
    let mut bytes = 0u32;
    for n in 0..count {
        let span = memory.span(iovs, n)?;
        memory.bytes(span.at, span.len)?;
        bytes = bytes.checked_add(span.len).ok_or(Code::Inval)?;
    }
    Ok(bytes)
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
    let written = drain(guest, memory, iovs, count, |guest, bufs, _| {
        match entry.what {
            What::Stdout => guest.stdout.write(bufs),
            What::Stderr => guest.stderr.write(bufs),
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
    let written = drain(guest, memory, iovs, count, |guest, bufs, done| {
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
    iovs: u32,
    count: u32,
    mut write: impl FnMut(&mut Guest, &[IoSlice<'_>], u32) -> Result<usize, Code>,
) -> Result<u32, Fault> {
    total(guest, memory, iovs, count)?;
    let (mut done, mut next) = (0u32, 0);
    while done == 0 || next < count {
        let mut batch = [IoSlice::new(&[]); BATCH];
        let (mut used, mut wanted) = (0, 0);
        while next < count && used < BATCH {
            let span = memory.span(iovs, next)?;
            next += 1;
            if span.len > 0 {
                batch[used] = IoSlice::new(memory.bytes(span.at, span.len)?);
                used += 1;
                wanted += span.len;
            }
        }
        // Nothing at all is written too, once, so that it fails where something would.
        match write(guest, &batch[..used.max(1)], done) {
            Ok(written) => {
                done += written as u32;
                if (written as u32) < wanted || next >= count {
                    break;
                }
            }
            Err(_) if done > 0 => break,
            Err(code) => return Err(code.into()),
        }
    }
    Ok(done)
}
