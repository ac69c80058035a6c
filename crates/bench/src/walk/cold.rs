// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open and close over a tree so large that every component misses the processor's caches.

use std::ffi::CString;

use openpath_vfs::Task;

use super::Options;
use crate::error::Error;
use crate::harness::{Heat, Steal, Suite};
use crate::host::Host;
use crate::ops::Op;
use crate::paths::{Ring, chains, rotation};
use crate::row::Row;
use crate::{DEPTHS, SEED, ours};

pub(super) fn rows(options: &Options, host: &mut Host, steal: &Steal) -> Result<Vec<Row>, Error> {
    let mut out = Vec::new();
    let rows = DEPTHS.map(|depth| (format!("cold open-close d{depth}"), depth, false));
    let remembered = [5, 16].map(|d| (format!("cold open-close path-cache d{d}"), d, true));
    for (name, depth, remembered) in rows.into_iter().chain(remembered) {
        if options.wants(&name) {
            out.push(row(&name, depth, remembered, options, host, steal)?);
        }
    }
    Ok(out)
}

fn row(
    name: &str,
    depth: usize,
    remembered: bool,
    options: &Options,
    host: &mut Host,
    steal: &Steal,
) -> Result<Row, Error> {
    host.tmpfs.remount()?;
    let tree = chains((options.dentries / depth).max(64), depth, SEED);
    let vfs = ours::instance()?;
    let task = ours::task(&vfs)?;
    ours::grow(&task, &tree)?;
    host.tmpfs.grow(&tree)?;
    let paths = rotation(&tree, false);
    drop(tree);
    if remembered {
        remember(&task, &paths);
    }

    let (tmpfs, op, turns) = (&host.tmpfs, Op::OpenClose, options.turns());
    let (mut mine, mut theirs) = (Ring::new(&paths, 0), Ring::new(&paths, paths.len() / 2));
    let mut suite = Suite::default();
    let a = suite.add(
        "ours cold",
        Heat::Cold,
        || Ok(()),
        |ops| (0..turns).map(|_| op.ours(&task, ops, &mut mine)).sum(),
    );
    let enter = || tmpfs.enter();
    let b = suite.add("tmpfs cold", Heat::Cold, enter, |ops| {
        op.host(ops, &mut theirs)
    });
    let measured = suite.run(options.effort, steal)?;
    host.leave()?;
    host.tmpfs.remount()?;
    let row = Row::faster_cold(name, &measured[a], "tmpfs", &measured[b]);
    Ok(if remembered {
        row.with_note("every path walked often before")
    } else {
        row
    })
}

/// Walks each path several times in a row, as programs do that come back to a file soon: the path
/// cache takes it in. Several passes, since the cache grows meanwhile.
fn remember(task: &Task, paths: &[CString]) {
    for _ in 0..3 {
        for path in paths {
            let mut ring = Ring::new(std::slice::from_ref(path), 0);
            Op::OpenClose.ours(task, 4, &mut ring);
        }
    }
}
