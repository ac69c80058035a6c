// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `cached`: opens by a program that must not wait, with a part of the names cached; and
//! reads (`data`). `pages/cached.md` names the sides.

mod data;
mod latency;
mod mix;
mod openers;
mod stall;
mod sys;

use std::path::Path;
use std::sync::Arc;

use openpath_host::{HostFs, HostOptions, Policy};
use openpath_ring::{Pool, PoolOptions};
use openpath_vfs::{Limits, SuperBlock, Tuning, VfsBuilder};

use crate::common::*;
use mix::Name;
use openers::{OurRing, add, direct, future, kernel_ring, tokio};

/// The directory of the files, on every side.
const DIR: &str = "/d";
/// Shares of cached names, in percent.
const SHARES: [u64; 4] = [0, 33, 89, 100];
/// Concurrent opens.
const DEPTHS: [usize; 2] = [1, 32];
/// The limit of cached names that do not exist: a run asks for each once, and they must not fill
/// memory.
const NEGATIVES: u32 = 1 << 14;

pub(crate) fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let host = Host::new()?;
    host.tmpfs.enter()?;
    make_files(&Kernel)?;
    let trees = [("host", host_tree()?), ("mem", mem_tree()?)];
    let mut rows = Vec::new();
    for (label, vfs) in &trees {
        for share in SHARES {
            rows.extend(at_share(ask, vfs, label, share)?);
        }
        rows.extend(latency::run(ask, label, vfs)?);
    }
    host.leave()?;
    match &host.ext4 {
        Ok(ext4) => rows.extend(data::run(ask, ext4.path())?),
        Err(why) => rows.push(Row::missing("read 4k", why)),
    }
    Ok(rows)
}

/// An instance over the directory of the host's tmpfs that every side uses.
fn host_tree() -> Result<Vfs, Error> {
    build(Vfs::builder(), host_dir("/".as_ref(), 128)?)
}

/// A directory of the host that only we change, with so many places in the kernel's ring.
fn host_dir(path: &Path, kernel_ring: u32) -> Result<Arc<SuperBlock>, Error> {
    let options = HostOptions::default()
        .policy(Policy::Exclusive)
        .kernel_ring(kernel_ring);
    HostFs::open(path, options).setup("open the directory")
}

/// An instance in memory with the same files. Complete directories are switched off, because they
/// would answer for names that were never asked for.
fn mem_tree() -> Result<Vfs, Error> {
    let mut tuning = Tuning::default();
    tuning.complete_directories = false;
    let vfs = build(Vfs::builder().tuning(tuning), ours::memory())?;
    make_files(&ours::task(&vfs)?)?;
    Ok(vfs)
}

fn make_files(side: &impl Calls) -> Result<(), Error> {
    side.make_dir(DIR.as_bytes())?;
    (0..mix::FILES).try_for_each(|n| side.make_file(&mix::file(n).bytes, b""))
}

fn build(builder: VfsBuilder, tree: Arc<SuperBlock>) -> Result<Vfs, Error> {
    let limits = Limits::default().negatives_max(NEGATIVES);
    ours::build(builder.limits(limits), tree)
}

/// Adds all openers at one share.
fn at_share(ask: &Ask, vfs: &Vfs, label: &str, share: u64) -> Result<Vec<Row>, Error> {
    let pool = Pool::new(PoolOptions::default());
    let (mut plan, mut number) = (Plan::default(), 0);
    let mut mix = || {
        number += 1;
        (share, number - 1)
    };
    let task = || ours::task(vfs);
    let call = add(&mut plan, "call", mix(), direct(task()?));
    let future = add(&mut plan, "future", mix(), future(task()?, &pool)?);
    let host_call = add(&mut plan, "open(2)", mix(), direct(Kernel));
    let name = |what: &str, end: &str| format!("{what} {share}% cached, {label}, {end}");
    for depth in DEPTHS {
        let [inline, offloaded] = [true, false].map(|inline| {
            let mut ring = OurRing::new(task()?, &pool, depth, inline)?;
            let label = if inline { "ring" } else { "ring, offload" };
            let open = move |names: &[Name]| ring.open(names);
            Ok::<_, Error>(add(&mut plan, label, mix(), open))
        });
        let inline = inline?;
        let of_tokio = add(&mut plan, "tokio::fs", mix(), tokio(false, depth)?);
        let blocking = add(&mut plan, "spawn_blocking", mix(), tokio(true, depth)?);
        let uring = add(&mut plan, "io_uring", mix(), kernel_ring(depth)?);
        for (peer, theirs) in [
            ("always offloaded", offloaded?),
            ("tokio::fs", of_tokio),
            ("spawn_blocking", blocking),
            ("io_uring", uring),
        ] {
            let name = name("ring", &format!("{depth} at once, {peer}"));
            plan.row(Row::faster, &name, inline, peer, theirs);
        }
        if depth == 1 {
            let name = name("future", "tokio::fs");
            plan.row(Row::faster, &name, future, "tokio::fs", of_tokio);
        }
    }
    let over = name("future", "over the call");
    plan.row(Row::growth, &over, future, "call", call);
    let open = name("call", "open(2)");
    plan.row(Row::faster, &open, call, "open(2)", host_call);
    plan.run(ask)
}
