// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a scene: one operation, run by several threads, each with a list of paths, on openpath
//! and on the host. Makes its files, adds its threads to a plan, and adds the rows that compare
//! sides and numbers of threads.
//!
//! A thread of the host has a root directory of its own and, unless tables are shared, a
//! descriptor table of its own, as a process has. On openpath each thread has a new task; if tables
//! are shared, that is a clone of the first one.

use crate::common::*;
use crate::harness::Burst;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tables {
    Own,
    /// One for all threads.
    Shared,
}

impl Tables {
    /// Both, with the words used in rows.
    pub(crate) const ALL: [(Self, &'static str); 2] =
        [(Self::Own, "own tables"), (Self::Shared, "shared table")];
}

#[derive(Clone, Debug)]
pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) op: Op,
    pub(crate) tables: Tables,
    pub(crate) paths: Vec<Vec<CString>>,
}

#[derive(Clone, Copy)]
pub(crate) enum Tree<'a> {
    Ours(&'a Vfs),
    Host(&'a Root),
}

/// A tree to measure on, after what the names of its rows have before and after the number of
/// threads.
pub(crate) type Place<'a> = (&'a str, &'a str, Tree<'a>);

/// A comparison of two sides: what its row's name has before and after the number of threads, ours
/// and the other, the label of the other, and a remark.
pub(crate) type Pair<'a> = (&'a str, &'a str, [usize; 2], &'a str, &'a str);

impl Scene {
    /// Creates every file of the scene, and the directories on the way.
    pub(crate) fn grow(&self, tree: Tree<'_>) -> Result<(), Error> {
        let files = self.paths.iter().flatten();
        let chains: Vec<Chain> = files.map(|file| Chain::of(file)).collect();
        match tree {
            Tree::Ours(vfs) => ours::task(vfs)?.grow(&chains),
            Tree::Host(root) => root.grow(&chains),
        }
    }

    /// Adds the threads of one tree: a side for each of [`counts`].
    fn add<'a>(&'a self, plan: &mut Plan<'a>, tree: Tree<'a>) -> Result<Vec<Id>, Error> {
        let (op, tables) = (self.op, self.tables);
        let first = match tree {
            Tree::Ours(vfs) => Some(ours::task(vfs)?),
            Tree::Host(_) => None,
        };
        let make = |paths: &'a Vec<CString>| -> Result<Make<'a>, Error> {
            let ring = Ring::new(paths, 0);
            let task = match (tree, &first) {
                (Tree::Host(root), _) => {
                    return Ok(Box::new(move || {
                        enter_alone(root, tables == Tables::Own)?;
                        burst(op, Kernel, ring)
                    }));
                }
                (Tree::Ours(_), Some(first)) if tables == Tables::Shared => {
                    first.clone_files().setup("share a table")?
                }
                (Tree::Ours(vfs), _) => ours::task(vfs)?,
            };
            Ok(Box::new(move || burst(op, task, ring)))
        };
        let makes: Result<Vec<Make<'a>>, Error> = self.paths.iter().map(make).collect();
        Ok(plan.threads(&self.name, makes?, &counts()))
    }
}

/// Measures scenes together, each on every tree: the rows of each pair of trees, and those that
/// compare numbers of threads with one thread.
pub(crate) fn measure(
    scenes: &[Scene],
    places: &[Place<'_>],
    pairs: &[Pair<'_>],
    ask: &Ask,
) -> Result<Vec<Row>, Error> {
    let mut plan = Plan::default();
    for scene in scenes {
        let sides = places.iter().map(|(.., tree)| scene.add(&mut plan, *tree));
        let sides = sides.collect::<Result<Vec<_>, _>>()?;
        compare(&mut plan, &scene.name, &sides, pairs);
        for ((before, after, _), sides) in places.iter().zip(&sides) {
            for (side, count) in sides.iter().zip(counts()).skip(1) {
                let name = format!("{}{before}, {count}T over 1T{after}", scene.name);
                plan.row(Row::faster, &name, *side, "one thread", sides[0]);
            }
        }
    }
    plan.run(ask)
}

/// Adds the rows of each pair of sides, for each number of threads.
pub(crate) fn compare(plan: &mut Plan<'_>, name: &str, sides: &[Vec<Id>], pairs: &[Pair<'_>]) {
    for (i, count) in counts().iter().enumerate() {
        for (before, after, [ours, peer], label, note) in pairs {
            let name = format!("{name}{before}, {count}T{after}");
            let row = plan.row(Row::faster, &name, sides[*ours][i], label, sides[*peer][i]);
            if !note.is_empty() {
                row.note(note);
            }
        }
    }
}

/// Adds the row of two threads that open and close this file, each in a `Vfs` of its own: what the
/// machine allows.
pub(crate) fn nothing_shared(
    plan: &mut Plan<'_>,
    name: &str,
    file: &'static CStr,
) -> Result<(), Error> {
    let make = || -> Result<Make<'_>, Error> {
        let task = ours::task(&ours::instance()?)?;
        task.grow(&[Chain::of(file)])?;
        Ok(ready(move |ops| {
            wrong_of(ops, || task.open_close(file, O_RDONLY))
        }))
    };
    let sides = plan.threads(name, vec![make()?, make()?], &[1, 2]);
    plan.row(Row::faster, name, sides[1], "one thread", sides[0])
        .note("each in a Vfs of its own: what this machine allows");
    Ok(())
}

/// The largest number of threads that is measured.
pub(crate) fn threads_max() -> usize {
    counts().into_iter().max().unwrap_or(1)
}

/// Gives a thread of the host a root directory of its own, and a descriptor table if `table`.
pub(crate) fn enter_alone(root: &Root, table: bool) -> Result<(), Error> {
    sys::unshare_thread(table).host("a root and a table of its own for a thread")?;
    root.enter()
}

/// A thread's burst. What is duplicated stays open between bursts.
fn burst<'a>(op: Op, side: impl Calls + 'a, mut ring: Ring<'a>) -> Result<Burst<'a>, Error> {
    if op != Op::DupClose {
        return Ok(Box::new(move |ops| op.burst(&side, ops, &mut ring)));
    }
    let fd = side.open(ring.next(), O_RDONLY, 0);
    let fd = fd.setup("open the file to duplicate")?;
    Ok(Box::new(move |ops| wrong_of(ops, || side.dup_close(fd))))
}
