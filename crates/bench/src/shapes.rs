// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `shapes`: the loops of will-it-scale and FxMark that `pages/shapes.md` lists, ours
//! beside the host.

use crate::common::*;

/// Entries of each directory of the shared tree.
const FANOUT: usize = 8;
/// Its levels, the files included.
const LEVELS: u32 = 5;
/// Every thread's paths through the shared tree, in rotation.
const WALKS: usize = 1 << 15;

pub(crate) fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let host = Host::new()?;
    let vfs = ours::instance()?;
    let places = [
        ("", "", Tree::Ours(&vfs)),
        ("", ", tmpfs", Tree::Host(&host.tmpfs)),
    ];
    let mut scenes = all(threads_max());
    ask.common.narrow(&mut scenes, |scene| &scene.name);
    let mut rows = Vec::new();
    // A few at a time, because sides that are measured together share the processor's caches.
    for scenes in scenes.chunks(4) {
        for (scene, (.., tree)) in scenes.iter().flat_map(|s| places.map(|place| (s, place))) {
            scene.grow(tree)?;
        }
        host.leave()?;
        let tmpfs = ("", "", [0, 1], "tmpfs", "");
        rows.extend(measure(scenes, &places, &[tmpfs], ask)?);
    }
    Ok(rows)
}

type Make<T> = fn(usize) -> T;

/// All scenes: the file of each thread of will-it-scale, and FxMark's paths.
fn all(threads: usize) -> Vec<Scene> {
    let own: [(&str, Op, Make<String>); 4] = [
        ("open1", Op::Open(O_RDWR), |i| {
            format!("/tmp/wis.one-{i:06}")
        }),
        ("open2", Op::Open(O_RDWR), |i| {
            format!("/tmp/wis.dir-{i:06}/wis.two")
        }),
        ("open3", Op::Open(O_RDWR), |_| "/tmp/wis.three".to_owned()),
        ("dup1", Op::DupClose, |i| format!("/tmp/wis.dup-{i:06}")),
    ];
    let deep: [(&str, Make<Vec<CString>>); 3] = [
        ("MRPL", |i| {
            vec![c_string(format!("/fx/own-{i}/third/fourth/file"))]
        }),
        ("MRPM", random_walks),
        ("MRPH", |_| vec![c_string("/fx/one/third/fourth/file")]),
    ];
    let mut scenes = Vec::new();
    for (tables, word) in Tables::ALL {
        scenes.extend(own.map(|(name, op, file)| Scene {
            name: format!("{name}, {word}"),
            op,
            tables,
            paths: (0..threads).map(|i| vec![c_string(file(i))]).collect(),
        }));
    }
    for (name, paths) in deep {
        let ops = [("stat", Op::Stat), ("open-close", Op::Open(O_RDONLY))];
        scenes.extend(ops.map(|(variant, op)| Scene {
            name: format!("{name} {variant}"),
            op,
            tables: Tables::Own,
            paths: (0..threads).map(paths).collect(),
        }));
    }
    scenes
}

/// Random paths of the shared tree, in another order for each thread, the same in every run.
fn random_walks(thread: usize) -> Vec<CString> {
    let mut rng = Rng::new(SEED + thread as u64);
    let walk = |_| {
        let mut leaf = rng.below(FANOUT.pow(LEVELS));
        let mut text = String::from("/fxm");
        for level in 0..LEVELS {
            text.push_str(&format!("/level{level}-{}", leaf % FANOUT));
            leaf /= FANOUT;
        }
        c_string(text)
    };
    (0..WALKS).map(walk).collect()
}
