// SPDX-License-Identifier: MIT OR Apache-2.0
//! One deed by several threads, each with its own paths, on our side and on the host's.
//!
//! A thread of the host has a root directory of its own and, unless tables are shared, a
//! descriptor table of its own, as a process has; ours has a task of its own, forked or with the
//! others' table.

use std::ffi::{CStr, CString};
use std::hint::black_box;

use openpath_vfs::{Task, Vfs};

use crate::error::Error;
use crate::harness::{Effort, Steal};
use crate::host::Root;
use crate::paths::{Chain, Ring};
use crate::team::{Burst, ByCount, Make, Team, counts};
use crate::{ours, sys};

/// What a thread does with each of its paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deed {
    /// Open with these flags, and close.
    OpenClose(u32),
    /// stat by path.
    Stat,
    /// Duplicate a descriptor that is open, and close the duplicate.
    Dup,
}

/// Whose descriptor table a thread uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    /// Its own.
    Own,
    /// One for all threads.
    Shared,
}

impl Tables {
    /// The words used in rows.
    pub fn name(self) -> &'static str {
        match self {
            Tables::Own => "own tables",
            Tables::Shared => "shared table",
        }
    }
}

/// Something for several threads to do.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The name used in rows.
    pub name: String,
    /// What they do.
    pub deed: Deed,
    /// With whose tables.
    pub tables: Tables,
    /// The paths of each thread.
    pub paths: Vec<Vec<CString>>,
}

/// Who does it.
#[derive(Clone, Copy)]
pub enum Side<'a> {
    /// An instance of ours.
    Ours(&'a Vfs),
    /// A file system of the host.
    Host(&'a Root),
}

impl Scene {
    /// Creates every file of the scene, and what leads to it.
    ///
    /// # Errors
    /// `Setup` if that fails.
    pub fn grow(&self, side: Side<'_>) -> Result<(), Error> {
        let chain = |file: &CString| Chain {
            file: file.clone(),
            missing: CString::default(),
        };
        let chains: Vec<Chain> = self.paths.iter().flatten().map(chain).collect();
        match side {
            Side::Ours(vfs) => ours::grow(&ours::task(vfs)?, &chains),
            Side::Host(root) => root.grow(&chains),
        }
    }

    /// The bursts of one side, one for each thread.
    ///
    /// # Errors
    /// `Setup` if a task cannot be made.
    fn makes<'a>(&'a self, side: Side<'a>) -> Result<Vec<Make<'a>>, Error> {
        let deed = self.deed;
        let tables = self.tables;
        let first = match side {
            Side::Ours(vfs) => Some(ours::task(vfs)?),
            Side::Host(_) => None,
        };
        let mut out: Vec<Make<'a>> = Vec::new();
        for paths in &self.paths {
            let ring = Ring::new(paths, 0);
            out.push(match (side, &first) {
                (Side::Host(root), _) => Box::new(move || host(deed, tables, root, ring)),
                (Side::Ours(vfs), first) => {
                    let task = match (tables, first) {
                        (Tables::Shared, Some(first)) => first
                            .clone_files()
                            .map_err(|e| Error::setup("make a task with a shared table", e))?,
                        _ => ours::task(vfs)?,
                    };
                    Box::new(move || mine(deed, task, ring))
                }
            });
        }
        Ok(out)
    }
}

/// Measures every scene on every side, all of them interleaved: for each scene and each side,
/// nanoseconds per operation by number of threads (those of [`counts`]).
///
/// # Errors
/// `Setup` if a thread cannot be set up, `Wrong` if an operation's result was.
pub fn measure(
    scenes: &[Scene],
    sides: &[Side<'_>],
    effort: Effort,
    steal: &Steal,
) -> Result<Vec<Vec<ByCount>>, Error> {
    let mut team = Team::default();
    for scene in scenes {
        for &side in sides {
            team.add(&scene.name, scene.makes(side)?);
        }
    }
    let mut measured = team.run(&counts(), effort, steal)?.into_iter();
    let of_one = |_| measured.by_ref().take(sides.len()).collect();
    Ok(scenes.iter().map(of_one).collect())
}

fn host<'a>(
    deed: Deed,
    tables: Tables,
    root: &Root,
    mut ring: Ring<'a>,
) -> Result<Burst<'a>, Error> {
    sys::unshare_thread(tables == Tables::Own)
        .map_err(|e| Error::host("a root and a table of its own for a thread", e))?;
    root.enter()?;
    let closed = |fd: i32| fd >= 0 && sys::close(fd) == 0;
    Ok(match deed {
        Deed::OpenClose(flags) => {
            Box::new(move |ops| wrong(ops, &mut ring, |p| closed(sys::open(p, flags, 0o644))))
        }
        Deed::Stat => Box::new(move |ops| wrong(ops, &mut ring, |p| sys::stat_ino(p).is_some())),
        Deed::Dup => {
            let fd = sys::open(ring.next(), 0, 0);
            Box::new(move |ops| wrong(ops, &mut ring, |_| closed(sys::dup(fd))))
        }
    })
}

fn mine(deed: Deed, task: Task, mut ring: Ring<'_>) -> Result<Burst<'_>, Error> {
    Ok(match deed {
        Deed::OpenClose(flags) => Box::new(move |ops| {
            wrong(ops, &mut ring, |p| {
                ours::open_close(&task, p.to_bytes(), flags)
            })
        }),
        Deed::Stat => Box::new(move |ops| {
            wrong(ops, &mut ring, |p| {
                black_box(task.stat(p.to_bytes())).is_ok()
            })
        }),
        Deed::Dup => {
            let fd = task
                .open(ring.next().to_bytes(), 0, 0)
                .map_err(|e| Error::setup("open the file to duplicate", e))?;
            let closed = move |task: &Task| task.dup(fd).is_ok_and(|fd| task.close(fd).is_ok());
            Box::new(move |ops| wrong(ops, &mut ring, |_| closed(&task)))
        }
    })
}

#[inline(always)]
fn wrong(ops: u64, ring: &mut Ring<'_>, right: impl Fn(&CStr) -> bool) -> u64 {
    let mut wrong = 0;
    for _ in 0..ops {
        wrong += u64::from(!right(ring.next()));
    }
    wrong
}
