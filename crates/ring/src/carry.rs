// SPDX-License-Identifier: MIT OR Apache-2.0
//! Jobs whose data the tree moves by itself: no worker is kept waiting for them.
//!
//! # Kernel analogue
//! `io_rw_init_file` with a `ki_complete`, against `io_queue_iowq`.
//!
//! # States of a job
//! Sent -> carried by the tree -> done: closed where that was heard of, if closing it cannot wait,
//! else by a worker -> left at the desk. One that the tree does not carry is queued.
//!
//! # Rules
//! R1. What is carried is as what a worker has begun: it is not taken back, and completes when it
//!     ends; if its ring is gone, it comes back to nobody.
//! R2. The backend's thread is not kept waiting: a file whose last reference a job has ends in a
//!     worker.
//! R3. Jobs to be closed have a lane of the pool's own, since their ring may be gone, or have its
//!     share of workers wait for what one of them holds. Where there is no thread for them, they
//!     are closed where that was heard of.
//!
//! # Divergence: L39

use crate::op::{Done, Failed, Op, Outcome};
use crate::perform;
use crate::pool::{Job, Pool};
use openpath_abi::Errno;
use openpath_sync::Parcel;
use openpath_vfs::{Cargo, OpenFile, Task};

/// What an operation moves, without its buffers from then on, and where; none of what is not moved
/// in one piece at an offset.
fn load(op: &mut Op) -> Option<(Cargo, i64)> {
    match op {
        Op::Read(_, buf, offset) if *offset >= 0 => {
            Some((Cargo::Read(std::mem::take(buf)), *offset))
        }
        Op::Write(_, data, offset) if *offset >= 0 => {
            Some((Cargo::Write(std::mem::take(data)), *offset))
        }
        Op::Sync(_, data_only) => Some((Cargo::Sync(*data_only), 0)),
        _ => None,
    }
}

/// Gives an operation its buffers back.
fn unload(op: &mut Op, cargo: Cargo) {
    match (op, cargo) {
        (Op::Read(_, place, _), Cargo::Read(buf)) => *place = buf,
        (Op::Write(_, place, _), Cargo::Write(data)) => *place = data,
        _ => {}
    }
}

/// Lets the tree carry a job.
///
/// # Errors
/// The job, as it was: it is for a worker.
pub(crate) fn begin(pool: &Pool, mut job: Parcel<Job>) -> Result<(), Parcel<Job>> {
    let it = &mut *job;
    let (Some(op), Some(stand_in)) = (&mut it.op, &it.stand_in) else {
        return Err(job);
    };
    let [Some(file), None] = &it.files else {
        return Err(job);
    };
    let Some((cargo, offset)) = load(op) else {
        return Err(job);
    };
    let Some(carriage) = stand_in.task.carrier(file, &cargo, offset) else {
        unload(op, cargo);
        return Err(job);
    };
    let closers = pool.closers();
    carriage.begin(cargo, move |cargo, moved| {
        let may_wait = cargo.may_wait(&moved);
        if let Some(op) = &mut job.op {
            unload(op, cargo);
        }
        job.moved = Some(moved);
        if !may_wait {
            job.run();
            if job.last.is_none() {
                return Job::deliver(job);
            }
        }
        if let Err(mut job) = closers.put(job) {
            job.complete();
            Job::deliver(job);
        }
    });
    Ok(())
}

/// Closes a job that was carried.
pub(crate) fn close(
    task: &Task,
    mut op: Op,
    file: &OpenFile,
    moved: Result<usize, Errno>,
) -> Outcome {
    let Some((mut cargo, offset)) = load(&mut op) else {
        return Err(Failed::from(Errno::EIO));
    };
    let moved = task.carried(file, &mut cargo, offset, moved);
    match cargo {
        Cargo::Read(buf) => perform::read_into_one(buf, moved),
        Cargo::Write(data) => perform::written(data.len(), moved),
        Cargo::Sync(_) => Ok(moved.map(|_| Done::default())?),
    }
}
