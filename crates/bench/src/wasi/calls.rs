// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures single calls: each loop at each depth, on all sides in turn.

use wasmtime::Engine;

use super::inside::{Loop, Side, module};
use super::peer::{self, Blocking};
use super::tree::Tree;
use super::{Options, ours, scratch};
use crate::error::Error;
use crate::harness::{Heat, Plan};
use crate::row::Row;

/// A loop at a level, if it has one, and the beginning of its row names.
struct Group {
    what: Loop,
    level: usize,
    name: String,
}

fn groups(tree: &Tree) -> Vec<Group> {
    let mut groups = Vec::new();
    for what in Loop::ALL {
        let levels = if what.walks() { tree.0.len() } else { 1 };
        for level in 0..levels {
            let name = match what.walks() {
                true => format!("wasi {} d{}", what.name(), tree.0[level].depth),
                false => format!("wasi {}", what.name()),
            };
            groups.push(Group { what, level, name });
        }
    }
    groups
}

/// The names of the rows of a group.
fn names(group: &Group) -> [String; 3] {
    [Blocking::Pool.label(), Blocking::InPlace.label(), HOST]
        .map(|end| format!("{}, {end}", group.name))
}

/// The end of the names of host backend rows.
const HOST: &str = "host backend";

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    let tree = Tree::new();
    let mut wanted = groups(&tree);
    wanted.retain(|group| options.ask.wants_any(&names(group)));
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let scratch = scratch(&options.folder)?;
    tree.lay(scratch.path())?;
    let module = module(&Engine::default())?;
    let dir = scratch.path();
    let mut ours = ours::in_memory(&module, &tree)?;
    let mut on_host = ours::on_host(&module, dir, &tree)?;
    let [mut pool, mut blocking] = [
        peer::inside(Blocking::Pool, &module, dir, &tree)?,
        peer::inside(Blocking::InPlace, &module, dir, &tree)?,
    ];
    let mut sides: [(&str, Heat, &mut dyn Side); 4] = [
        ("ours", Heat::Warm, &mut ours),
        ("ours on the host", Heat::Warm, &mut on_host),
        (Blocking::Pool.label(), Heat::Offloaded, &mut pool),
        (Blocking::InPlace.label(), Heat::Warm, &mut blocking),
    ];
    let mut rows = Vec::new();
    for group in wanted {
        let mut plan = Plan::of(group.what.paths());
        let [ours, on_host, pool, blocking] = sides.each_mut().map(|(label, heat, side)| {
            let label = format!("{}, {label}", group.name);
            let burst = |ops| side.burst(group.what, group.level, ops);
            plan.add(&label, *heat, || Ok(()), burst)
        });
        let [to_pool, to_blocking, host] = names(&group);
        plan.row(Row::faster, &to_pool, ours, Blocking::Pool.label(), pool);
        for (name, ours) in [(to_blocking, ours), (host, on_host)] {
            plan.row(
                Row::faster,
                &name,
                ours,
                Blocking::InPlace.label(),
                blocking,
            );
        }
        rows.extend(plan.run(&options.ask)?);
    }
    Ok(rows)
}
