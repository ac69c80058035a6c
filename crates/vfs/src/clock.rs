// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time and randomness come in through traits, so that a simulator can own them.

use openpath_abi::Timespec;
use std::time::{SystemTime, UNIX_EPOCH};

/// The wall clock that stamps files (`CLOCK_REALTIME`).
pub trait Clock: Send + Sync + 'static {
    /// The time now.
    fn now(&self) -> Timespec;
}

/// The system's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timespec {
        let since = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        Timespec {
            sec: since.as_secs().cast_signed(),
            nsec: since.subsec_nanos(),
        }
    }
}

/// A secret of 128 bits from the standard library's random hasher keys: enough to key hash tables.
pub(crate) fn random_secret() -> [u64; 2] {
    use std::hash::{BuildHasher, RandomState};
    let state = RandomState::new();
    [state.hash_one(1u8), state.hash_one(2u8)]
}
