// SPDX-License-Identifier: MIT OR Apache-2.0
//! What runs now, and can be asked: a socket for each server, in a directory of its user.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `place` | the directories |
//! | `beacon` | the side of the server |
//! | `find` | the side of who asks |
//! | `figures` | what is told, as JSON and for Prometheus |
//! | `locks` | what is locked, and who waits for whom |
//!
//! # Protocol
//! One question and one answer for each connection, as frames of the wire ([`VERSION`]). The answer
//! to `Enter` is followed by a frame for each namespace, and for the control group if the view has
//! one, with its descriptor.
//!
//! # Rules
//! R1. Only the same user and the superuser are answered: the directory is closed to others, and
//!     each end has the kernel's word for who is at the other.
//! R2. Who stands in a view is not answered by its server: a socket of the real tree cannot be
//!     connected to through a view, and where it passes by `--pass`, the mounts of who asks are
//!     looked at.
//! R3. A server has one thread for this, and waits two seconds for who asks;
//!     nobody's call waits for it.
//! R4. What cannot be made is done without: a run nobody can ask is a run.

mod beacon;
mod figures;
mod find;
mod locks;
mod place;
mod prometheus;

pub use beacon::{Beacon, Sources};
pub use figures::{Cached, Copies, Figures, Label, LiveKind, Tenant};
pub use find::Live;
pub(crate) use find::WayIn;
pub use locks::{Lock, LockKind, LockSort, Locks};
pub use prometheus::prometheus;

pub(crate) use beacon::Inside;
pub(crate) use place::own_dirs;

use crate::share::Share;
use crate::space::Space;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// The version of what is told; a field that is new does not change it.
pub const VERSION: u32 = 1;

/// How long one end waits for the other.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// A question.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// What was asked of the server and what it keeps.
    Figures,
    /// The namespaces of the view.
    Enter,
    /// What is locked.
    Locks,
}

/// An answer.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Answer {
    Figures(Box<Figures>),
    Locks(Locks),
    /// Descriptors of the namespaces follow.
    Enter {
        /// How many.
        namespaces: usize,
        /// What commands in the view share with the host.
        share: Vec<Share>,
    },
    /// One of them.
    Namespace(Space),
    /// The control group that holds the view's limits, counted as a namespace.
    Group,
    Refused(String),
}
