// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the wall clock and the source of random bytes as traits, so that a simulator can replace
//! them, with the system's implementations. Defines also the secrets that key hash tables.

use openpath_abi::{Errno, Timespec};
use openpath_sync::{HashKey, Word, coarse_wall_clock};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock that stamps files (`CLOCK_REALTIME`).
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timespec;
}

/// The system's wall clock at its last tick (`CLOCK_REALTIME_COARSE`), with which the kernel stamps
/// files. So a file that the kernel makes after one of ours is never older.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timespec {
        coarse_wall_clock()
    }
}

/// The system's wall clock with its full resolution (`CLOCK_REALTIME`), for trees whose files only
/// this process stamps: a file that the kernel stamps up to a tick later may be older.
#[derive(Clone, Copy, Debug, Default)]
pub struct FineClock;

impl Clock for FineClock {
    fn now(&self) -> Timespec {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let since = since.and_then(|since| Some((i64::try_from(since.as_secs()).ok()?, since)));
        // A clock that is set before 1970 is read by its tick.
        since.map_or_else(coarse_wall_clock, |(sec, since)| Timespec {
            sec,
            nsec: since.subsec_nanos(),
        })
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> Timespec {
        (**self).now()
    }
}

/// Random bytes for the random devices.
pub trait Entropy: Send + Sync + 'static {
    /// Fills `buf`.
    ///
    /// # Errors
    /// The errno that reading the device returns.
    fn fill(&self, buf: &mut [u8]) -> Result<(), Errno>;

    /// Takes what was written to the device, which need not change anything.
    fn stir(&self, _data: &[u8]) {}
}

/// The system's random bytes: good enough for keys.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    fn fill(&self, buf: &mut [u8]) -> Result<(), Errno> {
        openpath_sync::random_bytes(buf)
    }
}

/// A secret of 128 bits from the standard library's random hasher keys: enough to key hash tables.
fn random_secret() -> [u64; 2] {
    use std::hash::{BuildHasher, RandomState};
    let state = RandomState::new();
    [state.hash_one(1u8), state.hash_one(2u8)]
}

/// The secrets that hash tables are keyed with: random ones, or a series that follows from the
/// first, for a run that can be repeated.
pub(crate) struct Secrets {
    fixed: Option<[u64; 2]>,
    drawn: Word,
}

impl Secrets {
    pub(crate) fn new(fixed: Option<[u64; 2]>) -> Self {
        Self {
            fixed,
            drawn: Word::new(0),
        }
    }

    /// The first secret of the table of names.
    pub(crate) fn first(&self) -> [u64; 2] {
        self.fixed.unwrap_or_else(random_secret)
    }

    /// Another one. It cannot be told from the earlier ones, unless the first was given.
    pub(crate) fn next(&self) -> [u64; 2] {
        let Some(fixed) = self.fixed else {
            return random_secret();
        };
        let (key, at) = (HashKey::new(fixed), self.drawn.add(1));
        [key.hash(at, 1, 0), key.hash(at, 2, 0)]
    }
}
