// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds and queries running servers of views and mounts: each has a socket in a directory of its
//! user.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `socket_dir` | the directories |
//! | `control_server` | the side of the server |
//! | `find` | the client side |
//! | `server_stats`, `prometheus` | the statistics, as JSON and for Prometheus |
//! | `locks` | file locks and their waiters |
//!
//! # Protocol
//! One request and one response for each connection, as frames of the wire ([`VERSION`]). The
//! response to `Enter` is followed by a frame with a descriptor for each namespace, and for the
//! control group if the view has one.
//!
//! # Rules
//! R1. Only the same user and root are answered: the directory is closed to others, and each end
//!     reads the credentials of its peer from the kernel.
//! R2. A process in a view is not answered by the view's server. A socket of the real tree cannot
//!     be connected to through a view; where it passes by `--pass`, the server looks at the mounts
//!     of the client.
//! R3. A server has one thread for this, which waits two seconds at most for a client. No file
//!     system call waits for it.
//! R4. If no socket can be made, the run or mount works without one.

mod control_server;
mod find;
mod locks;
mod prometheus;
mod server_stats;
mod socket_dir;

pub use control_server::{ControlServer, StatsSources};
pub use find::LiveServer;
pub(crate) use find::ViewEntry;
pub use locks::{Lock, LockKind, LockSort, Locks};
pub use prometheus::prometheus;
pub use server_stats::{Cached, CopiedUp, Label, ServedKind, ServerStats, Tenant};

pub(crate) use control_server::ViewAccess;
pub(crate) use socket_dir::own_dirs;

use crate::namespace_kind::NamespaceKind;
use crate::share::Share;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of the responses; a new field does not change it.
pub const VERSION: u32 = 1;

/// How long one end waits for the other.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Request {
    /// The statistics of the server.
    #[serde(rename = "Figures")]
    Stats,
    /// The namespaces of the view.
    Enter,
    /// The file locks.
    Locks,
}

/// A response.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Response {
    #[serde(rename = "Figures")]
    Stats(Box<ServerStats>),
    Locks(Locks),
    /// Descriptors of the namespaces follow.
    Enter {
        /// How many.
        namespaces: usize,
        /// What commands in the view share with the host.
        share: Vec<Share>,
    },
    /// One of them.
    Namespace(NamespaceKind),
    /// The control group that holds the view's limits, counted as a namespace.
    Group,
    Refused(String),
}
