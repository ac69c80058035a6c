// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a task follow pivot_root(2): if its root or working directory is the old root of the
//! namespace, that becomes the new root (`mount::pivot`).

use super::Core;

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
