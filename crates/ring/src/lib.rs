// SPDX-License-Identifier: MIT OR Apache-2.0
//! Opens that never wait: submission and completion queues, a worker pool and futures over the
//! Linux open path.
//!
//! A host that must not block asks a [`Ring`]. What is cached is answered in place, by the same
//! lock-free walk as a plain call; only what would have to wait goes to a worker of a [`Pool`]. A
//! host that cannot know whether a call would wait sends them all away, and pays for it each time.
//!
//! | module | what it is |
//! |---|---|
//! | [`Ring`] | entries in, completions out, as `io_uring` has them |
//! | [`AsyncTask`] | the same calls as futures, for any runtime |
//! | [`Pool`] | the workers, shared by any number of rings, fair between them |
//! | [`trace`] | what a ring tells who listens |
//!
//! # Rules
//! R1. The owner of a ring is one thread with its task. Workers act through stand-ins and never
//!     touch the task, so its table stays its own and its cached opens stay cheap.
//! R2. Nothing is lost: a call that was submitted completes once, or, if its ring is dropped, what
//!     it opened is closed.
//! R3. Everything is bounded by what was configured: operations under way, queues, threads.

#![forbid(unsafe_code)]

mod attempt;
mod carry;
mod cqe;
mod crew;
mod desk;
mod direct;
mod future;
mod locks;
mod op;
mod options;
mod perform;
mod pool;
mod ring;
mod sqe;
mod thread;
pub mod trace;

pub use cqe::Cqe;
pub use future::{AsyncTask, Local};
pub use op::{File, Output, Where};
pub use options::RingOptions;
pub use pool::{Pool, PoolOptions, PoolStats};
pub use ring::{Ring, RingInterrupter};
pub use sqe::{Cancel, Full, Sqe};

pub use openpath_vfs::Bytes;
