// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rows of whole programs: a guest is made and given its instance, looks up, reads and misses
//! each of 64 files, lists a directory of 1,000 names, and goes. Compiling it is in no figure.

use std::path::Path;

use openpath_mem::{MemFs, MemOptions};
use wasmtime::{Engine, Linker, Module};

use super::inside::{Inside, Loop, Side, module};
use super::peer::{self, Blocking};
use super::tree::{Scratch, Tree};
use super::{Options, ours};
use crate::error::Error;
use crate::harness::{Heat, Plan};
use crate::row::Row;

/// What its rows begin with.
const NAME: &str = "wasi whole program";
/// Which depth its paths have: 5 names.
const LEVEL: usize = 1;

/// What a program does, each so often.
const STEPS: [(Loop, u64); 4] = [
    (Loop::Stat, crate::PATHS as u64),
    (Loop::Read, crate::PATHS as u64),
    (Loop::FailedOpen, crate::PATHS as u64),
    (Loop::Readdir, 1),
];

/// What the names of the rows begin with.
fn names() -> [String; 2] {
    Blocking::ALL.map(|way| format!("{NAME}, {}", way.label()))
}

/// Where programs run, one after the other.
struct Host<'a, T: 'static> {
    linker: Linker<T>,
    module: &'a Module,
    tree: &'a Tree,
}

impl<T> Host<'_, T> {
    /// Runs so many programs; how many answers were wrong.
    fn burst(&self, ops: u64, make: impl Fn() -> Result<T, Error>) -> u64 {
        (0..ops).map(|_| self.run(make()).unwrap_or(1)).sum()
    }

    fn run(&self, data: Result<T, Error>) -> Result<u64, Error> {
        let mut guest = Inside::new(&self.linker, self.module, data?, self.tree)?;
        let steps = STEPS.map(|(what, ops)| guest.burst(what, LEVEL, ops));
        Ok(steps.into_iter().sum())
    }
}

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    if !options.ask.wants_any(&names()) {
        return Ok(Vec::new());
    }
    let tree = Tree::new();
    let scratch = Scratch::new(&options.folder)?;
    tree.lay(scratch.path())?;
    let dir: &Path = scratch.path();
    let module = &module(&Engine::default())?;
    let root = MemFs::new(MemOptions::default());
    let vfs = crate::ours::over(root)?;
    tree.grow(&crate::ours::task(&vfs)?)?;
    let tree = &tree;
    let mine = Host {
        linker: ours::linker(module.engine())?,
        module,
        tree,
    };
    let theirs = Host {
        linker: peer::linker(module.engine())?,
        module,
        tree,
    };
    // What fails is said here, not counted as a wrong answer.
    mine.run(ours::guest(&vfs))?;
    for way in Blocking::ALL {
        theirs.run(peer::context(way, dir))?;
    }
    // Each program walks every path.
    let mut plan = Plan::of(1);
    let label = |side: &str| format!("{NAME}, {side}");
    let ours = plan.ours(&label("ours"), |ops| mine.burst(ops, || ours::guest(&vfs)));
    for (way, heat) in [
        (Blocking::Pool, Heat::Offloaded),
        (Blocking::InPlace, Heat::Warm),
    ] {
        let (theirs, name) = (&theirs, label(way.label()));
        let burst = move |ops| theirs.burst(ops, || peer::context(way, dir));
        let peer = plan.add(&name, heat, || Ok(()), burst);
        plan.row(Row::faster, &name, ours, way.label(), peer);
    }
    plan.run(&options.ask)
}
