// SPDX-License-Identifier: MIT OR Apache-2.0
//! A tree of openpath as a mount of the host, by FUSE: what any program can use.
//!
//! # Kernel analogue
//! A file system, seen from below. The kernel walks, checks permissions (`default_permissions`),
//! caches names, attributes and pages, and asks here for what it does not know yet. What it was
//! told holds for ever unless [`Options`] say otherwise, so a cached open, failed open, stat or
//! read never comes here.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `attach` | mounting, apart from serving: a process in other namespaces may do it |
//! | `server` | [`Server`] and [`Session`] |
//! | `thread`, `shift`, `linger` | who reads requests from the device, and waits for them |
//! | `vigil`, `beside` | on which of two processors |
//! | `rings`, `crew` | who gets them by rings of the kernel's, where it has them |
//! | `one` | what is done with each, whichever way it came |
//! | `wire` | the messages of the protocol |
//! | `answer` | from a request to what it means, and back |
//! | `view`, `data`, `listing` | what they mean, as calls of a task |
//! | `locks` | locks of files, and who waits for them |
//! | `hear`, `told` | what changes other than through the mount, and what the kernel believes |
//! | `watch` | who looks on |
//! | `clock` | times in one order with those of the kernel |
//! | `shown` | one user alone, in a user namespace |
//! | `nodes` | what the kernel knows |
//! | `worker`, `seat`, `early` | the tasks that answer, and what interrupts them |
//!
//! # Rules
//! R1. The server never uses its own mount.
//! R2. A request runs in one task, and waits behind no other for more than a tick (`shift`); one
//!     for a lock waits in no task at all.
//! R3. Numbers of nodes, counts of lookups and descriptors of places are exact: what the kernel
//!     gives back is let go at once, and what it keeps stays, with or without a name.
//!
//! # Limits
//! * What changes other than through the mount is told to the kernel only of trees that are heard
//!   ([`Server::hear`]) and tell it, a moment later; of others [`Options`] say for how long it may
//!   believe what it was told.
//! * What is interrupted ends where it waits, or between two pieces of a long copy; another request
//!   that has begun is finished.
//! * Locks are the kernel's own, among the users of this mount, unless [`Options::locks`] says
//!   otherwise.

#![forbid(unsafe_code)]

mod adaptive_spin;
mod affinity;
mod attach;
mod cached_names;
mod clock;
mod data;
mod device_threads;
mod dispatch;
mod early_interrupts;
mod events;
mod fs;
mod in_flight;
mod invalidation;
mod keep_awake;
mod listing;
mod locks;
mod message;
mod nodes;
mod observer;
mod options;
mod poll_group;
mod ring_threads;
mod rings;
mod server;
mod single_user;
mod stats;
mod tuning;
mod wire;
mod worker;

pub use attach::{attach, detach};
pub use clock::KernelClock;
pub use in_flight::caller_is_killed;
pub use observer::{ObservedFile, Observer, OnOpened, Requester};
pub use options::{FOREVER, OnlyUser, Opens, Options};
pub use rings::Rings;
pub use server::{Handle, Server, Session};
pub use stats::Stats;
