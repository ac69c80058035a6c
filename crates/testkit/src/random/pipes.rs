// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates random operations on pipes, FIFOs and devices. Nothing waits: see [`super::tame`].

use openpath_abi::fcntl as f;
use openpath_abi::fcntl::O_RDONLY;

use super::Gen;
use super::guess::Kind;
use crate::op::{Cmd, Fd, Lens, Mode, OFlags, Off, Op, PollFlags, Request, RwFlags};

/// Lengths around a page, around a pipe of one page, and around one of sixteen.
const LENGTHS: &[i64] = &[
    0, 1, 2, 5, 100, 1000, 4095, 4096, 4097, 5000, 8192, 20_000, 65_535, 65_536, 70_000,
];
const SIZES: &[i64] = &[0, 1, 4096, 4097, 8192, 65_536, 100_000, 1 << 20, -1];

impl Gen {
    pub(super) fn pipes(&mut self) -> Op {
        let open = self.guess.tables.open();
        let few = open.values().filter(|h| is_pipe(h.kind)).count() < 2;
        let (reads, writes) = (self.pipe(true, false), self.pipe(false, true));
        let len = *self.rng.pick(LENGTHS);
        let seed = i64::try_from(self.rng.below(23)).unwrap_or(0);
        let any = self.pipe(false, false);
        match self.rng.below(40) {
            _ if few => self.make_pipe(),
            0..4 => self.make_pipe(),
            4..12 => Op::Write {
                fd: writes,
                len,
                seed,
            },
            12..18 => Op::Read { fd: reads, len },
            18 | 19 => Op::Writev {
                fd: writes,
                lens: self.lengths(),
                seed,
            },
            20 | 21 => Op::Readv {
                fd: reads,
                lens: self.lengths(),
            },
            22 => Op::Preadv2 {
                fd: reads,
                lens: self.lengths(),
                off: *self.rng.pick(&[-1, -1, -1, 0]),
                flags: RwFlags(1 << self.rng.below(9)),
            },
            23 => Op::Pwritev2 {
                fd: writes,
                lens: self.lengths(),
                off: *self.rng.pick(&[-1, -1, -1, 0]),
                flags: RwFlags(1 << self.rng.below(9)),
                seed,
            },
            24..27 => Op::Fcntl {
                fd: any,
                cmd: Cmd(f::F_SETPIPE_SZ),
                arg: *self.rng.pick(SIZES),
            },
            27..30 => self.ask(any),
            30..33 => Op::Poll {
                fd: any,
                events: PollFlags(0x3ff),
            },
            33 => Op::Ioctl {
                fd: any,
                request: Request(self.rng.pick(Request::NAMES).1),
                arg: 1,
            },
            34 | 35 => Op::Close { fd: any },
            36 => Op::Lseek {
                fd: any,
                off: 1,
                whence: self.rng.below(4) as i64,
            },
            _ => self.send(len),
        }
    }

    /// Asks for the size or the bytes in it, or changes its flags.
    fn ask(&mut self, fd: Fd) -> Op {
        if self.rng.one_in(3) {
            return Op::Fcntl {
                fd,
                cmd: Cmd(f::F_GETPIPE_SZ),
                arg: 0,
            };
        }
        let flags = self
            .rng
            .weighted(&[(4, f::O_DIRECT), (3, O_RDONLY), (1, f::O_APPEND)]);
        Op::SetFl {
            fd,
            flags: OFlags(u64::from(flags)),
        }
    }

    /// A descriptor of a pipe, a FIFO or a device.
    fn pipe(&mut self, reads: bool, writes: bool) -> Fd {
        let kind = *self
            .rng
            .pick(&[Kind::Pipe, Kind::Pipe, Kind::Pipe, Kind::Other]);
        self.fd_of(kind, reads, writes)
    }

    fn make_pipe(&mut self) -> Op {
        if self.rng.one_in(3) {
            let more = self.rng.weighted(&[
                (6, 0),
                (2, f::O_DIRECT.bits()),
                (1, f::O_CLOEXEC.bits()),
                (1, f::O_APPEND.bits()),
            ]);
            return Op::Pipe2 {
                flags: OFlags(u64::from(f::O_NONBLOCK.bits() | more)),
            };
        }
        let kind = *self.rng.pick(&[Kind::Pipe, Kind::Pipe, Kind::Other]);
        let (at, path) = self.old_of(Some(kind));
        let access = self.rng.weighted(&[(4, 0), (4, 1), (5, 2), (1, 3)]);
        Op::Open {
            keep: self.keep(),
            at,
            path,
            flags: OFlags(u64::from(f::O_NONBLOCK.bits() | access)),
            mode: Mode(0),
        }
    }

    fn lengths(&mut self) -> Lens {
        let count = self.rng.below(4);
        Lens((0..count).map(|_| *self.rng.pick(LENGTHS)).collect())
    }

    fn send(&mut self, len: i64) -> Op {
        let kinds = [Kind::File, Kind::Other, Kind::Pipe];
        let (from, to) = (*self.rng.pick(&kinds), *self.rng.pick(&kinds));
        let off = *self.rng.pick(&[None, Some(0), Some(5)]);
        Op::Sendfile {
            to: self.fd_of(to, false, true),
            fd: self.fd_of(from, true, false),
            off: Off(off),
            len,
        }
    }
}

fn is_pipe(kind: Kind) -> bool {
    matches!(kind, Kind::Pipe | Kind::Other)
}
