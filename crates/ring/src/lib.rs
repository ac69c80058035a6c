// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes calls of a `Task` without waiting for them, through submission and completion queues or as
//! futures, with a worker pool for the calls that would wait.
//!
//! A host that must not block uses a [`Ring`]. Cached calls are answered in place, by the same
//! lock-free walk as a plain call; only calls that would wait go to a worker of a [`Pool`]. A host
//! that cannot know whether a call would wait sends all of them to other threads, and pays for it
//! each time.
//!
//! | module | what it is |
//! |---|---|
//! | [`Ring`] | entries in, completions out, as in `io_uring` |
//! | [`AsyncTask`] | the same calls as futures, for any runtime |
//! | [`Pool`] | the workers, shared fairly by any number of rings |
//! | [`trace`] | trace points |
//!
//! # Rules
//! R1. The owner of a ring is one thread with its task. A worker runs in a proxy task, and never
//!     touches the owner's: so the owner's file table is not shared and its cached opens stay
//!     cheap.
//! R2. No call is lost: a submitted call completes once, or, if its ring is dropped, the file that
//!     it opened is closed.
//! R3. Options bound everything: operations in progress, queues, threads.

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

mod attempt;
mod backend_io;
mod cqe;
mod direct;
mod future;
mod job;
mod locks;
mod op;
mod options;
mod perform;
mod pool;
mod pool_client;
mod ring;
mod sqe;
mod thread;
pub mod trace;

pub use cqe::Cqe;
pub use future::{AsyncTask, Local};
pub use op::{Destination, File, Output};
pub use options::RingOptions;
pub use pool::{Pool, PoolOptions, PoolStats};
pub use ring::{Ring, RingInterrupter};
pub use sqe::{Cancel, Full, Sqe};

pub use openpath_vfs::Bytes;
