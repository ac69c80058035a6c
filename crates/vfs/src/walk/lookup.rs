// SPDX-License-Identifier: MIT OR Apache-2.0
//! Asking the backend for a name that is not cached (`lookup_slow`), once for all who ask at the
//! same time.

use super::{Fail, Mode, Reason, Walk};
use crate::dcache::{Kind, dflag};
use crate::explain::Check;
use crate::inode::{Found, Inode, Patience, flag};
use crate::lock_order::{Flight, FlightTable};
use crate::name::NameKey;
use crate::tenant::count;
use openpath_abi::Errno;
use openpath_sync::{Mutex, Pin, Sample, unfailing};
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

    /// Runs `ask` if nobody asks for this name now; else waits for who does, and answers `None`.
    fn once<R>(&self, dir: u32, key: NameKey, name: &[u8], ask: impl FnOnce() -> R) -> Option<R> {
        let shard = self.shard(key);
        let lock = FlightLock::default();
        let held = lock.lock();
        if let Some(other) = {
            let mut table = shard.lock();
            let found = table.get(&(dir, name.to_vec())).map(Arc::clone);
            if found.is_none() {
                table.insert((dir, name.to_vec()), Arc::clone(&lock));
            }
            found
        } {
            drop(held);
            drop(other.lock());
            return None;
        }
        // Dropped in this order: nobody finds a flight that is over, and waits for nothing.
        let _held = held;
        let _over = Over {
            shard,
            name: (dir, name.to_vec()),
        };
        Some(ask())
    }
}

/// Takes a flight out of its table when it is over, however it ends.
struct Over<'a> {
    shard: &'a Asked,
    name: (u32, Vec<u8>),
}

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let _step = unfailing();
        self.shard.lock().remove(&self.name);
    }
}

impl Walk<'_> {
    /// The entry `name` of the directory stood at, pinned; from the backend unless someone else
    /// entered it meanwhile. `None`: ask the cache again.
    #[cold]
    pub(super) fn look_up(
        &mut self,
        key: NameKey,
        name: &[u8],
    ) -> Result<Option<(Pin, Sample)>, Fail> {
        let Some(pin) = &self.pin else {
            return Err(self.restart(Reason::Busy));
        };
        let store = &self.dcache().store;
        let Some(dir) = store.dentry_payload(pin) else {
            return Err(self.refuse(Check::NotDirectory, Errno::ENOTDIR));
        };
        let _names = dir.hold_names();
        if dir.flags() & flag::DEAD != 0 {
            return Err(self.refuse(Check::Removed, Errno::ENOENT));
        }
        let limit = store
            .mount_payload(pin)
            .map_or(255, |m| m.sb.options().name_max);
        if name.len() > limit {
            return Err(self.refuse(Check::NameLength, Errno::ENAMETOOLONG));
        }
        let found = self
            .core
            .vfs
            .flights
            .once(self.at.dentry, key, name, || self.ask(dir, key, name));
        match found {
            None => Ok(None),
            Some(entry) => {
                let (child, sample) = entry.map_err(|errno| {
                    let check = match errno {
                        Errno::ENOENT => Check::Absent,
                        _ => Check::Backend,
                    };
                    self.core.refused(check, errno)
                })?;
                let mount = self.mounts().at(self.at.mount).word().sample_steady();
                let pin = self.core.pins.try_pin(self.at.mount, mount, child, sample);
                if pin.is_none() && !self.core.pins.has_room() {
                    return Err(self.refuse(Check::Pins, Errno::ENOMEM));
                }
                self.at_mount = mount;
                Ok(pin.map(|pin| (pin, sample)))
            }
        }
    }

    /// The entry of the name, entered now if it was not there. The directory's names and the flight
    /// are held.
    ///
    /// # Errors
    /// `ENOENT` for what is not in a directory all of whose names are cached; what the backend
    /// meets; `ENOMEM`.
    fn ask(&self, dir: &Inode, key: NameKey, name: &[u8]) -> Result<(u32, Sample), Errno> {
        let dcache = self.dcache();
        let cached = dcache.find_locked(self.at.dentry, key, name);
        if let Some((child, sample)) = cached
            && self.mode != Mode::Revalidate
            && !sample.has(dflag::REVALIDATE)
        {
            return Ok((child, sample));
        }
        if cached.is_none() && dcache.is_complete(self.at.dentry) {
            return Err(Errno::ENOENT);
        }
        self.core.count(count::MISSES);
        let inode = match dir.shielded(|ops| ops.lookup(dir, name, Patience::Wait))? {
            Found::Inode(inode) => Some(inode),
            Found::Absent => None,
            Found::WouldBlock => return Err(Errno::EIO),
        };
        if let Some((child, sample)) = cached {
            if self.is_entry_of(child, inode.as_deref()) {
                return Ok((child, sample));
            }
            // Until it is entered again, the name cannot be found.
            dcache.set_incomplete(self.at.dentry);
            dcache.unhash(child);
            dcache.bury(child);
        } else if inode.is_none() && dcache.try_complete(self.at.dentry, dir) {
            return Err(Errno::ENOENT);
        }
        let kind = match inode {
            Some(_) => Kind::Positive,
            None => Kind::Negative,
        };
        self.core.room(kind)?;
        dcache.add(self.core.tenant().book(), self.at.dentry, key, name, inode)
    }

    /// Whether the cached entry `child` still means `inode`.
    fn is_entry_of(&self, child: u32, inode: Option<&Inode>) -> bool {
        let Some(pin) = self.core.pins.pin_now(0, child) else {
            return false;
        };
        let same = match (self.dcache().store.dentry_payload(&pin), inode) {
            (None, None) => true,
            (Some(a), Some(b)) => core::ptr::eq(a, b),
            _ => false,
        };
        self.core.pins.release(pin);
        same
    }
}
