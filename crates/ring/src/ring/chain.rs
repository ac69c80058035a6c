// SPDX-License-Identifier: MIT OR Apache-2.0
//! Begins the operations of a ring in the order that chains and drains demand, and cancels the rest
//! of a chain when a member fails.
//!
//! # Kernel analogue
//! `io_submit_sqe` with `ctx->submit_state.link`, `io_disarm_next`, `io_fail_links`;
//! `io_drain_req`, `io_queue_deferred`.
//!
//! # Rules
//! R1. Members of a chain begin one after the other. One that fails, or moves less than requested,
//!     cancels the rest, unless it is hard-linked.
//! R2. A chain with a drained member is drained as a whole. It begins when nothing is in progress
//!     that was submitted before, and later submissions wait until it is done.
//! R3. A chain with an entry that is invalid by itself does not begin: the invalid entry is
//!     `EINVAL`, the others are cancelled.

use super::Ring;
use super::cancel::file_of;
use super::request::{Request, Stage};
use crate::op::{Destination, Failed, Op};
use crate::sqe::{Sqe, Work, sflag};
use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_REMOVEDIR, O_CLOEXEC};
use std::collections::VecDeque;

/// A chain that has not begun.
struct DeferredChain {
    head: u32,
    members: usize,
    drains: bool,
}

/// Chains that wait for a drain.
#[derive(Default)]
pub(super) struct Deferred {
    chains: VecDeque<DeferredChain>,
    members: usize,
    /// Operations in progress that later chains wait for.
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
        if drains || !self.deferred.chains.is_empty() || self.deferred.barrier > 0 {
            self.deferred.members += members;
            self.deferred.chains.push_back(DeferredChain {
                head,
                members,
                drains,
            });
        } else {
            self.runnable.push_back(head);
        }
    }

    /// Ends a chain that does not begin (R3). If its first entry is silent, the others are too.
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

    /// Begins chains that a drain held back, as far as possible; returns whether any (R2).
    pub(super) fn release_deferred(&mut self) -> bool {
        let mut any = false;
        while self.deferred.barrier == 0
            && let Some(chain) = self.deferred.chains.front()
        {
            let under_way = self.requests.len() - self.deferred.members;
            if chain.drains && (under_way > 0 || any) {
                break;
            }
            self.deferred.members -= chain.members;
            if chain.drains {
                self.deferred.barrier = chain.members;
            }
            self.runnable.push_back(chain.head);
            self.deferred.chains.pop_front();
            any = true;
        }
        any
    }

    /// Begins the member after one that is done, or cancels the rest (R1): silently if the failed
    /// member is silent.
    pub(super) fn continue_chain(&mut self, next: Option<u32>, broken: bool, silent: bool) {
        if !broken {
            self.runnable.extend(next);
            return;
        }
        let mut next = next;
        while let Some(request) = next.and_then(|id| self.requests.remove(id)) {
            next = request.next;
            self.leave_barrier(&request);
            if !silent {
                self.post(request.user_data, Err(Errno::ECANCELED.into()), false);
            }
        }
    }

    /// One operation fewer that others wait for.
    pub(super) fn leave_barrier(&mut self, request: &Request) {
        if request.is_barrier {
            self.deferred.barrier -= 1;
        }
    }
}

/// Whether an entry is invalid by itself (R3): the `prep` of its operation refuses it. `watched`
/// says, from one entry to the next, whether there is an operation that a linked time-out can
/// cancel.
fn is_wrong(sqe: &Sqe, watched: &mut bool) -> bool {
    let is_timer = matches!(sqe.work, Work::LinkTimeout(_));
    let was_watched = std::mem::replace(watched, !is_timer);
    match &sqe.work {
        Work::LinkTimeout(_) => !was_watched,
        Work::Call(Op::Open(_, how, into)) if *into != Destination::Fd => {
            how.flags() & u64::from(O_CLOEXEC) != 0
        }
        Work::Call(Op::Unlink(_, flags)) => flags.intersects(!AT_REMOVEDIR),
        _ => false,
    }
}

/// An operation that was just submitted.
fn request(sqe: Sqe, is_barrier: bool) -> Request {
    let into = match &sqe.work {
        Work::Call(Op::Open(_, _, into)) | Work::FilesUpdate(_, into) => *into,
        _ => Destination::Fd,
    };
    Request {
        user_data: sqe.user_data,
        flags: sqe.flags,
        file: file_of(&sqe.work),
        stage: Stage::Held,
        work: Some(sqe.work),
        into,
        next: None,
        linked_timeout: None,
        lock_wait: None,
        deadline: None,
        target: None,
        is_barrier,
    }
}
