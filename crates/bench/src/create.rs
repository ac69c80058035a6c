// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `create-existing`: opens with `O_CREAT` in many mounts under one root, where Linux
//! tasks contended at the root directory ("namei: clear nd->root.mnt before O_CREAT unlazy").
//!
//! * `create-existing`: open files that exist, and close;
//! * `create-new`: create, close and unlink.
//!
//! The paths are absolute or relative. The root is reset before the walk leaves lock-free mode, or
//! counted; the last name is looked up before the directory is locked, or after. The host runs
//! beside it. Stores to shared memory are counted separately, before anything is timed.

mod scene;

use openpath_vfs::{Tuning, Vfs};

use crate::cmd::{Ask, at_least_one};
use crate::error::Error;
use crate::gate;
use crate::harness::Plan;
use crate::host::Host;
use crate::ours;
use crate::paths::Ring;
use crate::row::Row;
use crate::scene::{Scene, Tree, over_one};
use crate::threads::counts;
use crate::watch::sys::Kind;
use crate::watch::{Stores, observe};

/// The options.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Numbers of mounts under the root.
    #[arg(long, default_values_t = [64, 1024], value_delimiter = ',', value_name = "N",
          value_parser = at_least_one)]
    mounts: Vec<usize>,
}

/// The four settings of both switches: reset the root, look first.
const SETTINGS: [(&str, bool, bool); 4] = [
    ("", true, true),
    (", root counted", false, true),
    (", locked first", true, false),
    (", root counted, locked first", false, false),
];

fn instance((_, forgets, looks): (&str, bool, bool)) -> Result<Vfs, Error> {
    ours::tuned(|tuning: &mut Tuning| {
        tuning.root_reset_before_unlazy = forgets;
        tuning.create_looks_first = looks;
    })
}

/// Runs every wanted row.
pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let counts = counts();
    let mut rows = Vec::new();
    for &mounts in &options.mounts {
        let threads = counts.iter().copied().max().unwrap_or(1).min(mounts);
        let mut scenes = scene::all(mounts, threads);
        if scenes.iter().any(|scene| options.ask.wants(&scene.name)) {
            scenes.retain(|scene| options.ask.wants(&scene.name));
        }
        rows.extend(in_mounts(mounts, &scenes, &options.ask, &counts)?);
    }
    Ok(rows)
}

fn in_mounts(
    mounts: usize,
    scenes: &[Scene],
    ask: &Ask,
    counts: &[usize],
) -> Result<Vec<Row>, Error> {
    let mut found: Vec<Vec<Stores>> = Vec::new();
    for scene in scenes {
        let count = |setting| stores(scene, mounts, setting);
        found.push(SETTINGS.into_iter().map(count).collect::<Result<_, _>>()?);
    }
    let host = Host::new()?;
    scene::grow_host(mounts, &host.tmpfs)?;
    host.leave()?;
    let instances: Result<Vec<Vfs>, Error> = SETTINGS.into_iter().map(instance).collect();
    let instances = instances?;
    let makers = instances.iter().map(|vfs| scene::grow_ours(mounts, vfs));
    let _makers = makers.collect::<Result<Vec<_>, _>>()?;
    let mut rows = Vec::new();
    for (scene, stores) in scenes.iter().zip(found) {
        rows.extend(stores_rows(&scene.name, &stores));
        let (mut plan, name) = (Plan::default(), &scene.name);
        let mut ours = Vec::new();
        for vfs in &instances {
            ours.push(scene.add(&mut plan, Tree::Ours(vfs), counts)?);
        }
        let tmpfs = scene.add(&mut plan, Tree::Host(&host.tmpfs), counts)?;
        for (at, count) in counts.iter().enumerate() {
            for (((label, ..), ours), stores) in SETTINGS.into_iter().zip(&ours).zip(&stores) {
                let name = format!("{name}{label}, {count}T, tmpfs");
                plan.row(Row::faster, &name, ours[at], "tmpfs", tmpfs[at])
                    .note(&words(stores));
            }
            let mut switch = |what: &str, on: usize, off: usize, label| {
                let name = format!("{name}, {count}T, {what}");
                plan.row(Row::faster, &name, ours[on][at], label, ours[off][at]);
            };
            switch("switch", 2, 3, "root counted");
            switch("switch, both", 0, 3, "both off");
        }
        for ((label, ..), side) in SETTINGS.into_iter().zip(&ours) {
            over_one(&mut plan, &format!("{name}{label}"), "", side, counts);
        }
        over_one(&mut plan, &format!("{name}, tmpfs"), "", &tmpfs, counts);
        rows.extend(plan.run(ask)?);
    }
    host.leave()?;
    Ok(rows)
}

/// How often every path is walked before stores are counted, and again during it.
const WALKS: [usize; 2] = [4, 2];

/// Counts the stores of `scene`, by mount.
fn stores(scene: &Scene, mounts: usize, setting: (&str, bool, bool)) -> Result<Stores, Error> {
    let build = || {
        let vfs = instance(setting)?;
        let maker = scene::grow_ours(mounts, &vfs)?;
        Ok((vfs, maker))
    };
    gate::apart(build, |(vfs, _maker)| {
        let task = ours::task(&vfs)?;
        let paths: Vec<_> = scene.paths.iter().flatten().collect();
        let step = |mount: usize| {
            let path = std::slice::from_ref(paths[mount]);
            scene.op.burst(&task, 1, &mut Ring::new(path, 0)) == 0
        };
        let seen = observe(&vfs, Kind::Stores, paths.len(), WALKS, step)?;
        Ok(seen.stores(&task.root_spans()))
    })
}

/// Counted stores as text.
fn words(stores: &Stores) -> String {
    let (root, common, all) = (stores.root, stores.common, stores.all);
    format!("stores: root {root:.1}, common {common:.1}, all {all:.1}")
}

/// The counted stores, by setting.
fn stores_rows(name: &str, found: &[Stores]) -> Vec<Row> {
    let mut rows = Vec::new();
    for ((label, ..), stores) in SETTINGS.into_iter().zip(found) {
        let row = |what, value| Row::count(&format!("{name}{label}, {what}"), "per op", value);
        rows.push(row("root stores", stores.root));
        let places = stores.places.iter();
        let places: Vec<String> = places.map(|(name, n)| format!("{name} {n:.1}")).collect();
        rows.push(row("common stores", stores.common).with_note(&places.join(", ")));
    }
    rows
}
