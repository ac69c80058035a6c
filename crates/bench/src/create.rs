// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `create-existing`: opens with `O_CREAT` in many mounts under one root, as
//! `pages/create-existing.md` describes. Stores to shared memory are counted before anything is
//! timed.

use crate::common::*;
use crate::host::mount_tmpfs;
use crate::watch::sys::Kind;
use crate::watch::{Stores, observe};

#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    #[command(flatten)]
    pub(crate) ask: Ask,
    /// Numbers of mounts under the root.
    #[arg(long, default_values_t = [64, 1024], value_delimiter = ',', value_name = "N",
          value_parser = at_least_one)]
    mounts: Vec<usize>,
}

const FLAGS: OFlags = O_CREAT.union(O_RDWR);
/// The operations, the beginning of their row names, and the file in each mount.
const OPS: [(Op, &str, &str); 2] = [
    (Op::Open(FLAGS), "create-existing", "file"),
    (Op::CreateUnlink(FLAGS.union(O_EXCL)), "create-new", "new"),
];
/// A setting of both switches: reset the root, look first.
type Setting = (&'static str, bool, bool);
const SETTINGS: [Setting; 4] = [
    ("", true, true),
    (", root counted", false, true),
    (", locked first", true, false),
    (", root counted, locked first", false, false),
];
/// How often every path is walked before stores are counted, and again during it.
const WALKS: [usize; 2] = [4, 2];

pub(crate) fn run(options: &Options) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    for &mounts in &options.mounts {
        let mut scenes = scenes(mounts, threads_max().min(mounts));
        options.ask.common.narrow(&mut scenes, |scene| &scene.name);
        rows.extend(in_mounts(mounts, &scenes, &options.ask)?);
    }
    Ok(rows)
}

/// Every operation in `mounts` mounts divided among `threads`, by absolute and relative paths.
fn scenes(mounts: usize, threads: usize) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (op, form, file) in OPS {
        for (from, skipped) in [("absolute", 0), ("relative", 1)] {
            let path = |number: usize| {
                let path = format!("/m{number}/{file}");
                c_string(&path[skipped..])
            };
            let share = |thread: usize| (thread..mounts).step_by(threads).map(path).collect();
            scenes.push(Scene {
                name: format!("{form} {mounts} {from}"),
                op,
                tables: Tables::Own,
                paths: (0..threads).map(share).collect(),
            });
        }
    }
    scenes
}

fn in_mounts(mounts: usize, scenes: &[Scene], ask: &Ask) -> Result<Vec<Row>, Error> {
    let mut found = Vec::new();
    for scene in scenes {
        let all = SETTINGS.map(|setting| stores(scene, mounts, setting));
        found.push(all.into_iter().collect::<Result<Vec<_>, _>>()?);
    }
    let host = Host::new()?;
    host.tmpfs.enter()?;
    grow(mounts, &Kernel, |point| mount_tmpfs(point.as_ref()))?;
    host.leave()?;
    let made = SETTINGS.map(|setting| instance(setting, mounts));
    let made = made.into_iter().collect::<Result<Vec<_>, _>>()?;
    let mut places: Vec<Place<'_>> = Vec::new();
    for ((label, ..), (vfs, _)) in SETTINGS.iter().zip(&made) {
        places.push((label, "", Tree::Ours(vfs)));
    }
    places.push((", tmpfs", "", Tree::Host(&host.tmpfs)));
    let mut rows = Vec::new();
    for (scene, stores) in scenes.iter().zip(&found) {
        let mut notes = Vec::new();
        for ((label, ..), stores) in SETTINGS.into_iter().zip(stores) {
            let (root, common, all) = (stores.root, stores.common, stores.all);
            let name = |what| format!("{}{label}, {what} stores", scene.name);
            rows.push(Row::count(&name("root"), "per op", root));
            let places = stores.places.iter();
            let places: Vec<_> = places.map(|(name, n)| format!("{name} {n:.1}")).collect();
            rows.push(Row::count(&name("common"), "per op", common).with_note(&places.join(", ")));
            notes.push(format!(
                "stores: root {root:.1}, common {common:.1}, all {all:.1}"
            ));
        }
        let mut pairs: Vec<Pair<'_>> = Vec::new();
        for (at, ((label, ..), note)) in SETTINGS.iter().zip(&notes).enumerate() {
            pairs.push((label, ", tmpfs", [at, SETTINGS.len()], "tmpfs", note));
        }
        pairs.push(("", ", switch", [2, 3], "root counted", ""));
        pairs.push(("", ", switch, both", [0, 3], "both off", ""));
        rows.extend(measure(from_ref(scene), &places, &pairs, ask)?);
    }
    host.leave()?;
    Ok(rows)
}

/// An instance with mounts and files, and the task that made them.
fn instance((_, forgets, looks): Setting, mounts: usize) -> Result<(Vfs, Task), Error> {
    let vfs = ours::tuned(|tuning| {
        tuning.root_reset_before_unlazy = forgets;
        tuning.create_looks_first = looks;
    })?;
    let task = ours::task(&vfs)?;
    grow(mounts, &task, |point| {
        let mounted = task.mount(ours::memory(), point.as_bytes(), MountFlags::default());
        mounted.setup("mount")
    })?;
    Ok((vfs, task))
}

/// Makes the mounts, and a file in each.
fn grow(
    mounts: usize,
    side: &impl Calls,
    mount: impl Fn(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    for point in (0..mounts).map(|number| format!("/m{number}")) {
        side.make_dir(point.as_bytes())?;
        mount(&point)?;
        side.make_file(format!("{point}/file").as_bytes(), b"")?;
    }
    Ok(())
}

/// Counts the stores of `scene`, by mount.
fn stores(scene: &Scene, mounts: usize, setting: Setting) -> Result<Stores, Error> {
    gate::apart(
        || instance(setting, mounts),
        |(vfs, _maker)| {
            let task = ours::task(&vfs)?;
            let paths: Vec<_> = scene.paths.iter().flatten().collect();
            let step = |mount: usize| {
                let path = from_ref(paths[mount]);
                scene.op.burst(&task, 1, &mut Ring::new(path, 0)) == 0
            };
            let seen = observe(&vfs, Kind::Stores, paths.len(), WALKS, step)?;
            Ok(seen.stores(&task.root_spans()))
        },
    )
}
