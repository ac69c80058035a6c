// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open and close over a tree so large that every component misses the processor's caches.

use openpath_vfs::Vfs;

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
    for depth in DEPTHS {
        let name = format!("cold open-close d{depth}");
        if options.wants(&name) {
            out.push(row(&name, depth, ours::instance, options, host, steal)?);
        }
    }
    for depth in [5, 16] {
        let name = format!("cold open-close path-cache d{depth}");
        if options.wants(&name) {
            let vfs = || ours::with_path_cache(2 * options.dentries / depth);
            let row = row(&name, depth, vfs, options, host, steal)?;
            out.push(row.with_note("with room for every path"));
        }
    }
    Ok(out)
}

fn row(
    name: &str,
    depth: usize,
    vfs: impl Fn() -> Result<Vfs, Error>,
    options: &Options,
    host: &mut Host,
    steal: &Steal,
) -> Result<Row, Error> {
    host.tmpfs.remount()?;
    let tree = chains((options.dentries / depth).max(64), depth, SEED);
    let vfs = vfs()?;
    let task = ours::task(&vfs)?;
    ours::grow(&task, &tree)?;
    host.tmpfs.grow(&tree)?;
    let paths = rotation(&tree, false);
    drop(tree);
    // A path is remembered when it is walked again soon.
    for at in 0..paths.len() {
        Op::OpenClose.ours(&task, 4, &mut Ring::new(&paths[at..=at], 0));
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
    Ok(Row::faster_cold(name, &measured[a], "tmpfs", &measured[b]))
}
