// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures cached operations by depth, ours against the host's file systems.

use std::ffi::CString;
use std::hint::black_box;

use crate::calls::{Calls, Kernel};
use crate::cmd::Ask;
use crate::error::Error;
use crate::harness::Plan;
use crate::host::Host;
use crate::ops::Op;
use crate::paths::{Ring, chains, rotation};
use crate::row::Row;
use crate::{DEPTHS, PATHS, SEED, ours};

/// The operation, whether another task uses the same table, and the beginning of its row names.
const GROUPS: [(Op, bool, &str); 6] = [
    (Op::FailedOpen, false, "failed-open"),
    (Op::OpenClose, false, "open-close"),
    (Op::CreatExisting, false, "creat-existing"),
    (Op::Stat, false, "stat"),
    (Op::Statx, false, "statx"),
    (Op::OpenClose, true, "open-close shared-table"),
];
/// The operations that are compared with themselves at the least depth.
const GROWING: [&str; 3] = ["failed-open", "open-close", "stat"];

pub(super) fn rows(ask: &Ask, host: &Host) -> Result<Vec<Row>, Error> {
    let vfs = ours::instance()?;
    let (task, sharer) = (ours::task(&vfs)?, ours::task(&vfs)?);
    let shared = sharer.clone_files();
    let _shared = shared.map_err(|e| Error::setup("share a table", e))?;
    let mut paths: Vec<[Vec<CString>; 2]> = Vec::new();
    for depth in DEPTHS {
        let tree = chains(PATHS, depth, SEED);
        task.grow(&tree)?;
        for (_, root) in host.roots() {
            root.grow(&tree)?;
        }
        paths.push([false, true].map(|missing| rotation(&tree, missing)));
    }
    let ring = |op: Op, level: usize| {
        let of: &[[Vec<CString>; 2]] = &paths;
        Ring::new(&of[level][usize::from(op.wants_missing())], 0)
    };
    let (mut plan, mut out, repeats) = (Plan::default(), Vec::new(), ask.repeats());
    let mut growing = Vec::new();
    for (op, shared, name) in GROUPS {
        let task = if shared { &sharer } else { &task };
        let ours = [0, 1, 2].map(|level| {
            let mut ring = ring(op, level);
            plan.ours(&format!("ours {name} d{}", DEPTHS[level]), move |ops| {
                (0..repeats).map(|_| op.burst(task, ops, &mut ring)).sum()
            })
        });
        for (label, root) in host.roots() {
            // tmpfs keeps no negative entries, so failed opens are compared with ext4 too.
            let name = match op {
                Op::FailedOpen => format!("{name} {label}"),
                _ if label == "tmpfs" => name.to_owned(),
                _ => continue,
            };
            for (level, depth) in DEPTHS.into_iter().enumerate() {
                let (name, mut ring) = (format!("{name} d{depth}"), ring(op, level));
                let burst = move |ops| op.burst(&Kernel, ops, &mut ring);
                let theirs = plan.host(&format!("{label} {name}"), root, burst);
                plan.row(Row::faster, &name, ours[level], label, theirs);
            }
        }
        if GROWING.contains(&name) {
            growing.push((format!("depth-16-over-1 {name}"), ours));
        }
    }
    for (name, ours) in growing {
        plan.row(Row::growth, &name, ours[2], "ours d1", ours[0]);
    }
    let floor = plan.ours("getppid", |ops| {
        for _ in 0..ops {
            let _ = black_box(rustix::process::getppid());
        }
        0
    });
    let name = "host system call floor";
    plan.row(Row::host_only, name, floor, "getppid", floor)
        .note("in every figure of the host, once a call");
    if let Err(why) = &host.ext4 {
        let name = |depth| format!("failed-open ext4 d{depth}");
        out.extend(DEPTHS.map(|depth| Row::missing(&name(depth), why)));
    }
    out.extend(plan.run(ask)?);
    host.leave()?;
    Ok(out)
}
