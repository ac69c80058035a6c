// SPDX-License-Identifier: MIT OR Apache-2.0
//! The root of a namespace is exchanged, and tasks that stood at the old one follow.
//!
//! # Kernel analogue
//! `pivot_root`, `chroot_fs_refs`. There the caller changes the root and the working directory of
//! every task that had the old root; here nobody writes to another's task: it looks for itself.
//!
//! # Rules
//! R1. A mount that was the old root is marked ([`mflag::PIVOTED`](super::mflag::PIVOTED)), which
//!     sends paths that start in it to the full walk, and that asks first whether it has seen all
//!     exchanges.
//!
//! # Divergence
//! L24: until it makes its next call by a path, a task that has not followed yet keeps the old root
//! in use.

use crate::path::Spot;

/// One exchange of a root.
pub(crate) struct Pivot {
    /// Its number: one more than that of the exchange before.
    pub(crate) number: u64,
    pub(crate) from: Spot,
    pub(crate) to: Spot,
}

impl super::Topology {
    /// Notes that who stood at `from` stands at `to` from now on; the number of exchanges so far.
    pub(crate) fn note_pivot(&mut self, from: Spot, to: Spot, seen: u64) -> u64 {
        let number = seen + 1;
        self.pivots.push(Pivot { number, from, to });
        number
    }

    /// Forgets exchanges of a root in a mount that is freed: nobody stands there.
    pub(crate) fn forget_pivots(&mut self, mount: u32) {
        self.pivots.retain(|p| p.from.mount != mount);
    }
}
