// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures single opens by the ring: answered inline, answered by a worker, and answered inline
//! while all workers of another ring wait for a backend.

use std::time::Instant;

use openpath_ring::{Pool, PoolOptions, Ring, RingOptions, Sqe};

use super::mix::Mix;
use super::openers::OurRing;
use super::stall::{Gate, tree};
use crate::common::*;
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

/// Sorted times of cached opens, in nanoseconds.
fn times(ring: &mut OurRing) -> Result<Vec<f64>, Error> {
    let names = Mix::new(100, u64::MAX).names(OPENS);
    let mut times = Vec::with_capacity(names.len());
    for name in &names {
        let begun = Instant::now();
        let wrong = ring.open(from_ref(name));
        let ns = begun.elapsed().as_nanos() as f64;
        all_right(wrong, "an open")?;
        times.push(ns);
    }
    times.sort_by(f64::total_cmp);
    Ok(times)
}

/// Measures an instance that has the files; `label` names it.
pub(super) fn run(ask: &Ask, label: &str, vfs: &Vfs) -> Result<Vec<Row>, Error> {
    let names = KINDS.map(|kind| POINTS.map(|(point, _)| format!("{kind}, {label}, {point}")));
    if !ask.wants_any(names.as_flattened()) {
        return Ok(Vec::new());
    }
    let mut options = PoolOptions::default();
    options.threads_max = 2 * WORKERS;
    options.per_ring_max = Some(WORKERS);
    let pool = Pool::new(options);
    let mut ring = OurRing::new(ours::task(vfs)?, &pool, 1, true)?;
    let mut punted = OurRing::new(ours::task(vfs)?, &pool, 1, false)?;
    times(&mut ring)?;
    let inline = times(&mut ring)?;
    let all = [
        inline,
        times(&mut punted)?,
        beside_a_stall(vfs, &pool, &mut ring)?,
    ];
    let mut rows = Vec::new();
    for (names, times) in names.iter().zip(all) {
        let values = POINTS.map(|(_, at)| quantile(&times, at).unwrap_or_default());
        let named = names.iter().zip(values);
        rows.extend(named.map(|(name, value)| Row::count(name, "ns", value)));
    }
    Ok(rows)
}

/// Times cached opens while another ring of the same pool has all the workers it may have, and they
/// wait.
fn beside_a_stall(vfs: &Vfs, pool: &Pool, ring: &mut OurRing) -> Result<Vec<f64>, Error> {
    const PLACE: &[u8] = b"/stalled";
    let gate = Gate::default();
    let shut = gate.shut();
    let task = ours::task(vfs)?;
    task.make_dir(PLACE)?;
    task.mount(tree(&gate), PLACE, MountFlags::default())
        .setup("mount a tree that stalls")?;
    let mut options = RingOptions::default();
    options.entries = STALLED;
    let mut stalled = Ring::new(task, pool, options).setup("make a ring")?;
    for n in 0..STALLED {
        let path = format!("/stalled/{n}");
        let full = stalled.prepare(Sqe::openat(AT_FDCWD, path, O_RDONLY, 0));
        full.map_err(|_| Error::Setup("the ring is full".to_owned()))?;
    }
    let submitted = stalled.submit();
    submitted.setup("submit the lookups that stall")?;
    while gate.waiting() < WORKERS {
        std::thread::yield_now();
    }
    let times = times(ring);
    let waited = gate.waiting();
    drop(shut);
    let ended = stalled.wait(STALLED as usize, None);
    ended.setup("wait for the stalled lookups")?;
    match waited < WORKERS {
        true => Err(Error::Wrong("a stalled lookup continued".to_owned())),
        false => times,
    }
}
