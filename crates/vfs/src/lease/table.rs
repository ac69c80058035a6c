// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the leases of one file, by open file, and breaks them: notes the kind that each lease must
//! become, and the deadline.
//!
//! # Kernel analogue
//! `flc_lease`, `lease_modify`, `leases_conflict`, `time_out_leases`.

use super::LeaseFlavor;
use super::notice::{LeaseBreak, Notices};
use crate::file_ops::{Fd, OwnerEx};
use crate::lock_call::LockKind;
use openpath_sync::WaitQueue;
use std::collections::BTreeMap;
use std::time::Instant;

/// Until when a holder may take its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum BreakDeadline {
    At(Instant),
    Ever,
}

impl BreakDeadline {
    fn is_over(self, now: Instant) -> bool {
        matches!(self, Self::At(at) if at <= now)
    }
}

/// One lease.
pub(crate) struct Lease {
    pub(crate) flavor: LeaseFlavor,
    pub(crate) kind: LockKind,
    /// The process that took it.
    pub(crate) pid: i32,
    /// The descriptor that it was taken by.
    pub(crate) fd: Fd,
    /// It must be given back.
    unlock: Option<BreakDeadline>,
    /// It must be lowered.
    downgrade: Option<BreakDeadline>,
    /// The number of its undelivered notice.
    told: Option<u64>,
}

impl Lease {
    pub(crate) fn new(flavor: LeaseFlavor, kind: LockKind, pid: i32, fd: Fd) -> Self {
        Self {
            flavor,
            kind,
            pid,
            fd,
            unlock: None,
            downgrade: None,
            told: None,
        }
    }

    /// The kind that it must become (`target_leasetype`).
    pub(crate) fn target(&self) -> Option<LockKind> {
        match (self.unlock, self.downgrade) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(LockKind::Read),
            (None, None) => Some(self.kind),
        }
    }

    /// Whether a break is under way.
    pub(crate) fn is_breaking(&self) -> bool {
        self.unlock.is_some() || self.downgrade.is_some()
    }

    fn conflicts(&self, want: PendingAccess) -> bool {
        if want.flavor == LeaseFlavor::Delegation && self.flavor == LeaseFlavor::Lease {
            return false;
        }
        self.kind == LockKind::Write || want.kind == LockKind::Write
    }

    /// When it is out of the way, at the latest.
    fn until(&self) -> BreakDeadline {
        let ends = [self.unlock, self.downgrade];
        ends.into_iter()
            .flatten()
            .min()
            .unwrap_or(BreakDeadline::Ever)
    }
}

/// The access that is about to happen, as far as leases conflict with it.
#[derive(Clone, Copy)]
pub(crate) struct PendingAccess {
    pub(crate) flavor: LeaseFlavor,
    pub(crate) kind: LockKind,
}

/// What the lock protects.
#[derive(Default)]
pub(crate) struct Table {
    /// By open file.
    leases: BTreeMap<u32, Lease>,
    pub(crate) queue: WaitQueue,
}

/// The file that a table belongs to, and its open files.
pub(crate) trait LeasedFile {
    /// Where notices for holders go.
    fn notices(&self) -> &Notices;
    /// The process that an open file signals, and the signal.
    fn owner(&self, file: u32) -> (OwnerEx, u32);
    /// The open file signals no process any more.
    fn disown(&self, file: u32);
    /// There is no lease any more.
    fn none_left(&self);
    /// Device and inode number.
    fn place(&self) -> (u64, u64);
}

impl Table {
    pub(crate) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    pub(crate) fn get(&self, file: u32) -> Option<&Lease> {
        self.leases.get(&file)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// Those of other open files than this one.
    pub(crate) fn others(&self, file: u32) -> impl Iterator<Item = &Lease> {
        let others = self.leases.iter().filter(move |(id, _)| **id != file);
        others.map(|(_, lease)| lease)
    }

    /// Has the holder told by another descriptor of the file.
    pub(crate) fn called_by(&mut self, file: u32, fd: Fd) {
        if let Some(lease) = self.leases.get_mut(&file) {
            lease.fd = fd;
        }
    }

    pub(crate) fn add(&mut self, file: u32, lease: Lease) {
        self.leases.insert(file, lease);
    }

    /// Whether a lease conflicts.
    pub(crate) fn minds(&self, want: PendingAccess) -> bool {
        self.leases.values().any(|lease| lease.conflicts(want))
    }

    /// Whether a lease conflicts, and all that do are breaking.
    pub(crate) fn all_asked(&self, want: PendingAccess) -> bool {
        let mut minding = self.leases.values().filter(|lease| lease.conflicts(want));
        self.minds(want) && minding.all(|lease| lease.unlock.is_some())
    }

    /// When the time of the next conflicting lease is up.
    pub(crate) fn next_end(&self, want: PendingAccess) -> Option<Instant> {
        let minding = self.leases.values().filter(|lease| lease.conflicts(want));
        match minding.map(Lease::until).min() {
            Some(BreakDeadline::At(at)) => Some(at),
            Some(BreakDeadline::Ever) | None => None,
        }
    }

    /// Gives a lease another kind, or ends it (`lease_modify`). Whether there was one.
    pub(crate) fn change(
        &mut self,
        file: u32,
        kind: Option<LockKind>,
        of: &dyn LeasedFile,
    ) -> bool {
        let Some(lease) = self.leases.get_mut(&file) else {
            return false;
        };
        match kind {
            Some(kind) => {
                lease.kind = kind;
                if kind == LockKind::Read {
                    lease.downgrade = None;
                }
            }
            None => {
                of.notices().withdraw(lease.told);
                self.leases.remove(&file);
                // The open file signals no process for it any more.
                of.disown(file);
            }
        }
        if self.leases.is_empty() {
            of.none_left();
        }
        drop(self.queue.wake_all());
        true
    }

    /// Lowers or ends the leases whose break has run out of time (`time_out_leases`).
    pub(crate) fn expire(&mut self, of: &dyn LeasedFile) {
        if !self.leases.values().any(Lease::is_breaking) {
            return;
        }
        let now = Instant::now();
        let over = |until: Option<BreakDeadline>| until.is_some_and(|until| until.is_over(now));
        let ends: Vec<_> = self
            .leases
            .iter()
            .filter_map(|(file, lease)| match lease {
                _ if over(lease.unlock) => Some((*file, None)),
                _ if over(lease.downgrade) => Some((*file, Some(LockKind::Read))),
                _ => None,
            })
            .collect();
        for (file, kind) in ends {
            self.change(file, kind, of);
        }
    }

    /// Breaks all leases that conflict, and tells their holders. A holder that was asked for as
    /// much before is not told again.
    pub(crate) fn ask(&mut self, want: PendingAccess, until: BreakDeadline, of: &dyn LeasedFile) {
        for (file, lease) in &mut self.leases {
            if !lease.conflicts(want) {
                continue;
            }
            if want.kind == LockKind::Write {
                if lease.unlock.is_some() {
                    continue;
                }
                lease.unlock = Some(until);
            } else {
                if lease.is_breaking() {
                    continue;
                }
                lease.downgrade = Some(until);
            }
            let (owner, signal) = of.owner(*file);
            let (dev, ino) = of.place();
            let notice = LeaseBreak {
                fd: lease.fd,
                pid: lease.pid,
                owner,
                signal,
                flavor: lease.flavor,
                kind: lease.kind,
                becomes: lease.target(),
                dev,
                ino,
            };
            lease.told = of.notices().tell(lease.told, notice);
        }
    }
}
