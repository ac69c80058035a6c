// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures single opens by the ring: answered inline, answered by a worker, and answered inline
//! while all workers of another ring wait for a backend.

use std::time::Instant;

use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_ring::{Pool, PoolOptions, Ring, RingOptions, Sqe};
use openpath_vfs::{MountFlags, Vfs};

use super::mix::Mix;
use super::openers::OurRing;
use super::stall::{Gate, tree};
use crate::calls::Calls;
use crate::cmd::Ask;
use crate::error::Error;
use crate::ours;
use crate::row::Row;
use crate::stats::quantile;

/// Timed opens of each kind.
const OPENS: u64 = 20_000;
/// Concurrent opens that wait for a backend.
const STALLED: u32 = 64;
/// The most workers of one ring; as many lookups are in flight.
const WORKERS: usize = 8;
/// The kinds, as row names begin.
const KINDS: [&str; 3] = ["inline", "offloaded", "inline beside a stall"];
/// The quantiles that are rows.
const POINTS: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("most", 1.0)];

/// Sorted times of all opens, in nanoseconds.
fn times(ring: &mut OurRing, percent: u64, side: u64) -> Result<Vec<f64>, Error> {
    let names = Mix::new(percent, side).names(OPENS);
    let mut times = Vec::with_capacity(names.len());
    for name in &names {
        let begun = Instant::now();
        let right = ring.open_one(name);
        let ns = begun.elapsed().as_nanos() as f64;
        if !right {
            return Err(Error::Wrong(format!("an open of {:?}", name.path)));
        }
        times.push(ns);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

fn rows(name: &str, times: &[f64]) -> Vec<Row> {
    let row = |(point, at): (&str, f64)| {
        let value = quantile(times, at).unwrap_or_default();
        Row::count(&format!("{name}, {point}"), "ns", value)
    };
    POINTS.into_iter().map(row).collect()
}

/// Measures an instance that has the files; `label` names it.
pub(super) fn run(ask: &Ask, label: &str, vfs: &Vfs) -> Result<Vec<Row>, Error> {
    let names = POINTS.map(|(point, _)| KINDS.map(|kind| format!("{kind}, {label}, {point}")));
    if !ask.wants_any(names.as_flattened()) {
        return Ok(Vec::new());
    }
    let mut options = PoolOptions::default();
    options.threads_max = 2 * WORKERS;
    options.per_ring_max = Some(WORKERS);
    let pool = Pool::new(options);
    let mut ring = OurRing::new(ours::task(vfs)?, &pool, 1, true)?;
    times(&mut ring, 100, u64::MAX)?;
    let [inline, offloaded, stalled] = KINDS.map(|kind| format!("{kind}, {label}"));
    let mut all = rows(&inline, &times(&mut ring, 100, u64::MAX)?);
    let mut punted = OurRing::new(ours::task(vfs)?, &pool, 1, false)?;
    all.extend(rows(&offloaded, &times(&mut punted, 100, u64::MAX)?));
    all.extend(rows(&stalled, &beside_a_stall(vfs, &pool, &mut ring)?));
    Ok(all)
}

/// Times cached opens while another ring of the same pool has all the workers it may have, and they
/// wait.
fn beside_a_stall(vfs: &Vfs, pool: &Pool, ring: &mut OurRing) -> Result<Vec<f64>, Error> {
    const PLACE: &[u8] = b"/stalled";
    let gate = Gate::default();
    let task = ours::task(vfs)?;
    task.make_dir(PLACE)?;
    task.mount(tree(&gate), PLACE, MountFlags::default())
        .map_err(|e| Error::setup("mount a tree that stalls", e))?;
    let mut options = RingOptions::default();
    options.entries = STALLED;
    let mut stalled = Ring::new(task, pool, options).map_err(|e| Error::setup("make a ring", e))?;
    for n in 0..STALLED {
        let path = format!("/stalled/{n}");
        let full = stalled.prepare(Sqe::openat(AT_FDCWD, path, O_RDONLY, 0));
        full.map_err(|_| Error::Setup("the ring is full".to_owned()))?;
    }
    stalled
        .submit()
        .map_err(|e| Error::setup("submit the lookups that stall", e))?;
    while gate.waiting() < WORKERS {
        std::thread::yield_now();
    }
    let times = times(ring, 100, u64::MAX);
    let waited = gate.waiting();
    gate.open();
    let ended = stalled.wait(STALLED as usize, None);
    ended.map_err(|e| Error::setup("wait for the stalled lookups", e))?;
    if waited < WORKERS {
        return Err(Error::Wrong("a stalled lookup continued".to_owned()));
    }
    times
}
