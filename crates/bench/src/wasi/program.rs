// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures whole programs: a guest is made and gets its instance, looks up, reads and misses each
//! of 64 files, lists a directory of 1,000 names, and ends. No figure includes the compilation.

use std::path::Path;

use wasmtime::{Engine, Linker, Module};

use super::inside::{Inside, Loop, Side, module};
use super::peer::{self, Blocking};
use super::tree::Tree;
use super::{Options, ours, scratch};
use crate::calls::Kernel;
use crate::error::Error;
use crate::harness::{Heat, Plan};
use crate::row::Row;

/// The beginning of its row names.
const NAME: &str = "wasi whole program";
/// The level of its paths: 5 names.
const LEVEL: usize = 1;

/// The loops of a program, and how often each runs.
const STEPS: [(Loop, u64); 4] = [
    (Loop::Stat, crate::PATHS as u64),
    (Loop::Read, crate::PATHS as u64),
    (Loop::FailedOpen, crate::PATHS as u64),
    (Loop::Readdir, 1),
];

/// The row names.
fn names() -> [String; 2] {
    Blocking::ALL.map(|way| format!("{NAME}, {}", way.label()))
}

/// A host that runs programs one after the other.
struct Host<'a, T: 'static> {
    linker: Linker<T>,
    module: &'a Module,
    tree: &'a Tree,
}

impl<T> Host<'_, T> {
    /// Runs `ops` programs; returns how many answers were wrong.
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
    let scratch = scratch(&options.folder)?;
    tree.grow(&Kernel, scratch.path())?;
    let dir: &Path = scratch.path();
    let module = &module(&Engine::default())?;
    let vfs = crate::ours::instance()?;
    tree.grow(&crate::ours::task(&vfs)?, "/".as_ref())?;
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
    // A failure is reported here, not counted as a wrong answer.
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
