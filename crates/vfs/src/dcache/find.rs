// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finding an entry by parent and name, with and without certainty.

use super::{Dcache, Dentry, dflag};
use crate::name::NameKey;
use openpath_sync::{CHAIN_MAX, Sample};

impl Dcache {
    /// The entry called `name` in `parent`, and how it was sampled. A miss proves nothing
    /// (`__d_lookup_rcu`).
    ///
    /// The sample may be unsteady; whoever uses it looks.
    #[inline(always)]
    pub(crate) fn find(&self, parent: u32, key: NameKey, name: &[u8]) -> Option<(u32, Sample)> {
        let (at, _, sample) = self.find_entry(parent, key, name)?;
        Some((at, sample))
    }

    /// As [`Dcache::find`], with the entry itself.
    #[inline(always)]
    pub(crate) fn find_entry(
        &self,
        parent: u32,
        key: NameKey,
        name: &[u8],
    ) -> Option<(u32, &Dentry, Sample)> {
        let mut at = self.table.head(key.hash_in(self.key, parent));
        let mut steps = CHAIN_MAX;
        while at != 0 && steps != 0 {
            let d = self.at(at);
            let sample = d.word().sample();
            if d.lo.get() == key.lo
                && d.hi.get() == key.hi
                && d.parent.get() == parent
                && !sample.has(dflag::UNHASHED)
                && sample.live()
                && (!key.is_long() || self.names.matches(d.block.get(), name))
                && d.word().still(sample)
            {
                return Some((at, d, sample));
            }
            at = d.link.get();
            steps -= 1;
        }
        None
    }

    /// As [`Dcache::find`], but exact: under the bucket's lock, and waiting while an entry is in
    /// question.
    ///
    /// The caller holds the parent's names, so that no other entry of this name comes or goes
    /// meanwhile.
    pub(crate) fn find_locked(
        &self,
        parent: u32,
        key: NameKey,
        name: &[u8],
    ) -> Option<(u32, Sample)> {
        loop {
            let bucket = self.table.lock(key.hash_in(self.key, parent));
            let at = bucket.find(self, |i| {
                let d = self.at(i);
                d.lo.get() == key.lo
                    && d.hi.get() == key.hi
                    && d.parent.get() == parent
                    && (!key.is_long() || self.names.matches(d.block.get(), name))
            });
            drop(bucket);
            if at == 0 {
                return None;
            }
            let sample = self.at(at).word().sample_steady();
            // Reclaimed, renamed or reused since the bucket was let go: look again.
            let d = self.at(at);
            let same = d.lo.get() == key.lo && d.hi.get() == key.hi && d.parent.get() == parent;
            if same && sample.live() && !sample.has(dflag::UNHASHED) && d.word().still(sample) {
                return Some((at, sample));
            }
            openpath_sync::relax();
        }
    }

    /// The name of the entry at `index`, if it stays the same while it is read, and its parent
    /// then.
    pub(crate) fn name_of(&self, index: u32) -> Option<(Vec<u8>, u32)> {
        let d = self.at(index);
        let sample = d.word().sample();
        let key = NameKey {
            lo: d.lo.get(),
            hi: d.hi.get(),
        };
        let name = if key.is_long() {
            self.names.read(d.block.get(), key.len())
        } else {
            key.bytes()[..key.len().min(16)].to_vec()
        };
        let parent = d.parent.get();
        (!sample.busy() && sample.live() && d.word().still(sample)).then_some((name, parent))
    }
}
