// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds openers of the same mix of names to a plan, as sides. An opener opens names and closes the
//! files; it returns how many opens were wrong.
//!
//! Most of them hand work to other threads, so the processor clock cannot tell a disturbed window
//! from one that waited as it must. So wall time is measured, and the median of many short windows
//! counts. The names of a window are made before it, untimed; it lasts about [`WINDOW_NS`].

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use openpath_abi::fcntl::O_CLOEXEC;
use openpath_ring::{AsyncTask, Bytes, Cqe, Pool, Ring, RingOptions, Sqe};
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use super::mix::{Mix, Name};
use super::sys::KernelRing;
use crate::common::*;
use crate::window::fit;

/// How long a window should take.
const WINDOW_NS: u64 = 2_000_000;
/// Windows are multiples of this many opens: every batch is full.
const STEP: u64 = 32;
/// How every side opens.
const FLAGS: OFlags = O_RDONLY.union(O_CLOEXEC);

/// Adds an opener of names of which `percent` are cached; `number` makes its missing names
/// different from others.
pub(super) fn add<'a>(
    plan: &mut Plan<'a>,
    label: &str,
    (percent, number): (u64, u64),
    mut opener: impl FnMut(&[Name]) -> u64 + 'a,
) -> Id {
    let (mut mix, mut ops) = (Mix::new(percent, number), None);
    let name = label.to_owned();
    let mut window = move |ops| {
        let names = mix.names(ops);
        let begun = Instant::now();
        let wrong = opener(&names);
        let ns = begun.elapsed().as_nanos() as u64;
        all_right(wrong, &name).map(|()| ns)
    };
    plan.own(label, move || {
        let ops = match ops {
            Some(ops) => ops,
            None => *ops.insert(fit(STEP, WINDOW_NS, &mut window)?),
        };
        window(ops).map(|ns| ns as f64 / ops as f64)
    })
}

/// Whether an open had the right result; closes the file.
fn is_right(side: &impl Calls, name: &Name, opened: Result<i32, Errno>) -> bool {
    match opened {
        Ok(fd) => name.hit && side.close(fd),
        Err(errno) => !name.hit && errno == Errno::ENOENT,
    }
}

/// Open and close as calls, which wait if they must.
pub(super) fn direct(side: impl Calls) -> impl FnMut(&[Name]) -> u64 {
    move |names| {
        let right = |name: &&Name| is_right(&side, name, side.open(&name.path, FLAGS, 0));
        (names.len() - names.iter().filter(right).count()) as u64
    }
}

/// `IORING_OP_OPENAT`, several at once, and close(2).
pub(super) fn kernel_ring(depth: usize) -> Result<impl FnMut(&[Name]) -> u64, Error> {
    let mut ring = KernelRing::new(depth)?;
    Ok(move |names: &[Name]| {
        let mut wrong = 0;
        for names in names.chunks(depth) {
            let paths = names.iter().map(|name| &*name.path);
            ring.open_all(paths, FLAGS, |at, opened| {
                wrong += u64::from(!is_right(&Kernel, &names[at], opened));
            });
        }
        wrong
    })
}

/// The ring, with several opens at once, and close as a call.
pub(super) struct OurRing {
    ring: Ring,
    depth: usize,
}

impl OurRing {
    /// A ring that attempts to open inline, or (`inline` off) always asks a worker.
    pub(super) fn new(task: Task, pool: &Pool, depth: usize, inline: bool) -> Result<Self, Error> {
        let mut options = RingOptions::default();
        options.entries = u32::try_from(depth).unwrap_or(u32::MAX);
        options.inline = inline;
        let ring = Ring::new(task, pool, options).setup("make a ring")?;
        Ok(Self { ring, depth })
    }

    /// Opens the names, as many at once as the ring is for.
    pub(super) fn open(&mut self, names: &[Name]) -> u64 {
        let batches = names.chunks(self.depth);
        batches.map(|names| self.batch(names)).sum()
    }

    fn batch(&mut self, names: &[Name]) -> u64 {
        let sqes = names.iter().enumerate().map(|(at, name)| {
            let path = Bytes::Shared(name.bytes.clone());
            Sqe::openat(AT_FDCWD, path, FLAGS, 0).user_data(at as u64)
        });
        batch(&mut self.ring, sqes, |task, cqe| {
            let (name, fd) = (&names[cqe.user_data as usize], cqe.result);
            is_right(task, name, fd.map(|fd| fd as i32))
        })
    }
}

/// Submits all of these at once, and waits; returns how many completions were wrong.
pub(super) fn batch(
    ring: &mut Ring,
    sqes: impl ExactSizeIterator<Item = Sqe>,
    is_right: impl Fn(&Task, Cqe) -> bool,
) -> u64 {
    let count = sqes.len();
    for sqe in sqes {
        if ring.prepare(sqe).is_err() {
            return count as u64;
        }
    }
    if ring.submit_and_wait(count).is_err() {
        return count as u64;
    }
    let mut right = 0;
    while let Some(cqe) = ring.next_completion() {
        right += usize::from(is_right(ring.task(), cqe));
    }
    count.abs_diff(right) as u64
}

/// A future, on the same kind of runtime as `tokio::fs`.
pub(super) fn future(task: Task, pool: &Pool) -> Result<impl FnMut(&[Name]) -> u64 + use<>, Error> {
    let task = AsyncTask::new(task, pool, RingOptions::default());
    let (mut task, runtime) = (task.setup("make an asynchronous task")?, runtime()?);
    Ok(move |names: &[Name]| {
        runtime.block_on(async {
            let mut wrong = 0;
            for name in names {
                let opened = task.open(&name.bytes, FLAGS, 0).await;
                wrong += u64::from(!is_right(task.task(), name, opened));
            }
            wrong
        })
    })
}

fn runtime() -> Result<Runtime, Error> {
    let built = Builder::new_multi_thread().worker_threads(2).build();
    built.host("start a runtime")
}

/// Opens and closes; returns whether the result was right. It uses `tokio::fs::File::open`, or
/// (`blocking`) `spawn_blocking` around the standard library's open and close.
async fn open(blocking: bool, name: Name) -> bool {
    fn path(name: &Name) -> &Path {
        Path::new(OsStr::from_bytes(name.path.to_bytes()))
    }
    if !blocking {
        return tokio::fs::File::open(path(&name)).await.is_ok() == name.hit;
    }
    let opened = spawn_blocking(move || File::open(path(&name)).is_ok() == name.hit);
    opened.await.unwrap_or(false)
}

/// Opens as asynchronous programs do today: every open goes to a pool of threads, one after the
/// other on the caller's task, or with a task for each, of which `depth` run at once.
pub(super) fn tokio(blocking: bool, depth: usize) -> Result<impl FnMut(&[Name]) -> u64, Error> {
    let runtime = runtime()?;
    Ok(move |names: &[Name]| {
        runtime.block_on(async {
            let mut wrong = 0;
            for names in names.chunks(depth) {
                if let [name] = names {
                    wrong += u64::from(!open(blocking, name.clone()).await);
                    continue;
                }
                let names = names.iter().cloned();
                let spawned = names.map(|name| tokio::spawn(open(blocking, name)));
                for task in spawned.collect::<Vec<_>>() {
                    wrong += u64::from(!task.await.unwrap_or(false));
                }
            }
            wrong
        })
    })
}
