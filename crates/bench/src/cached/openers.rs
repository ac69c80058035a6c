// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds openers of the same mix of names to a plan, as sides.
//!
//! Most of them hand work to other threads, so the processor clock cannot tell a disturbed window
//! from one that waited as it must. So wall time is measured, and the median of many short windows
//! counts. The names of a window are made before it, untimed; it lasts about [`WINDOW_NS`].

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Instant;

use openpath_abi::fcntl::{AT_FDCWD, O_CLOEXEC, O_RDONLY};
use openpath_abi::{Errno, OFlags};
use openpath_ring::{AsyncTask, Bytes, Pool, Ring, RingOptions, Sqe};
use openpath_vfs::Task;
use tokio::runtime::{Builder, Runtime};
use tokio::task::spawn_blocking;

use super::mix::{Mix, Name};
use super::sys::KernelRing;
use crate::calls::{Calls, Kernel};
use crate::error::Error;
use crate::harness::{Id, Plan, fit};

/// How long a window should take.
const WINDOW_NS: u64 = 2_000_000;
/// Windows are multiples of this many opens: every batch is full.
const STEP: u64 = 32;

/// How every side opens.
const FLAGS: OFlags = O_RDONLY.union(O_CLOEXEC);

/// A way to open.
pub(super) trait Opener {
    /// Opens these names and closes the files; returns how many opens were wrong.
    fn burst(&mut self, names: &[Name]) -> u64;
}

/// Open and close as calls, which wait if they must.
pub(super) struct Direct<C>(pub(super) C);

impl<C: Calls> Opener for Direct<C> {
    fn burst(&mut self, names: &[Name]) -> u64 {
        let wrong = |name: &&Name| !is_right(&self.0, name, self.0.open(&name.path, FLAGS, 0));
        names.iter().filter(wrong).count() as u64
    }
}

/// Whether an open had the right result; closes the file.
fn is_right(side: &impl Calls, name: &Name, opened: Result<i32, Errno>) -> bool {
    match opened {
        Ok(fd) => name.hit && side.close(fd),
        Err(errno) => !name.hit && errno == Errno::ENOENT,
    }
}

/// `IORING_OP_OPENAT`, several at once, and close(2).
impl Opener for KernelRing {
    fn burst(&mut self, names: &[Name]) -> u64 {
        let mut wrong = 0;
        for names in names.chunks(self.depth) {
            let paths = names.iter().map(|name| &*name.path);
            self.open_all(paths, FLAGS, |at, opened| {
                wrong += u64::from(!is_right(&Kernel, &names[at], opened));
            });
        }
        wrong
    }
}

/// Adds an opener of names of which `percent` are cached; `number` makes its missing names
/// different from others.
pub(super) fn add<'a>(
    plan: &mut Plan<'a>,
    label: &str,
    (percent, number): (u64, u64),
    mut opener: impl Opener + 'a,
) -> Id {
    let (mut mix, mut ops) = (Mix::new(percent, number), None);
    let label = label.to_owned();
    let name = label.clone();
    let mut window = move |ops| {
        let names = mix.names(ops);
        let begun = Instant::now();
        let wrong = opener.burst(&names);
        let ns = begun.elapsed().as_nanos() as u64;
        match wrong {
            0 => Ok(ns),
            _ => Err(Error::Wrong(format!("{name}: {wrong} of {ops} opens"))),
        }
    };
    plan.own(&label, move || {
        let ops = match ops {
            Some(ops) => ops,
            None => *ops.insert(fit(STEP, WINDOW_NS, &mut window)?),
        };
        window(ops).map(|ns| ns as f64 / ops as f64)
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
        let ring = Ring::new(task, pool, options).map_err(|e| Error::setup("make a ring", e))?;
        Ok(Self { ring, depth })
    }

    /// Opens one name; returns whether the result was right.
    pub(super) fn open_one(&mut self, name: &Name) -> bool {
        self.batch(std::slice::from_ref(name)) == 0
    }

    fn batch(&mut self, names: &[Name]) -> u64 {
        for (at, name) in names.iter().enumerate() {
            let path = Bytes::Shared(name.bytes.clone());
            let sqe = Sqe::openat(AT_FDCWD, path, FLAGS, 0);
            if self.ring.prepare(sqe.user_data(at as u64)).is_err() {
                return names.len() as u64;
            }
        }
        if self.ring.submit_and_wait(names.len()).is_err() {
            return names.len() as u64;
        }
        let (mut seen, mut wrong) = (0, 0);
        while let Some(cqe) = self.ring.next_completion() {
            let (name, fd) = (
                &names[cqe.user_data as usize],
                cqe.result.map(|fd| fd as i32),
            );
            wrong += u64::from(!is_right(self.ring.task(), name, fd));
            seen += 1;
        }
        wrong + names.len().abs_diff(seen) as u64
    }
}

impl Opener for OurRing {
    fn burst(&mut self, names: &[Name]) -> u64 {
        let batches = names.chunks(self.depth);
        batches.map(|names| self.batch(names)).sum()
    }
}

/// A future, on the same kind of runtime as `tokio::fs`.
pub(super) struct Future {
    runtime: Runtime,
    task: AsyncTask,
}

impl Future {
    pub(super) fn new(task: Task, pool: &Pool) -> Result<Self, Error> {
        let task = AsyncTask::new(task, pool, RingOptions::default());
        let task = task.map_err(|e| Error::setup("make an asynchronous task", e))?;
        let runtime = runtime()?;
        Ok(Self { runtime, task })
    }
}

impl Opener for Future {
    fn burst(&mut self, names: &[Name]) -> u64 {
        let Self { runtime, task } = self;
        runtime.block_on(async {
            let mut wrong = 0;
            for name in names {
                let opened = task.open(&name.bytes, FLAGS, 0).await;
                wrong += u64::from(!is_right(task.task(), name, opened));
            }
            wrong
        })
    }
}

/// How the open is offloaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offload {
    /// `tokio::fs::File::open`.
    Fs,
    /// `spawn_blocking` around the standard library's open and close.
    SpawnBlocking,
}

/// Opens as asynchronous programs do today: every open goes to a pool of threads, several at once.
pub(super) struct Tokio {
    runtime: Runtime,
    offload: Offload,
    depth: usize,
}

impl Tokio {
    pub(super) fn new(offload: Offload, depth: usize) -> Result<Self, Error> {
        let runtime = runtime()?;
        Ok(Self {
            runtime,
            offload,
            depth,
        })
    }
}

fn runtime() -> Result<Runtime, Error> {
    let built = Builder::new_multi_thread().worker_threads(2).build();
    built.map_err(|e| Error::host("start a runtime", e))
}

fn path(name: &Name) -> &Path {
    Path::new(OsStr::from_bytes(name.path.to_bytes()))
}

/// Opens and closes; returns whether the result was right.
async fn open(offload: Offload, name: Name) -> bool {
    match offload {
        Offload::Fs => tokio::fs::File::open(path(&name)).await.is_ok() == name.hit,
        Offload::SpawnBlocking => {
            let opened = spawn_blocking(move || File::open(path(&name)).is_ok() == name.hit);
            opened.await.unwrap_or(false)
        }
    }
}

impl Opener for Tokio {
    /// Opens one after the other on the caller's task, or with a task for each, of which a limited
    /// number run at once.
    fn burst(&mut self, names: &[Name]) -> u64 {
        let offload = self.offload;
        self.runtime.block_on(async {
            let mut wrong = 0;
            for names in names.chunks(self.depth) {
                if let [name] = names {
                    wrong += u64::from(!open(offload, name.clone()).await);
                    continue;
                }
                let names = names.iter().cloned();
                let spawned = names.map(|name| tokio::spawn(open(offload, name)));
                for task in spawned.collect::<Vec<_>>() {
                    wrong += u64::from(!task.await.unwrap_or(false));
                }
            }
            wrong
        })
    }
}
