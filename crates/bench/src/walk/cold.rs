// SPDX-License-Identifier: MIT OR Apache-2.0
//! Open and close over a tree so large that every component misses the processor's caches.

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
            out.push(row(&name, depth, options, host, steal)?);
        }
    }
    Ok(out)
}

fn row(
    name: &str,
    depth: usize,
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
    Ok(Row::faster(name, &measured[a], "tmpfs", &measured[b]))
}
