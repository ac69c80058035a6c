// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes random operations on files and names beneath mounts.

use openpath_abi::fcntl::O_RDONLY;
use openpath_abi::{ResolveFlags, fcntl as f, rename as rn, resolve as r};

use super::{Gen, SUB, TOP, TREES, path};
use crate::op::{AtFlags, CWD, Dir, Fd, Keep, Mode, OFlags, Op, Path, RFlags, Resolve};

impl Gen {
    /// A number that may be open.
    pub(super) fn fd(&mut self) -> Fd {
        let all = [0, 0, 1, 1, 2, 3, TREES[0], TREES[1]];
        Fd(*self.rng.pick(&all))
    }

    /// A start for a relative path, and a directory's path.
    fn from(&mut self) -> (Dir, Path) {
        if self.rng.one_in(6) {
            let below = ["x", "y", "..", "../..", ".", "x/..", "f", "../b/x"];
            let below = *self.rng.pick(&below);
            return (Dir(self.fd().0), path(below));
        }
        (CWD, self.dir())
    }

    /// A file's path.
    fn file(&mut self) -> (Dir, Path) {
        let (at, dir) = self.from();
        let name = *self.rng.pick(&["f", "f", "g", "l"]);
        (at, Path([&dir.0[..], b"/", name.as_bytes()].concat()))
    }

    pub(super) fn open(&mut self) -> Op {
        let keep = match self.rng.below(6) {
            0 => Keep::Look,
            n => Keep::At(i32::try_from(n % 4).unwrap_or(0)),
        };
        let (kind, on_dir) = self.rng.weighted(&[
            (6, (f::O_RDONLY | f::O_DIRECTORY, true)),
            (3, (f::O_PATH | f::O_DIRECTORY, true)),
            (2, (f::O_PATH, true)),
            (4, (f::O_RDWR, false)),
            (2, (f::O_WRONLY, false)),
            (3, (f::O_RDWR | f::O_CREAT, false)),
            (1, (f::O_WRONLY | f::O_TRUNC, false)),
            (2, (f::O_RDONLY, false)),
        ]);
        let (at, path) = if on_dir { self.from() } else { self.file() };
        let flags = OFlags(u64::from(kind));
        let mode = Mode(if kind & f::O_CREAT != O_RDONLY {
            0o644
        } else {
            0
        });
        match self.rng.below(8) {
            0..3 => Op::Close { fd: self.fd() },
            3..5 => Op::Open {
                keep,
                at,
                path,
                flags,
                mode,
            },
            _ => {
                let resolve = self.rng.weighted(&[
                    (4, r::RESOLVE_NO_XDEV),
                    (3, r::RESOLVE_BENEATH),
                    (3, r::RESOLVE_IN_ROOT),
                    (2, r::RESOLVE_NO_XDEV | r::RESOLVE_IN_ROOT),
                    (1, r::RESOLVE_NO_SYMLINKS),
                    (2, ResolveFlags::empty()),
                ]);
                Op::Openat2 {
                    keep,
                    at,
                    path,
                    flags,
                    mode,
                    resolve: Resolve(resolve.bits()),
                }
            }
        }
    }

    pub(super) fn names(&mut self) -> Op {
        let (at, place) = self.from();
        match self.rng.below(16) {
            0..3 => Op::Mkdir {
                at,
                path: place,
                mode: Mode(0o755),
            },
            3..6 => Op::Unlink {
                at,
                path: place,
                flags: AtFlags(u64::from(f::AT_REMOVEDIR.bits())),
            },
            6 | 7 => {
                let (at, path) = self.file();
                let flags = AtFlags(0);
                Op::Unlink { at, path, flags }
            }
            8..13 => self.rename(),
            13 => {
                let ((at, old), (at2, new)) = (self.file(), self.file());
                let flags = AtFlags(0);
                Op::Link {
                    at,
                    old,
                    at2,
                    new,
                    flags,
                }
            }
            14 => Op::Symlink {
                target: path(format!("../{}", self.rng.pick(TOP))),
                at: CWD,
                path: path(format!("{}/l", self.rng.pick(TOP))),
            },
            _ => {
                let (at, path) = self.file();
                let flags = OFlags(u64::from(f::O_RDWR | f::O_CREAT));
                Op::Open {
                    keep: Keep::Look,
                    at,
                    path,
                    flags,
                    mode: Mode(0o644),
                }
            }
        }
    }

    fn rename(&mut self) -> Op {
        let flags = self.rng.weighted(&[
            (8, 0),
            (3, rn::RENAME_EXCHANGE.bits()),
            (1, rn::RENAME_NOREPLACE.bits()),
        ]);
        let files = self.rng.below(4) == 0;
        let (at, old) = if files { self.file() } else { self.from() };
        let (at2, new) = match self.rng.below(4) {
            _ if files => self.file(),
            // Outside the part of a tree that a mount shows.
            0 => (CWD, path(self.rng.pick(&["out", "/out", "a/out", "b/out"]))),
            1 => (
                CWD,
                path(format!("{}/{}", self.rng.pick(TOP), self.rng.pick(SUB))),
            ),
            _ => self.from(),
        };
        Op::Rename {
            at,
            old,
            at2,
            new,
            flags: RFlags(u64::from(flags)),
        }
    }
}
