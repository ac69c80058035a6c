// SPDX-License-Identifier: MIT OR Apache-2.0
//! Looks up an uncached name in the backend (`lookup_slow`): one request serves all tasks that ask
//! at the same time.

use super::confirm::Revalidated;
use super::{Mode, Reason, Walk, WalkError};
use crate::inode::{Inode, WaitMode, flag};
use crate::name::NameKey;
use crate::object::dflag;
use crate::steps::Check;
use crate::tenant::count;
use crate::tenant_lru::Kind;
use openpath_abi::Errno;
use openpath_sync::{Pin, Sample};

/// The answer to a lookup.
type Answer = Result<Option<(u32, Sample)>, Errno>;

impl Walk<'_> {
    /// The entry `name` of the directory stood at, pinned; from the backend unless another task
    /// entered it meanwhile. `None`: ask the cache again.
    #[cold]
    pub(super) fn look_up(
        &mut self,
        key: NameKey,
        name: &[u8],
    ) -> Result<Option<(Pin, Sample)>, WalkError> {
        let mut disowned = None;
        let found = self.look_up_held(key, name, &mut disowned);
        if let Some(entry) = disowned {
            self.core.vfs.defer_free_disowned(entry);
        }
        found
    }

    /// As [`Walk::look_up`]; an entry that has another meaning by now is unhashed and comes back in
    /// `disowned`.
    fn look_up_held(
        &mut self,
        key: NameKey,
        name: &[u8],
        disowned: &mut Option<u32>,
    ) -> Result<Option<(Pin, Sample)>, WalkError> {
        let Some(pin) = &self.pin else {
            return Err(self.restart(Reason::Busy));
        };
        let store = &self.dcache().store;
        let Some(dir) = store.dentry_payload(pin) else {
            return Err(self.refuse(Check::NotDirectory, Errno::ENOTDIR));
        };
        let wait_mode = self.wait_mode(Reason::Miss)?;
        let held = || self.core.give_up(Reason::Held);
        let _names = match wait_mode {
            WaitMode::Wait => dir.hold_names(),
            WaitMode::Cached => dir.try_hold_names().ok_or_else(held)?,
        };
        if dir.flags() & flag::DEAD != 0 {
            return Err(self.refuse(Check::Removed, Errno::ENOENT));
        }
        let limit = store
            .mount_payload(pin)
            .map_or(255, |m| m.sb.options().name_max);
        if name.len() > limit {
            return Err(self.refuse(Check::NameLength, Errno::ENAMETOOLONG));
        }
        let found = self.core.vfs.flights.once(
            (self.at.dentry, key, name),
            || self.ask(dir, (key, name), wait_mode, disowned),
            |asked| match wait_mode {
                WaitMode::Wait => {
                    drop(asked.lock());
                    Ok(None)
                }
                WaitMode::Cached => Err(held()),
            },
        );
        let found = found.map_err(|errno| match errno {
            Errno::EAGAIN if wait_mode == WaitMode::Cached => errno,
            Errno::ENOENT => self.core.refused(Check::Absent, errno),
            _ => self.core.refused(Check::Backend, errno),
        })?;
        let Some((child, sample)) = found else {
            return Ok(None);
        };
        let mount = self.mounts().at(self.at.mount).word().sample_steady();
        let pin = self.core.pins.try_pin(self.at.mount, mount, child, sample);
        if pin.is_none() && !self.core.pins.has_room() {
            return Err(self.refuse(Check::Pins, Errno::ENOMEM));
        }
        self.at_mount = mount;
        self.core.confirmed.set(child);
        Ok(pin.map(|pin| (pin, sample)))
    }

    /// The entry of the name, entered now if it was not there; `None`: the cache may know by now.
    /// The directory's names and the flight are held.
    ///
    /// # Errors
    /// `ENOENT` for a name that a complete directory lacks; what the backend meets; `ENOMEM`.
    fn ask(
        &self,
        dir: &Inode,
        (key, name): (NameKey, &[u8]),
        wait_mode: WaitMode,
        disowned: &mut Option<u32>,
    ) -> Answer {
        let dcache = self.dcache();
        let cached = dcache.find_locked(self.at.dentry, key, name);
        if let Some((child, sample)) = cached
            && self.mode != Mode::Revalidate
            && !sample.has(dflag::REVALIDATE)
        {
            return Ok(Some((child, sample)));
        }
        if cached.is_none() && dcache.is_complete(self.at.dentry) {
            return Err(Errno::ENOENT);
        }
        let seen = dcache.seen(self.at.dentry);
        self.core.count(count::MISSES);
        let inode = self.core.ask_backend(dir, name, wait_mode)?;
        if let Some((child, sample)) = cached {
            match self.core.compare(child, sample, inode.as_deref()) {
                Revalidated::Same(sample) => return Ok(Some((child, sample))),
                Revalidated::Moved => return Ok(None),
                Revalidated::Other => *disowned = Some(child),
            }
        } else if inode.is_none() && dcache.try_complete(self.at.dentry, dir) {
            return Err(Errno::ENOENT);
        }
        let kind = match inode {
            Some(_) => Kind::Positive,
            None => Kind::Negative,
        };
        self.core.room(kind)?;
        let lru = self.core.tenant();
        let entry = dcache.add(lru.lru(), self.at.dentry, key, name, inode, seen)?;
        Ok(Some(entry))
    }
}
