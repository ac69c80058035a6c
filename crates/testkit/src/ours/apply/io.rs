// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies a case's operations on open files on openpath: reads, writes, seeks, copies, allocation,
//! sync, advice, ioctl and poll.

use std::io::{IoSlice, IoSliceMut};

use openpath_abi::{Errno, mode};
use openpath_vfs::Task;

use super::{Done, id, number, plain};
use crate::op::{Lens, Op, content, pieces, size, space};
use crate::ours::Ours;
use crate::outcome::Outcome;

/// Reads with a buffer of this length; for an object in no file system the bytes are dropped.
fn bytes(
    task: &Task,
    fd: i32,
    len: i64,
    read: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Done {
    let mut buffer = vec![0; size(len)];
    let got = read(&mut buffer)?;
    buffer.truncate(got);
    match task.fstat(fd) {
        Ok(s) if mode::file_type(s.mode) == 0 => Ok(Outcome::Ok),
        _ => Ok(Outcome::Bytes(buffer)),
    }
}

/// Reads into buffers of these lengths.
fn scattered(
    task: &Task,
    fd: i32,
    lens: &Lens,
    read: impl FnOnce(&mut [IoSliceMut<'_>]) -> Result<usize, Errno>,
) -> Done {
    let whole: usize = lens.0.iter().map(|l| size(*l)).sum();
    bytes(task, fd, i64::try_from(whole).unwrap_or(0), |buffer| {
        let mut rest = buffer;
        let mut parts = Vec::new();
        for len in &lens.0 {
            let (part, after) = rest.split_at_mut(size(*len));
            parts.push(IoSliceMut::new(part));
            rest = after;
        }
        read(&mut parts)
    })
}

/// Writes these pieces.
fn gathered(
    seed: i64,
    lens: &Lens,
    write: impl FnOnce(&[IoSlice<'_>]) -> Result<usize, Errno>,
) -> Done {
    let data = pieces(seed, lens);
    let parts: Vec<IoSlice<'_>> = data.iter().map(|d| IoSlice::new(d)).collect();
    write(&parts).map(number)
}

fn copied(r: Result<usize, Errno>, offsets: [Option<i64>; 2]) -> Done {
    r.map(|n| {
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        let after = offsets.into_iter().flatten();
        Outcome::Nums([n].into_iter().chain(after).collect())
    })
}

impl Ours<'_> {
    pub(super) fn file_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::Pread { fd, len, off } => bytes(task, fd.0, *len, |b| task.pread(fd.0, b, *off)),
            Op::Pwrite { fd, len, off, seed } => {
                let data = content(*seed, *off, *len);
                task.pwrite(fd.0, &data, *off).map(number)
            }
            Op::Read { fd, len } => bytes(task, fd.0, *len, |b| task.read(fd.0, b)),
            Op::Write { fd, len, seed } => task.write(fd.0, &content(*seed, 0, *len)).map(number),
            Op::Readv { fd, lens } => scattered(task, fd.0, lens, |b| task.readv(fd.0, b)),
            Op::Preadv2 {
                fd,
                lens,
                off,
                flags,
            } => scattered(task, fd.0, lens, |b| {
                task.preadv2(fd.0, b, *off, flags.low())
            }),
            Op::Writev { fd, lens, seed } => gathered(*seed, lens, |d| task.writev(fd.0, d)),
            Op::Pwritev2 {
                fd,
                lens,
                off,
                flags,
                seed,
            } => gathered(*seed, lens, |d| task.pwritev2(fd.0, d, *off, flags.low())),
            Op::Lseek { fd, off, whence } => task.lseek(fd.0, *off, id(*whence)).map(Outcome::Num),
            _ => return None,
        })
    }

    pub(super) fn space_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::Fallocate { fd, mode, off, len } => {
                plain(task.fallocate(fd.0, mode.low(), *off, space(*len)))
            }
            Op::CopyRange {
                fd,
                off,
                to,
                at,
                len,
                flags,
            } => {
                let (mut off, mut at) = (off.0, at.0);
                let (a, b) = (off.as_mut(), at.as_mut());
                let done = task.copy_file_range(fd.0, a, to.0, b, size(*len), flags.low());
                copied(done, [off, at])
            }
            Op::Sendfile { to, fd, off, len } => {
                let mut off = off.0;
                let done = task.sendfile(to.0, fd.0, off.as_mut(), size(*len));
                copied(done, [off, None])
            }
            Op::Fsync { fd } => plain(task.fsync(fd.0)),
            Op::Fdatasync { fd } => plain(task.fdatasync(fd.0)),
            Op::Syncfs { fd } => plain(task.syncfs(fd.0)),
            Op::Fadvise {
                fd,
                off,
                len,
                advice,
            } => plain(task.posix_fadvise(fd.0, *off, *len, id(*advice))),
            Op::Ioctl { fd, request, arg } => {
                let mut b = arg.to_le_bytes();
                task.ioctl(fd.0, request.0, &mut b)
                    .map(|_| Outcome::Bytes(b.to_vec()))
            }
            Op::Poll { fd, events } => {
                let got = task.poll(fd.0, events.low() & 0xffff);
                Ok(Outcome::Num(i64::from(got)))
            }
            _ => return None,
        })
    }
}
