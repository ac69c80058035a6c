// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits how many descriptors of the host a tree holds: when there are too many, the clock
//! algorithm chooses one to evict.
//!
//! # States
//! A handle is made, admitted, used and evicted. Eviction takes it from its inode; the last call
//! that still uses it closes it. A file without a known name keeps its handles, because nothing
//! else leads to it. When all handles are of such files, no more are admitted (`ENFILE`).
//!
//! # Rules
//! R1. The pool's lock is held for bookkeeping alone: no call of the host, and no handle dropped.
//! R2. A handle that was used since the hand of the clock passed it stays for another round.
//! R3. An inode owns its handles; the pool holds them weakly, so they go with the inode.

use openpath_abi::Errno;
use openpath_sync::{Mutex, Word};
use openpath_vfs::lock_order::HostPool;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// What a handle can be used for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HandleKind {
    /// To locate the file: `O_PATH`.
    Path,
    /// To read the file, or list the directory.
    Read,
    /// To write the file, and mostly to read it as well.
    Write,
}

/// The inode that a handle belongs to.
pub(crate) trait HandleOwner: Send + Sync {
    /// Drops a handle, unless it is needed; whether it was dropped.
    fn evict(&self, handle: &Arc<Handle>) -> bool;
}

/// One descriptor of the host.
pub(crate) struct Handle {
    fd: OwnedFd,
    pub(crate) kind: HandleKind,
    /// It can be read.
    pub(crate) readable: bool,
    used: Word,
    owner: Weak<dyn HandleOwner>,
}

impl Handle {
    pub(crate) fn new(
        fd: OwnedFd,
        kind: HandleKind,
        readable: bool,
        owner: Weak<dyn HandleOwner>,
    ) -> Arc<Self> {
        Arc::new(Self {
            fd,
            kind,
            readable,
            used: Word::new(1),
            owner,
        })
    }

    /// Notes a use, for the clock.
    pub(crate) fn mark_used(&self) {
        if self.used.get() == 0 {
            self.used.set(1);
        }
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The handles of one inode, and its openings.
#[derive(Default)]
pub(crate) struct Handles {
    pub(crate) held: [Option<Arc<Handle>>; 3],
    pub(crate) nameless: bool,
    /// Openings that report their end: for reading, for writing.
    pub(crate) openings: [u64; 2],
}

/// The handles of one tree.
pub(crate) struct Pool {
    max: usize,
    clock: Mutex<Clock, HostPool>,
}

#[derive(Default)]
struct Clock {
    handles: VecDeque<Weak<Handle>>,
    /// How many handles the full pool admits before the closed ones are taken out again: to look
    /// through all of them takes longer than to evict one.
    sweep_in: usize,
}

impl Pool {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            clock: Mutex::default(),
        }
    }

    /// Admits a handle, and evicts another one if there are too many.
    ///
    /// # Errors
    /// `ENFILE`: all others are needed.
    pub(crate) fn admit(&self, handle: &Arc<Handle>) -> Result<(), Errno> {
        let mut steps = 0;
        loop {
            {
                let mut clock = self.clock.lock();
                if clock.handles.len() >= self.max && steps == 0 {
                    if clock.sweep_in == 0 {
                        clock.handles.retain(|handle| handle.strong_count() > 0);
                        clock.sweep_in = self.max / 8;
                    } else {
                        clock.sweep_in -= 1;
                    }
                }
                if clock.handles.len() < self.max {
                    clock.handles.push_back(Arc::downgrade(handle));
                    return Ok(());
                }
            }
            if steps > 2 * self.max || !self.evict_one(&mut steps) {
                return Err(Errno::ENFILE);
            }
        }
    }

    /// Evicts a part of the handles, because the process has no descriptors left.
    pub(crate) fn shrink(&self) {
        let mut steps = 0;
        for _ in 0..=self.max / 8 {
            if !self.evict_one(&mut steps) {
                return;
            }
        }
    }

    /// Moves the hand until a handle is evicted; whether one was.
    fn evict_one(&self, steps: &mut usize) -> bool {
        while *steps <= 2 * self.max {
            *steps += 1;
            let Some(next) = self.clock.lock().handles.pop_front() else {
                return false;
            };
            let Some(handle) = next.upgrade() else {
                return true;
            };
            let spared = handle.used.get() != 0;
            handle.used.set(0);
            let gone = !spared
                && match handle.owner.upgrade() {
                    Some(owner) => owner.evict(&handle),
                    None => true,
                };
            if gone {
                return true;
            }
            self.clock.lock().handles.push_back(next);
        }
        false
    }
}
