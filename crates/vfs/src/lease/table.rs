// SPDX-License-Identifier: MIT OR Apache-2.0
//! The leases of one file.
//!
//! # Kernel analogue
//! `flc_lease`, `lease_modify`, `leases_conflict`, `time_out_leases`.

use super::LeaseFlavor;
use super::notice::LeaseBreak;
use crate::fd::OwnerEx;
use crate::file_ops::Fd;
use crate::inode::{Inode, flag};
use crate::instance::Shared;
use crate::lock::{LockContext, LockKind};
use crate::lock_order::LeaseTable;
use openpath_sync::{MutexGuard, WaitQueue};
use std::collections::BTreeMap;
use std::time::Instant;

/// Until when a holder may take its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Until {
    At(Instant),
    Ever,
}

impl Until {
    fn is_over(self, now: Instant) -> bool {
        matches!(self, Self::At(at) if at <= now)
    }
}

/// One lease.
pub(super) struct Lease {
    pub(super) flavor: LeaseFlavor,
    pub(super) kind: LockKind,
    /// Who took it.
    pub(super) pid: i32,
    /// By which descriptor.
    pub(super) fd: Fd,
    /// It is to be given back.
    unlock: Option<Until>,
    /// It is to be lowered.
    downgrade: Option<Until>,
    /// The number of what its holder was not told yet.
    told: Option<u64>,
}

impl Lease {
    pub(super) fn new(flavor: LeaseFlavor, kind: LockKind, pid: i32, fd: Fd) -> Self {
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

    /// What it is to become (`target_leasetype`).
    pub(super) fn target(&self) -> Option<LockKind> {
        match (self.unlock, self.downgrade) {
            (Some(_), _) => None,
            (None, Some(_)) => Some(LockKind::Read),
            (None, None) => Some(self.kind),
        }
    }

    /// Whether it is asked for.
    pub(super) fn is_breaking(&self) -> bool {
        self.unlock.is_some() || self.downgrade.is_some()
    }

    fn minds(&self, want: Want) -> bool {
        if want.flavor == LeaseFlavor::Delegation && self.flavor == LeaseFlavor::Lease {
            return false;
        }
        self.kind == LockKind::Write || want.kind == LockKind::Write
    }

    /// When what somebody wants is to be had, at the latest.
    fn until(&self) -> Until {
        let ends = [self.unlock, self.downgrade];
        ends.into_iter().flatten().min().unwrap_or(Until::Ever)
    }
}

/// What somebody is about to do, as far as holders of leases mind.
#[derive(Clone, Copy)]
pub(super) struct Want {
    pub(super) flavor: LeaseFlavor,
    pub(super) kind: LockKind,
}

/// What the lock protects.
#[derive(Default)]
pub(crate) struct Table {
    /// By open file.
    leases: BTreeMap<u32, Lease>,
    pub(super) queue: WaitQueue,
}

/// Whose leases a table has.
#[derive(Clone, Copy)]
pub(super) struct Of<'a> {
    pub(super) vfs: &'a Shared,
    pub(super) inode: &'a Inode,
    pub(super) context: &'a LockContext,
}

impl<'a> Of<'a> {
    /// Locks the table, when those whose time is up are gone from it.
    pub(super) fn lock(self) -> MutexGuard<'a, Table, LeaseTable> {
        let mut table = self.context.leases.lock();
        table.expire(self);
        table
    }
}

impl Table {
    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    pub(super) fn get(&self, file: u32) -> Option<&Lease> {
        self.leases.get(&file)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Lease> {
        self.leases.values()
    }

    /// Those of other open files than this one.
    pub(super) fn others(&self, file: u32) -> impl Iterator<Item = &Lease> {
        let others = self.leases.iter().filter(move |(id, _)| **id != file);
        others.map(|(_, lease)| lease)
    }

    /// Has the holder told by another descriptor of the file.
    pub(super) fn called_by(&mut self, file: u32, fd: Fd) {
        if let Some(lease) = self.leases.get_mut(&file) {
            lease.fd = fd;
        }
    }

    pub(super) fn add(&mut self, file: u32, lease: Lease) {
        self.leases.insert(file, lease);
    }

    /// Whether somebody minds.
    pub(super) fn minds(&self, want: Want) -> bool {
        self.leases.values().any(|lease| lease.minds(want))
    }

    /// Whether somebody minds, and all who do were asked.
    pub(super) fn all_asked(&self, want: Want) -> bool {
        let mut minding = self.leases.values().filter(|lease| lease.minds(want));
        self.minds(want) && minding.all(|lease| lease.unlock.is_some())
    }

    /// When the next of those who mind has had its time.
    pub(super) fn next_end(&self, want: Want) -> Option<Instant> {
        let minding = self.leases.values().filter(|lease| lease.minds(want));
        match minding.map(Lease::until).min() {
            Some(Until::At(at)) => Some(at),
            Some(Until::Ever) | None => None,
        }
    }

    /// Gives a lease another kind, or ends it (`lease_modify`). Whether there was one.
    pub(super) fn change(&mut self, file: u32, kind: Option<LockKind>, of: Of<'_>) -> bool {
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
                of.vfs.notices.withdraw(lease.told);
                self.leases.remove(&file);
                // Whoever has the file open is not signalled for it any more.
                let body = of.vfs.dcache.store.file(file);
                body.owner.set(0);
                body.signal.set(0);
            }
        }
        if self.leases.is_empty() {
            of.inode.clear_flags(flag::LEASED);
        }
        drop(self.queue.wake_all());
        true
    }

    /// Does to those whose time is up what they were asked for (`time_out_leases`).
    pub(super) fn expire(&mut self, of: Of<'_>) {
        if !self.leases.values().any(Lease::is_breaking) {
            return;
        }
        let now = Instant::now();
        let over = |until: Option<Until>| until.is_some_and(|until| until.is_over(now));
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

    /// Asks for all that are in the way, and tells their holders; those who were asked for as much
    /// before are not told again.
    pub(super) fn ask(&mut self, want: Want, until: Until, of: Of<'_>) {
        for (file, lease) in &mut self.leases {
            if !lease.minds(want) {
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
            let body = of.vfs.dcache.store.file(*file);
            let signal = body.signal.get();
            let notice = LeaseBreak {
                fd: lease.fd,
                pid: lease.pid,
                owner: OwnerEx {
                    kind: signal & 0xff,
                    pid: body.owner.get().cast_signed(),
                },
                signal: signal >> 8,
                flavor: lease.flavor,
                kind: lease.kind,
                becomes: lease.target(),
                dev: of.context.dev(),
                ino: of.inode.ino(),
            };
            lease.told = of.vfs.notices.tell(lease.told, notice);
        }
    }
}
