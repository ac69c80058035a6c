// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `same-file`: open and close of one file by every thread, the loop by which Linux judged
//! a flag for lock contexts ("fs: track the inode having file locks with a flag in ->i_opflags").
//!
//! Read-only as there, for writing, and with `O_CREAT`; with own tables and with a shared one; with
//! the lock context found by a flag and by reading the field; the host beside it. With `--locks`,
//! the cost of the lock check and of locks (`locked`).

use std::ffi::CStr;

use openpath_abi::OFlags;
use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_RDWR};

use crate::cmd::Ask;
use crate::error::Error;
use crate::harness::Plan;
use crate::host::Host;
use crate::ops::Op;
use crate::row::Row;
use crate::scene::{Scene, Tables, Tree, nothing_shared, over_one, threads_max};
use crate::threads::counts;
use crate::{locked, ours};

const FILE: &CStr = c"/tmp/same-file.data";
const FLAGS: [(&str, OFlags); 3] = [
    ("O_RDONLY", O_RDONLY),
    ("O_RDWR", O_RDWR),
    ("O_CREAT|O_RDWR", O_CREAT.union(O_RDWR)),
];

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Time the lock check of opens, by the offset of inodes, and locks themselves.
    #[arg(long)]
    locks: bool,
}

impl Options {
    /// The command line that its page is for.
    pub(crate) fn command(&self) -> &'static str {
        match self.locks {
            true => "same-file --locks",
            false => "same-file",
        }
    }
}

/// Runs every wanted row.
pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let ask = &options.ask;
    if options.locks {
        return locked::run(ask);
    }
    let host = Host::new()?;
    let on = ours::instance()?;
    let off = ours::tuned(|tuning| tuning.lock_context_flag = false)?;
    let scenes: Vec<Scene> = FLAGS
        .into_iter()
        .flat_map(|flags| [Tables::Own, Tables::Shared].map(|tables| scene(flags, tables)))
        .collect();
    let ours = [("", Tree::Ours(&on)), (", flag off", Tree::Ours(&off))];
    let theirs = host.roots().map(|(label, root)| (label, Tree::Host(root)));
    let trees = ours.into_iter().chain(theirs);
    for (_, tree) in trees.clone() {
        scenes[0].grow(tree)?;
    }
    host.leave()?;
    let counts = counts();
    let mut rows = Vec::new();
    for scenes in scenes.chunks(2) {
        let mut plan = Plan::default();
        for scene in scenes {
            let name = &scene.name;
            let mut sides = Vec::new();
            for (label, tree) in trees.clone() {
                sides.push((label, scene.add(&mut plan, tree, &counts)?));
            }
            let on = sides[0].1.clone();
            for (i, count) in counts.iter().enumerate() {
                for (label, theirs) in &sides[2..] {
                    let name = format!("{name}, {count}T, {label}");
                    plan.row(Row::faster, &name, on[i], label, theirs[i]);
                }
                let (name, off) = (format!("{name}, {count}T, switch"), sides[1].1[i]);
                plan.row(Row::faster, &name, on[i], "flag off", off);
            }
            for (at, (label, side)) in sides.iter().enumerate() {
                let label = match at {
                    0 | 1 => (*label).to_owned(),
                    _ => format!(", {label}"),
                };
                over_one(&mut plan, name, &label, side, &counts);
            }
        }
        rows.extend(plan.run(ask)?);
    }
    if counts.contains(&2) {
        let mut plan = Plan::default();
        nothing_shared(&mut plan, "same-file nothing shared, 2T over 1T", FILE)?;
        rows.extend(plan.run(ask)?);
    }
    Ok(rows)
}

fn scene((name, flags): (&str, OFlags), tables: Tables) -> Scene {
    Scene {
        name: format!("same-file {name}, {}", tables.name()),
        op: Op::Open(flags),
        tables,
        paths: vec![vec![FILE.to_owned()]; threads_max()],
    }
}
