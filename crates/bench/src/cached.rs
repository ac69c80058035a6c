// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bench cached`: what it costs a program that must not wait to open files of which a part is
//! cached ("fs: Support for LOOKUP_CACHED / RESOLVE_CACHED").
//!
//! Every side opens the same mix of names (`mix`) and closes what it got: our ring that tries
//! first, our ring that always asks a worker, our future, our call; and of the host `tokio::fs`,
//! `spawn_blocking`, its own ring and its own call. Beside them, reads of data (`data`).

mod contest;
mod data;
mod kernel;
mod latency;
mod mix;
mod ours;
mod stall;
mod sys;
mod tokio;

use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Pool, PoolOptions};
use openpath_vfs::{Limits, Tuning, Vfs};

use self::contest::Contest;
use self::tokio::{Tokio, Way};
use crate::error::Error;
use crate::harness::Steal;
use crate::host::Host;
use crate::row::Row;
use crate::stats::Samples;
use crate::{Ask, bars, ours as instance};

/// Where the files are, on every side.
const DIR: &str = "/d";
/// Of a hundred opens so many are of names that are cached.
const SHARES: [u64; 4] = [0, 33, 89, 100];
/// Opens at once.
const DEPTHS: [usize; 2] = [1, 32];
/// Names that do not exist and may be cached: what a run asks for and never asks for again must
/// not fill memory.
const NEGATIVES: u32 = 1 << 14;

/// Runs every wanted row.
///
/// # Errors
/// `NotPermitted` or `Setup` if a side cannot be built, `Wrong` if it answers wrongly.
pub fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let steal = Steal::open();
    let host = Host::new()?;
    host.tmpfs.enter()?;
    let made = std::fs::create_dir(DIR).and_then(|()| {
        (0..mix::FILES).try_for_each(|n| std::fs::write(format!("{DIR}/f{n}"), b""))
    });
    made.map_err(|e| Error::host("make the files", e))?;
    let trees = [("host", host_tree()?), ("mem", mem_tree()?)];
    let mut rows = Vec::new();
    for (label, vfs) in &trees {
        let mut shares: Vec<(u64, String)> = SHARES
            .map(|share| (share, format!("ring {share}% cached, {label}")))
            .into();
        ask.keep_groups(&mut shares, |(_, name)| name);
        for (share, _) in shares {
            rows.extend(contest(ask, &steal, vfs, label, share)?);
        }
        rows.extend(latency::run(label, vfs)?);
    }
    host.leave()?;
    match &host.ext4 {
        Ok(ext4) => rows.extend(data::run(ask, &steal, ext4.path())?),
        Err(why) => rows.push(Row::missing("read 4k", why)),
    }
    rows.retain(|row| ask.wants(&row.name));
    for bar in bars::CACHED {
        if ask.wants(bar.name) && rows.iter().all(|row| row.name != bar.name) {
            rows.push(Row::missing(bar.name, "nothing measures it"));
        }
    }
    Ok(rows)
}

/// An instance over the directory that every side has, of the host's tmpfs.
fn host_tree() -> Result<Vfs, Error> {
    let options = HostOptions {
        policy: Policy::Exclusive,
        ..HostOptions::default()
    };
    let tree = HostFs::open("/", options).map_err(|e| Error::setup("open the directory", e))?;
    build(Vfs::builder(), tree)
}

/// An instance in memory with the same files. It would answer for names that were never asked for:
/// that is switched off, so that a miss is a miss.
fn mem_tree() -> Result<Vfs, Error> {
    let mut tuning = Tuning::default();
    tuning.complete_directories = false;
    let tree = MemFs::new(MemOptions::default());
    let vfs = build(Vfs::builder().tuning(tuning), tree)?;
    let task = instance::task(&vfs)?;
    instance::mkdir(&task, DIR.as_bytes())?;
    for n in 0..mix::FILES {
        instance::touch(&task, &mix::file(n).bytes)?;
    }
    Ok(vfs)
}

fn build(
    builder: openpath_vfs::VfsBuilder,
    tree: std::sync::Arc<openpath_vfs::SuperBlock>,
) -> Result<Vfs, Error> {
    let limits = Limits {
        negatives_max: NEGATIVES,
        ..Limits::default()
    };
    let built = builder.limits(limits).build(tree);
    built.map_err(|e| Error::setup("build an instance", e))
}

/// All sides at one share.
fn contest(
    ask: &Ask,
    steal: &Steal,
    vfs: &Vfs,
    label: &str,
    share: u64,
) -> Result<Vec<Row>, Error> {
    let pool = Pool::new(PoolOptions::default());
    let mut sides = Contest::default();
    let call = sides.add("call", share, ours::Calls(instance::task(vfs)?));
    let future = ours::Future::new(instance::task(vfs)?, &pool)?;
    let future = sides.add("future", share, future);
    let mut at_depth = Vec::new();
    for depth in DEPTHS {
        let mut ring = |label: &str, inline| {
            let ring = ours::OurRing::new(instance::task(vfs)?, &pool, depth, inline)?;
            Ok::<_, Error>(sides.add(label, share, ring))
        };
        let (inline, offload) = (ring("ring", true)?, ring("ring, offload", false)?);
        let fs = sides.add("tokio::fs", share, Tokio::new(Way::Fs, depth)?);
        let blocking = Tokio::new(Way::SpawnBlocking, depth)?;
        let blocking = sides.add("spawn_blocking", share, blocking);
        let uring = sides.add("io_uring", share, kernel::Ring::new(depth)?);
        at_depth.push((
            depth,
            inline,
            [
                ("always offloaded", offload),
                ("tokio::fs", fs),
                ("spawn_blocking", blocking),
                ("io_uring", uring),
            ],
        ));
    }
    let host_call = sides.add("open(2)", share, kernel::Calls);
    let found = sides.run(ask.effort, steal)?;
    let row = |name: &str, ours: usize, peer: &str, theirs: usize| {
        Row::faster(name, &found[ours], peer, &found[theirs])
    };
    let mut rows = Vec::new();
    for (depth, inline, peers) in at_depth {
        for (peer, theirs) in peers {
            let name = format!("ring {share}% cached, {label}, {depth} at once, {peer}");
            rows.push(row(&name, inline, peer, theirs));
        }
        if depth == 1 {
            let name = format!("future {share}% cached, {label}, tokio::fs");
            rows.push(row(&name, future, "tokio::fs", peers[1].1));
        }
    }
    let growth = |name: String, ours: usize, peer: &str, theirs: usize| {
        let (ours, theirs): (&Samples, &Samples) = (&found[ours], &found[theirs]);
        Row::growth(&name, ours, peer, theirs)
    };
    let name = format!("future {share}% cached, {label}, over the call");
    rows.push(growth(name, future, "call", call));
    let name = format!("call {share}% cached, {label}, open(2)");
    rows.push(row(&name, call, "open(2)", host_call));
    Ok(rows)
}
