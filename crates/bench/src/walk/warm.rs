// SPDX-License-Identifier: MIT OR Apache-2.0
//! Cached operations by depth, ours against the host's file systems.

use std::collections::HashMap;
use std::ffi::CString;

use openpath_vfs::Task;

use super::Options;
use crate::error::Error;
use crate::harness::{Heat, Id, Steal, Suite};
use crate::host::{Host, Root};
use crate::ops::Op;
use crate::paths::{Ring, chains, rotation};
use crate::row::Row;
use crate::{DEPTHS, PATHS, SEED, ours, sys};

/// A row to come: ours at a depth against a host file system or ours at depth 1.
struct Want {
    name: String,
    op: Op,
    depth: usize,
    /// With a descriptor table that another task uses as well.
    shared: bool,
    against: Against,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Against {
    Ext4,
    Tmpfs,
    OursD1,
}

impl Against {
    fn label(self) -> &'static str {
        match self {
            Against::Ext4 => "ext4",
            Against::Tmpfs => "tmpfs",
            Against::OursD1 => "ours d1",
        }
    }
}

fn wants() -> Vec<Want> {
    let mut out = Vec::new();
    for op in Op::TIMED {
        let places: &[Against] = match op {
            Op::FailedOpen => &[Against::Ext4, Against::Tmpfs],
            _ => &[Against::Tmpfs],
        };
        for &against in places {
            for depth in DEPTHS {
                let name = match op {
                    Op::FailedOpen => format!("{} {} d{depth}", op.name(), against.label()),
                    _ => format!("{} d{depth}", op.name()),
                };
                out.push(Want {
                    name,
                    op,
                    depth,
                    shared: false,
                    against,
                });
            }
        }
    }
    out.extend(DEPTHS.map(|depth| Want {
        name: format!("open-close shared-table d{depth}"),
        op: Op::OpenClose,
        depth,
        shared: true,
        against: Against::Tmpfs,
    }));
    for op in [Op::FailedOpen, Op::OpenClose, Op::Stat] {
        let name = format!("depth-16-over-1 {}", op.name());
        out.push(Want {
            name,
            op,
            depth: 16,
            shared: false,
            against: Against::OursD1,
        });
    }
    out
}

pub(super) fn rows(options: &Options, host: &Host, steal: &Steal) -> Result<Vec<Row>, Error> {
    let mut wants = wants();
    wants.retain(|want| options.wants(&want.name));
    let mut out = Vec::new();
    if let Err(why) = &host.ext4 {
        let missing = wants.iter().filter(|want| want.against == Against::Ext4);
        out.extend(missing.map(|want| Row::missing(&want.name, why)));
        wants.retain(|want| want.against != Against::Ext4);
    }
    if wants.is_empty() {
        return Ok(out);
    }
    let vfs = ours::instance()?;
    let task = ours::task(&vfs)?;
    let sharer = ours::task(&vfs)?;
    let mate = sharer
        .clone_files()
        .map_err(|e| Error::setup("share a table", e))?;
    let trees = Trees::grow(&task, host)?;
    let mut suite = Suite::default();
    let tasks = [&task, &sharer];
    let ids = add_variants(&mut suite, &wants, tasks, options.turns(), host, &trees);
    let floor = |ops| (0..ops).map(|_| u64::from(!sys::getppid())).sum();
    let floor = suite.add("getppid", Heat::Warm, || Ok(()), floor);
    let measured = suite.run(options.effort, steal)?;
    host.leave()?;
    drop(mate);
    for (want, id) in wants.iter().zip(ids) {
        let (mine, other) = (&measured[id.ours], &measured[id.other]);
        out.push(match want.against {
            Against::OursD1 => Row::growth(&want.name, mine, "ours d1", other),
            _ => Row::faster(&want.name, mine, want.against.label(), other),
        });
    }
    let floor = Row::host_only("host system call floor", "getppid", &measured[floor]);
    out.push(floor.with_note("in every figure of the host, once a call"));
    Ok(out)
}

/// The paths of every depth, grown on both sides.
struct Trees(HashMap<(usize, bool), Vec<CString>>);

impl Trees {
    fn grow(task: &Task, host: &Host) -> Result<Self, Error> {
        let mut paths = HashMap::new();
        for depth in DEPTHS {
            let tree = chains(PATHS, depth, SEED);
            ours::grow(task, &tree)?;
            host.tmpfs.grow(&tree)?;
            if let Ok(ext4) = &host.ext4 {
                ext4.grow(&tree)?;
            }
            for missing in [false, true] {
                paths.insert((depth, missing), rotation(&tree, missing));
            }
        }
        Ok(Self(paths))
    }

    fn ring(&self, op: Op, depth: usize) -> Ring<'_> {
        Ring::new(&self.0[&(depth, op.wants_missing())], 0)
    }
}

/// The variants a row is made of.
struct Ids {
    ours: Id,
    other: Id,
}

/// Adds every variant the rows need; ours at a depth is one variant however many rows use it.
fn add_variants<'a>(
    suite: &mut Suite<'a>,
    wants: &[Want],
    tasks: [&'a Task; 2],
    turns: u64,
    host: &'a Host,
    trees: &'a Trees,
) -> Vec<Ids> {
    let mut known = HashMap::new();
    let mut ours = |suite: &mut Suite<'a>, op: Op, depth: usize, shared: bool| {
        *known.entry((op.name(), depth, shared)).or_insert_with(|| {
            let (mut ring, task) = (trees.ring(op, depth), tasks[usize::from(shared)]);
            let burst = move |ops| (0..turns).map(|_| op.ours(task, ops, &mut ring)).sum();
            let label = format!("ours {} d{depth}", op.name());
            suite.add(&label, Heat::Warm, || Ok(()), burst)
        })
    };
    let mut ids = Vec::new();
    for want in wants {
        let mine = ours(suite, want.op, want.depth, want.shared);
        let other = match root_of(host, want.against) {
            None => ours(suite, want.op, 1, want.shared),
            Some(root) => {
                let (op, mut ring) = (want.op, trees.ring(want.op, want.depth));
                let label = format!("{} {}", want.against.label(), want.name);
                let burst = move |ops| op.host(ops, &mut ring);
                suite.add(&label, Heat::Warm, || root.enter(), burst)
            }
        };
        ids.push(Ids { ours: mine, other });
    }
    ids
}

fn root_of(host: &Host, against: Against) -> Option<&Root> {
    match against {
        Against::Ext4 => host.ext4.as_ref().ok(),
        Against::Tmpfs => Some(&host.tmpfs),
        Against::OursD1 => None,
    }
}
