// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assigns each superblock of a `Vfs` the lowest free number, from which its default device number
//! follows, and takes the number back.

use std::collections::BTreeSet;

/// Numbers of superblocks in one `Vfs`.
#[derive(Default)]
pub(crate) struct Numbers {
    free: BTreeSet<u32>,
    fresh: u32,
}

/// How many superblocks one `Vfs` can have at a time.
pub(crate) const SUPERBLOCKS_MAX: u32 = 1 << 16;

impl Numbers {
    /// The lowest one that is free, as devices without a disk get (`get_anon_bdev`).
    pub(crate) fn take(&mut self) -> Option<u32> {
        self.free.pop_first().or_else(|| {
            (self.fresh < SUPERBLOCKS_MAX - 1).then(|| {
                self.fresh += 1;
                self.fresh
            })
        })
    }

    /// It is free again.
    pub(crate) fn give(&mut self, number: u32) {
        self.free.insert(number);
    }
}
