// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records exchanges of a namespace's root (pivots), so that a task at the old root finds the new
//! one.
//!
//! # Kernel analogue
//! `pivot_root`, `chroot_fs_refs`. Linux changes the root and the working directory of every task
//! that had the old root. Here no thread writes to another's task: each task checks for itself.
//!
//! # Rules
//! R1. A mount that was the old root is marked ([`mflag::PIVOTED`](super::mflag::PIVOTED)). The
//!     mark sends paths that start in it to the full walk, which first checks that it has seen all
//!     exchanges.
//!
//! # Divergence
//! L24: until it makes its next call by a path, a task that has not followed yet keeps the old root
//! in use.

use crate::path::PathIds;

/// One exchange of a root.
pub(crate) struct Pivot {
    /// Its number: one more than that of the exchange before.
    pub(crate) number: u64,
    pub(crate) from: PathIds,
    pub(crate) to: PathIds,
}

impl super::Topology {
    /// Notes that tasks at `from` are at `to` from now on; the number of exchanges so far.
    pub(crate) fn note_pivot(&mut self, from: PathIds, to: PathIds, seen: u64) -> u64 {
        let number = seen + 1;
        self.pivots.push(Pivot { number, from, to });
        number
    }

    /// Forgets exchanges of a root in a mount that is freed: no task is there.
    pub(crate) fn forget_pivots(&mut self, mount: u32) {
        self.pivots.retain(|p| p.from.mount != mount);
    }
}
