// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench run`: whole programs under `openpath run`, beside the bare system and other tools that
//! put something between a program and the files of the machine.
//!
//! Every place (`place`) has a worker that stays for the whole run, so that what it takes to set
//! a place up is in no figure. All do the same loads (`load`) on the same files, turn by turn,
//! each writing to a folder of its own.
//!
//! # Rules
//! R1. What a load leaves must be the same in every place, or the benchmark ends.
//! R2. A round in which the machine below stole time counts as any other: it meets all alike.
//! R3. What is made to be measured is removed at the end, whatever ends it.

mod load;
mod place;
mod plot;
mod scene;
mod worker;

pub use plot::plot;
pub use worker::serve;

use std::path::PathBuf;

use crate::error::Error;
use crate::row::Row;
use crate::stats::Samples;
use crate::{Ask, bars};
use load::Load;
use place::{Kind, Place};
use scene::Scene;

/// What `bench run` is told.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many rounds, and which rows.
    pub ask: Ask,
    /// This program, which each place starts again as a worker.
    pub exe: PathBuf,
    /// The `openpath` program.
    pub openpath: PathBuf,
    /// Where the files are made, on a disk.
    pub folder: PathBuf,
    /// A C project to compile; `None`: one that is made.
    pub project: Option<PathBuf>,
    /// Files in the repository that is asked for its state.
    pub tracked: usize,
    /// Files in the archive that is unpacked.
    pub archived: usize,
}

/// One place and what it took for each load, in nanoseconds.
struct Side {
    place: Place,
    times: Vec<Vec<f64>>,
}

/// Runs every wanted row.
///
/// # Errors
/// `NotPermitted` or `Setup` if a place or the files cannot be made, `Wrong` if places disagree.
pub fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let scene = Scene::make(options)?;
    let mut loads = Load::all(&scene);
    options
        .ask
        .keep_groups(&mut loads, |load| load.name.as_str());
    let (mut sides, mut missing) = (Vec::new(), Vec::new());
    for kind in Kind::ALL {
        match Place::enter(kind, options, &scene) {
            Ok(place) => sides.push(Side {
                place,
                times: vec![Vec::new(); loads.len()],
            }),
            Err(why) if kind.is_needed() => return Err(why),
            Err(why) => missing.push((kind, why.to_string())),
        }
    }
    let effort = options.ask.effort;
    for round in 0..effort.rounds {
        for (n, load) in loads.iter().enumerate() {
            let (name, round_of) = (&load.name, effort.rounds);
            (effort.tell)(&format!("{name}, round {} of {round_of}", round + 1));
            turn(&mut sides, round, n, load)?;
        }
    }
    let mut rows = rows(&loads, &sides);
    for (kind, why) in missing {
        let name = format!("run geometric mean, {}", kind.label());
        rows.push(Row::missing(&name, &why));
    }
    rows.retain(|row| options.ask.wants(&row.name));
    Ok(rows)
}

/// One load in every place, beginning with another one each round; the first round warms up.
fn turn(sides: &mut [Side], round: usize, n: usize, load: &Load) -> Result<(), Error> {
    let count = sides.len();
    let mut left: Option<String> = None;
    for i in 0..count {
        let side = &mut sides[(i + round) % count];
        let label = side.place.kind.label();
        side.place.does(&load.before)?;
        let (took, _) = side.place.does(&load.work)?;
        let (_, found) = side.place.does(&load.check)?;
        match &left {
            Some(first) if *first != found => {
                let what = format!("{} leaves something else in {label}", load.name);
                return Err(Error::Wrong(what));
            }
            _ => left = Some(found),
        }
        if round > 0 {
            side.times[n].push(took);
        }
    }
    Ok(())
}

/// What was measured, set against what.
fn rows(loads: &[Load], sides: &[Side]) -> Vec<Row> {
    let of = |kind: Kind| sides.iter().find(|side| side.place.kind == kind);
    let samples = |side: &Side, n: usize| Samples::new(side.times[n].clone(), 0);
    let (Some(ours), Some(native)) = (of(Kind::Run), of(Kind::Disk)) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for (n, load) in loads.iter().enumerate() {
        let (name, mine) = (&load.name, samples(ours, n));
        rows.push(Row::growth(name, &mine, "native", &samples(native, n)));
        for side in sides {
            let label = side.place.kind.label();
            let theirs = samples(side, n);
            match side.place.kind {
                Kind::Run | Kind::Disk => {}
                Kind::Tmpfs => {
                    let name = format!("{name}, tmpfs");
                    rows.push(Row::growth(&name, &mine, "tmpfs", &theirs));
                }
                Kind::FuseOverlayfs | Kind::Proot => {
                    let name = format!("{name}, {label}");
                    rows.push(Row::faster(&name, &mine, label, &theirs));
                }
            }
        }
    }
    for side in sides.iter().filter(|side| side.place.kind.is_rival()) {
        let ratios = (0..loads.len()).filter_map(|n| {
            let (theirs, mine) = (samples(side, n).median()?, samples(ours, n).median()?);
            Some((theirs / mine).ln())
        });
        let ratios: Vec<f64> = ratios.collect();
        let name = format!("run geometric mean, {}", side.place.kind.label());
        let mean = ratios.iter().sum::<f64>() / ratios.len() as f64;
        rows.push(match ratios.len() == loads.len() && !loads.is_empty() {
            true => Row::count(&name, "x", mean.exp()),
            false => Row::missing(&name, "not every load was measured"),
        });
    }
    for bar in bars::PROGRAMS {
        if rows.iter().all(|row| row.name != bar.name) {
            rows.push(Row::missing(bar.name, "nothing measured it"));
        }
    }
    rows
}
