// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `run`: whole programs under `openpath run` and in other places, which `pages/run.md`
//! lists.
//!
//! Each place has a worker that stays for the whole run, so that no figure includes its set-up. All
//! workers do the same loads on the same files, in turns, each writing to a directory of its own.
//!
//! # Rules
//! R1. The result of a load must be the same in every environment, or the benchmark ends. Another
//!     tool in which it differs has no row of that load.
//! R2. A round in which the hypervisor stole time counts as any other: it affects all environments
//!     alike.
//! R3. The files of the measurement are removed at the end, however it ends.

mod load;
mod place;
mod scene;
mod worker;

pub(crate) use worker::{Worker, serve};

use std::path::PathBuf;

use openpath_fuse::Rings;

use crate::chart::{Chart, Picture};
use crate::cmd::{Common, warn};
use crate::common::*;
use load::{Load, Start};
use place::{Environment, Kind, launch};
use scene::Scene;

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) common: Common,
    /// How many rounds to run; the first is not counted.
    #[arg(long, default_value_t = 12, value_name = "N", value_parser = at_least_one)]
    rounds: usize,
    /// Make the files in this folder of a disk.
    #[arg(long, default_value = "/var/tmp", value_name = "DIR")]
    folder: PathBuf,
    /// The `openpath` program; by default the one beside this program.
    #[arg(long, value_name = "FILE")]
    openpath: Option<PathBuf>,
    /// How many files the repository has.
    #[arg(long, default_value_t = 50_000, value_name = "N", value_parser = at_least_one)]
    tracked: usize,
    /// How many files the archive has.
    #[arg(long, default_value_t = 30_000, value_name = "N", value_parser = at_least_one)]
    archived: usize,
    /// Write a page of results here.
    #[arg(long, value_name = "FILE")]
    pub(crate) page: Option<PathBuf>,
    #[command(flatten)]
    picture: Picture,
}

/// The programs that places start: this one as a worker, and `openpath`.
struct Programs {
    bench: PathBuf,
    openpath: PathBuf,
}

impl Programs {
    fn find(options: &Options) -> Result<Self, Error> {
        let bench = std::env::current_exe().host("find this program")?;
        let openpath = options.openpath.clone();
        let openpath = openpath.unwrap_or_else(|| bench.with_file_name("openpath"));
        if openpath.is_file() {
            return Ok(Self { bench, openpath });
        }
        Err(Error::Setup(format!(
            "{} does not exist: build it with `cargo build --release -p openpath-cli`, or name it \
             with --openpath",
            openpath.display()
        )))
    }
}

/// How the kernel sends requests: the machine decides it, and it changes every row.
fn requests() -> String {
    let (ways, switch) = match Rings::are_offered() {
        true => ("by rings", "Y"),
        false => ("one by one, by read(2)", "N"),
    };
    format!("Requests of the kernel\ncame {ways} (`fuse.enable_uring` is {switch}).")
}

impl Options {
    pub(crate) fn page(&self) -> Page {
        let mut page = Page::of("run");
        let shown = "How many times the bare system's time each took";
        page.about += &format!(" {}{}", requests(), self.picture.shown(shown));
        page
    }
}

/// One place and its time for each load, in nanoseconds.
struct Side {
    place: Environment,
    times: Vec<Vec<f64>>,
}

pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let programs = Programs::find(options)?;
    warn(&requests());
    let scene = Scene::make(options)?;
    let mut loads = Load::all(&scene);
    options.common.narrow(&mut loads, |load| &load.name);
    let (mut sides, mut missing) = (Vec::new(), Vec::new());
    for (kind, ..) in Kind::ALL {
        match Environment::enter(kind, &programs, &scene) {
            Ok(place) => sides.push(Side {
                place,
                times: vec![Vec::new(); loads.len()],
            }),
            Err(why) if matches!(kind, Kind::Disk | Kind::Run) => return Err(why),
            Err(why) => missing.push((kind, why.to_string())),
        }
    }
    for round in 0..options.rounds {
        for (n, load) in loads.iter().enumerate() {
            let (name, of) = (&load.name, options.rounds);
            tell(&format!("{name}, round {} of {of}", round + 1));
            turn(&mut sides, round, (n, load), (&programs, &scene))?;
        }
    }
    let mut rows = rows(&loads, &sides);
    for (kind, why) in missing {
        let name = format!("run geometric mean, {}", kind.label());
        rows.push(Row::missing(&name, &why));
    }
    options.picture.draw(|| chart(&rows).svg())?;
    Ok(rows)
}

/// Runs one load in every place, beginning with another place each round; the first round warms up.
fn turn(
    sides: &mut [Side],
    round: usize,
    (n, load): (usize, &Load),
    (programs, scene): (&Programs, &Scene),
) -> Result<(), Error> {
    let count = sides.len();
    let mut results = Vec::new();
    for at in (0..count).map(|i| (i + round) % count) {
        let side = &mut sides[at];
        let kind = side.place.kind;
        if load.start == Start::Nothing {
            let took = launch(kind, programs, scene)?;
            results.push((at, took, String::new()));
            continue;
        }
        if load.start != Start::Warm {
            side.place = Environment::enter(kind, programs, scene)?;
        }
        side.place.does(&load.before)?;
        if load.start == Start::Cold {
            drop_caches().host("drop the caches")?;
        }
        let (took, _) = side.place.does(&load.work)?;
        let (_, found) = side.place.does(&load.check)?;
        results.push((at, took, found));
    }
    let native = results
        .iter()
        .find(|(at, ..)| sides[*at].place.kind == Kind::Disk);
    let right = native.map(|(_, _, found)| found.clone());
    for (at, took, found) in results {
        let side = &mut sides[at];
        let kind = side.place.kind;
        // R1
        if right.as_ref().is_some_and(|right| *right != found) {
            let (name, label) = (&load.name, kind.label());
            let what = format!("{name} found {} in {label}", found.trim());
            if !kind.is_rival() {
                return Err(Error::Wrong(what));
            }
            warn(&what);
            side.times[n].clear();
        } else if round > 0 {
            side.times[n].push(took);
        }
    }
    Ok(())
}

/// Drops what the kernel caches of files and directories.
fn drop_caches() -> std::io::Result<()> {
    rustix::fs::sync();
    std::fs::write("/proc/sys/vm/drop_caches", "3")
}

/// The rows of the measured times.
fn rows(loads: &[Load], sides: &[Side]) -> Vec<Row> {
    let of = |kind: Kind| sides.iter().find(|side| side.place.kind == kind);
    let samples = |side: &Side, n: usize| Samples::new(side.times[n].clone(), 0);
    let (Some(ours), Some(native)) = (of(Kind::Run), of(Kind::Disk)) else {
        return Vec::new();
    };
    // What the kernel's overlay is compared with.
    let beside = |kind: Kind| match kind {
        Kind::RunUser => of(Kind::UserOverlay),
        _ => of(Kind::KernelOverlay),
    };
    let mut rows = Vec::new();
    for (n, Load { name, .. }) in loads.iter().enumerate() {
        let mine = samples(ours, n);
        rows.push(Row::growth(name, &mine, "native", &samples(native, n)));
        for side in sides {
            let (kind, theirs) = (side.place.kind, samples(side, n));
            let (label, name) = (kind.label(), format!("{name}, {}", kind.label()));
            rows.extend(match kind {
                _ if side.times[n].is_empty() => {
                    Some(Row::missing(&name, "its result was another one"))
                }
                Kind::Run | Kind::Disk | Kind::UserOverlay => None,
                Kind::RunKernel | Kind::RunUser => beside(kind).map(|other| {
                    let label = other.place.kind.label();
                    Row::growth(&name, &theirs, label, &samples(other, n))
                }),
                Kind::Tmpfs | Kind::KernelOverlay | Kind::Bwrap => {
                    Some(Row::growth(&name, &mine, label, &theirs))
                }
                Kind::FuseOverlayfs | Kind::Proot => {
                    Some(Row::faster(&name, &mine, label, &theirs))
                }
            });
        }
    }
    let mean = |name: Kind, mine: &Side, theirs: &Side| {
        let ratio = |n: &usize| {
            let (theirs, mine) = (samples(theirs, *n).median()?, samples(mine, *n).median()?);
            Some((theirs / mine).ln())
        };
        let measured = (0..loads.len()).filter(|n| !theirs.times[*n].is_empty());
        let ratios: Option<Vec<f64>> = measured.map(|n| ratio(&n)).collect();
        let name = format!("run geometric mean, {}", name.label());
        match ratios {
            Some(all) if !all.is_empty() => {
                let mean = all.iter().sum::<f64>() / all.len() as f64;
                Row::count(&name, "x", mean.exp())
            }
            _ => Row::missing(&name, "not every load was measured"),
        }
    };
    for side in sides.iter().filter(|side| side.place.kind.is_rival()) {
        rows.push(mean(side.place.kind, ours, side));
    }
    for kind in [Kind::RunKernel, Kind::RunUser] {
        if let (Some(mine), Some(theirs)) = (of(kind), beside(kind)) {
            rows.push(mean(kind, mine, theirs));
        }
    }
    rows
}

/// Which rows a picture shows: a load's own row, and those named after it.
const SHOWN: [(Kind, &str); 6] = [
    (Kind::Tmpfs, "#8a8f98"),
    (Kind::KernelOverlay, "#4a9f6e"),
    (Kind::RunKernel, "#7fb2e5"),
    (Kind::Run, "#2f7ed8"),
    (Kind::FuseOverlayfs, "#d9822b"),
    (Kind::Proot, "#b5485f"),
];

/// Loads by the ratio of their time to the bare system's. A load's own row compares with the bare
/// system, and those named after it with another place.
fn chart(rows: &[Row]) -> Chart<6> {
    let mut chart = Chart {
        title: "Programs: times what the bare system takes",
        legend: SHOWN.map(|(kind, colour)| (kind.label(), colour)),
        groups: Vec::new(),
    };
    for row in rows.iter().filter(|row| !row.name.contains(", ")) {
        let Some((ours, native)) = row.both() else {
            continue;
        };
        let beside = |kind: Kind| Row::named(rows, &format!("{}, {}", row.name, kind.label()));
        let value = |kind: Kind| match kind {
            Kind::Run => Some(ours),
            // Its row compares it with the kernel's overlay.
            Kind::RunKernel => Some(beside(kind)?.both()?.0),
            kind => beside(kind)?.theirs(),
        };
        let values = SHOWN.map(|(kind, _)| Some(value(kind)? / native));
        let name = row.name.trim_start_matches("run ");
        chart.groups.push((name.to_owned(), values));
    }
    chart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_measured_place_has_a_bar() {
        let of = |ns: f64| Samples::new(vec![ns; 9], 0);
        let rows = [
            Row::growth("run tar", &of(30.0), "native", &of(10.0)),
            Row::faster("run tar, fuse-overlayfs", &of(30.0), "x", &of(80.0)),
            Row::missing("run tar, proot", "it is not here"),
            Row::missing("run find", "nothing measures it"),
            Row::count("run geometric mean, proot", "x", 2.0),
        ];
        let bars = [None, None, None, Some(3.0), Some(8.0), None];
        assert_eq!(chart(&rows).groups, [("tar".to_owned(), bars)]);
        let svg = chart(&rows).svg();
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        // The legend has one each.
        assert_eq!(svg.matches("<rect ").count(), SHOWN.len() + 2);
    }
}
