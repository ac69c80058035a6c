// SPDX-License-Identifier: MIT OR Apache-2.0
//! Generates random cases about mounts and namespaces: few directories, trees and tasks, so that
//! propagation, stacks and users of mounts meet.
//!
//! # Rules
//! * Directories have the same few names in every tree, so that a path leads somewhere whatever is
//!   mounted.
//! * Detached trees are kept at numbers of their own, above those of other files.

mod files;
mod trees;

use openpath_abi::mount as m;

use crate::case::Case;
use crate::op::{AttrFlags, Bits, CWD, MsFlags, Op, Path, UFlags};
use crate::rng::Rng;

/// How many operations follow the set-up of a case.
pub const OPS: usize = 40;

/// The set-up: the contents of the root.
const ROOT: &str = include_str!("../../cases/trees/spread.txt");

/// Directories of the root.
const TOP: &[&str] = &["a", "b", "c", "d"];
/// Directories of every tree.
const SUB: &[&str] = &["x", "y"];
/// Numbers that detached trees are kept at.
const TREES: &[i32] = &[8, 9, 10];

/// The topic of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Lean {
    /// Binds, moves and propagation.
    Spread,
    /// Namespaces, roots and working directories.
    Places,
    /// Detached trees and flags of mounts.
    Trees,
    /// Files and names beneath mounts.
    Names,
    All,
}

type Make = fn(&mut Gen) -> Op;

/// The kinds of operations, in the order of the weights.
const KINDS: &[Make] = &[
    Gen::mount,
    Gen::bind,
    Gen::shift,
    Gen::spread,
    Gen::umount,
    Gen::flags,
    Gen::places,
    Gen::spaces,
    Gen::trees,
    Gen::look,
    Gen::task,
    Gen::open,
    Gen::names,
];

impl Lean {
    /// Mount, bind, move, propagation, umount, flags, places, namespaces, trees, look, task, open,
    /// names.
    fn weights(self) -> [usize; 13] {
        match self {
            Lean::Spread => [8, 20, 12, 22, 22, 2, 3, 4, 2, 2, 8, 4, 6],
            Lean::Places => [6, 10, 5, 8, 12, 2, 22, 12, 2, 6, 12, 6, 6],
            Lean::Trees => [4, 8, 6, 10, 12, 16, 4, 3, 28, 6, 6, 6, 4],
            Lean::Names => [5, 10, 5, 6, 10, 4, 8, 5, 3, 6, 12, 16, 24],
            Lean::All => [8, 12, 8, 10, 14, 7, 8, 6, 8, 6, 10, 8, 10],
        }
    }
}

/// The state of the generator while it makes a case.
struct Gen {
    rng: Rng,
    lean: Lean,
    tasks: usize,
    /// Paths of the last mounts.
    hot: Vec<String>,
    /// Numbers that trees were opened at.
    trees: Vec<i32>,
}

/// The case of this seed.
///
/// # Panics
/// If the set-up cannot be parsed, which a test excludes.
#[must_use]
pub fn case(seed: u64) -> Case {
    let mut rng = Rng::new(seed ^ 0x006d_6f75_6e74);
    let mut case: Case = ROOT.parse().expect("the set-up");
    let lean = *rng.pick(&[
        Lean::Spread,
        Lean::Spread,
        Lean::Places,
        Lean::Trees,
        Lean::Names,
        Lean::All,
    ]);
    let mut made = Gen {
        rng,
        lean,
        tasks: 1,
        hot: vec!["a".to_owned(), "b".to_owned()],
        trees: Vec::new(),
    };
    case.ops.extend(made.prepared());
    case.setup = case.ops.len();
    for _ in 0..OPS {
        let op = made.op();
        case.ops.push(op);
    }
    case
}

fn path(text: impl AsRef<[u8]>) -> Path {
    Path(text.as_ref().to_vec())
}

impl Gen {
    /// Makes some trees shared, and puts some tasks in namespaces of their own.
    fn prepared(&mut self) -> Vec<Op> {
        let mut ops = Vec::new();
        for at in ["/", "a", "b"] {
            let kind = self
                .rng
                .weighted(&[(3, m::MS_SHARED), (2, 0), (1, m::MS_UNBINDABLE)]);
            if kind != 0 && (at != "/" || self.rng.one_in(3)) {
                ops.push(Op::Spread {
                    path: path(at),
                    flags: MsFlags(kind),
                });
            }
        }
        if self.rng.below(3) > 0 {
            ops.push(Op::Fork {});
            ops.push(Op::Task { task: 1 });
            self.tasks = 2;
            if self.rng.below(4) > 0 {
                ops.push(Op::SaveNs { slot: 0 });
                ops.push(Op::UnshareMounts {});
            }
            if self.rng.below(3) == 0 {
                let flags = MsFlags(m::MS_SLAVE | m::MS_REC);
                ops.push(Op::Spread {
                    path: path("/"),
                    flags,
                });
            }
            ops.push(Op::Task { task: 0 });
        }
        ops
    }

    fn op(&mut self) -> Op {
        let weights = self.lean.weights();
        let table: Vec<(usize, Make)> = weights.into_iter().zip(KINDS.iter().copied()).collect();
        self.rng.weighted(&table)(self)
    }

    /// A directory's path: mostly of one or two names.
    fn place(&mut self) -> String {
        if self.rng.below(3) == 0 {
            return self.rng.pick(&self.hot).clone();
        }
        let top = self.rng.pick(TOP).to_string();
        match self.rng.below(40) {
            0 => "/".to_owned(),
            1 => ".".to_owned(),
            2 => "..".to_owned(),
            3 => format!("../{top}"),
            4 => (*self.rng.pick(SUB)).to_owned(),
            5 => format!("{top}/x/.."),
            6 => format!("{top}/."),
            7 => format!("{top}/l"),
            8 => format!("{top}/nope"),
            9 => format!("{top}/{}/{top}", self.rng.pick(SUB)),
            10..22 => top,
            22..36 => format!("{top}/{}", self.rng.pick(SUB)),
            _ => format!("{top}/{}/{}", self.rng.pick(SUB), self.rng.pick(SUB)),
        }
    }

    /// A directory's path; more often from the root if the working directory changes.
    fn dir(&mut self) -> Path {
        let place = self.place();
        let rooted = !place.starts_with('/') && self.rng.below(2) == 0;
        path(if rooted { format!("/{place}") } else { place })
    }

    /// A path where something is probably mounted.
    fn mounted(&mut self) -> Path {
        if self.rng.below(3) > 0 {
            let hot = self.rng.pick(&self.hot).clone();
            return path(if self.rng.below(2) == 0 {
                format!("/{hot}")
            } else {
                hot
            });
        }
        self.dir()
    }

    /// Records that something may be mounted there.
    fn warm(&mut self, at: &Path) {
        let text = String::from_utf8_lossy(&at.0).trim_matches('/').to_owned();
        if !text.is_empty() && !self.hot.contains(&text) {
            self.hot.push(text);
            if self.hot.len() > 5 {
                self.hot.remove(0);
            }
        }
    }

    /// A directory's path or, rarely, a file's.
    fn thing(&mut self) -> Path {
        if self.rng.one_in(15) {
            let file = format!("{}/f", self.rng.pick(TOP));
            return path(file);
        }
        self.dir()
    }

    fn mount(&mut self) -> Op {
        let target = self.dir();
        self.warm(&target);
        Op::Mount {
            path: target,
            flags: MsFlags(self.ms_flags(6)),
        }
    }

    fn ms_flags(&mut self, one_in: usize) -> u64 {
        let all = [
            m::MS_RDONLY,
            m::MS_NODEV,
            m::MS_NOSUID,
            m::MS_NOEXEC,
            m::MS_NOSYMFOLLOW,
            m::MS_NOATIME,
            m::MS_NODIRATIME,
            m::MS_STRICTATIME,
        ];
        let rng = &mut self.rng;
        let some = all.into_iter().filter(|_| rng.one_in(one_in));
        some.fold(0, |sum, f| sum | f)
    }

    fn bind(&mut self) -> Op {
        let source = self.thing();
        let target = self.thing();
        self.warm(&target);
        let flags = MsFlags(if self.rng.below(5) < 2 { m::MS_REC } else { 0 });
        Op::Bind {
            source,
            target,
            flags,
        }
    }

    /// A mount moves.
    fn shift(&mut self) -> Op {
        let source = self.mounted();
        let target = self.dir();
        self.warm(&target);
        Op::Move { source, target }
    }

    fn spread_flags(&mut self) -> u64 {
        let kind = self.rng.weighted(&[
            (8, m::MS_SHARED),
            (5, m::MS_SLAVE),
            (4, m::MS_PRIVATE),
            (2, m::MS_UNBINDABLE),
            (1, m::MS_SHARED | m::MS_SLAVE),
        ]);
        let more = self
            .rng
            .weighted(&[(6, 0), (4, m::MS_REC), (1, m::MS_SILENT)]);
        kind | more
    }

    fn spread(&mut self) -> Op {
        let path = self.mounted();
        let flags = MsFlags(self.spread_flags());
        Op::Spread { path, flags }
    }

    fn umount(&mut self) -> Op {
        let flags = self.rng.weighted(&[
            (10, 0),
            (8, m::MNT_DETACH.bits()),
            (3, m::MNT_EXPIRE.bits()),
            (1, m::MNT_FORCE.bits()),
            (1, m::UMOUNT_NOFOLLOW.bits()),
            (1, m::MNT_EXPIRE.bits() | m::MNT_DETACH.bits()),
        ]);
        Op::Umount {
            path: self.mounted(),
            flags: UFlags(u64::from(flags)),
        }
    }

    fn attr_flags(&mut self) -> AttrFlags {
        let bits = [1, 2, 4, 8, 0x10, 0x20, 0x80, 0x20_0000];
        let rng = &mut self.rng;
        let some = bits.into_iter().filter(|_| rng.one_in(6));
        AttrFlags(some.fold(0, |sum, f| sum | f))
    }

    /// Flags of mounts and of file systems.
    fn flags(&mut self) -> Op {
        match self.rng.below(10) {
            0..3 => Op::RemountBind {
                path: self.mounted(),
                flags: MsFlags(self.ms_flags(5)),
            },
            3 => Op::RemountSb {
                path: self.mounted(),
                flags: MsFlags(self.rng.bits() & 1),
            },
            _ => self.setattr(),
        }
    }

    /// Roots and working directories.
    fn places(&mut self) -> Op {
        match self.rng.below(16) {
            0..5 => Op::Chdir { path: self.dir() },
            5 => Op::Fchdir { fd: self.fd() },
            6..8 => Op::Chroot { path: self.dir() },
            8 => Op::Chroot { path: path(".") },
            9 => Op::Getcwd {},
            10 => Op::Pivot {
                new: path("."),
                old: path("."),
            },
            11..14 => {
                let new = self.mounted();
                let below = [&new.0[..], b"/x"].concat();
                Op::Pivot {
                    new,
                    old: Path(below),
                }
            }
            _ => Op::Pivot {
                new: self.mounted(),
                old: self.dir(),
            },
        }
    }

    /// Namespaces.
    fn spaces(&mut self) -> Op {
        let slot = self.rng.weighted(&[(8, 0), (4, 1), (1, 7)]);
        match self.rng.below(8) {
            0..3 => Op::UnshareMounts {},
            3..5 => Op::SaveNs { slot },
            _ => Op::SetNs { slot },
        }
    }

    fn look(&mut self) -> Op {
        let path = self.mounted();
        match self.rng.below(8) {
            0 => Op::Getcwd {},
            1 | 2 => Op::Statmount {
                path,
                mask: Bits(*self.rng.pick(&[0x1f, 0x1f, 0x3, 0x18, 0])),
            },
            3 => Op::Listmount {
                path,
                skip: 0,
                max: 64,
            },
            4 => Op::Statfs { path },
            5 => Op::Lstat { path },
            6 => Op::Ls { at: CWD, path },
            _ => Op::Stat { path },
        }
    }

    fn task(&mut self) -> Op {
        match self.rng.below(30) {
            0 | 1 => {
                self.tasks += 1;
                Op::Fork {}
            }
            2 => {
                self.tasks += 1;
                Op::Clone {}
            }
            3 => Op::Exit {},
            4 => Op::Cred { uid: 1000 },
            5..8 => Op::Cred { uid: 0 },
            _ => Op::Task {
                task: i64::try_from(self.rng.below(self.tasks.min(4))).unwrap_or(0),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn every_case_can_be_written_and_parsed() {
        for seed in 0..500 {
            let case = super::case(seed);
            assert_eq!(case.to_string().parse(), Ok(case.clone()), "seed {seed}");
            assert_eq!(super::case(seed), case);
        }
    }
}
