// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `failed-open`: opens that fail, as `pages/failed-open.md` describes. The compilation is
//! recorded now if a compiler and strace exist, else the stored recording is used. `switch` rows
//! turn off `Tuning::failed_open_frees_inline`.

pub(crate) mod project;
mod record;
mod replay;

use std::fs;
use std::path::PathBuf;

use openpath_abi::fcntl::{O_DIRECTORY, O_NOFOLLOW};

use crate::common::*;
use record::Trace;
use replay::{Replay, enter, grow_ours};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// How many units the compiled project has.
    #[arg(long, default_value_t = 45, value_name = "N", value_parser = at_least_one)]
    units: usize,
    /// Replay the stored recording instead of making one.
    #[arg(long)]
    kept: bool,
    /// Write the recording to this file.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// The stored recording, of six units compiled by gcc 12: `--units 6 --record FILE`.
const KEPT: &str = include_str!("failed/kept.json");
const LOOP: &str = "openneg";
const SEARCH: &str = "header-search";

/// A failing open: its name, errno, path and flags.
const WAYS: [(&str, Errno, &CStr, OFlags); 5] = [
    ("ENOENT", Errno::ENOENT, c"/tmp/nonexistent", O_RDONLY),
    ("ENOTDIR", Errno::ENOTDIR, c"/tmp/file", O_DIRECTORY),
    ("EISDIR", Errno::EISDIR, c"/tmp/dir", O_WRONLY),
    ("EEXIST", Errno::EEXIST, c"/tmp/file", O_CREAT.union(O_EXCL)),
    ("ELOOP", Errno::ELOOP, c"/tmp/link", O_NOFOLLOW),
];

/// Tasks with the switch on and off, each in an instance of its own.
fn tasks() -> Result<[Task; 2], Error> {
    let off = ours::tuned(|tuning| tuning.failed_open_frees_inline = false)?;
    Ok([ours::task(&ours::instance()?)?, ours::task(&off)?])
}

pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let host = Host::new()?;
    let filter = options.ask.common.filter.as_deref().unwrap_or_default();
    let mut rows = Vec::new();
    // A filter may name a group, or any part of a row.
    if !filter.starts_with(SEARCH) {
        rows.extend(loops(&options.ask, &host)?);
    }
    if !filter.starts_with(LOOP) {
        rows.extend(search(options, &host)?);
    }
    Ok(rows)
}

fn loops(ask: &Ask, host: &Host) -> Result<Vec<Row>, Error> {
    let tasks = tasks()?;
    tasks.iter().try_for_each(furnish)?;
    for (_, root) in host.roots() {
        root.enter()?;
        furnish(&Kernel)?;
    }
    host.leave()?;
    let mut rows = Vec::new();
    for (name, errno, path, flags) in WAYS {
        let fails = Some(errno);
        let mut plan = Plan::default();
        let [on, off] = tasks.each_ref().map(|task| {
            let right = || Calls::open(task, path, flags, 0o644).err() == fails;
            plan.ours(name, move |ops| wrong_of(ops, right))
        });
        for (label, root) in host.roots() {
            let right = move || Kernel.open(path, flags, 0o644).err() == fails;
            let theirs = plan.host(name, root, move |ops| wrong_of(ops, right));
            let name = format!("{LOOP} {name} {label}");
            plan.row(Row::faster, &name, on, label, theirs);
        }
        let name = format!("{LOOP} {name} switch");
        plan.row(Row::faster, &name, on, "deferred", off);
        rows.extend(plan.run(ask)?);
        host.leave()?;
    }
    Ok(rows)
}

fn furnish(side: &impl Calls) -> Result<(), Error> {
    side.make_dir(b"/tmp")?;
    side.make_dir(b"/tmp/dir")?;
    side.make_file(b"/tmp/file", b"")?;
    side.make_link(b"file", b"/tmp/link")
}

/// The trace to replay, and its origin.
fn trace(options: &Options) -> Result<(Trace, String), Error> {
    let kept = |why: &str| {
        let trace = Trace::read(KEPT).setup("parse the stored recording")?;
        Ok((trace, format!("the stored recording{why}")))
    };
    if options.kept {
        return kept("");
    }
    let trace = match record::record(options.units) {
        Ok(trace) => trace,
        Err(why) => return kept(&format!(": {why}")),
    };
    if let Some(file) = &options.record {
        fs::write(file, trace.write()?)?;
    }
    let compiler = project::compiler().unwrap_or_default();
    Ok((trace, format!("recorded on the spot from {compiler}")))
}

fn search(options: &Options, host: &Host) -> Result<Vec<Row>, Error> {
    let (trace, from) = trace(options)?;
    let tasks = tasks()?;
    for task in &tasks {
        grow_ours(&trace, task)?;
    }
    let mut replay = Replay::new(&trace, &host.tmpfs)?;
    if let Ok(ext4) = &host.ext4 {
        replay = Replay::new(&trace, ext4)?;
    }
    host.leave()?;
    let mut plan = Plan::default();
    let mine = tasks.each_ref();
    let [on, off] = mine.map(|task| replay.add(&mut plan, task, || Ok(())));
    for (label, root) in host.roots() {
        let theirs = replay.add(&mut plan, &Kernel, || enter(root, &trace.cwd));
        plan.row(Row::faster, &format!("{SEARCH} {label}"), on, label, theirs);
    }
    let name = format!("{SEARCH} switch");
    plan.row(Row::faster, &name, on, "deferred", off);
    let (opens, failed) = replay.counts();
    let (share, left_out) = (100.0 * failed as f64 / opens as f64, replay.left_out);
    let left_out = format!("{from}; {left_out} cannot be repeated");
    let count = |what, unit, value, note: &str| {
        Row::count(&format!("{SEARCH} {what}"), unit, value).with_note(note)
    };
    let mut rows = vec![
        count("opens", "", opens as f64, &left_out),
        count("failed", "%", share, "24.5 in a kernel build"),
    ];
    rows.extend(plan.run(&options.ask)?);
    host.leave()?;
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_replays_stored_recording_with_host_results() {
        let trace = Trace::read(KEPT).unwrap();
        let failed: Vec<_> = trace.opens.iter().filter(|open| open.2 != 0).collect();
        let (all, share) = (trace.opens.len(), 100 * failed.len() / trace.opens.len());
        assert!(all > 1000 && (20..30).contains(&share), "{share} %");
        for task in tasks().unwrap() {
            grow_ours(&trace, &task).unwrap();
            for &&record::Open(path, flags, errno) in &failed {
                let (path, flags) = (&trace.paths[path], OFlags::from_bits_retain(flags));
                let got = task.open(path.as_bytes(), flags, 0);
                assert_eq!(got.map_err(|e| e.raw()), Err(errno), "{path}");
            }
        }
    }
}
