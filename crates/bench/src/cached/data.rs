// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures reads of 4 KiB at random offsets of a host file by a program that must not wait: by our
//! ring over the host kernel's ring, by our ring with workers alone, and by call.
//!
//! # Rules
//! R1. Times are wall times, as in `openers`.
//! R2. Before a window that is not cached, the file's pages are dropped, untimed. The window reads
//!     every page at most once.

use std::fs::File;
use std::path::Path;
use std::time::Instant;

use openpath_abi::fcntl::O_NOATIME;
use openpath_ring::{Output, Pool, PoolOptions, Ring, RingOptions, Sqe};
use rustix::fs::{Advice, fadvise};

use super::host_dir;
use super::openers::batch;
use crate::common::*;

const PAGE: usize = 4096;
const PAGES: u64 = 32 << 10;
/// Reads per window, cached and not.
const READS: [u64; 2] = [1024, 256];
/// The file, below the given directory.
const NAME: &str = "data";
/// How the file is opened.
const FLAGS: OFlags = O_RDONLY.union(O_NOATIME);
/// The beginning of row names, and whether the pages are dropped before each window.
const KINDS: [(&str, bool); 2] = [("read 4k cached", false), ("read 4k not cached", true)];

/// Runs every wanted row over `dir`, a directory of a disk.
pub(super) fn run(ask: &Ask, dir: &Path) -> Result<Vec<Row>, Error> {
    const ENDS: [&str; 3] = [
        "1 at once, workers",
        "32 at once, workers",
        "1 at once, over the call",
    ];
    let names = KINDS.map(|(name, _)| ENDS.map(|end| format!("{name}, {end}")));
    if !cfg!(feature = "io-uring") {
        let missing = |(name, _)| Row::missing(name, "built without `io-uring`");
        return Ok(KINDS.map(missing).into());
    }
    if !ask.wants_any(names.as_flattened()) {
        return Ok(Vec::new());
    }
    let path = dir.join(NAME);
    let file = &fill(&path).host("make the file")?;
    let (by_kernel, by_workers) = (tree(dir, 128)?, tree(dir, 0)?);
    let pool = Pool::new(PoolOptions::default());
    let mut rows = Vec::new();
    for ((_, cold), [one_at_once, many_at_once, over_call]) in KINDS.into_iter().zip(&names) {
        let (mut plan, file) = (Plan::default(), cold.then_some(file));
        let call = add(&mut plan, by_call(&by_workers)?, file);
        let mut ring = |vfs, depth| {
            let reader = by_ring(vfs, &pool, depth)?;
            Ok::<_, Error>(add(&mut plan, reader, file))
        };
        let (one, one_by_workers) = (ring(&by_kernel, 1)?, ring(&by_workers, 1)?);
        let (many, many_by_workers) = (ring(&by_kernel, 32)?, ring(&by_workers, 32)?);
        plan.row(Row::faster, one_at_once, one, "workers", one_by_workers);
        plan.row(Row::faster, many_at_once, many, "workers", many_by_workers);
        plan.row(Row::growth, over_call, one, "call", call);
        rows.extend(plan.run(ask)?);
    }
    let _goes_with_its_directory = std::fs::remove_file(&path);
    Ok(rows)
}

/// Adds a reader of pages, which returns how many were wrong; `file` is what is dropped from the
/// cache before each window.
fn add<'a>(
    plan: &mut Plan<'a>,
    mut reader: impl FnMut(&[u64]) -> u64 + 'a,
    file: Option<&'a File>,
) -> Id {
    let reads = READS[usize::from(file.is_some())];
    let mut seed = 1u64;
    plan.own("reads of 4 KiB", move || {
        // An odd step through a power of two meets each page once.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(3);
        let (first, step) = (seed >> 40, (seed >> 20) | 1);
        let at = |n: u64| first.wrapping_add(n.wrapping_mul(step)) % PAGES;
        let pages: Vec<u64> = (0..reads).map(at).collect();
        if let Some(file) = file {
            fadvise(file, 0, None, Advice::DontNeed).host("drop pages")?;
        }
        let start = Instant::now();
        let wrong = reader(&pages);
        let ns = start.elapsed().as_nanos() as f64;
        all_right(wrong, "reads").map(|()| ns / reads as f64)
    })
}

/// Makes the file: each page begins with its number.
fn fill(path: &Path) -> std::io::Result<File> {
    let mut data = vec![0; PAGES as usize * PAGE];
    for (number, page) in (0u64..).zip(data.chunks_exact_mut(PAGE)) {
        page[..8].copy_from_slice(&number.to_le_bytes());
    }
    std::fs::write(path, data)?;
    let file = File::open(path)?;
    file.sync_all().map(|()| file)
}

/// The directory, with so many places in the kernel's ring.
fn tree(dir: &Path, kernel_ring: u32) -> Result<Vfs, Error> {
    ours::build(Vfs::builder(), host_dir(dir, kernel_ring)?)
}

/// A task that has the file open.
fn opened(vfs: &Vfs) -> Result<(Task, i32), Error> {
    let task = ours::task(vfs)?;
    let fd = task.open(format!("/{NAME}").as_bytes(), FLAGS, 0);
    fd.setup("open the file").map(|fd| (task, fd))
}

fn place(page: u64) -> i64 {
    (page * PAGE as u64).cast_signed()
}

fn by_call(vfs: &Vfs) -> Result<impl FnMut(&[u64]) -> u64 + use<>, Error> {
    let (task, fd) = opened(vfs)?;
    let mut buf = vec![0; PAGE];
    Ok(move |pages: &[u64]| {
        let wrong = pages.iter().filter(|&&page| {
            let read = task.pread(fd, &mut buf, place(page));
            read != Ok(PAGE) || buf[..8] != page.to_le_bytes()
        });
        wrong.count() as u64
    })
}

fn by_ring(
    vfs: &Vfs,
    pool: &Pool,
    depth: usize,
) -> Result<impl FnMut(&[u64]) -> u64 + use<>, Error> {
    let (task, fd) = opened(vfs)?;
    let mut ring = Ring::new(task, pool, RingOptions::default()).setup("make a ring")?;
    Ok(move |pages: &[u64]| {
        let read = |&page: &u64| Sqe::read(fd, vec![0; PAGE], place(page)).user_data(page);
        let batches = pages.chunks(depth);
        let read_all = |pages: &[u64]| {
            batch(&mut ring, pages.iter().map(read), |_, cqe| {
                let Output::Buffer(read) = cqe.output else {
                    return false;
                };
                read.len() == PAGE && read[..8] == cqe.user_data.to_le_bytes()
            })
        };
        batches.map(read_all).sum()
    })
}
