// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks up a cached entry by its parent and name, without a lock or exactly under the bucket's
//! lock, and reads the name of an entry.

use super::{Dcache, Dentry, dflag};
use crate::name::NameKey;
use openpath_sync::{CHAIN_MAX, Certificate, Miss, Probe, Sample, View};

/// The result of a search without a lock.
#[derive(Clone, Copy)]
pub(crate) enum FindResult<'a> {
    /// This entry, and its sample, which may be unsteady: the caller checks.
    Entry(u32, &'a Dentry, Sample),
    /// There was no such entry, at one moment since the search began; in this chain.
    Absent(Probe),
    /// Unknown: entries come and go, or one of that name is in question.
    Unsure,
}

impl Dcache {
    /// What searches are made with, for a walk.
    #[inline(always)]
    pub(crate) fn view(&self) -> View {
        self.table.view()
    }

    /// Whether the name of a proved miss is still absent.
    #[inline(always)]
    pub(crate) fn certifies(&self, miss: &Certificate) -> bool {
        self.table.certifies(miss)
    }

    /// As [`Dcache::look`], for one search.
    #[inline(always)]
    pub(crate) fn look_now(&self, parent: u32, key: NameKey, name: &[u8]) -> FindResult<'_> {
        self.look(&self.view(), parent, key, name)
    }

    /// Looks for the entry called `name` in `parent` (`__d_lookup_rcu`).
    #[inline(always)]
    pub(crate) fn look(
        &self,
        view: &View,
        parent: u32,
        key: NameKey,
        name: &[u8],
    ) -> FindResult<'_> {
        let probe = self.table.probe(view, key.hash_in(view.key(), parent));
        if let Some(found) = self.follow(probe, parent, key, name) {
            return found;
        }
        if self.table.unchanged(view, probe) {
            return FindResult::Absent(probe);
        }
        self.look_again(parent, key, name)
    }

    /// Follows one chain; `None` at its end.
    #[inline(always)]
    fn follow(
        &self,
        probe: Probe,
        parent: u32,
        key: NameKey,
        name: &[u8],
    ) -> Option<FindResult<'_>> {
        let mut at = probe.head();
        let mut steps = CHAIN_MAX;
        while at != 0 {
            let d = self.at(at);
            let sample = d.word().sample();
            if d.lo.get() == key.lo && d.hi.get() == key.hi && d.parent.get() == parent {
                let found = !sample.has(dflag::UNHASHED)
                    && sample.is_live()
                    && (!key.is_long() || self.names.matches(d.block.get(), name))
                    && d.word().is_unchanged(sample);
                return Some(if found {
                    FindResult::Entry(at, d, sample)
                } else {
                    FindResult::Unsure
                });
            }
            at = d.link.get();
            steps -= 1;
            if steps == 0 {
                return Some(FindResult::Unsure);
            }
        }
        None
    }

    /// Looks once more, where a chain changed meanwhile, or entries are moving.
    #[cold]
    #[inline(never)]
    fn look_again(&self, parent: u32, key: NameKey, name: &[u8]) -> FindResult<'_> {
        let view = self.table.view();
        let mut probe = self.table.probe(&view, key.hash_in(view.key(), parent));
        loop {
            if let Some(found) = self.follow(probe, parent, key, name) {
                return found;
            }
            match self.table.missed(&view, probe, |k| key.hash_in(k, parent)) {
                // The caller has an older view. Of another generation, a certificate never holds.
                Miss::Proved => return FindResult::Absent(probe),
                Miss::Open => return FindResult::Unsure,
                Miss::Elsewhere(next) => probe = next,
            }
        }
    }

    /// As [`Dcache::look`], but exact: under the bucket's lock, and waiting while an entry is in
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
            let bucket = self.table.lock(|k| key.hash_in(k, parent));
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
            if same
                && sample.is_live()
                && !sample.has(dflag::UNHASHED)
                && d.word().is_unchanged(sample)
            {
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
        (!sample.is_busy() && sample.is_live() && d.word().is_unchanged(sample))
            .then_some((name, parent))
    }
}
