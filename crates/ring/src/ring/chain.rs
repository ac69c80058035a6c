// SPDX-License-Identifier: MIT OR Apache-2.0
//! The order of operations: chains and drains.
//!
//! # Kernel analogue
//! `io_submit_sqe` with `ctx->submit_state.link`, `io_disarm_next`, `io_fail_links`;
//! `io_drain_req`, `io_queue_deferred`.
//!
//! # Rules
//! R1. Members of a chain begin one after the other. One that fails, or moves less than it was
//!     asked to, cancels the rest, unless it is linked hard.
//! R2. A chain that has a drained member is drained as a whole. It begins when nothing else is
//!     under way that was submitted before, and what is submitted after waits until it is done.
//! R3. A chain with an entry that is wrong by itself does not begin: what is wrong is `EINVAL`, the
//!     others are cancelled.

use super::Ring;
use super::cancel::file_of;
use super::request::{Request, Stage};
use crate::op::{Failed, Op, Where};
use crate::sqe::{Sqe, Work, sflag};
use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_REMOVEDIR, O_CLOEXEC};
use std::collections::VecDeque;

/// A chain that has not begun.
struct Unit {
    head: u32,
    members: usize,
    drains: bool,
}

/// Chains that wait because of a drain.
#[derive(Default)]
pub(super) struct Deferred {
    units: VecDeque<Unit>,
    members: usize,
    /// Operations under way that what comes later waits for.
    pub(super) barrier: usize,
}

impl Ring {
    /// How many entries at the front of the submission queue are one chain.
    pub(super) fn chain_length(&self) -> usize {
        let linked = |sqe: &&Sqe| sqe.flags & (sflag::LINK | sflag::HARDLINK) != 0;
        let links = self.submissions.iter().take_while(linked).count();
        (links + 1).min(self.submissions.len())
    }

    /// Submits the first `members` entries, which are a chain.
    pub(super) fn submit_chain(&mut self, members: usize) {
        let chain = || self.submissions.iter().take(members);
        let mut watched = false;
        if chain().any(|sqe| is_wrong(sqe, &mut watched)) {
            return self.refuse_chain(members);
        }
        let drains = chain().any(|sqe| sqe.flags & sflag::DRAIN != 0);
        let (mut head, mut last) = (None, None);
        for _ in 0..members {
            let Some(sqe) = self.submissions.pop_front() else {
                break;
            };
            let id = self.requests.add(request(sqe, drains));
            match last.and_then(|last| self.requests.get(last)) {
                Some(last) => last.next = id,
                None => head = id,
            }
            last = id;
        }
        let Some(head) = head else { return };
        if drains || !self.deferred.units.is_empty() || self.deferred.barrier > 0 {
            self.deferred.members += members;
            self.deferred.units.push_back(Unit {
                head,
                members,
                drains,
            });
        } else {
            self.runnable.push_back(head);
        }
    }

    /// Ends a chain that is not to begin (R3). The first entry ends it: if that was to be silent,
    /// the others are.
    #[cold]
    fn refuse_chain(&mut self, members: usize) {
        let (mut watched, mut silent) = (false, false);
        for at in 0..members {
            let Some(sqe) = self.submissions.pop_front() else {
                break;
            };
            let errno = if is_wrong(&sqe, &mut watched) {
                Errno::EINVAL
            } else {
                Errno::ECANCELED
            };
            if !silent {
                self.post(sqe.user_data, Err(Failed::from(errno)), false);
            }
            silent |= at == 0 && sqe.flags & sflag::SKIP != 0;
        }
    }

    /// Begins what a drain held back, as far as it is its turn; whether anything (R2).
    pub(super) fn advance(&mut self) -> bool {
        let mut any = false;
        while self.deferred.barrier == 0
            && let Some(unit) = self.deferred.units.front()
        {
            let under_way = self.requests.len() - self.deferred.members;
            if unit.drains && (under_way > 0 || any) {
                break;
            }
            self.deferred.members -= unit.members;
            if unit.drains {
                self.deferred.barrier = unit.members;
            }
            self.runnable.push_back(unit.head);
            self.deferred.units.pop_front();
            any = true;
        }
        any
    }

    /// Lets what follows a member that is done begin, or cancels it (R1); in silence if the one
    /// that failed was to be silent.
    pub(super) fn go_on(&mut self, next: Option<u32>, broken: bool, silent: bool) {
        if !broken {
            self.runnable.extend(next);
            return;
        }
        let mut next = next;
        while let Some(request) = next.and_then(|id| self.requests.remove(id)) {
            next = request.next;
            self.count_off(&request);
            if !silent {
                self.post(request.user_data, Err(Errno::ECANCELED.into()), false);
            }
        }
    }

    /// One fewer that others may wait for.
    pub(super) fn count_off(&mut self, request: &Request) {
        if request.is_barrier {
            self.deferred.barrier -= 1;
        }
    }
}

/// Whether an entry is wrong whatever else there is (R3): the `prep` of its operation refuses it.
/// Whether there is something that a linked time-out can watch goes from one entry to the next.
fn is_wrong(sqe: &Sqe, watched: &mut bool) -> bool {
    let is_time = matches!(sqe.work, Work::LinkTimeout(_));
    let was_watched = std::mem::replace(watched, !is_time);
    match &sqe.work {
        Work::LinkTimeout(_) => !was_watched,
        Work::Call(Op::Open(_, how, into)) if *into != Where::Fd => {
            how.flags() & u64::from(O_CLOEXEC) != 0
        }
        Work::Call(Op::Unlink(_, flags)) => flags & !AT_REMOVEDIR != 0,
        _ => false,
    }
}

/// An operation that has just been submitted.
fn request(sqe: Sqe, is_barrier: bool) -> Request {
    let into = match &sqe.work {
        Work::Call(Op::Open(_, _, into)) | Work::Keep(_, into) => *into,
        _ => Where::Fd,
    };
    Request {
        user_data: sqe.user_data,
        flags: sqe.flags,
        file: file_of(&sqe.work),
        stage: Stage::Held,
        work: Some(sqe.work),
        into,
        next: None,
        guard: None,
        line: None,
        deadline: None,
        target: None,
        is_barrier,
    }
}
