// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath ring`: shows a submission ring at work. It opens one file twice through the ring:
//! first with its path not cached, then cached.

use std::io::Write as _;

use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_abi::{Errno, OpenHow};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Pool, PoolOptions, Ring, RingOptions, Sqe};
use openpath_vfs::{Cred, Vfs};

use crate::error::Error;
use crate::outcome::Outcome;
use crate::trace::Lines;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Print each step of the ring on standard error.
    #[arg(long)]
    trace: bool,
    /// Let a worker do every open.
    #[arg(long)]
    offload: bool,
}

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    if args.trace {
        Lines::listen().map_err(|why| Error::setup("cannot start the trace", why))?;
    }
    let opened = demo(args).map_err(|errno| Error::setup("the ring failed", errno))?;
    let mut out = std::io::stdout().lock();
    for (what, result, worker) in opened {
        let answer = result.map_or_else(|errno| errno.to_string(), |fd| format!("descriptor {fd}"));
        let by = if worker { "by a worker" } else { "in place" };
        writeln!(out, "{what}: {answer}, {by}")?;
    }
    Ok(Outcome::Done)
}

/// What was opened, the result, and whether a worker did it.
type Opened = (&'static str, Result<u64, Errno>, bool);

/// Opens a file that is not cached, and opens it again.
fn demo(args: &Args) -> Result<Vec<Opened>, Errno> {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
    let task = vfs.task(Cred::root())?;
    task.mkdir(b"/etc", 0o755)?;
    task.close(task.creat(b"/etc/nanorc", 0o644)?)?;
    vfs.shrink(u32::MAX);
    let pool = Pool::new(PoolOptions::default());
    let mut options = RingOptions::default();
    options.entries = 8;
    options.inline = !args.offload;
    let mut ring = Ring::new(task, &pool, options)?;
    let offloaded = || vfs.root_tenant().stats().activity.opens_offloaded;
    let mut opened = Vec::new();
    for what in ["not cached", "cached"] {
        let how = OpenHow {
            flags: u64::from(O_RDONLY),
            ..OpenHow::default()
        };
        let before = offloaded();
        ring.prepare(Sqe::openat2(AT_FDCWD, b"/etc/nanorc", how))?;
        ring.submit_and_wait(1)?;
        if let Some(cqe) = ring.next_completion() {
            opened.push((what, cqe.result, offloaded() > before));
        }
    }
    Ok(opened)
}
