// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `shapes`: the shapes of well-known scalability benchmarks, ours beside the host.
//!
//! * will-it-scale: `open1` (own files in one directory), `open2` (own files, own directories),
//!   `open3` (one file), `dup1`; as its processes (own tables) and as its threads (a shared one).
//! * FxMark: `MRPL` (stat of an own path of five components), `MRPM` (random paths of a shared
//!   tree, five levels of eight), `MRPH` (one path for all); each with a variant that opens and
//!   closes instead.

use std::ffi::CString;

use openpath_abi::fcntl::{O_RDONLY, O_RDWR};

use crate::cmd::Ask;
use crate::error::Error;
use crate::harness::Plan;
use crate::host::Host;
use crate::ops::Op;
use crate::paths::Rng;
use crate::row::Row;
use crate::scene::{Scene, Tables, Tree, over_one, threads_max};
use crate::threads::counts;
use crate::{SEED, ours};

/// Entries of each directory of the shared tree.
const FANOUT: usize = 8;
/// Its levels, the files included.
const LEVELS: u32 = 5;
/// Every thread's paths through the shared tree, in rotation.
const WALKS: usize = 1 << 15;

/// Runs every wanted row.
pub(crate) fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let host = Host::new()?;
    let vfs = ours::instance()?;
    let trees = [Tree::Ours(&vfs), Tree::Host(&host.tmpfs)];
    let mut scenes = will_it_scale(threads_max());
    scenes.extend(fxmark(threads_max()));
    if scenes.iter().any(|scene| ask.wants(&scene.name)) {
        scenes.retain(|scene| ask.wants(&scene.name));
    }
    let counts = counts();
    let mut rows = Vec::new();
    // A few at a time, because sides that are measured together share the processor's caches.
    for scenes in scenes.chunks(4) {
        let mut plan = Plan::default();
        for (scene, tree) in scenes.iter().flat_map(|s| trees.map(|tree| (s, tree))) {
            scene.grow(tree)?;
        }
        host.leave()?;
        for scene in scenes {
            let ours = scene.add(&mut plan, trees[0], &counts)?;
            let tmpfs = scene.add(&mut plan, trees[1], &counts)?;
            for (i, count) in counts.iter().enumerate() {
                let name = format!("{}, {count}T", scene.name);
                plan.row(Row::faster, &name, ours[i], "tmpfs", tmpfs[i]);
            }
            over_one(&mut plan, &scene.name, "", &ours, &counts);
            over_one(&mut plan, &scene.name, ", tmpfs", &tmpfs, &counts);
        }
        rows.extend(plan.run(ask)?);
    }
    Ok(rows)
}

fn path(text: String) -> CString {
    CString::new(text).unwrap_or_default()
}

fn will_it_scale(threads: usize) -> Vec<Scene> {
    let own = |make: &dyn Fn(usize) -> String| -> Vec<Vec<CString>> {
        (0..threads).map(|i| vec![path(make(i))]).collect()
    };
    let open = Op::Open(O_RDWR);
    let shapes = [
        ("open1", open, own(&|i| format!("/tmp/wis.one-{i:06}"))),
        (
            "open2",
            open,
            own(&|i| format!("/tmp/wis.dir-{i:06}/wis.two")),
        ),
        ("open3", open, own(&|_| "/tmp/wis.three".to_owned())),
        (
            "dup1",
            Op::DupClose,
            own(&|i| format!("/tmp/wis.dup-{i:06}")),
        ),
    ];
    let with = |tables: Tables| {
        shapes.clone().map(|(name, op, paths)| Scene {
            name: format!("{name}, {}", tables.name()),
            op,
            tables,
            paths,
        })
    };
    [Tables::Own, Tables::Shared]
        .map(with)
        .as_flattened()
        .to_vec()
}

fn fxmark(threads: usize) -> Vec<Scene> {
    let deep = |top: String| vec![path(format!("/fx/{top}/third/fourth/file"))];
    let low: Vec<_> = (0..threads).map(|i| deep(format!("own-{i}"))).collect();
    let high = (0..threads).map(|_| deep("one".to_owned())).collect();
    let medium = (0..threads).map(random_walks).collect();
    let mut out = Vec::new();
    for (name, paths) in [("MRPL", low), ("MRPM", medium), ("MRPH", high)] {
        for (variant, op) in [("stat", Op::Stat), ("open-close", Op::Open(O_RDONLY))] {
            out.push(Scene {
                name: format!("{name} {variant}"),
                op,
                tables: Tables::Own,
                paths: paths.clone(),
            });
        }
    }
    out
}

/// Random paths of the shared tree, in another order for each thread, the same in every run.
fn random_walks(thread: usize) -> Vec<CString> {
    let mut rng = Rng::new(SEED + thread as u64);
    let leaves = FANOUT.pow(LEVELS);
    let mut out = Vec::with_capacity(WALKS);
    for _ in 0..WALKS {
        let mut leaf = rng.below(leaves);
        let mut text = String::from("/fxm");
        for level in 0..LEVELS {
            text.push_str(&format!("/level{level}-{}", leaf % FANOUT));
            leaf /= FANOUT;
        }
        out.push(path(text));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn threads_share_paths_as_shape_requires() {
        let scenes = will_it_scale(3);
        let of = |name: &str| {
            let scene = scenes.iter().find(|s| s.name == name).unwrap();
            scene.paths.iter().flatten().collect::<HashSet<_>>().len()
        };
        assert_eq!(of("open1, own tables"), 3);
        assert_eq!(of("open2, shared table"), 3);
        assert_eq!(of("open3, own tables"), 1);
        let scenes = fxmark(2);
        assert_eq!(scenes.len(), 6);
        let high = scenes.iter().find(|s| s.name == "MRPH stat").unwrap();
        assert_eq!(high.paths[0], high.paths[1]);
        let medium = scenes.iter().find(|s| s.name == "MRPM stat").unwrap();
        assert_ne!(medium.paths[0], medium.paths[1]);
        let slashes = |p: &CString| p.as_bytes().iter().filter(|&&b| b == b'/').count();
        assert!(high.paths[0].iter().all(|p| slashes(p) == 5));
        assert!(medium.paths[0].iter().all(|p| slashes(p) == 6));
    }
}
