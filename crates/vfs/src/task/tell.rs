// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the hooks by which a call that is being explained reports each step, and the way in
//! which a call that may not wait gives up.
//!
//! # Rules
//! R1. Every hook is in code that a cached call does not run: in walks with references, at a
//!     refusal, or before a change. An explained call runs that code from its start, because its
//!     task's lock-free walk is off meanwhile.
//! R2. A hook does not decide anything, except [`Core::stop_before`].

use super::Core;
use super::path_snapshot::PathSnapshot;
use crate::dcache::{Dcache, FindResult};
use crate::inode::{Inode, WaitMode};
use crate::name::NameKey;
use crate::object::dflag;
use crate::path::PathIds;
use crate::perm;
use crate::reason::Reason;
use crate::steps::{Cached, Check, Permission, SkippedChange, Step, WalkPosition};
use openpath_abi::Errno;
use openpath_sync::Pin;

impl Core {
    /// Whether the call is being explained.
    #[inline(always)]
    pub(crate) fn is_told(&self) -> bool {
        self.step_log.is_on()
    }

    /// Tells a step.
    #[cold]
    pub(crate) fn tell(&self, step: impl FnOnce() -> Step) {
        if self.is_told() {
            let step = step();
            self.step_log.push(step);
        }
    }

    /// Reports a failed check; its errno.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(&self, check: Check, errno: Errno) -> Errno {
        self.tell(|| Step::Refused { check, errno });
        errno
    }

    /// Reports a refused permission for the inode; its errno.
    #[cold]
    #[inline(never)]
    pub(crate) fn denied(&self, inode: &Inode, asked: u32, errno: Errno) -> Errno {
        if errno == Errno::EACCES {
            self.tell_permission(inode, asked);
        }
        self.refused(Check::of_permission(errno), errno)
    }

    /// Reports how a permission for the inode is decided.
    #[cold]
    pub(crate) fn tell_permission(&self, inode: &Inode, asked: u32) {
        self.tell(|| {
            let (mode, (uid, gid)) = (inode.mode(), inode.ids());
            let (by, granted) = perm::decide(&self.cred(), inode, asked);
            Step::Asked(Permission {
                asked: asked & 7,
                mode,
                uid,
                gid,
                by,
                granted,
            })
        });
    }

    /// Reports the cached state of a name, before its lookup.
    #[cold]
    pub(crate) fn tell_name(&self, name: &[u8], cached: Cached) {
        self.tell(|| Step::Name {
            name: name.to_vec(),
            cached,
            kind: None,
        });
    }

    /// Reports the entry of the last name.
    #[cold]
    pub(crate) fn tell_found(&self, pin: &Pin) {
        if !self.is_told() {
            return;
        }
        let inode = self.vfs.dcache.store.dentry_payload(pin);
        self.step_log.note_kind(inode.map(Inode::kind));
    }

    /// Reports a step about a place, which the caller holds.
    #[cold]
    pub(crate) fn tell_place(&self, path_ids: PathIds, step: impl FnOnce(WalkPosition) -> Step) {
        self.tell(|| step(WalkPosition::of(self, path_ids)));
    }

    /// Ends an explanation before something is changed.
    ///
    /// # Errors
    /// `ECANCELED` in a call that is being explained; in no other.
    #[inline]
    pub(crate) fn stop_before(&self, would: SkippedChange) -> Result<(), Errno> {
        if !self.is_told() {
            return Ok(());
        }
        self.tell(|| Step::Skipped(would));
        self.step_log.stop();
        Err(Errno::ECANCELED)
    }
}

impl Core {
    /// Counts why a call that may not wait cannot go on.
    #[cold]
    pub(crate) fn give_up(&self, why: Reason) -> Errno {
        self.reasons.count(why);
        self.gave_up.set(Some(why));
        self.refused(Check::Cached, Errno::EAGAIN)
    }

    /// A call that may not wait gives up if its check of the inode would read lists first.
    ///
    /// # Errors
    /// `EAGAIN`.
    #[inline]
    pub(crate) fn can_check_now(&self, inode: &Inode) -> Result<(), Errno> {
        if perm::reads_acls(&self.cred(), inode) {
            return Err(self.give_up(Reason::WouldWait));
        }
        Ok(())
    }

    /// The backend's errno: with `EAGAIN` and no patience, it would have had to wait.
    #[cold]
    pub(crate) fn would_wait(&self, wait_mode: WaitMode, errno: Errno) -> Errno {
        if wait_mode == WaitMode::Cached && errno == Errno::EAGAIN {
            self.give_up(Reason::WouldWait)
        } else {
            errno
        }
    }
}

impl WalkPosition {
    /// The description of `path_ids`, which the caller holds, for the task.
    pub(crate) fn of(core: &Core, path_ids: PathIds) -> Self {
        let store = &core.vfs.dcache.store;
        let pin = core.pins.pin_now(path_ids.mount, path_ids.dentry);
        let inode = pin.as_ref().and_then(|pin| store.dentry_payload(pin));
        let mount = pin.as_ref().and_then(|pin| store.mount_payload(pin));
        let place = Self {
            path: PathSnapshot::of(core, path_ids).path,
            mount: mount.map_or(0, |mount| mount.id),
            ino: inode.map_or(0, Inode::ino),
            kind: inode.map_or(0, Inode::kind),
        };
        if let Some(pin) = pin {
            core.pins.release(pin);
        }
        place
    }
}

impl Dcache {
    /// The cached state of `name` in `dir`.
    #[cold]
    pub(crate) fn known(&self, dir: u32, key: NameKey, name: &[u8]) -> Cached {
        match self.look_now(dir, key, name) {
            FindResult::Entry(_, _, sample) if !sample.is_steady() => Cached::Busy,
            FindResult::Entry(_, _, sample) if sample.has(dflag::REVALIDATE) => Cached::Revalidate,
            FindResult::Entry(_, _, sample) if sample.has(dflag::NEGATIVE) => Cached::Negative,
            FindResult::Entry(..) => Cached::Positive,
            FindResult::Absent(_) if self.is_complete(dir) => Cached::Complete,
            FindResult::Absent(_) | FindResult::Unsure => Cached::Missing,
        }
    }
}
