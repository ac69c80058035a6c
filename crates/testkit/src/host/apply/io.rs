// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies a case's operations on open files on the host: reads, writes, seeks, copies, allocation,
//! sync, advice, ioctl and poll.

use openpath_abi::{Errno, fcntl as f, mode};

use super::{Done, id, plain};
use crate::host::actor::Stage;
use crate::op::{Lens, Op, content, pieces, size, space};
use crate::outcome::Outcome;
use crate::skips;
use crate::sys;

fn lengths(lens: &Lens) -> Vec<usize> {
    lens.0.iter().map(|l| size(*l)).collect()
}

/// The bytes read; for an object in no file system only that the read succeeded.
fn bytes(fd: i32, r: Result<Vec<u8>, Errno>) -> Done {
    r.map(|data| match sys::fstat(fd) {
        Ok(s) if mode::file_type(s.mode) == 0 => Outcome::Ok,
        _ => Outcome::Bytes(data),
    })
}

fn copied(r: sys::Ret, offsets: [Option<i64>; 2]) -> Done {
    r.map(|n| {
        let after = offsets.into_iter().flatten();
        Outcome::Nums([n].into_iter().chain(after).collect())
    })
}

/// lseek(2), except of a directory.
fn seek(fd: i32, off: i64, whence: i64) -> Done {
    match sys::fstat(fd) {
        Ok(s) if mode::is_dir(s.mode) => Ok(Outcome::Skip(skips::LSEEK_DIRECTORY)),
        _ => sys::lseek(fd, off, id(whence)).map(Outcome::Num),
    }
}

/// Whether sendfile(2) would copy part of a file over another part that it reads.
fn overlaps(to: i32, from: i32, off: Option<i64>, len: i64) -> bool {
    let (Ok(a), Ok(b)) = (sys::fstat(to), sys::fstat(from)) else {
        return false;
    };
    let stands = |fd| sys::lseek(fd, 0, f::SEEK_CUR).unwrap_or(0);
    let (at, from) = (stands(to), off.unwrap_or_else(|| stands(from)));
    (a.dev, a.ino) == (b.dev, b.ino) && at != from && at.abs_diff(from) < len.unsigned_abs()
}

impl Stage {
    pub(super) fn file_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Pread { fd, len, off } => bytes(fd.0, sys::pread(fd.0, size(*len), *off)),
            Op::Pwrite { fd, len, off, seed } => {
                let data = content(*seed, *off, *len);
                sys::pwrite(fd.0, &data, *off).map(Outcome::Num)
            }
            Op::Read { fd, len } => bytes(fd.0, sys::read(fd.0, size(*len))),
            Op::Write { fd, len, seed } => {
                sys::write(fd.0, &content(*seed, 0, *len)).map(Outcome::Num)
            }
            Op::Readv { fd, lens } => bytes(fd.0, sys::readv(fd.0, &lengths(lens), None)),
            Op::Preadv2 {
                fd,
                lens,
                off,
                flags,
            } => {
                let at = Some((*off, flags.low()));
                bytes(fd.0, sys::readv(fd.0, &lengths(lens), at))
            }
            Op::Writev { fd, lens, seed } => {
                sys::writev(fd.0, &pieces(*seed, lens), None).map(Outcome::Num)
            }
            Op::Pwritev2 {
                fd,
                lens,
                off,
                flags,
                seed,
            } => {
                let at = Some((*off, flags.low()));
                sys::writev(fd.0, &pieces(*seed, lens), at).map(Outcome::Num)
            }
            Op::Lseek { fd, off, whence } => seek(fd.0, *off, *whence),
            _ => return None,
        })
    }

    pub(super) fn space_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Fallocate { fd, mode, off, len } => {
                plain(sys::fallocate(fd.0, mode.low(), *off, space(*len)))
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
                let (from, to) = ((fd.0, &mut off), (to.0, &mut at));
                let r = sys::copy_file_range(from, to, size(*len), flags.low());
                copied(r, [off, at])
            }
            Op::Sendfile { to, fd, off, len } if overlaps(to.0, fd.0, off.0, *len) => {
                Ok(Outcome::Skip(skips::SENDFILE_OVERLAP))
            }
            Op::Sendfile { to, fd, off, len } => {
                let mut off = off.0;
                let r = sys::sendfile(to.0, fd.0, &mut off, size(*len));
                copied(r, [off, None])
            }
            Op::Fsync { fd } => plain(sys::fsync(fd.0)),
            Op::Fdatasync { fd } => plain(sys::fdatasync(fd.0)),
            Op::Syncfs { fd } => plain(sys::syncfs(fd.0)),
            Op::Fadvise {
                fd,
                off,
                len,
                advice,
            } => plain(sys::fadvise(fd.0, *off, *len, id(*advice))),
            Op::Ioctl { fd, request, arg } => {
                sys::ioctl(fd.0, request.0, *arg).map(|b| Outcome::Bytes(b.to_vec()))
            }
            Op::Poll { fd, events } => {
                let events = u16::try_from(events.low() & 0xffff).unwrap_or(0);
                sys::poll(fd.0, events).map(|got| Outcome::Num(i64::from(got)))
            }
            _ => return None,
        })
    }
}
