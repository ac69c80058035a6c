// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures whole programs: a guest is made and gets its instance, looks up, reads and misses each
//! of 64 files, lists a directory of 1,000 names, and ends. No figure includes the compilation.

use wasmtime::Linker;

use super::Options;
use super::hosts::{self, Blocking, World};
use super::inside::{Inside, Loop, Side};
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

/// Runs a program; returns how many answers were wrong.
fn run<T: 'static>(
    linker: &Linker<T>,
    world: &World,
    data: Result<T, Error>,
) -> Result<u64, Error> {
    let mut guest = Inside::new(linker, &world.module, data?, &world.tree)?;
    let steps = STEPS.map(|(what, ops)| guest.burst(what, LEVEL, ops));
    Ok(steps.into_iter().sum())
}

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    if !options.ask.wants_any(&names()) {
        return Ok(Vec::new());
    }
    let (world, vfs) = (&World::new(options)?, &crate::ours::instance()?);
    world.tree.grow(&crate::ours::task(vfs)?, "/".as_ref())?;
    let mine = &hosts::linker(world.module.engine())?;
    let theirs = &hosts::peer_linker(world.module.engine())?;
    let ours = || run(mine, world, hosts::guest(vfs));
    let peer = |way| run(theirs, world, hosts::context(way, world.scratch.path()));
    // A failure is reported here, not counted as a wrong answer.
    ours()?;
    for way in Blocking::ALL {
        peer(way)?;
    }
    // Each program walks every path.
    let mut plan = Plan::of(1);
    let label = |side: &str| format!("{NAME}, {side}");
    let ours = plan.ours(&label("ours"), |ops| {
        (0..ops).map(|_| ours().unwrap_or(1)).sum()
    });
    for (way, heat) in [
        (Blocking::Pool, Heat::Offloaded),
        (Blocking::InPlace, Heat::Warm),
    ] {
        let name = label(way.label());
        let burst = move |ops| (0..ops).map(|_| peer(way).unwrap_or(1)).sum();
        let peer = plan.add(&name, heat, || Ok(()), burst);
        plan.row(Row::faster, &name, ours, way.label(), peer);
    }
    plan.run(&options.ask)
}
