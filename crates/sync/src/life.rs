// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the life word of a slab item: a sequence count, its owner's flags, and whether the
//! item is live.
//!
//! # Kernel analogue
//! `d_seq` and `d_flags` of a dentry in one word. One load and one compare answer both "may this
//! step take the fast path?" and "has anything changed since?".
//!
//! # States
//! Free (0) -> live -> dying (a reclaimer checks for pins) -> live again, or free with a higher
//! sequence.
//!
//! # Layout
//! bit 0 BUSY (a change is going on), bit 1 LIVE, bit 2 DYING, bits 3..16 flags of the owner, bits
//! 16..64 sequence. The 48 bits of sequence do not wrap: 2^47 changes of one item at a million a
//! second take four years.
//!
//! # Rules
//! R1. A writer of an item's data holds its [`Change`]: BUSY is also the lock that orders writers.
//! R2. A reader samples ([`Life::sample`]), reads data with [`crate::Word::get`], then calls
//!     [`Life::is_unchanged`]; only if that is true does the data count. Data is written with
//!     [`crate::Word::set`] only.
//!
//! # Guarantees
//! G1. If `is_unchanged(s)` returns true after reads, every word read belongs to the state that `s`
//!     named. PAIR(life.change): the writer makes the word busy before any release-store of data. A
//!     reader that acquire-loaded that data therefore sees the word busy or newer there.

use crate::primitive::{AtomicU64, Ordering, no_fault_injection, relax};
use crate::zero_valid::ZeroValid;

const BUSY: u64 = 1;
const LIVE: u64 = 2;
const DYING: u64 = 4;
const FLAGS: u64 = 0xfff8;
const SEQ_ONE: u64 = 1 << 16;
/// The bits that keep an item off the fast path.
const UNSTEADY: u64 = BUSY | DYING;

/// The value of a [`Life`] word at one moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sample(u64);

impl Sample {
    /// Whether the fast path must not use the item: one of `mask` (owner flags) is set, or the item
    /// is not steadily live. One test.
    #[inline(always)]
    pub fn needs_slow_path(self, mask: u64) -> bool {
        self.0 & (mask | UNSTEADY | LIVE) != LIVE
    }
    /// Whether all of `mask` (owner flags) is set.
    #[inline(always)]
    pub fn has(self, mask: u64) -> bool {
        self.0 & mask == mask
    }
    /// Whether the item was live, not changing, and not being checked by a reclaimer.
    #[inline(always)]
    pub fn is_steady(self) -> bool {
        self.0 & (UNSTEADY | LIVE) == LIVE
    }
    /// Whether the item was live at all.
    #[inline(always)]
    pub fn is_live(self) -> bool {
        self.0 & LIVE != 0
    }
    /// Whether a change was going on.
    #[inline(always)]
    pub fn is_busy(self) -> bool {
        self.0 & BUSY != 0
    }
    /// Whether a reclaimer was checking the item for pins.
    #[inline(always)]
    pub fn is_dying(self) -> bool {
        self.0 & DYING != 0
    }
    /// The owner's flags.
    #[inline(always)]
    pub fn flags(self) -> u64 {
        self.0 & FLAGS
    }
    /// The whole word, to be stored and compared later.
    #[inline(always)]
    pub fn raw(self) -> u64 {
        self.0
    }
    /// A stored word as a sample.
    #[inline(always)]
    pub fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
    /// The sample of a live item with these flags that never changed.
    #[must_use]
    pub const fn live_with(flags: u64) -> Self {
        Self(LIVE | flags & FLAGS)
    }
    /// The sequence part.
    pub fn sequence(self) -> u64 {
        self.0 >> 16
    }
}

/// The sequence, flags and state of one item. All zero: free.
#[derive(Default)]
#[repr(transparent)]
pub struct Life(AtomicU64);

// SAFETY: a transparent wrapper of a zero-valid atomic.
unsafe impl ZeroValid for Life {}

impl Life {
    /// The item's word now.
    #[inline(always)]
    pub fn sample(&self) -> Sample {
        Sample(self.0.load(Ordering::Acquire))
    }

    /// Whether the item is exactly as in `sample`: nothing changed in between.
    #[inline(always)]
    pub fn is_unchanged(&self, sample: Sample) -> bool {
        // PAIR(life.change): the reads that this confirms were acquire-loads, so none of them
        // happens after this load.
        self.0.load(Ordering::Acquire) == sample.0
    }

    /// Waits until no change is going on, and samples.
    pub fn sample_steady(&self) -> Sample {
        loop {
            let s = self.sample();
            if !s.is_busy() && !s.is_dying() {
                return s;
            }
            relax();
        }
    }

    /// Begins a change, waiting for one that is going on. Readers that overlap it will notice.
    pub fn change(&self) -> Change<'_> {
        loop {
            let now = self.0.load(Ordering::Relaxed);
            if now & BUSY == 0
                && self
                    .0
                    .compare_exchange(now, now | BUSY, Ordering::AcqRel, Ordering::Relaxed)
                    .is_ok()
            {
                return Change {
                    life: self,
                    word: now,
                };
            }
            relax();
        }
    }

    /// Begins a change only if the item is as in `sample`.
    pub fn change_if(&self, sample: Sample) -> Option<Change<'_>> {
        if sample.is_busy() {
            return None;
        }
        self.0
            .compare_exchange(
                sample.0,
                sample.0 | BUSY,
                Ordering::AcqRel,
                Ordering::Relaxed,
            )
            .ok()
            .map(|word| Change { life: self, word })
    }
}

/// A change that is going on; dropping it publishes the new flags under the next sequence.
pub struct Change<'a> {
    life: &'a Life,
    word: u64,
}

impl Change<'_> {
    /// The flags as they will be published.
    pub fn flags(&self) -> u64 {
        self.word & FLAGS
    }
    /// The item as it will be when this change ends.
    pub fn now(&self) -> Sample {
        Sample(self.word)
    }
    /// Sets owner flags.
    pub fn set(&mut self, mask: u64) -> &mut Self {
        self.word |= mask & FLAGS;
        self
    }
    /// Clears owner flags.
    pub fn clear(&mut self, mask: u64) -> &mut Self {
        self.word &= !(mask & FLAGS);
        self
    }
    /// Replaces all owner flags.
    pub fn replace(&mut self, flags: u64) -> &mut Self {
        self.word = (self.word & !FLAGS) | (flags & FLAGS);
        self
    }
    pub(crate) fn set_live(&mut self, floor: u64) {
        self.word = (self.word.max(floor) & !(FLAGS | DYING)) | LIVE;
    }
    pub(crate) fn set_free(&mut self) {
        self.word &= !(FLAGS | DYING | LIVE);
    }
    pub(crate) fn set_dying(&mut self, dying: bool) {
        self.word = if dying {
            self.word | DYING
        } else {
            self.word & !DYING
        };
    }
    /// Ends the change and returns what was published.
    pub fn finish(self) -> Sample {
        let published = Sample(self.word.wrapping_add(SEQ_ONE));
        drop(self);
        published
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // PAIR(life.change): all data stores of this change precede the even word.
        let _step = no_fault_injection();
        self.life
            .0
            .store(self.word.wrapping_add(SEQ_ONE), Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn change_advances_the_sequence_and_keeps_flags() {
        let l = Life::default();
        assert!(!l.sample().is_live());
        let mut c = l.change();
        c.set_live(0);
        c.set(8);
        let s = c.finish();
        assert_eq!(l.sample(), s);
        assert!(s.is_steady() && s.has(8) && !s.needs_slow_path(16) && s.needs_slow_path(8));
        drop(l.change());
        assert!(!l.is_unchanged(s));
        assert_eq!(l.sample().flags(), 8);
    }

    #[test]
    fn busy_word_refuses_a_second_change() {
        let l = Life::default();
        let s = l.sample();
        let c = l.change();
        assert!(l.sample().is_busy());
        assert!(l.change_if(s).is_none());
        drop(c);
        assert!(l.change_if(s).is_none());
        assert!(l.change_if(l.sample()).is_some());
    }
}
