// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures single calls: each loop at each depth, on all sides in turn.

use super::Options;
use super::hosts::{Blocking, World};
use super::inside::{Loop, Side};
use super::tree::DEPTHS;
use crate::error::Error;
use crate::harness::{Heat, Plan};
use crate::row::Row;

/// A loop at a level, if it has one, and the beginning of its row names.
struct Group {
    what: Loop,
    level: usize,
    name: String,
}

fn groups() -> Vec<Group> {
    let mut groups = Vec::new();
    for what in Loop::ALL {
        let levels = if what.walks() { DEPTHS.len() } else { 1 };
        for level in 0..levels {
            let name = match what.walks() {
                true => format!("wasi {} d{}", what.name(), DEPTHS[level]),
                false => format!("wasi {}", what.name()),
            };
            groups.push(Group { what, level, name });
        }
    }
    groups
}

/// The names of the rows of a group.
fn names(group: &Group) -> [String; 3] {
    ["default", "blocking", "host backend"].map(|end| format!("{}, {end}", group.name))
}

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    let mut wanted = groups();
    wanted.retain(|group| options.ask.wants_any(&names(group)));
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
    for group in wanted {
        let mut plan = Plan::of(group.what.paths());
        let [ours, on_host, pool, blocking] = sides.each_mut().map(|(label, heat, side)| {
            let label = format!("{}, {label}", group.name);
            let burst = |ops| side.burst(group.what, group.level, ops);
            plan.add(&label, *heat, || Ok(()), burst)
        });
        let [to_pool, to_blocking, host] = names(&group);
        plan.row(Row::faster, &to_pool, ours, "default", pool);
        for (name, ours) in [(to_blocking, ours), (host, on_host)] {
            plan.row(Row::faster, &name, ours, "blocking", blocking);
        }
        rows.extend(plan.run(&options.ask)?);
    }
    Ok(rows)
}
