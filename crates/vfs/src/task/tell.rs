// SPDX-License-Identifier: MIT OR Apache-2.0
//! The hooks by which a call that is being explained tells what it does, step by step; and how a
//! call that is not to wait gives up.
//!
//! # Rules
//! R1. Every hook is on a side that a cached call does not take: in walks with references, where
//!     something is refused, or where something is about to be changed. A call that is explained
//!     takes that side from its start, because its task's lock-free walk is off meanwhile.
//! R2. A hook does not decide anything, but for [`Core::stop_before`].

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

    /// Tells that a check failed, and says so.
    #[cold]
    #[inline(never)]
    pub(crate) fn refused(&self, check: Check, errno: Errno) -> Errno {
        self.tell(|| Step::Refused { check, errno });
        errno
    }

    /// Tells that a permission for the inode was not given, and says so.
    #[cold]
    #[inline(never)]
    pub(crate) fn denied(&self, inode: &Inode, asked: u32, errno: Errno) -> Errno {
        if errno == Errno::EACCES {
            self.tell_permission(inode, asked);
        }
        self.refused(Check::of_permission(errno), errno)
    }

    /// Tells how a permission for the inode is decided.
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

    /// What the cache knew of a name, before it is asked for.
    #[cold]
    pub(crate) fn tell_name(&self, name: &[u8], cached: Cached) {
        self.tell(|| Step::Name {
            name: name.to_vec(),
            cached,
            kind: None,
        });
    }

    /// What the name that was told last turned out to be.
    #[cold]
    pub(crate) fn tell_found(&self, pin: &Pin) {
        if !self.is_told() {
            return;
        }
        let inode = self.vfs.dcache.store.dentry_payload(pin);
        self.story.note_kind(inode.map(Inode::kind));
    }

    /// Tells a step about a place, which something holds.
    #[cold]
    pub(crate) fn tell_place(&self, spot: Spot, step: impl FnOnce(Place) -> Step) {
        self.tell(|| step(Place::of(self, spot)));
    }

    /// Ends an explanation before something is changed.
    ///
    /// # Errors
    /// `ECANCELED` in a call that is being explained; nobody else sees it.
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
    /// A call that is not to wait cannot go on: counts why.
    #[cold]
    pub(crate) fn give_up(&self, why: Reason) -> Errno {
        self.reasons.count(why);
        self.gave_up.set(Some(why));
        self.refused(Check::Cached, Errno::EAGAIN)
    }

    /// What a backend said: with `EAGAIN` and no patience, that it would have had to wait.
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
    /// What `spot`, which something holds, is for the task.
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
    /// What is known of `name` in `dir`.
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
