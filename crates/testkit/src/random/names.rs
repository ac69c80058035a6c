// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates random operations that make, remove, rename and link names.

use openpath_abi::fcntl as f;

use super::Gen;
use super::guess::Kind;
use crate::op::{AtFlags, Bits, Dir, Mode, OFlags, Op, Path, RFlags};

impl Gen {
    pub(super) fn names(&mut self) -> Op {
        match self.rng.below(20) {
            0..3 => {
                let (at, path) = self.new_of();
                Op::Mkdir {
                    at,
                    path,
                    mode: self.mode(),
                }
            }
            3 => self.mknod(),
            4 | 5 => {
                let kind = *self
                    .rng
                    .pick(&[Kind::File, Kind::File, Kind::Link, Kind::Dir]);
                let (at, path) = self.old_of(Some(kind));
                Op::Unlink {
                    at,
                    path,
                    flags: AtFlags(0),
                }
            }
            6 | 7 => {
                let bad = if self.rng.one_in(30) { 0x400 } else { 0 };
                let (at, path) = self.old_of(Some(Kind::Dir));
                Op::Unlink {
                    at,
                    path,
                    flags: AtFlags(0x200 | bad),
                }
            }
            8..14 => self.rename(),
            14..18 => self.link(),
            _ => {
                let target = self.body();
                let (at, path) = self.new_of();
                Op::Symlink { target, at, path }
            }
        }
    }

    fn rename(&mut self) -> Op {
        let flags = self.rng.weighted(&[
            (20, 0),
            (4, 1),
            (5, 2),
            (1, 4),
            (1, 3),
            (1, 6),
            (1, 5),
            (1, 8),
        ]);
        let kind = *self.rng.pick(&[Kind::File, Kind::Dir, Kind::Link]);
        let (at, old) = self.old_of(Some(kind));
        let replaces = flags == 2 || self.rng.below(3) == 0;
        let (at2, new) = if replaces {
            self.old_of(Some(kind))
        } else {
            self.new_of()
        };
        Op::Rename {
            at,
            old,
            at2,
            new,
            flags: RFlags(flags),
        }
    }

    fn link(&mut self) -> Op {
        let (at2, new) = self.new_of();
        if self.rng.one_in(4) {
            let ways = [f::O_WRONLY, f::O_RDWR, f::O_RDWR | f::O_EXCL];
            let acc = self.rng.pick(&ways).bits();
            let flags = OFlags(u64::from(acc));
            let (at, dir) = self.old_of(Some(Kind::Dir));
            return Op::Tmplink {
                at,
                dir,
                flags,
                mode: self.mode(),
                new,
            };
        }
        let flags = self
            .rng
            .weighted(&[(8, 0), (4, 0x400), (2, 0x1000), (1, 0x1)]);
        let (at, old) = if flags == 0x1000 {
            (Dir(self.any_fd().0), Path(Vec::new()))
        } else {
            let kind = *self
                .rng
                .pick(&[Kind::File, Kind::File, Kind::Link, Kind::Other]);
            self.old_of(Some(kind))
        };
        Op::Link {
            at,
            old,
            at2,
            new,
            flags: AtFlags(flags),
        }
    }

    fn mknod(&mut self) -> Op {
        let kind = self.rng.weighted(&[
            (6, 0o100000u64),
            (3, 0),
            (2, 0o140000),
            (1, 0o020000),
            (1, 0o060000),
            (1, 0o040000),
            (1, 0o120000),
        ]);
        let dev = if matches!(kind, 0o20000 | 0o60000) {
            *self.rng.pick(&[0, 0xf04d])
        } else {
            0
        };
        let ((at, path), mode) = (self.new_of(), self.mode());
        Op::Mknod {
            at,
            path,
            mode: Mode(mode.0 | kind),
            dev: Bits(dev),
        }
    }
}
