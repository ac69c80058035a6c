// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates the random operations of a case: it chooses a family by the case's preference. Opens,
//! stat, attributes, directories, working directories, mounts and extended attributes are made
//! here, the others in the modules beside.

use openpath_abi::{fcntl as f, mount as m, statx as x};

use super::Gen;
use super::guess::Kind;
use crate::op::{
    Access, AtFlags, Bits, Dir, Keep, Mode, MsFlags, OFlags, Obj, Op, Path, Resolve, Time, UFlags,
    XFlags,
};
use crate::rng::Rng;

/// The family of operations that a case prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lean {
    Open,
    Names,
    Rights,
    Mounts,
    Data,
    Table,
    Tasks,
    Notify,
    Pipes,
    All,
}

type Make = fn(&mut Gen) -> Op;

/// The families, in the order of their weights.
const FAMILIES: &[Make] = &[
    Gen::open,
    Gen::look,
    Gen::names,
    Gen::attrs,
    Gen::data,
    Gen::dirs,
    Gen::task,
    Gen::mounts,
    Gen::xattrs,
    Gen::table,
    Gen::tasks,
    Gen::notify,
    Gen::pipes,
];

impl Lean {
    pub(super) fn pick(rng: &mut Rng, tree: &str) -> Lean {
        if tree == "mounts" && rng.below(3) > 0 {
            return Lean::Mounts;
        }
        if tree == "special" && rng.below(4) > 0 {
            return Lean::Pipes;
        }
        *rng.pick(&[
            Lean::Open,
            Lean::Names,
            Lean::Rights,
            Lean::Data,
            Lean::Table,
            Lean::Table,
            Lean::Tasks,
            Lean::Notify,
            Lean::All,
            Lean::All,
        ])
    }

    /// Open, look, names, attributes, data, directories, task, mounts, xattr, table, tasks, notify,
    /// pipes.
    fn weights(self) -> [usize; 13] {
        match self {
            Lean::Open => [40, 10, 15, 8, 4, 3, 5, 1, 1, 3, 0, 0, 0],
            Lean::Names => [12, 8, 50, 5, 3, 8, 5, 2, 1, 1, 0, 0, 0],
            Lean::Rights => [25, 12, 20, 20, 5, 2, 12, 1, 12, 2, 1, 0, 0],
            Lean::Mounts => [20, 12, 18, 8, 4, 5, 5, 25, 2, 4, 1, 0, 0],
            Lean::Data => [18, 6, 8, 12, 60, 10, 3, 1, 7, 8, 1, 0, 0],
            Lean::Table => [24, 2, 2, 2, 14, 2, 1, 1, 1, 50, 3, 0, 1],
            Lean::Tasks => [22, 2, 2, 2, 12, 2, 2, 1, 0, 28, 22, 0, 2],
            Lean::Notify => [16, 3, 14, 8, 12, 2, 2, 2, 3, 5, 1, 25, 0],
            Lean::Pipes => [10, 2, 5, 3, 3, 1, 2, 1, 0, 10, 3, 0, 70],
            Lean::All => [15, 12, 20, 12, 12, 8, 8, 6, 7, 12, 3, 0, 1],
        }
    }
}

const MODES: &[u64] = &[
    0, 0o644, 0o600, 0o666, 0o755, 0o777, 0o700, 0o1777, 0o2775, 0o6777, 0o4711, 0o444, 0o111,
];
const NAMES: &[&str] = &[
    "user.a",
    "user.b",
    "trusted.a",
    "user.",
    "user",
    "nosuch.a",
    "",
];

fn path(s: &str) -> Path {
    Path(s.as_bytes().to_vec())
}

impl Gen {
    pub(super) fn op(&mut self) -> Op {
        let weights = self.lean.weights();
        let table: Vec<(usize, Make)> = weights.into_iter().zip(FAMILIES.iter().copied()).collect();
        self.rng.weighted(&table)(self)
    }

    /// A subset of these flags, each with a low chance.
    fn some(&mut self, flags: &[u32], one_in: usize) -> u32 {
        flags.iter().fold(0, |sum, f| {
            if self.rng.one_in(one_in) {
                sum | f
            } else {
                sum
            }
        })
    }

    pub(super) fn mode(&mut self) -> Mode {
        Mode(*self.rng.pick(MODES))
    }

    pub(super) fn oflags(&mut self) -> OFlags {
        let acc = self.rng.weighted(&[(9, 0), (3, 1), (8, 2), (1, 3)]);
        let kind = self.rng.weighted(&[
            (10, 0),
            (9, f::O_CREAT.bits()),
            (4, f::O_CREAT.bits() | f::O_EXCL.bits()),
            (2, f::O_CREAT.bits() | f::O_TRUNC.bits()),
            (3, f::O_TRUNC.bits()),
            (3, f::O_PATH.bits()),
            (2, f::O_PATH.bits() | f::O_NOFOLLOW.bits()),
            (4, f::O_DIRECTORY.bits()),
            (1, f::O_TMPFILE.bits()),
            (1, f::O_TMPFILE.bits() | f::O_EXCL.bits()),
        ]);
        let more = [
            f::O_NOFOLLOW.bits(),
            f::O_APPEND.bits(),
            f::O_NONBLOCK.bits(),
            f::O_CLOEXEC.bits(),
        ];
        let rare = [
            f::O_NOATIME.bits(),
            f::O_SYNC.bits(),
            f::O_DSYNC.bits(),
            f::O_DIRECT.bits(),
            f::O_EXCL.bits(),
            f::O_NOCTTY.bits(),
            f::O_DIRECTORY.bits(),
            f::O_TMPFILE_ONLY.bits(),
            f::O_CREAT.bits(),
            f::O_TRUNC.bits(),
            1 << 26,
        ];
        // Directories are mostly opened for reading, because other opens fail.
        let acc = if kind == f::O_DIRECTORY.bits() && !self.rng.one_in(8) {
            0
        } else {
            acc
        };
        let flags = acc | kind | self.some(&more, 15) | self.some(&rare, 80);
        OFlags(u64::from(flags))
    }

    pub(super) fn keep(&mut self) -> Keep {
        match self.rng.below(8) {
            0 | 1 => Keep::Look,
            2..6 => Keep::Open,
            _ => Keep::At(self.fd().0),
        }
    }

    /// A start, and a path that suits the flags.
    fn path_for(&mut self, flags: OFlags) -> (Dir, Path) {
        let flags = flags.low();
        if flags & f::O_CREAT.bits() != 0
            && (flags & f::O_EXCL.bits() != 0 || self.rng.below(3) > 0)
        {
            return self.new_of();
        }
        let wants_dir = flags & f::O_DIRECTORY.bits() != 0;
        let likely = match self.rng.below(8) {
            _ if wants_dir => Some(Kind::Dir),
            0..5 => Some(Kind::File),
            5 => Some(Kind::Link),
            _ => None,
        };
        self.old_of(likely)
    }

    fn open(&mut self) -> Op {
        let (keep, flags, mode) = (self.keep(), self.oflags(), self.mode());
        let (at, path) = self.path_for(flags);
        match self.rng.below(12) {
            0..7 => Op::Open {
                keep,
                at,
                path,
                flags,
                mode,
            },
            7..11 => self.openat2(keep, at, path, flags, mode),
            _ => Op::Close { fd: self.any_fd() },
        }
    }

    fn openat2(&mut self, keep: Keep, at: Dir, path: Path, flags: OFlags, mode: Mode) -> Op {
        let resolve = self.resolve();
        let made = flags.low() & (f::O_CREAT.bits() | f::O_TMPFILE_ONLY.bits()) != 0;
        let mode = if made || self.rng.one_in(30) {
            mode
        } else {
            Mode(0)
        };
        let path_only = (f::O_PATH | f::O_DIRECTORY | f::O_NOFOLLOW | f::O_CLOEXEC).bits();
        let clean = flags.low() & f::O_PATH.bits() != 0 && !self.rng.one_in(10);
        let flags = if clean {
            flags.low() & path_only
        } else {
            flags.low()
        };
        let flags = OFlags(u64::from(flags));
        let beneath = resolve.0 & 8 != 0 && !self.rng.one_in(10);
        let path = if beneath && path.0.first() == Some(&b'/') && path.0.len() < 1000 {
            let from = path.0.iter().position(|b| *b != b'/').unwrap_or(0);
            Path(path.0[from..].to_vec())
        } else {
            path
        };
        Op::Openat2 {
            keep,
            at,
            path,
            flags,
            mode,
            resolve,
        }
    }

    fn resolve(&mut self) -> Resolve {
        Resolve(match self.rng.below(20) {
            0..5 => 8,
            5..10 => 16,
            10..12 => 4,
            12..15 => 1,
            15 => 2,
            16 => self.rng.bits() & 0x1f,
            17 => self.rng.bits() & 0xdf,
            _ => 0,
        })
    }

    fn look(&mut self) -> Op {
        let (at, path) = self.old_of(None);
        let (all, rare) = (
            [f::AT_SYMLINK_NOFOLLOW.bits(), f::AT_EMPTY_PATH.bits()],
            [f::AT_NO_AUTOMOUNT.bits(), 1],
        );
        let flags = AtFlags(u64::from(self.some(&all, 3) | self.some(&rare, 30)));
        let (at, path) = if flags.low() & f::AT_EMPTY_PATH.bits() != 0 && self.rng.below(2) == 0 {
            (Dir(self.any_fd().0), Path(Vec::new()))
        } else {
            (at, path)
        };
        let mode = Access(self.rng.bits() & 7);
        match self.rng.below(12) {
            0 => Op::Stat { path: self.old() },
            1 => Op::Lstat { path: self.old() },
            2 | 3 => Op::Fstatat { at, path, flags },
            4 => {
                let mask =
                    *self
                        .rng
                        .pick(&[x::STATX_BASIC_STATS.bits(), 0xfff, 0, x::STATX_MODE.bits()]);
                Op::Statx {
                    at,
                    path,
                    flags,
                    mask: Bits(u64::from(mask)),
                }
            }
            5 => Op::Access {
                path: self.old(),
                mode,
            },
            6 => {
                let flags = AtFlags(flags.0 | if self.rng.one_in(3) { 0x200 } else { 0 });
                Op::Faccessat2 {
                    at,
                    path,
                    mode,
                    flags,
                }
            }
            7 | 8 => {
                let (at, path) = self.old_of(Some(Kind::Link));
                Op::Readlink { at, path }
            }
            9 => Op::Statfs { path: self.old() },
            10 => Op::Fstat { fd: self.any_fd() },
            _ => Op::GetFl { fd: self.any_fd() },
        }
    }

    fn owner(&mut self) -> i64 {
        *self.rng.pick(&[-1, -1, 0, 1000, 1001, 2000])
    }

    fn time(&mut self) -> Time {
        *self.rng.pick(&[
            Time::Now,
            Time::Now,
            Time::Omit,
            Time::At(1, 0),
            Time::At(1_000_000, 999_999_999),
            Time::At(4_000_000_000, 1),
            Time::At(0, 1_000_000_000),
            Time::At(-5, 7),
        ])
    }

    fn attrs(&mut self) -> Op {
        let (at, path) = self.old_of(None);
        let flags = AtFlags(
            self.rng
                .weighted(&[(12, 0), (4, 0x100), (1, 0x1000), (1, 0x400)]),
        );
        match self.rng.below(12) {
            0..4 => Op::Chmod {
                at,
                path,
                mode: self.mode(),
                flags,
            },
            4 => Op::Fchmod {
                fd: self.any_fd(),
                mode: self.mode(),
            },
            5..8 => Op::Chown {
                at,
                path,
                uid: self.owner(),
                gid: self.owner(),
                flags,
            },
            8 => Op::Fchown {
                fd: self.any_fd(),
                uid: self.owner(),
                gid: self.owner(),
            },
            9 | 10 => Op::Utimens {
                at,
                path,
                atime: self.time(),
                mtime: self.time(),
                flags,
            },
            _ => Op::Futimens {
                fd: self.any_fd(),
                atime: self.time(),
                mtime: self.time(),
            },
        }
    }

    fn dirs(&mut self) -> Op {
        let fd = self.fd_of(Kind::Dir, true, false);
        match self.rng.below(10) {
            0 | 1 => {
                let (at, path) = self.old_of(Some(Kind::Dir));
                Op::Ls { at, path }
            }
            2 | 3 => {
                let (at, path) = self.old_of(Some(Kind::Dir));
                let flags = OFlags(u64::from(f::O_DIRECTORY));
                Op::Open {
                    keep: self.keep(),
                    at,
                    path,
                    flags,
                    mode: Mode(0),
                }
            }
            4..8 => Op::DirRead {
                fd,
                bytes: *self.rng.pick(&[280, 280, 300, 1000, 4096]),
            },
            8 => Op::Rewind { fd },
            _ => Op::Cookies { fd },
        }
    }

    fn task(&mut self) -> Op {
        match self.rng.below(24) {
            0..9 => Op::Cred {
                uid: *self.rng.pick(&[0, 0, 1000, 1000, 1001]),
            },
            9..12 => Op::Umask {
                mask: Mode(*self.rng.pick(&[0, 0o22, 0o77, 0o777, 0o27])),
            },
            12..15 => Op::Getcwd {},
            15..20 => Op::Chdir {
                path: self.old_of(Some(Kind::Dir)).1,
            },
            20..23 => Op::Fchdir {
                fd: self.fd_of(Kind::Dir, false, false),
            },
            _ => Op::Chroot {
                path: self.old_of(Some(Kind::Dir)).1,
            },
        }
    }

    fn msflags(&mut self) -> MsFlags {
        let all = [
            m::MS_RDONLY,
            m::MS_NODEV,
            m::MS_NOSYMFOLLOW,
            m::MS_NOATIME,
            m::MS_NODIRATIME,
            m::MS_STRICTATIME,
            m::MS_NOSUID,
            m::MS_NOEXEC,
        ];
        let mut flags = 0;
        for flag in all {
            if self.rng.one_in(8) {
                flags |= flag;
            }
        }
        MsFlags(flags)
    }

    fn mounts(&mut self) -> Op {
        match self.rng.below(12) {
            0 | 1 => Op::Mount {
                path: self.old_of(Some(Kind::Dir)).1,
                flags: self.msflags(),
            },
            2..5 => {
                let kind = if self.rng.one_in(5) {
                    Kind::File
                } else {
                    Kind::Dir
                };
                let source = self.old_of(Some(kind)).1;
                let target = self.old_of(Some(kind)).1;
                let flags = MsFlags(if self.rng.one_in(5) { m::MS_REC } else { 0 });
                Op::Bind {
                    source,
                    target,
                    flags,
                }
            }
            5..8 => Op::RemountBind {
                path: self.mounted(),
                flags: self.msflags(),
            },
            8 => Op::RemountSb {
                path: self.mounted(),
                flags: MsFlags(self.rng.bits() & 1),
            },
            _ => {
                let flags = self
                    .rng
                    .weighted(&[(5, 0), (4, 2), (1, 8), (1, 4), (1, 16), (1, 6)]);
                Op::Umount {
                    path: self.mounted(),
                    flags: UFlags(flags),
                }
            }
        }
    }

    /// The object of an attribute call.
    pub(super) fn object(&mut self) -> Obj {
        match self.rng.below(5) {
            0 => Obj::Fd(self.any_fd()),
            1 => Obj::LPath(self.old()),
            2 => Obj::Path(self.old_of(Some(Kind::Dir)).1),
            _ => Obj::Path(self.old_of(Some(Kind::File)).1),
        }
    }

    fn xattrs(&mut self) -> Op {
        if self.rng.below(2) == 0 {
            return self.acls();
        }
        let obj = self.object();
        let name = match self.rng.below(14) {
            0 => Path([b"user.".to_vec(), vec![b'k'; 249 + self.rng.below(3)]].concat()),
            1 | 2 => {
                let name: &&str = self.rng.pick(NAMES);
                path(name)
            }
            3..5 => path("trusted.a"),
            _ => path("user.a"),
        };
        match self.rng.below(8) {
            0..4 => {
                let len = *self.rng.pick(&[0, 1, 3, 100, 5000, 65536, 65537]);
                let len = if self.rng.below(3) > 0 {
                    len.min(3)
                } else {
                    len
                };
                let flags = self
                    .rng
                    .weighted(&[(12, 0), (2, 1), (2, 2), (1, 3), (1, 4)]);
                Op::SetXattr {
                    obj,
                    name,
                    value: Path(vec![b'v'; len]),
                    flags: XFlags(flags),
                }
            }
            4 | 5 => Op::GetXattr { obj, name },
            6 => Op::ListXattr { obj },
            _ => Op::RemoveXattr { obj, name },
        }
    }
}
