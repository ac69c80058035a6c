// SPDX-License-Identifier: MIT OR Apache-2.0
//! Serves a tree of openpath as a mount of the host, by FUSE, so that any program can use it.
//!
//! # Kernel analogue
//! A file system, seen from below. The kernel walks, checks permissions (`default_permissions`),
//! caches names, attributes and pages, and asks the server for what it has not cached. By default
//! its caches never expire ([`Options`]), so a cached open, failed open, stat or read does not
//! reach the server.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `attach` | mounting, apart from serving: a process in other namespaces may do it |
//! | `server` | [`Server`] and [`Session`] |
//! | `device_threads`, `poll_group`, `adaptive_spin` | threads that read and wait for requests |
//! | `keep_awake`, `affinity` | which of two CPUs they use |
//! | `rings`, `ring_threads` | requests by the kernel's rings, where it has them |
//! | `message` | one request, from its bytes to its reply |
//! | `wire` | the messages of the protocol |
//! | `dispatch` | from a request to a call of the file system, and back |
//! | `fs`, `data`, `listing` | the requests, as calls of a task |
//! | `nodes` | the nodes that the kernel knows |
//! | `locks` | locks of files, and requests that wait for them |
//! | `events`, `cached_names`, `invalidation` | changes that did not come through the mount |
//! | `observer` | an observer of requests |
//! | `clock` | times in one order with those of the kernel |
//! | `single_user` | a user namespace with one user |
//! | `replaced`, `left_names` | group and list of a replaced file, in such a namespace |
//! | `worker`, `in_flight`, `early_interrupts` | the tasks of threads, and interrupts |
//! | `options`, `stats` | what a mount can be told, and what it counts |
//! | `tuning` | a switch for measurements |
//!
//! # Rules
//! R1. The server never uses its own mount.
//! R2. A request runs in one task, and waits behind others for a tick at most (`poll_group`). A
//!     request that waits for a lock holds no task.
//! R3. Node numbers, lookup counts and descriptors of nodes are exact: a node is dropped as soon as
//!     the kernel gives it back, and stays until then, with or without a name.
//!
//! # Limits
//! * Changes that do not come through the mount reach the kernel only if their tree reports them
//!   ([`Server::subscribe`]), and a moment later. For other trees, [`Options`] say how long the
//!   kernel's caches are valid.
//! * An interrupted request ends where it waits, or between two pieces of a long copy. Any other
//!   request that has begun is finished.
//! * Locks are kept by the kernel, among the users of this mount, unless [`Options::locks`] is set.

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

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
mod left_names;
mod listing;
mod locks;
mod message;
mod nodes;
mod observer;
mod options;
mod poll_group;
mod replaced;
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
pub use in_flight::{caller_is_killed, request_is_interrupted};
pub use observer::{ObservedFile, Observer, OnOpened, Requester};
pub use options::{FOREVER, OnlyUser, Opens, Options};
pub use rings::Rings;
pub use server::{Handle, Server, Session};
pub use stats::Stats;
