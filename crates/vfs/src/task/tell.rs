// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hooks for explanations: a call that is being explained reports each step. Also how a call that
//! may not wait gives up.
//!
//! # Rules
//! R1. Every hook is in code that a cached call does not run: in walks with references, at a
//!     refusal, or before a change. An explained call runs that code from its start, because its
//!     task's lock-free walk is off meanwhile.
//! R2. A hook does not decide anything, except [`Core::stop_before`].

use super::Core;
use super::called::Place as Called;
use crate::dcache::{Dcache, Look};
use crate::inode::{Inode, Patience};
use crate::name::NameKey;
use crate::object::dflag;
use crate::path::Spot;
use crate::perm;
use crate::reason::Reason;
use crate::story::{Cached, Check, Permission, Place, Step, Would};
use openpath_abi::Errno;
use openpath_sync::Pin;

impl Core {
    /// Whether the call is being explained.
    #[inline(always)]
    pub(crate) fn is_told(&self) -> bool {
        self.story.is_on()
    }

    /// Tells a step.
    #[cold]
    pub(crate) fn tell(&self, step: impl FnOnce() -> Step) {
        if self.is_told() {
            let step = step();
            self.story.push(step);
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
        self.story.note_kind(inode.map(Inode::kind));
    }

    /// Reports a step about a place, which the caller holds.
    #[cold]
    pub(crate) fn tell_place(&self, spot: Spot, step: impl FnOnce(Place) -> Step) {
        self.tell(|| step(Place::of(self, spot)));
    }

    /// Ends an explanation before something is changed.
    ///
    /// # Errors
    /// `ECANCELED` in a call that is being explained; in no other.
    #[inline]
    pub(crate) fn stop_before(&self, would: Would) -> Result<(), Errno> {
        if !self.is_told() {
            return Ok(());
        }
        self.tell(|| Step::Would(would));
        self.story.stop();
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

    /// The backend's errno: with `EAGAIN` and no patience, it would have had to wait.
    #[cold]
    pub(crate) fn would_wait(&self, patience: Patience, errno: Errno) -> Errno {
        if patience == Patience::Cached && errno == Errno::EAGAIN {
            self.give_up(Reason::WouldWait)
        } else {
            errno
        }
    }
}

impl Place {
    /// The description of `spot`, which the caller holds, for the task.
    pub(crate) fn of(core: &Core, spot: Spot) -> Self {
        let store = &core.vfs.dcache.store;
        let pin = core.pins.pin_now(spot.mount, spot.dentry);
        let inode = pin.as_ref().and_then(|pin| store.dentry_payload(pin));
        let mount = pin.as_ref().and_then(|pin| store.mount_payload(pin));
        let place = Self {
            path: Called::of(core, spot).path,
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
            Look::Entry(_, _, sample) if !sample.is_steady() => Cached::Busy,
            Look::Entry(_, _, sample) if sample.has(dflag::REVALIDATE) => Cached::Revalidate,
            Look::Entry(_, _, sample) if sample.has(dflag::NEGATIVE) => Cached::Negative,
            Look::Entry(..) => Cached::Positive,
            Look::Absent(_) if self.is_complete(dir) => Cached::Complete,
            Look::Absent(_) | Look::Unsure => Cached::Missing,
        }
    }
}
