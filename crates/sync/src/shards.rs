// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds one value for each of a few groups of threads, so that threads that do the same work at
//! the same time seldom write the same cache lines.
//!
//! A thread stays in one group; groups are filled in turn. A reader of the total visits every
//! group.
//!
//! # Kernel analogue
//! Per-CPU data; a group stands in for a CPU.
//!
//! # States of a value
//! Absent -> present, once. The first access by a thread of the group, or by key, creates the
//! value, so that a structure used by few threads stays small. It stays until all are dropped.

use crate::cache_padded::CachePadded;
use crate::once::WriteOnce;
use crate::primitive::{AtomicUsize, Ordering, SHARDS, global, local};
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
pub struct Shards<T>([WriteOnce<CachePadded<T>>; SHARDS]);

impl<T> Default for Shards<T> {
    fn default() -> Self {
        Self(core::array::from_fn(|_| WriteOnce::default()))
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
}

impl<T: Send + Sync> Shards<T> {
    /// The value of this thread's group, if it exists.
    #[inline]
    pub fn mine_if_any(&self) -> Option<&T> {
        self.of_if_any(shard() as u32)
    }

    /// The value for `key`, if it exists.
    #[inline]
    pub fn of_if_any(&self, key: u32) -> Option<&T> {
        self.0[key as usize % SHARDS].get().map(|shard| &shard.0)
    }

    /// The values that exist.
    pub fn all(&self) -> impl Iterator<Item = &T> {
        let there = self.0.iter().filter_map(WriteOnce::get);
        there.map(|shard| &shard.0)
    }
}

impl<T: Send + Sync + Default> Shards<T> {
    /// The value of this thread's group.
    #[inline]
    pub fn mine(&self) -> &T {
        self.of(shard() as u32)
    }

    /// The value for `key`, for sharding by the object that threads work on.
    #[inline]
    pub fn of(&self, key: u32) -> &T {
        self.of_if_any(key).unwrap_or_else(|| self.make(key))
    }

    #[cold]
    fn make(&self, key: u32) -> &T {
        &self.0[key as usize % SHARDS].set(CachePadded::default()).0
    }
}

#[cfg(all(test, not(loom), not(shuttle)))]
mod tests {
    use super::*;
    use crate::word::Word;

    #[test]
    fn consecutive_threads_get_different_shards() {
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

    #[test]
    fn value_is_created_at_first_access() {
        let shards: Shards<Word> = Shards::default();
        assert!(shards.mine_if_any().is_none() && shards.all().next().is_none());
        shards.mine().add(3);
        assert_eq!(shards.mine_if_any().map(Word::get), Some(3));
        assert_eq!(shards.of(shards.here()).get(), 3);
        assert_eq!(shards.all().count(), 1);
        let other = shards.here() + 1;
        assert!(shards.of_if_any(other).is_none());
        shards.of(other).add(1);
        assert_eq!(shards.all().map(Word::get).sum::<u64>(), 4);
        let bare = 2 * SHARDS * size_of::<usize>();
        assert!(size_of_val(&shards) <= bare, "absent values take little");
    }

    #[test]
    fn threads_of_one_group_share_one_value() {
        let shards: Shards<Word> = Shards::default();
        let shards = &shards;
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    (0..SHARDS as u32)
                        .map(|key| shards.of(key).add(1))
                        .sum::<u64>()
                });
            }
        });
        assert!(shards.all().all(|word| word.get() == 8));
    }
}
