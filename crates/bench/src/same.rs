// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `same-file`: open and close of one file by every thread, as `pages/same-file.md`
//! describes; with `--locks`, the cost of the lock check and of locks (`locked`).

use crate::common::*;
use crate::locked;

const FILE: &CStr = c"/tmp/same-file.data";
const FLAGS: [(&str, OFlags); 3] = [
    ("O_RDONLY", O_RDONLY),
    ("O_RDWR", O_RDWR),
    ("O_CREAT|O_RDWR", O_CREAT.union(O_RDWR)),
];

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

pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let ask = &options.ask;
    if options.locks {
        return locked::run(ask);
    }
    let host = Host::new()?;
    let on = ours::instance()?;
    let off = ours::tuned(|tuning| tuning.lock_context_flag = false)?;
    // What a row of each tree ends with; the first two are ours.
    let theirs = host
        .roots()
        .map(|(label, root)| (format!(", {label}"), Tree::Host(root)));
    let ours = [("", &on), (", flag off", &off)];
    let ours = ours.map(|(label, vfs)| (label.to_owned(), Tree::Ours(vfs)));
    let trees: Vec<(String, Tree<'_>)> = ours.into_iter().chain(theirs).collect();
    let places: Vec<Place<'_>> = trees
        .iter()
        .map(|(label, tree)| ("", &**label, *tree))
        .collect();
    let mut pairs: Vec<Pair<'_>> = Vec::new();
    for (at, (_, after, _)) in places.iter().enumerate().skip(2) {
        pairs.push(("", after, [0, at], &after[2..], ""));
    }
    pairs.push(("", ", switch", [0, 1], "flag off", ""));
    let scenes = FLAGS.map(|flags| Tables::ALL.map(|tables| scene(flags, tables)));
    for (.., tree) in &places {
        scenes[0][0].grow(*tree)?;
    }
    host.leave()?;
    let mut rows = Vec::new();
    for scenes in &scenes {
        rows.extend(measure(scenes, &places, &pairs, ask)?);
    }
    if threads_max() > 1 {
        let mut plan = Plan::default();
        nothing_shared(&mut plan, "same-file nothing shared, 2T over 1T", FILE)?;
        rows.extend(plan.run(ask)?);
    }
    Ok(rows)
}

fn scene((name, flags): (&str, OFlags), (tables, word): (Tables, &str)) -> Scene {
    Scene {
        name: format!("same-file {name}, {word}"),
        op: Op::Open(flags),
        tables,
        paths: vec![vec![FILE.to_owned()]; threads_max()],
    }
}
