// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracks lookups under way (flights), so that one task at a time asks the backend for a name.
//! Others that want the name wait or leave.
//!
//! # Kernel analogue
//! `d_alloc_parallel`, `in_lookup_hashtable`.

use crate::lock_order::{Flight, FlightTable};
use crate::name::NameKey;
use openpath_sync::{Mutex, no_fault_injection};
use std::collections::HashMap;
use std::sync::Arc;

/// The lock of a flight: the task that asks the backend holds it.
type FlightLock = Arc<Mutex<(), Flight>>;

/// The flights, by directory and name.
type FlightMap = Mutex<HashMap<(u32, Vec<u8>), FlightLock>, FlightTable>;

/// All flights of a cache (`d_alloc_parallel`): at most one lookup for each name.
#[derive(Default)]
pub(crate) struct Flights {
    shards: [FlightMap; 16],
}

impl Flights {
    fn shard(&self, key: NameKey) -> &FlightMap {
        &self.shards[(key.lo ^ key.lo >> 17) as usize & 15]
    }

    /// Runs `ask` if no flight of this name is under way. Else runs `other` with the lock of that
    /// flight.
    pub(crate) fn once<R>(
        &self,
        (dir, key, name): (u32, NameKey, &[u8]),
        ask: impl FnOnce() -> R,
        other: impl FnOnce(&Mutex<(), Flight>) -> R,
    ) -> R {
        let shard = self.shard(key);
        let lock = FlightLock::default();
        let held = lock.lock();
        if let Some(asked) = {
            let mut table = shard.lock();
            let found = table.get(&(dir, name.to_vec())).map(Arc::clone);
            if found.is_none() {
                table.insert((dir, name.to_vec()), Arc::clone(&lock));
            }
            found
        } {
            drop(held);
            return other(&asked);
        }
        // Dropped in this order: no task finds a flight that is over, and waits for nothing.
        let _held = held;
        let _over = FlightEnd {
            shard,
            name: (dir, name.to_vec()),
        };
        ask()
    }
}

/// Removes a flight from its table when it ends, in whatever way.
struct FlightEnd<'a> {
    shard: &'a FlightMap,
    name: (u32, Vec<u8>),
}

impl Drop for FlightEnd<'_> {
    fn drop(&mut self) {
        let _step = no_fault_injection();
        self.shard.lock().remove(&self.name);
    }
}
