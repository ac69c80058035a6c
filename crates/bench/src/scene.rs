// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one action by several threads, each with its own paths, on our side and on the host's.
//!
//! A thread of the host has a root directory of its own and, unless tables are shared, a descriptor
//! table of its own, as a process has. Ours has a task of its own, forked or with the others'
//! table.

use openpath_abi::{AtFlags, OFlags};
use std::ffi::{CStr, CString};
use std::hint::black_box;

use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_vfs::{Task, Vfs};

use crate::error::Error;
use crate::harness::{Burst, Id, Plan};
use crate::host::Root;
use crate::paths::{Chain, Ring};
use crate::row::Row;
use crate::threads::{Make, counts};
use crate::{ours, sys};

/// The action of a thread on each of its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// Open with these flags, and close.
    OpenClose(u32),
    /// Create with these flags, close, unlink.
    CreateUnlink(u32),
    /// stat by path.
    Stat,
    /// Duplicate an open descriptor, and close the duplicate.
    Dup,
}

/// Which descriptor table a thread uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    /// Its own.
    Own,
    /// One for all threads.
    Shared,
}

impl Tables {
    /// The words used in rows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tables::Own => "own tables",
            Tables::Shared => "shared table",
        }
    }
}

/// Work for several threads.
#[derive(Clone, Debug)]
pub(crate) struct Scene {
    /// The name used in rows.
    pub(crate) name: String,
    /// The action.
    pub(crate) action: Action,
    /// The tables.
    pub(crate) tables: Tables,
    /// The paths of each thread.
    pub(crate) paths: Vec<Vec<CString>>,
}

/// The tree that the threads use.
#[derive(Clone, Copy)]
pub(crate) enum Tree<'a> {
    /// An instance of ours.
    Ours(&'a Vfs),
    /// A file system of the host.
    Host(&'a Root),
}

impl Scene {
    /// Creates every file of the scene, and the directories on the way.
    pub(crate) fn grow(&self, tree: Tree<'_>) -> Result<(), Error> {
        let files = self.paths.iter().flatten();
        let chains: Vec<Chain> = files.map(|file| Chain::of(file)).collect();
        match tree {
            Tree::Ours(vfs) => ours::grow(&ours::task(vfs)?, &chains),
            Tree::Host(root) => root.grow(&chains),
        }
    }

    /// Adds the threads of one tree: a side for each of `counts`.
    pub(crate) fn add<'a>(
        &'a self,
        plan: &mut Plan<'a>,
        tree: Tree<'a>,
        counts: &[usize],
    ) -> Result<Vec<Id>, Error> {
        let (action, tables) = (self.action, self.tables);
        let makes: Result<Vec<Make<'a>>, Error> = match tree {
            Tree::Host(root) => {
                let rings = self.paths.iter().map(|paths| Ring::new(paths, 0));
                let make =
                    |ring| -> Make<'a> { Box::new(move || host(action, tables, root, ring)) };
                Ok(rings.map(make).collect())
            }
            Tree::Ours(vfs) => {
                let first = ours::task(vfs)?;
                let make = |paths: &'a Vec<CString>| -> Result<Make<'a>, Error> {
                    let task = match tables {
                        Tables::Shared => first
                            .clone_files()
                            .map_err(|e| Error::setup("make a task with a shared table", e))?,
                        Tables::Own => ours::task(vfs)?,
                    };
                    Ok(Box::new(move || mine(action, task, Ring::new(paths, 0))))
                };
                self.paths.iter().map(make).collect()
            }
        };
        Ok(plan.threads(&self.name, makes?, counts))
    }
}

/// Adds the rows that compare numbers of threads with one thread: `NAME, 2T over 1T LABEL`.
pub(crate) fn over_one(plan: &mut Plan<'_>, name: &str, label: &str, sides: &[Id], of: &[usize]) {
    for (side, count) in sides.iter().zip(of).skip(1) {
        let name = format!("{name}, {count}T over 1T{label}");
        plan.row(Row::faster, &name, *side, "one thread", sides[0]);
    }
}

/// The largest number of threads that is measured.
pub(crate) fn threads_max() -> usize {
    counts().into_iter().max().unwrap_or(1)
}

/// Gives a thread of the host a root directory of its own, and a descriptor table if `table`.
pub(crate) fn enter_alone(root: &Root, table: bool) -> Result<(), Error> {
    sys::unshare_thread(table)
        .map_err(|e| Error::host("a root and a table of its own for a thread", e))?;
    root.enter()
}

fn host<'a>(
    action: Action,
    tables: Tables,
    root: &Root,
    mut ring: Ring<'a>,
) -> Result<Burst<'a>, Error> {
    enter_alone(root, tables == Tables::Own)?;
    let closed = |fd: i32| fd >= 0 && sys::close(fd) == 0;
    Ok(match action {
        Action::OpenClose(flags) => {
            Box::new(move |ops| wrong(ops, &mut ring, |p| closed(sys::open(p, flags, 0o644))))
        }
        Action::CreateUnlink(flags) => Box::new(move |ops| {
            wrong(ops, &mut ring, |p| {
                closed(sys::open(p, flags, 0o644)) && sys::unlink(p)
            })
        }),
        Action::Stat => Box::new(move |ops| wrong(ops, &mut ring, |p| sys::stat_ino(p).is_some())),
        Action::Dup => {
            let fd = sys::open(ring.next(), 0, 0);
            Box::new(move |ops| wrong(ops, &mut ring, |_| closed(sys::dup(fd))))
        }
    })
}

fn mine(action: Action, task: Task, mut ring: Ring<'_>) -> Result<Burst<'_>, Error> {
    Ok(match action {
        Action::OpenClose(flags) => Box::new(move |ops| {
            wrong(ops, &mut ring, |p| {
                ours::open_close(&task, p.to_bytes(), OFlags::from_bits_retain(flags))
            })
        }),
        Action::CreateUnlink(flags) => Box::new(move |ops| {
            wrong(ops, &mut ring, |p| {
                create_unlink(&task, p.to_bytes(), flags)
            })
        }),
        Action::Stat => Box::new(move |ops| {
            wrong(ops, &mut ring, |p| {
                black_box(task.stat(p.to_bytes())).is_ok()
            })
        }),
        Action::Dup => {
            let fd = task
                .open(ring.next().to_bytes(), O_RDONLY, 0)
                .map_err(|e| Error::setup("open the file to duplicate", e))?;
            let closed = move |task: &Task| task.dup(fd).is_ok_and(|fd| task.close(fd).is_ok());
            Box::new(move |ops| wrong(ops, &mut ring, |_| closed(&task)))
        }
    })
}

/// Creates a file, closes and unlinks it; returns whether all of it succeeded.
#[inline(always)]
pub(crate) fn create_unlink(task: &Task, path: &[u8], flags: u32) -> bool {
    ours::open_close(task, path, OFlags::from_bits_retain(flags))
        && task.unlinkat(AT_FDCWD, path, AtFlags::empty()).is_ok()
}

/// Runs operations on the paths of a ring in turn; returns how many were wrong.
#[inline(always)]
pub(crate) fn wrong(ops: u64, ring: &mut Ring<'_>, right: impl Fn(&CStr) -> bool) -> u64 {
    let mut wrong = 0;
    for _ in 0..ops {
        wrong += u64::from(!right(ring.next()));
    }
    wrong
}
