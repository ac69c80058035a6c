// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates random operations on descriptor tables, tasks and inotify queues.

use openpath_abi::{fcntl as f, inotify as i};

use super::Gen;
use super::guess::Kind;
use super::ops::Lean;
use crate::op::{CWD, Cmd, Fd, InFlags, Keep, Mode, OFlags, OWN, Op, PollFlags, RangeFlags};

impl Gen {
    pub(super) fn table(&mut self) -> Op {
        let (fd, new) = (self.any_fd(), self.fd());
        match self.rng.below(30) {
            0..5 => Op::Close { fd },
            5..8 => Op::Dup { fd },
            8..12 => Op::Dup2 { fd, new },
            12..14 => {
                let flags = self.rng.weighted(&[
                    (4, 0),
                    (4, f::O_CLOEXEC.bits()),
                    (1, f::O_NONBLOCK.bits()),
                ]);
                Op::Dup3 {
                    fd,
                    new,
                    flags: OFlags(u64::from(flags)),
                }
            }
            14..21 => self.fcntl(fd),
            21..23 => Op::SetFl {
                fd,
                flags: self.settable(),
            },
            23 => Op::GetFl { fd },
            24 | 25 => self.range(),
            26 => Op::Rlimit {
                soft: *self.rng.pick(&[0, 1, 2, 3, 4, 6, 8, 16, 64, 64, 64, 300]),
            },
            27 => Op::Same {
                fd,
                other: self.any_fd(),
            },
            28 => Op::Poll {
                fd,
                events: PollFlags(self.rng.bits() & 0x20ff),
            },
            _ => self.owner_of(fd),
        }
    }

    /// The first operations of a case about descriptors, which open some.
    pub(super) fn in_hand(&mut self) -> Vec<Op> {
        if !matches!(
            self.lean,
            Lean::Table | Lean::Tasks | Lean::Data | Lean::Notify
        ) {
            return Vec::new();
        }
        let kinds = [
            (Kind::File, f::O_RDWR.bits()),
            (Kind::Dir, f::O_DIRECTORY.bits()),
            (Kind::File, f::O_RDWR.bits() | f::O_APPEND.bits()),
            (Kind::File, f::O_RDONLY.bits()),
            (Kind::File, f::O_WRONLY.bits() | f::O_CLOEXEC.bits()),
        ];
        let some = kinds[..2 + self.rng.below(4)].iter();
        let open = |(kind, flags): &(Kind, u32)| Op::Open {
            keep: Keep::Open,
            at: CWD,
            path: self.there(*kind),
            flags: OFlags(u64::from(*flags)),
            mode: Mode(0),
        };
        let mut all: Vec<Op> = some.map(open).collect();
        if self.lean == Lean::Notify {
            // The table was empty, so the next number is the count of operations.
            let queue = Fd(all.len() as i32);
            let flags = OFlags(u64::from(f::O_NONBLOCK));
            all.push(Op::InotifyInit { flags });
            for kind in [Kind::Dir, Kind::File, Kind::Dir] {
                all.push(Op::Watch {
                    fd: queue,
                    path: self.there(kind),
                    mask: self.events_mask(),
                });
            }
        }
        all
    }

    fn fcntl(&mut self, fd: Fd) -> Op {
        let from = i64::from(self.fd().0);
        let (cmd, arg) = match self.rng.below(20) {
            0..4 => (f::F_DUPFD, from),
            4..8 => (f::F_DUPFD_CLOEXEC, from),
            8 | 9 => (f::F_GETFD, 0),
            10..14 => (f::F_SETFD, *self.rng.pick(&[0, 1, 1, 1, 2, 7, -1])),
            14 => (f::F_CREATED_QUERY, 0),
            15 => (f::F_GET_SEALS, 0),
            16 => (f::F_ADD_SEALS, self.rng.below(70) as i64),
            17 => (f::F_SETSIG, *self.rng.pick(&[0, 10, 34, 64, 65, -1])),
            18 => (f::F_GETSIG, 0),
            _ => (9999, 0),
        };
        Op::Fcntl {
            fd,
            cmd: Cmd(cmd),
            arg,
        }
    }

    fn owner_of(&mut self, fd: Fd) -> Op {
        let owner = *self.rng.pick(&[0, OWN, OWN]);
        match self.rng.below(4) {
            0 => Op::Fcntl {
                fd,
                cmd: Cmd(f::F_SETOWN),
                arg: owner,
            },
            1 => Op::Fcntl {
                fd,
                cmd: Cmd(f::F_GETOWN),
                arg: 0,
            },
            2 => Op::GetOwnEx { fd },
            _ => Op::SetOwnEx {
                fd,
                kind: *self.rng.pick(&[0, 1, 1, 3]),
                id: owner,
            },
        }
    }

    fn settable(&mut self) -> OFlags {
        let all = [
            f::O_APPEND.bits(),
            f::O_NONBLOCK.bits(),
            f::O_NOATIME.bits(),
            f::O_DIRECT.bits(),
            f::O_ASYNC.bits(),
            f::O_SYNC.bits(),
            f::O_RDWR.bits(),
            f::O_TRUNC.bits(),
            f::O_CLOEXEC.bits(),
        ];
        let mut flags = 0;
        for (n, flag) in all.into_iter().enumerate() {
            if self.rng.one_in(if n < 3 { 3 } else { 8 }) {
                flags |= flag;
            }
        }
        OFlags(u64::from(flags))
    }

    fn range(&mut self) -> Op {
        let first = i64::from(self.fd().0);
        let last = match self.rng.below(6) {
            0 => i64::from(u32::MAX),
            1 => i64::from(self.fd().0),
            _ => first + self.rng.below(3) as i64,
        };
        let flags = self.rng.weighted(&[(5, 0), (5, 4), (2, 2), (2, 6), (1, 1)]);
        Op::CloseRange {
            first,
            last,
            flags: RangeFlags(flags),
        }
    }

    pub(super) fn tasks(&mut self) -> Op {
        let count = self.guess.tables.tasks();
        let some = self.rng.below(count + 1) as i64;
        if count == 1 {
            return if self.rng.below(2) == 0 {
                Op::Fork {}
            } else {
                Op::Clone {}
            };
        }
        match self.rng.below(24) {
            0..2 => Op::Fork {},
            2..4 => Op::Clone {},
            4..13 => Op::Task { task: some },
            13..15 => Op::Unshare {},
            15 => Op::Exec {},
            16..18 => Op::Exit {},
            _ => Op::Pass {
                task: some,
                fd: self.fd(),
            },
        }
    }

    pub(super) fn notify(&mut self) -> Op {
        let queue = self.fd_of(Kind::Queue, false, false);
        let open = self.guess.tables.open();
        let none = open.values().all(|h| h.kind != Kind::Queue);
        match self.rng.below(12) {
            _ if none => Op::InotifyInit {
                flags: OFlags(u64::from(f::O_NONBLOCK)),
            },
            0 => {
                let flags = self
                    .rng
                    .weighted(&[(6, f::O_NONBLOCK | f::O_CLOEXEC), (1, f::O_APPEND)]);
                Op::InotifyInit {
                    flags: OFlags(u64::from(flags)),
                }
            }
            1..5 => {
                let kind = *self
                    .rng
                    .pick(&[Kind::Dir, Kind::Dir, Kind::File, Kind::Link]);
                Op::Watch {
                    fd: queue,
                    path: self.old_of(Some(kind)).1,
                    mask: self.events_mask(),
                }
            }
            5 => Op::Unwatch {
                fd: queue,
                wd: *self.rng.pick(&[1, 1, 2, 3, 0, -1]),
            },
            _ => Op::Events { fd: queue },
        }
    }

    fn events_mask(&mut self) -> InFlags {
        let events = match self.rng.below(4) {
            0 | 1 => i::IN_ALL_EVENTS,
            2 => (self.rng.bits() & 0xfff) as u32,
            _ => 1 << self.rng.below(12),
        };
        let more = [
            i::IN_ONLYDIR,
            i::IN_DONT_FOLLOW,
            i::IN_EXCL_UNLINK,
            i::IN_MASK_ADD,
            i::IN_MASK_CREATE,
            i::IN_ONESHOT,
            i::IN_ISDIR,
        ];
        let mut mask = events;
        for flag in more {
            if self.rng.one_in(10) {
                mask |= flag;
            }
        }
        InFlags(u64::from(mask))
    }
}
