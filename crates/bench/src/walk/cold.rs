// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures open and close in a tree so large that every component misses the processor's caches.

use std::slice::from_ref;

use super::Options;
use crate::calls::{Calls, Kernel};
use crate::error::Error;
use crate::harness::{Heat, Plan};
use crate::host::Host;
use crate::ops::Op;
use crate::paths::{Ring, chains, rotation};
use crate::row::Row;
use crate::{DEPTHS, SEED, ours};

pub(super) fn rows(options: &Options, host: &mut Host) -> Result<Vec<Row>, Error> {
    let mut out = Vec::new();
    let plain = DEPTHS.map(|depth| (format!("cold open-close d{depth}"), depth, false));
    let remembered = [5, 16].map(|d| (format!("cold open-close path-cache d{d}"), d, true));
    for (name, depth, remembered) in plain.into_iter().chain(remembered) {
        if options.ask.wants(&name) {
            out.extend(row(&name, depth, remembered, options, host)?);
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
) -> Result<Vec<Row>, Error> {
    host.tmpfs.remount()?;
    let tree = chains((options.dentries / depth).max(64), depth, SEED);
    let vfs = ours::instance()?;
    let task = ours::task(&vfs)?;
    task.grow(&tree)?;
    host.tmpfs.grow(&tree)?;
    let paths = rotation(&tree, false);
    drop(tree);
    if remembered {
        // Several times in a row, as programs do that return to a file soon, so that the path cache
        // admits it. Several passes, because the cache grows meanwhile.
        for path in [0; 3].iter().flat_map(|_| &paths) {
            Op::OpenClose.burst(&task, 4, &mut Ring::new(from_ref(path), 0));
        }
    }
    let (tmpfs, op, repeats) = (&host.tmpfs, Op::OpenClose, options.ask.repeats());
    let (mut mine, mut theirs) = (Ring::new(&paths, 0), Ring::new(&paths, paths.len() / 2));
    let mut plan = Plan::default();
    let nothing = || Ok(());
    let ours = plan.add("ours cold", Heat::Cold, nothing, |ops| {
        (0..repeats).map(|_| op.burst(&task, ops, &mut mine)).sum()
    });
    let enter = || tmpfs.enter();
    let peer = plan.add("tmpfs cold", Heat::Cold, enter, |ops| {
        op.burst(&Kernel, ops, &mut theirs)
    });
    let row = plan.row(Row::faster_cold, name, ours, "tmpfs", peer);
    if remembered {
        row.note("every path walked often before");
    }
    let rows = plan.run(&options.ask)?;
    host.leave()?;
    host.tmpfs.remount()?;
    Ok(rows)
}
