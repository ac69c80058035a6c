// SPDX-License-Identifier: MIT OR Apache-2.0
//! The descriptors of the host that a tree holds: a bounded number, the least used given up first.
//!
//! # States
//! A handle is made, admitted, used, and given up: then its inode lets go of it, and the last call
//! that still uses it closes it. What lost its last known name keeps its handles, for nothing else
//! leads to it; when all are such, no more are admitted (`ENFILE`).
//!
//! # Rules
//! R1. The pool's lock is held for bookkeeping alone: no call of the host, and no handle dropped.
//! R2. The order is that of a clock: who was used since the hand passed stays for another round.
//! R3. A handle is owned by its inode; the pool has it weakly, so that an inode that goes takes its
//!     handles with it.

use openpath_abi::Errno;
use openpath_sync::{Mutex, Word};
use openpath_vfs::lock_order::HostPool;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::VecDeque;
use std::sync::{Arc, Weak};

/// What a handle can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Be a place: `O_PATH`.
    Path,
    /// Be read; of a directory: be listed.
    Read,
    /// Be written, and mostly read as well.
    Write,
}

/// The inode that has a handle.
pub(crate) trait Owner: Send + Sync {
    /// Gives a handle up, unless it is needed; whether it is gone.
    fn let_go(&self, handle: &Arc<Handle>) -> bool;
}

/// One descriptor of the host.
pub(crate) struct Handle {
    fd: OwnedFd,
    pub(crate) what: Use,
    /// It can be read.
    pub(crate) reads: bool,
    used: Word,
    owner: Weak<dyn Owner>,
}

impl Handle {
    pub(crate) fn new(fd: OwnedFd, what: Use, reads: bool, owner: Weak<dyn Owner>) -> Arc<Self> {
        Arc::new(Self {
            fd,
            what,
            reads,
            used: Word::new(1),
            owner,
        })
    }

    /// Notes that it is used.
    pub(crate) fn touch(&self) {
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

/// The descriptors of one inode, and who needs them.
#[derive(Default)]
pub(crate) struct Handles {
    pub(crate) held: [Option<Arc<Handle>>; 3],
    pub(crate) nameless: bool,
    /// Openings that are told when they end: for reading, for writing.
    pub(crate) openings: [u64; 2],
}

/// The handles of one tree.
pub(crate) struct Pool {
    max: usize,
    clock: Mutex<VecDeque<Weak<Handle>>, HostPool>,
}

impl Pool {
    pub(crate) fn new(max: usize) -> Self {
        Self {
            max,
            clock: Mutex::new(VecDeque::new()),
        }
    }

    /// Enters a handle, and gives up another one for it if there are too many.
    ///
    /// # Errors
    /// `ENFILE`: all others are needed.
    pub(crate) fn admit(&self, handle: &Arc<Handle>) -> Result<(), Errno> {
        let mut turns = 0;
        loop {
            {
                let mut clock = self.clock.lock();
                if clock.len() >= self.max && turns == 0 {
                    clock.retain(|handle| handle.strong_count() > 0);
                }
                if clock.len() < self.max {
                    clock.push_back(Arc::downgrade(handle));
                    return Ok(());
                }
            }
            if turns > 2 * self.max || !self.give_up_one(&mut turns) {
                return Err(Errno::ENFILE);
            }
        }
    }

    /// Gives up a part of what is held, because the process has no descriptors left.
    pub(crate) fn relieve(&self) {
        let mut turns = 0;
        for _ in 0..=self.max / 8 {
            if !self.give_up_one(&mut turns) {
                return;
            }
        }
    }

    /// Turns the hand until one was given up; whether one was.
    fn give_up_one(&self, turns: &mut usize) -> bool {
        while *turns <= 2 * self.max {
            *turns += 1;
            let Some(next) = self.clock.lock().pop_front() else {
                return false;
            };
            let Some(handle) = next.upgrade() else {
                return true;
            };
            let spared = handle.used.get() != 0;
            handle.used.set(0);
            let gone = !spared
                && match handle.owner.upgrade() {
                    Some(owner) => owner.let_go(&handle),
                    None => true,
                };
            if gone {
                return true;
            }
            self.clock.lock().push_back(next);
        }
        false
    }
}
