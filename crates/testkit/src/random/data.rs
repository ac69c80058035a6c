// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates random operations on files' data: reads, writes, seeks, truncations, allocations,
//! copies and sync.

use openpath_abi::fcntl as f;

use super::Gen;
use super::guess::Kind;
use crate::op::{Bits, FaMode, Lens, Mode, OFlags, Off, Op, Request, RwFlags};

const OFFSETS: &[i64] = &[0, 0, 1, 5, 100, 4095, 4096, 5000, 10_000, -1];
const LENGTHS: &[i64] = &[0, 1, 5, 100, 4096, 5000, 9000];
const SIZES: &[i64] = &[0, 0, 1, 10, 4096, 4097, 10_000, -1, 1 << 33, i64::MAX];

impl Gen {
    pub(super) fn data(&mut self) -> Op {
        let (len, off) = (*self.rng.pick(LENGTHS), *self.rng.pick(OFFSETS));
        let seed = i64::try_from(self.rng.below(23)).unwrap_or(0);
        let (any, reads, writes) = (
            self.fd_of(Kind::File, false, false),
            self.fd_of(Kind::File, true, false),
            self.fd_of(Kind::File, false, true),
        );
        match self.rng.below(36) {
            0..2 => Op::Pread {
                fd: reads,
                len,
                off,
            },
            2..5 => Op::Pwrite {
                fd: writes,
                len,
                off,
                seed,
            },
            5..7 => Op::Read { fd: reads, len },
            7..9 => Op::Write {
                fd: writes,
                len,
                seed,
            },
            9 | 10 => {
                let whence = *self.rng.pick(&[0, 0, 1, 2, 3, 4, 5]);
                Op::Lseek {
                    fd: any,
                    off,
                    whence,
                }
            }
            11 => Op::Ftruncate {
                fd: writes,
                len: *self.rng.pick(SIZES),
            },
            12 => {
                let path = self.old_of(Some(Kind::File)).1;
                Op::Truncate {
                    path,
                    len: *self.rng.pick(SIZES),
                }
            }
            13 | 14 => {
                let (at, path) = self.old_of(Some(Kind::File));
                let flags = self
                    .rng
                    .weighted(&[(6, f::O_RDWR), (1, f::O_RDWR | f::O_APPEND)]);
                let (keep, flags) = (self.keep(), OFlags(u64::from(flags)));
                Op::Open {
                    keep,
                    at,
                    path,
                    flags,
                    mode: Mode(0),
                }
            }
            15..24 => self.vectored(len, off, seed),
            24..31 => self.space(len, off),
            _ => self.copy(len),
        }
    }

    fn lens(&mut self, len: i64) -> Lens {
        Lens(
            (0..self.rng.below(4))
                .map(|i| if i == 0 { len } else { *self.rng.pick(LENGTHS) })
                .collect(),
        )
    }

    fn rwflags(&mut self) -> RwFlags {
        let one = 1 << self.rng.below(9);
        RwFlags(
            self.rng
                .weighted(&[(6, 0), (2, one), (2, 0x10), (2, 0x20), (1, 0x30), (1, 8)]),
        )
    }

    fn vectored(&mut self, len: i64, off: i64, seed: i64) -> Op {
        let (lens, flags) = (self.lens(len), self.rwflags());
        let (reads, writes) = (
            self.fd_of(Kind::File, true, false),
            self.fd_of(Kind::File, false, true),
        );
        match self.rng.below(8) {
            0 => Op::Readv { fd: reads, lens },
            1 | 2 => Op::Writev {
                fd: writes,
                lens,
                seed,
            },
            3 | 4 => Op::Preadv2 {
                fd: reads,
                lens,
                off,
                flags,
            },
            _ => Op::Pwritev2 {
                fd: writes,
                lens,
                off,
                flags,
                seed,
            },
        }
    }

    fn space(&mut self, len: i64, off: i64) -> Op {
        let (any, writes) = (self.any_fd(), self.fd_of(Kind::File, false, true));
        let fd = if self.rng.one_in(4) { any } else { writes };
        match self.rng.below(12) {
            0..5 => {
                let mode = self.rng.weighted(&[
                    (12, 0),
                    (10, 1),
                    (15, 3),
                    (2, 2),
                    (1, 8),
                    (2, 0x10),
                    (1, 0x11),
                    (1, 0x20),
                    (1, 0x40),
                    (1, 0x80),
                    (1, 4),
                ]);
                let long = *self.rng.pick(&[4096, 4096, 8192, 1 << 40, i64::MAX]);
                let len = if self.rng.below(2) == 0 { len } else { long };
                Op::Fallocate {
                    fd,
                    mode: FaMode(mode),
                    off,
                    len,
                }
            }
            5 => Op::Fsync { fd },
            6 => Op::Fdatasync { fd },
            7 => Op::Syncfs { fd },
            8 | 9 => Op::Fadvise {
                fd,
                off,
                len: *self.rng.pick(&[0, 4096, -1]),
                advice: self.rng.below(8) as i64,
            },
            _ => Op::Ioctl {
                fd,
                request: Request(self.rng.pick(Request::NAMES).1),
                arg: *self.rng.pick(&[0, 1]),
            },
        }
    }

    fn off(&mut self) -> Off {
        Off(if self.rng.below(2) == 0 {
            None
        } else {
            Some(*self.rng.pick(OFFSETS))
        })
    }

    fn copy(&mut self, len: i64) -> Op {
        let (fd, to) = (
            self.fd_of(Kind::File, true, false),
            self.fd_of(Kind::File, false, true),
        );
        let (off, at) = (self.off(), self.off());
        if self.rng.below(3) == 0 {
            return Op::Sendfile { to, fd, off, len };
        }
        let flags = Bits(self.rng.weighted(&[(15, 0), (1, 1)]));
        Op::CopyRange {
            fd,
            off,
            to,
            at,
            len,
            flags,
        }
    }
}
