// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench same-file`: open and close of one and the same file by every thread, the loop by which
//! Linux judged a flag that tells of lock contexts ("fs: track the inode having file locks with a
//! flag in ->i_opflags").
//!
//! Read-only as there, for writing, and with `O_CREAT`; with own tables and with one shared;
//! with the lock context told by a flag and by reading the field; the host beside it.

use std::ffi::CString;

use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_RDWR};

use crate::error::Error;
use crate::harness::Steal;
use crate::host::Host;
use crate::row::Row;
use crate::scale::scaling;
use crate::scene::{Deed, Scene, Side, Tables, measure};
use crate::stats::Samples;
use crate::team::counts;
use crate::{Ask, ours};

const FILE: &std::ffi::CStr = c"/tmp/same-file.data";
const FLAGS: [(&str, u32); 3] = [
    ("O_RDONLY", O_RDONLY),
    ("O_RDWR", O_RDWR),
    ("O_CREAT|O_RDWR", O_CREAT | O_RDWR),
];
const FLOOR: &str = "same-file nothing shared, 2T over 1T";

/// Runs every wanted row.
///
/// # Errors
/// `NotPermitted` or `Setup` if a side cannot be built, `Wrong` if it answers wrongly.
pub fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let host = Host::new()?;
    let steal = Steal::open();
    let on = ours::instance()?;
    let off = ours::tuned(|tuning| tuning.lock_context_flag = false)?;
    let mut sides = vec![
        ("on", Side::Ours(&on)),
        ("off", Side::Ours(&off)),
        ("tmpfs", Side::Host(&host.tmpfs)),
    ];
    sides.extend(host.ext4.iter().map(|root| ("ext4", Side::Host(root))));
    let mut scenes: Vec<Scene> = FLAGS
        .into_iter()
        .flat_map(|flags| [Tables::Own, Tables::Shared].map(|tables| scene(flags, tables)))
        .collect();
    ask.keep_groups(&mut scenes, |scene| &scene.name);
    let places: Vec<Side<'_>> = sides.iter().map(|&(_, side)| side).collect();
    let mut rows = Vec::new();
    for scenes in scenes.chunks(2) {
        for &side in &places {
            scenes[0].grow(side)?;
        }
        host.leave()?;
        let measured = measure(scenes, &places, ask.effort, &steal)?;
        for (scene, by_side) in scenes.iter().zip(&measured) {
            let of = |label: &str| {
                let at = sides.iter().position(|&(name, _)| name == label)?;
                Some(&by_side[at])
            };
            rows.extend(rows_of(scene, &of));
        }
    }
    rows.retain(|row| ask.wants(&row.name));
    if counts().contains(&2) && ask.wants(FLOOR) {
        let floor = scaling(ask.effort, &steal, [apart()?, apart()?])?;
        let row = Row::faster(FLOOR, &floor.two, "one thread", &floor.one);
        rows.push(row.with_note("each in a Vfs of its own: what this machine allows"));
    }
    Ok(rows)
}

/// Opens and closes a file of a `Vfs` that is nobody else's.
fn apart() -> Result<impl FnMut(u64) -> u64, Error> {
    let task = ours::task(&ours::instance()?)?;
    let path = CString::from(c"/same-file.data");
    let made = ours::open_close(&task, path.to_bytes(), O_CREAT);
    let wrong = u64::from(!made);
    Ok(move |ops| {
        let opened = |_: &u64| !ours::open_close(&task, path.to_bytes(), O_RDONLY);
        wrong + (0..ops).filter(opened).count() as u64
    })
}

fn scene((name, flags): (&str, u32), tables: Tables) -> Scene {
    let threads = counts().into_iter().max().unwrap_or(1);
    let name = format!("same-file {name}, {}", tables.name());
    Scene {
        name,
        deed: Deed::OpenClose(flags),
        tables,
        paths: vec![vec![CString::from(FILE)]; threads],
    }
}

/// Finds a side's samples by its name.
type Of<'a> = dyn Fn(&str) -> Option<&'a Vec<Samples>> + 'a;

fn rows_of<'a>(scene: &Scene, of: &Of<'a>) -> Vec<Row> {
    let (Some(on), Some(off)) = (of("on"), of("off")) else {
        return Vec::new();
    };
    let mut rows = Vec::new();
    for (i, count) in counts().into_iter().enumerate() {
        for label in ["tmpfs", "ext4"] {
            if let Some(theirs) = of(label) {
                let name = format!("{}, {count}T, {label}", scene.name);
                rows.push(Row::faster(&name, &on[i], label, &theirs[i]));
            }
        }
        let name = format!("{}, {count}T, switch", scene.name);
        rows.push(Row::faster(&name, &on[i], "flag off", &off[i]));
    }
    for (i, count) in counts().into_iter().enumerate().skip(1) {
        let mut over = |label: &str, side: &[Samples]| {
            let name = format!("{}, {count}T over 1T{label}", scene.name);
            rows.push(Row::faster(&name, &side[i], "one thread", &side[0]));
        };
        over("", on);
        over(", flag off", off);
        for label in ["tmpfs", "ext4"] {
            if let Some(theirs) = of(label) {
                over(&format!(", {label}"), theirs);
            }
        }
    }
    rows
}
