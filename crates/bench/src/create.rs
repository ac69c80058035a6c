// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench create-existing`: opens with `O_CREAT` in many mounts under one root, the scene in which
//! Linux tasks met at the root directory ("namei: clear nd->root.mnt before O_CREAT unlazy").
//!
//! * `create-existing`: of files that exist, and close;
//! * `create-new`: create, close and unlink.
//!
//! By absolute and by relative paths; with the root forgotten before lock-free mode is left or
//! counted, and with the last name looked up before the directory is locked or after; the host
//! beside it. What is stored to shared memory is counted apart, before anything is timed.

mod scene;
mod stores;
pub(crate) mod sys;

use openpath_vfs::{Tuning, Vfs};

use crate::error::Error;
use crate::harness::Steal;
use crate::host::Host;
use crate::row::Row;
use crate::stats::Samples;
use crate::team::{ByCount, Team, counts};
use crate::{Ask, ours};
use scene::{Deed, Scene};
use stores::Stores;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much, and which rows.
    pub ask: Ask,
    /// Numbers of mounts.
    pub mounts: Vec<usize>,
    /// Threads at once, beside one and two; as many as processors if 0.
    pub tasks: usize,
}

/// The four settings of both switches: forget the root, look first.
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
///
/// # Errors
/// `NotPermitted` or `Setup` if a side cannot be built, `Wrong` if it answers wrongly.
pub fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let mut counts = counts();
    if options.tasks != 0 {
        counts.retain(|&n| n <= 2 && n < options.tasks);
        counts.push(options.tasks);
    }
    let mut rows = Vec::new();
    for &mounts in &options.mounts {
        let threads = counts.iter().copied().max().unwrap_or(1).min(mounts);
        let deeds = [Deed::Existing, Deed::New].into_iter();
        let mut scenes: Vec<Scene> = deeds
            .flat_map(|deed| [true, false].map(|abs| Scene::new(deed, mounts, threads, abs)))
            .collect();
        options.ask.keep_groups(&mut scenes, |scene| &scene.name);
        let stage = Stage {
            ask: &options.ask,
            counts: &counts,
        };
        rows.extend(stage.run(&scenes)?);
    }
    rows.retain(|row| options.ask.wants(&row.name));
    Ok(rows)
}

struct Stage<'a> {
    ask: &'a Ask,
    counts: &'a [usize],
}

/// What was found of one scene.
struct Found {
    stores: Vec<Stores>,
    ours: Vec<ByCount>,
    host: ByCount,
}

impl Stage<'_> {
    fn run(&self, scenes: &[Scene]) -> Result<Vec<Row>, Error> {
        let Some(first) = scenes.first() else {
            return Ok(Vec::new());
        };
        let steal = Steal::open();
        let mut stores = Vec::new();
        for scene in scenes {
            let count = |setting| stores::count(scene, move || instance(setting));
            stores.push(SETTINGS.into_iter().map(count).collect::<Result<_, _>>()?);
        }
        let host = Host::new()?;
        first.grow_host(&host.tmpfs)?;
        host.leave()?;
        let vfss: Vec<Vfs> = SETTINGS
            .into_iter()
            .map(instance)
            .collect::<Result<_, _>>()?;
        let _makers: Vec<_> = vfss
            .iter()
            .map(|vfs| first.grow_ours(vfs))
            .collect::<Result<_, _>>()?;
        let mut rows = Vec::new();
        for (scene, stores) in scenes.iter().zip(stores) {
            let mut team = Team::default();
            for vfs in &vfss {
                team.add(&scene.name, scene.ours(vfs)?);
            }
            team.add(&scene.name, scene.host(&host.tmpfs));
            let mut ours = team.run(self.counts, self.ask.effort, &steal)?;
            let host = ours.pop().unwrap_or_default();
            rows.extend(self.rows(scene, &Found { stores, ours, host }));
        }
        host.leave()?;
        Ok(rows)
    }

    fn rows(&self, scene: &Scene, found: &Found) -> Vec<Row> {
        let name = &scene.name;
        let mut rows = Vec::new();
        for ((label, ..), stores) in SETTINGS.into_iter().zip(&found.stores) {
            let row = |what, value| Row::count(&format!("{name}{label}, {what}"), "per op", value);
            rows.push(row("root stores", stores.root));
            let places = stores.places.iter();
            let places: Vec<String> = places
                .map(|(name, count)| format!("{name} {count:.1}"))
                .collect();
            rows.push(row("common stores", stores.common).with_note(&places.join(", ")));
        }
        for (at, count) in self.counts.iter().enumerate() {
            for (((label, ..), ours), stores) in
                SETTINGS.into_iter().zip(&found.ours).zip(&found.stores)
            {
                let name = format!("{name}{label}, {count}T, tmpfs");
                let row = Row::faster(&name, &ours[at], "tmpfs", &found.host[at]);
                rows.push(row.with_note(&told(stores)));
            }
            let switch = |what: &str, on: usize, off: usize, label| {
                let name = format!("{name}, {count}T, {what}");
                Row::faster(&name, &found.ours[on][at], label, &found.ours[off][at])
            };
            rows.push(switch("switch", 2, 3, "root counted"));
            rows.push(switch("switch, both", 0, 3, "both off"));
        }
        for (at, count) in self.counts.iter().enumerate().skip(1) {
            let mut over = |label: &str, side: &[Samples]| {
                let name = format!("{name}{label}, {count}T over 1T");
                rows.push(Row::faster(&name, &side[at], "one thread", &side[0]));
            };
            for ((label, ..), ours) in SETTINGS.into_iter().zip(&found.ours) {
                over(label, ours);
            }
            over(", tmpfs", &found.host);
        }
        rows
    }
}

fn told(stores: &Stores) -> String {
    let Stores {
        root, common, all, ..
    } = stores;
    format!("stores: root {root:.1}, common {common:.1}, all {all:.1}")
}
