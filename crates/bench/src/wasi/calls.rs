// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures single calls, each loop at each depth on all sides in turn; and whole programs.
//!
//! In a whole program, a guest is made and gets its instance. It looks up, reads and misses each of
//! 64 files, lists a directory of 1,000 names, and ends. No figure includes the compilation.

use wasmtime::Linker;

use super::Options;
use super::hosts::{self, Blocking, World};
use super::inside::{Inside, LOOPS, Loop, Side};
use super::tree::DEPTHS;
use crate::common::*;

/// A loop by its index, the number of operations that use its paths, and a level, if it has one;
/// and the names of its rows.
fn groups() -> Vec<(usize, u64, usize, [String; 3])> {
    let mut groups = Vec::new();
    for (what, Loop(name, table, paths)) in LOOPS.into_iter().enumerate() {
        let levels = if table.is_some() { DEPTHS.len() } else { 1 };
        for (level, depth) in DEPTHS.into_iter().enumerate().take(levels) {
            let depth = table.map_or(String::new(), |_| format!(" d{depth}"));
            let ends = ["default", "blocking", "host backend"];
            let names = ends.map(|end| format!("wasi {name}{depth}, {end}"));
            groups.push((what, paths, level, names));
        }
    }
    groups
}

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    let mut wanted = groups();
    wanted.retain(|(.., names)| options.ask.wants_any(names));
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let world = World::new(options)?;
    let (mut ours, mut on_host) = (world.in_memory()?, world.on_host()?);
    let mut pool = world.peer(Blocking::Pool)?;
    let mut blocking = world.peer(Blocking::InPlace)?;
    let mut sides: [(&str, Heat, &mut dyn Side); 4] = [
        ("ours", Heat::Warm, &mut ours),
        ("ours on the host", Heat::Warm, &mut on_host),
        ("default", Heat::Offloaded, &mut pool),
        ("blocking", Heat::Warm, &mut blocking),
    ];
    let mut rows = Vec::new();
    for (what, paths, level, [to_pool, to_blocking, host]) in wanted {
        let mut plan = Plan::of(paths);
        let [ours, on_host, pool, blocking] = sides.each_mut().map(|(label, heat, side)| {
            let label = format!("{}, {label}", to_pool.trim_end_matches(", default"));
            let burst = |ops| side.burst(what, level, ops);
            plan.add(&label, *heat, || Ok(()), burst)
        });
        plan.row(Row::faster, &to_pool, ours, "default", pool);
        for (name, ours) in [(to_blocking, ours), (host, on_host)] {
            plan.row(Row::faster, &name, ours, "blocking", blocking);
        }
        rows.extend(plan.run(&options.ask)?);
    }
    Ok(rows)
}

/// The level of a program's paths: 5 names.
const LEVEL: usize = 1;
/// The loops of a program, and how often each runs.
const STEPS: [(&str, u64); 4] = [
    ("stat", 64),
    ("read", 64),
    ("failed-open", 64),
    ("readdir", 1),
];

/// Runs a program; returns how many answers were wrong.
fn run<T: 'static>(
    linker: &Linker<T>,
    world: &World,
    data: Result<T, Error>,
) -> Result<u64, Error> {
    let mut guest = Inside::new(linker, &world.module, data?, &world.tree)?;
    let mut wrong = 0;
    for (name, ops) in STEPS {
        let what = LOOPS.iter().position(|l| l.0 == name);
        wrong += what.map_or(ops, |what| guest.burst(what, LEVEL, ops));
    }
    Ok(wrong)
}

/// The rows of whole programs.
pub(super) fn programs(options: &Options) -> Result<Vec<Row>, Error> {
    let name = |side: &str| format!("wasi whole program, {side}");
    if !options
        .ask
        .wants_any(&Blocking::ALL.map(|way| name(way.label())))
    {
        return Ok(Vec::new());
    }
    let (world, vfs) = (&World::new(options)?, &ours::instance()?);
    world.tree.grow(&ours::task(vfs)?, "/".as_ref())?;
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
    let ours = plan.ours(&name("ours"), |ops| {
        (0..ops).map(|_| ours().unwrap_or(1)).sum()
    });
    for (way, heat) in Blocking::ALL.into_iter().zip([Heat::Offloaded, Heat::Warm]) {
        let name = name(way.label());
        let burst = move |ops| (0..ops).map(|_| peer(way).unwrap_or(1)).sum();
        let peer = plan.add(&name, heat, || Ok(()), burst);
        plan.row(Row::faster, &name, ours, way.label(), peer);
    }
    plan.run(&options.ask)
}
