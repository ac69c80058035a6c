// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures `cached`: opens by a program that must not wait, with a part of the names cached ("fs:
//! Support for LOOKUP_CACHED / RESOLVE_CACHED").
//!
//! Every side opens the same mix of names (`mix`) and closes the files: our ring that tries first,
//! our ring that always asks a worker, our future and our call; on the host `tokio::fs`,
//! `spawn_blocking`, its ring and its call. `data` also measures reads.

mod data;
mod kernel;
mod latency;
mod mix;
mod openers;
mod ours;
mod stall;
mod sys;
mod tokio;

use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Pool, PoolOptions};
use openpath_vfs::{Limits, Tuning, Vfs};

use self::openers::add;
use self::tokio::{Offload, Tokio};
use crate::cmd::Ask;
use crate::error::Error;
use crate::harness::{Id, Plan};
use crate::host::Host;
use crate::ours as instance;
use crate::page::Page;
use crate::row::Row;

/// The directory of the files, on every side.
const DIR: &str = "/d";
/// Shares of cached names, in percent.
const SHARES: [u64; 4] = [0, 33, 89, 100];
/// Concurrent opens.
const DEPTHS: [usize; 2] = [1, 32];
/// The limit of cached names that do not exist: a run asks for each once, and they must not fill
/// memory.
const NEGATIVES: u32 = 1 << 14;

pub(crate) fn page() -> Page {
    let about = include_str!("pages/cached.md");
    Page::new("Opens that must not wait", about, "cached")
}

/// Runs every wanted row.
pub(crate) fn run(ask: &Ask) -> Result<Vec<Row>, Error> {
    let host = Host::new()?;
    host.tmpfs.enter()?;
    let made = std::fs::create_dir(DIR).and_then(|()| {
        (0..mix::FILES).try_for_each(|n| std::fs::write(format!("{DIR}/f{n}"), b""))
    });
    made.map_err(|e| Error::host("make the files", e))?;
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
    let options = HostOptions::default().policy(Policy::Exclusive);
    let tree = HostFs::open("/", options).map_err(|e| Error::setup("open the directory", e))?;
    build(Vfs::builder(), tree)
}

/// An instance in memory with the same files. Complete directories are switched off, because they
/// would answer for names that were never asked for.
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
    let limits = Limits::default().negatives_max(NEGATIVES);
    let built = builder.limits(limits).build(tree);
    built.map_err(|e| Error::setup("build an instance", e))
}

/// Adds all openers at one share.
fn at_share(ask: &Ask, vfs: &Vfs, label: &str, share: u64) -> Result<Vec<Row>, Error> {
    let pool = Pool::new(PoolOptions::default());
    let (mut plan, mut number) = (Plan::default(), 0);
    let mut mix = || {
        number += 1;
        (share, number - 1)
    };
    let task = || instance::task(vfs);
    let call = add(&mut plan, "call", mix(), ours::Calls(task()?));
    let future = ours::Future::new(task()?, &pool)?;
    let future = add(&mut plan, "future", mix(), future);
    let host_call = add(&mut plan, "open(2)", mix(), kernel::Calls);
    let name = |what: &str, end: &str| format!("{what} {share}% cached, {label}, {end}");
    for depth in DEPTHS {
        let ring = |inline| ours::OurRing::new(task()?, &pool, depth, inline);
        let inline = add(&mut plan, "ring", mix(), ring(true)?);
        let tokio = |offload| Tokio::new(offload, depth);
        let uring = kernel::Ring::new(depth)?;
        let peers: [(&str, Id); 4] = [
            (
                "always offloaded",
                add(&mut plan, "ring, offload", mix(), ring(false)?),
            ),
            (
                "tokio::fs",
                add(&mut plan, "tokio::fs", mix(), tokio(Offload::Fs)?),
            ),
            (
                "spawn_blocking",
                add(
                    &mut plan,
                    "spawn_blocking",
                    mix(),
                    tokio(Offload::SpawnBlocking)?,
                ),
            ),
            ("io_uring", add(&mut plan, "io_uring", mix(), uring)),
        ];
        for (peer, theirs) in peers {
            let name = name("ring", &format!("{depth} at once, {peer}"));
            plan.row(Row::faster, &name, inline, peer, theirs);
        }
        if depth == 1 {
            let (peer, theirs) = peers[1];
            plan.row(Row::faster, &name("future", peer), future, peer, theirs);
        }
    }
    let over = name("future", "over the call");
    plan.row(Row::growth, &over, future, "call", call);
    let open = name("call", "open(2)");
    plan.row(Row::faster, &open, call, "open(2)", host_call);
    plan.run(ask)
}
