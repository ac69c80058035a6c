// SPDX-License-Identifier: MIT OR Apache-2.0
//! One value for each of a few groups of threads, so that threads which do the same at the same
//! time seldom write the same lines.
//!
//! A thread is in one group for its life; the groups are filled in turn. Whoever needs all of what
//! is there looks at every group.

use crate::apart::Apart;
use crate::prim::{AtomicUsize, Ordering, SHARDS, global, local};
use core::cell::Cell;

/// The group of this thread.
fn shard() -> usize {
    global! {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
    }
    local! {
        static SHARD: Cell<usize> = Cell::new(usize::MAX);
    }
    if SHARDS == 1 {
        return 0;
    }
    let mine = SHARD.try_with(|shard| {
        if shard.get() == usize::MAX {
            shard.set(NEXT.fetch_add(1, Ordering::Relaxed) % SHARDS);
        }
        shard.get()
    });
    mine.unwrap_or(0)
}

/// A value for each group of threads. See the module head.
pub struct Shards<T>([Apart<T>; SHARDS]);

impl<T: Default> Default for Shards<T> {
    fn default() -> Self {
        Self(core::array::from_fn(|_| Apart::default()))
    }
}

impl<T> Shards<T> {
    /// How many groups there are.
    pub const COUNT: u32 = SHARDS as u32;

    /// The number of this thread's group, for [`Shards::of`].
    #[inline]
    pub fn here(&self) -> u32 {
        shard() as u32
    }

    /// The value of this thread's group.
    #[inline]
    pub fn mine(&self) -> &T {
        &self.0[shard()]
    }

    /// The value for `key`, where not threads but what they work on is in groups.
    #[inline]
    pub fn of(&self, key: u32) -> &T {
        &self.0[key as usize % SHARDS]
    }

    /// The values of all groups.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        self.0.iter().map(|shard| &shard.0)
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::word::Word;

    #[test]
    fn threads_that_begin_one_after_the_other_meet_only_when_there_are_many() {
        let shards: Shards<Word> = Shards::default();
        std::thread::scope(|scope| {
            for _ in 0..SHARDS {
                scope.spawn(|| {
                    shards.mine().add(1);
                    shards.mine().add(1);
                });
            }
        });
        let counts: Vec<u64> = shards.all().map(Word::get).collect();
        assert_eq!(counts.iter().sum::<u64>(), 2 * SHARDS as u64);
        assert!(counts.iter().all(|count| count % 2 == 0));
        assert!(counts.iter().filter(|&&count| count != 0).count() > SHARDS / 2);
    }
}
