// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench shapes`: the shapes of well-known scalability benchmarks, ours beside the host.
//!
//! * will-it-scale: `open1` (own files in one directory), `open2` (own files, own directories),
//!   `open3` (one file), `dup1`; as its processes (own tables) and as its threads (a shared one).
//! * FxMark: `MRPL` (stat of a path of five components of one's own), `MRPM` (random paths of a
//!   shared tree, five levels of eight), `MRPH` (one path for all); each with a twin that opens
//!   and closes instead.

use std::ffi::CString;

use openpath_abi::fcntl::{O_RDONLY, O_RDWR};

use crate::error::Error;
use crate::harness::Steal;
use crate::host::Host;
use crate::paths::Rng;
use crate::row::Row;
use crate::scene::{Deed, Scene, Side, Tables, measure};
use crate::team::{ByCount, counts};
use crate::{Ask, SEED, ours};

/// Entries of each directory of the shared tree.
const FANOUT: usize = 8;
/// Its levels, the files included.
const LEVELS: u32 = 5;
/// Every thread's paths through the shared tree, in rotation.
const WALKS: usize = 1 << 15;

/// Runs every wanted row.
///
/// # Errors
/// `NotPermitted` or `Setup` if a side cannot be built, `Wrong` if it answers wrongly.
pub fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let host = Host::new()?;
    let steal = Steal::open();
    let vfs = ours::instance()?;
    let sides = [Side::Ours(&vfs), Side::Host(&host.tmpfs)];
    let threads = counts().into_iter().max().unwrap_or(1);
    let mut scenes = will_it_scale(threads);
    scenes.extend(fxmark(threads));
    ask.keep_groups(&mut scenes, |scene| &scene.name);
    let mut rows = Vec::new();
    // A few at a time: what is measured together shares the processor's caches.
    for scenes in scenes.chunks(4) {
        for (scene, side) in scenes.iter().flat_map(|s| sides.map(|side| (s, side))) {
            scene.grow(side)?;
        }
        host.leave()?;
        let measured = measure(scenes, &sides, ask.effort, &steal)?;
        for (scene, by_side) in scenes.iter().zip(&measured) {
            rows.extend(rows_of(&scene.name, &by_side[0], &by_side[1]));
        }
    }
    rows.retain(|row| ask.wants(&row.name));
    Ok(rows)
}

fn rows_of(name: &str, ours: &ByCount, tmpfs: &ByCount) -> Vec<Row> {
    let mut rows = Vec::new();
    for (i, count) in counts().into_iter().enumerate() {
        let name = format!("{name}, {count}T");
        rows.push(Row::faster(&name, &ours[i], "tmpfs", &tmpfs[i]));
    }
    for (i, count) in counts().into_iter().enumerate().skip(1) {
        for (label, side) in [("", ours), (", tmpfs", tmpfs)] {
            let name = format!("{name}, {count}T over 1T{label}");
            rows.push(Row::faster(&name, &side[i], "one thread", &side[0]));
        }
    }
    rows
}

fn path(text: String) -> CString {
    CString::new(text).unwrap_or_default()
}

fn will_it_scale(threads: usize) -> Vec<Scene> {
    let own = |make: &dyn Fn(usize) -> String| -> Vec<Vec<CString>> {
        (0..threads).map(|i| vec![path(make(i))]).collect()
    };
    let open = Deed::OpenClose(O_RDWR);
    let shapes = [
        ("open1", open, own(&|i| format!("/tmp/wis.one-{i:06}"))),
        (
            "open2",
            open,
            own(&|i| format!("/tmp/wis.dir-{i:06}/wis.two")),
        ),
        ("open3", open, own(&|_| "/tmp/wis.three".to_owned())),
        ("dup1", Deed::Dup, own(&|i| format!("/tmp/wis.dup-{i:06}"))),
    ];
    let with = |tables: Tables| {
        shapes
            .clone()
            .into_iter()
            .map(move |(name, deed, paths)| Scene {
                name: format!("{name}, {}", tables.name()),
                deed,
                tables,
                paths,
            })
    };
    with(Tables::Own).chain(with(Tables::Shared)).collect()
}

fn fxmark(threads: usize) -> Vec<Scene> {
    let deep = |top: String| vec![path(format!("/fx/{top}/third/fourth/file"))];
    let low = (0..threads).map(|i| deep(format!("own-{i}"))).collect();
    let high = (0..threads).map(|_| deep("one".to_owned())).collect();
    let medium = (0..threads).map(random_walks).collect();
    let shapes: [(&str, Vec<Vec<CString>>); 3] = [("MRPL", low), ("MRPM", medium), ("MRPH", high)];
    let mut out = Vec::new();
    for (name, paths) in shapes {
        for (twin, deed) in [
            ("stat", Deed::Stat),
            ("open-close", Deed::OpenClose(O_RDONLY)),
        ] {
            out.push(Scene {
                name: format!("{name} {twin}"),
                deed,
                tables: Tables::Own,
                paths: paths.clone(),
            });
        }
    }
    out
}

/// Random paths of the shared tree; another order for each thread, the same in every run.
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
    fn threads_share_what_the_shape_says() {
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
