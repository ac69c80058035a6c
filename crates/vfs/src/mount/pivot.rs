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

use crate::task::Core;
use crate::walk::Spot;

/// One exchange of a root.
pub(crate) struct Pivot {
    /// Its number: one more than that of the exchange before.
    pub(super) number: u64,
    pub(super) from: Spot,
    pub(super) to: Spot,
}

impl super::Topology {
    /// Notes that who stood at `from` stands at `to` from now on; the number of exchanges so far.
    pub(crate) fn note_pivot(&mut self, from: Spot, to: Spot, seen: u64) -> u64 {
        let number = seen + 1;
        self.pivots.push(Pivot { number, from, to });
        number
    }

    /// Forgets exchanges of a root in a mount that is freed: nobody stands there.
    pub(super) fn forget_pivots(&mut self, mount: u32) {
        self.pivots.retain(|p| p.from.mount != mount);
    }
}

impl Core {
    /// Follows the exchanges of roots since the last call, if there were any.
    #[inline]
    pub(crate) fn heed_pivots(&self) {
        if self.vfs.mounts.pivots.get() != self.pivots_seen.get() {
            self.follow_pivots();
        }
    }

    #[cold]
    #[inline(never)]
    fn follow_pivots(&self) {
        let had = [self.root.get(), self.cwd.get()];
        let mut places = had;
        let mut pins = [None, None];
        {
            let topology = self.vfs.mounts.topology.lock();
            let seen = self.pivots_seen.replace(self.vfs.mounts.pivots.get());
            for pivot in topology.pivots.iter().filter(|p| p.number > seen) {
                for place in &mut places {
                    if *place == pivot.from {
                        *place = pivot.to;
                    }
                }
            }
            for ((place, had), pin) in places.iter().zip(had).zip(&mut pins) {
                if *place != had && topology.nodes.contains_key(&place.mount) {
                    *pin = self.pins.pin_now(place.mount, place.dentry);
                }
            }
        }
        let [root, cwd] = pins;
        if let Some(root) = root {
            self.set_root(root);
        }
        if let Some(cwd) = cwd {
            self.set_cwd(cwd);
        }
    }
}
