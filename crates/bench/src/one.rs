// SPDX-License-Identifier: MIT OR Apache-2.0
//! One operation by itself, in a process of its own: what the counters run.

use std::ffi::CString;
use std::sync::mpsc::channel;
use std::thread;

use openpath_abi::fcntl::AT_FDCWD;
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, MountFlags, Task, Vfs};

use crate::error::Error;
use crate::ops::Op;
use crate::paths::{Chain, Ring, chains, rotation};
use crate::{PATHS, Plant, SEED, ours, sys};

/// Under what the operations run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// Nothing special: for an instruction counter around the whole process.
    Plain,
    /// Between two stops for the tracer.
    Traced,
    /// With the shared memory read-only: a store ends the process.
    Sealed,
}

/// What the walk meets on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// Nothing but directories.
    Dirs,
    /// A symbolic link at the end.
    Symlink,
    /// `..` before the last component.
    DotDot,
    /// A mount at the beginning.
    Mount,
    /// A descriptor table that another task uses as well.
    SharedTable,
}

/// An operation at a depth, as in `open-close d16` or `open-close symlink d5`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Case {
    /// The operation.
    pub op: Op,
    /// What it meets.
    pub via: Via,
    /// Components of its paths.
    pub depth: usize,
}

/// What was built, and by whom.
struct Made {
    vfs: Vfs,
    paths: Vec<CString>,
    tasks: [Task; 2],
}

/// Every path is walked this often before anything is counted: all that is admitted to a cache
/// after some uses is in it.
const HEAT_TURNS: u64 = 32;
const MOUNT_POINT: &str = "/mounted";
const OPS: [Op; 7] = [
    Op::FailedOpen,
    Op::OpenClose,
    Op::CreatExisting,
    Op::CreatReadOnly,
    Op::Stat,
    Op::Statx,
    Op::Denied,
];
const VIAS: [(&str, Via); 4] = [
    ("symlink", Via::Symlink),
    ("dotdot", Via::DotDot),
    ("mount", Via::Mount),
    ("shared-table", Via::SharedTable),
];

impl Case {
    /// Reads `OP [VIA] dDEPTH`.
    ///
    /// # Errors
    /// `Setup` if it is not that.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let words: Vec<&str> = text.split(' ').collect();
        let parsed = || {
            let (name, via, depth) = match words[..] {
                [name, depth] => (name, Via::Dirs, depth),
                [name, via, depth] => (name, VIAS.iter().find(|(word, _)| *word == via)?.1, depth),
                _ => return None,
            };
            let op = OPS.into_iter().find(|op| op.name() == name)?;
            let depth: usize = depth.strip_prefix('d')?.parse().ok()?;
            let depth_min = if via == Via::DotDot { 2 } else { 1 };
            (depth_min..=100)
                .contains(&depth)
                .then_some(Self { op, via, depth })
        };
        parsed().ok_or_else(|| Error::Setup(format!("no operation is called {text:?}")))
    }

    /// Builds the tree, walks every path a few times, then calls `body` with the task.
    ///
    /// # Errors
    /// `Setup` if the tree cannot be built, `Wrong` if a warm-up operation fails; what `body` says.
    pub fn warm<T>(
        self,
        body: impl FnOnce(&Task, &mut Ring<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let made = self.build()?;
        let (task, mut ring) = (self.measured(&made)?, Ring::new(&made.paths, 0));
        self.heat(&task, &mut ring)?;
        body(&task, &mut ring)
    }

    /// Runs `ops` of it under `how`.
    ///
    /// # Errors
    /// As [`Case::warm`].
    pub fn run(self, ops: u64, how: How, plant: Option<Plant>) -> Result<(), Error> {
        match how {
            How::Plain => self.warm(|task, ring| self.right(self.op.ours(task, ops, ring))),
            How::Traced => self.warm(|task, ring| {
                sys::trace_mark();
                let wrong = self.op.ours(task, ops, ring);
                sys::trace_mark();
                self.right(wrong)
            }),
            How::Sealed => self.sealed(ops, plant == Some(Plant::Store)),
        }
    }

    /// Seals all that exists before the task that is measured: it may be shared. What another
    /// task or thread gave back would be reused by ours, and is no longer shared; so the tree is
    /// built by another thread, which lives on with its tasks until the end.
    fn sealed(self, ops: u64, plant: bool) -> Result<(), Error> {
        let (built, tree) = channel();
        let (end, ended) = channel::<()>();
        thread::scope(|scope| {
            scope.spawn(move || {
                let _ = built.send(sys::in_arena(|| self.build()));
                let _ = ended.recv();
            });
            let _end = end;
            let lost = || Error::Setup("the builder ended".to_owned());
            let made = tree.recv().map_err(|_| lost())?;
            let made = made.map_err(|e| Error::host("map an arena", e))??;
            let (task, mut ring) = (self.measured(&made)?, Ring::new(&made.paths, 0));
            self.heat(&task, &mut ring)?;
            let body = || self.op.ours(&task, ops, &mut ring);
            let wrong = sys::sealed(&made.vfs.shared_spans(), plant, body);
            self.right(wrong.map_err(|e| Error::host("seal the shared memory", e))?)
        })
    }

    fn build(self) -> Result<Made, Error> {
        let mut tree = chains(PATHS, self.depth, SEED);
        let vfs = ours::instance()?;
        let maker = ours::task(&vfs)?;
        if self.via == Via::Mount {
            ours::mkdir(&maker, MOUNT_POINT.as_bytes())?;
            let other = MemFs::new(MemOptions::default());
            let mounted = maker.mount(other, MOUNT_POINT.as_bytes(), MountFlags::default());
            mounted.map_err(|e| Error::setup("mount", e))?;
            tree.iter_mut().for_each(below_mount);
        }
        ours::grow(&maker, &tree)?;
        for chain in &mut tree {
            self.prepare(&maker, chain)
                .map_err(|e| Error::setup("prepare a file", e))?;
        }
        let paths = rotation(&tree, self.op.wants_missing());
        let first = self.task(&vfs)?;
        self.heat(&first, &mut Ring::new(&paths, 0))?;
        Ok(Made {
            vfs,
            paths,
            tasks: [maker, first],
        })
    }

    /// Puts on its path what the walk is to meet.
    fn prepare(self, maker: &Task, chain: &mut Chain) -> Result<(), openpath_abi::Errno> {
        let file = chain.file.to_bytes();
        if self.op == Op::Denied {
            maker.fchmodat2(AT_FDCWD, file, 0, 0)?;
        }
        match self.via {
            Via::Dirs | Via::Mount | Via::SharedTable => {}
            Via::Symlink => {
                let link = [file, b"~"].concat();
                maker.symlinkat(file, AT_FDCWD, &link)?;
                chain.file = c_string(&link);
            }
            Via::DotDot => {
                chain.file = through_dotdot(file);
                chain.missing = through_dotdot(chain.missing.to_bytes());
            }
        }
        Ok(())
    }

    /// The task that is measured: a new one, or one with the table of another.
    fn measured(self, made: &Made) -> Result<Task, Error> {
        if self.via == Via::SharedTable {
            let shared = made.tasks[1].clone_files();
            return shared.map_err(|e| Error::setup("share a table", e));
        }
        self.task(&made.vfs)
    }

    fn task(self, vfs: &Vfs) -> Result<Task, Error> {
        let task = ours::task(vfs)?;
        if self.op == Op::Denied {
            task.set_cred(Cred::user(1000, 1000, &[]));
        }
        Ok(task)
    }

    fn heat(self, task: &Task, ring: &mut Ring<'_>) -> Result<(), Error> {
        self.right(self.op.ours(task, HEAT_TURNS * PATHS as u64, ring))
    }

    fn right(self, wrong: u64) -> Result<(), Error> {
        if wrong == 0 {
            return Ok(());
        }
        Err(Error::Wrong(format!("{self:?}: {wrong} operations")))
    }
}

fn c_string(bytes: &[u8]) -> CString {
    CString::new(bytes).unwrap_or_default()
}

fn below_mount(chain: &mut Chain) {
    for path in [&mut chain.file, &mut chain.missing] {
        *path = c_string(&[MOUNT_POINT.as_bytes(), path.to_bytes()].concat());
    }
}

/// `/a/b/file` becomes `/a/b/../b/file`.
fn through_dotdot(path: &[u8]) -> CString {
    let slash = |path: &[u8]| path.iter().rposition(|&b| b == b'/').unwrap_or(0);
    let (dir, file) = path.split_at(slash(path));
    let name = &dir[slash(dir)..];
    c_string(&[dir, b"/..", name, file].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_read_from_row_names() {
        let case = Case::parse("creat-existing d16").unwrap();
        assert_eq!(
            (case.op, case.via, case.depth),
            (Op::CreatExisting, Via::Dirs, 16)
        );
        let case = Case::parse("stat dotdot d5").unwrap();
        assert_eq!((case.op, case.via, case.depth), (Op::Stat, Via::DotDot, 5));
        let bad = [
            "",
            "stat",
            "stat d",
            "stat d0",
            "stat 5",
            "walk d5",
            "stat dotdot d1",
        ];
        for text in bad {
            assert!(Case::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn dotdot_comes_back_to_the_same_directory() {
        assert_eq!(
            through_dotdot(b"/a/bc/file").to_bytes(),
            b"/a/bc/../bc/file"
        );
    }
}
