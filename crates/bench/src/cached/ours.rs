// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens by openpath: by call, by ring, and by future.

use ::tokio::runtime::{Builder, Runtime};
use openpath_abi::fcntl::{AT_FDCWD, O_CLOEXEC, O_RDONLY};
use openpath_abi::{Errno, OFlags};
use openpath_ring::{AsyncTask, Bytes, Pool, Ring, RingOptions, Sqe};
use openpath_vfs::Task;

use super::mix::Name;
use super::openers::Opener;
use crate::error::Error;

const FLAGS: u32 = O_RDONLY.bits() | O_CLOEXEC.bits();

/// Open and close as calls, which wait if they must.
pub(super) struct Calls(pub(super) Task);

impl Opener for Calls {
    fn burst(&mut self, names: &[Name]) -> u64 {
        let wrong = names.iter().filter(|name| {
            let opened = self.0.open(&name.bytes, OFlags::from_bits_retain(FLAGS), 0);
            !is_right(&self.0, name, opened)
        });
        wrong.count() as u64
    }
}

/// Whether an open had the right result; closes the file.
fn is_right(task: &Task, name: &Name, opened: Result<i32, Errno>) -> bool {
    match opened {
        Ok(fd) => name.hit && task.close(fd).is_ok(),
        Err(errno) => !name.hit && errno == Errno::ENOENT,
    }
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
            let sqe = Sqe::openat(
                AT_FDCWD,
                Bytes::Shared(name.bytes.clone()),
                OFlags::from_bits_retain(FLAGS),
                0,
            );
            if self.ring.prepare(sqe.user_data(at as u64)).is_err() {
                return names.len() as u64;
            }
        }
        if self.ring.submit_and_wait(names.len()).is_err() {
            return names.len() as u64;
        }
        let (mut seen, mut wrong) = (0, 0);
        while let Some(cqe) = self.ring.next_completion() {
            let fd = cqe.result.map(|fd| fd as i32);
            wrong += u64::from(!is_right(
                self.ring.task(),
                &names[cqe.user_data as usize],
                fd,
            ));
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
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .build()
            .map_err(|e| Error::host("start a runtime", e))?;
        let task = AsyncTask::new(task, pool, RingOptions::default())
            .map_err(|e| Error::setup("make an asynchronous task", e))?;
        Ok(Self { runtime, task })
    }
}

impl Opener for Future {
    fn burst(&mut self, names: &[Name]) -> u64 {
        let Self { runtime, task } = self;
        runtime.block_on(async {
            let mut wrong = 0;
            for name in names {
                let opened = task
                    .open(&name.bytes, OFlags::from_bits_retain(FLAGS), 0)
                    .await;
                wrong += u64::from(!is_right(task.task(), name, opened));
            }
            wrong
        })
    }
}
