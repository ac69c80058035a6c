// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names that are being looked up: one task asks the backend, the others wait for it or do not.
//!
//! # Kernel analogue
//! `d_alloc_parallel`, `in_lookup_hashtable`.

use crate::lock_order::{Flight, FlightTable};
use crate::name::NameKey;
use openpath_sync::{Mutex, no_fault_injection};
use std::collections::HashMap;
use std::sync::Arc;

/// A name that is being looked up: whoever locks it is the one who asks.
type FlightLock = Arc<Mutex<(), Flight>>;

/// Names under a directory's index, with who asks.
type Asked = Mutex<HashMap<(u32, Vec<u8>), FlightLock>, FlightTable>;

/// The names being looked up now (`d_alloc_parallel`): at most one lookup for each.
#[derive(Default)]
pub(crate) struct Flights {
    shards: [Asked; 16],
}

impl Flights {
    fn shard(&self, key: NameKey) -> &Asked {
        &self.shards[(key.lo ^ key.lo >> 17) as usize & 15]
    }

    /// Runs `ask` if nobody asks for this name now; else has `other` wait for who does, or not.
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
        // Dropped in this order: nobody finds a flight that is over, and waits for nothing.
        let _held = held;
        let _over = Over {
            shard,
            name: (dir, name.to_vec()),
        };
        ask()
    }
}

/// Takes a flight out of its table when it is over, however it ends.
struct Over<'a> {
    shard: &'a Asked,
    name: (u32, Vec<u8>),
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let _step = no_fault_injection();
        self.shard.lock().remove(&self.name);
    }
}
