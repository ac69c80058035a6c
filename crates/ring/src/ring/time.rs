// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the time-outs of a ring: alone, or linked to an operation that they cancel when they
//! expire.
//!
//! # Kernel analogue
//! `io_timeout`, `io_timeout_remove`, `io_link_timeout`, `io_flush_timeouts`.
//!
//! # Rules
//! R1. Times are of the host's monotonic clock, whatever the clock of the `Vfs`.
//! R2. A time-out expires when the owner enters the ring; a host that waits elsewhere is notified
//!     by the pool ([`Ring::on_completion`]).
//!
//! # Divergence: L35

use super::Ring;
use super::request::{Request, Stage};
use crate::op::Done;
use crate::sqe::{Timeout, Work};
use openpath_abi::Errno;
use std::time::{Duration, Instant};

/// Longer times are cut to this, so that every deadline can be represented.
const LONGEST: Duration = Duration::from_secs(1 << 32);

fn deadline_after(after: Duration) -> Instant {
    Instant::now() + after.min(LONGEST)
}

impl Ring {
    fn set_timer(&mut self, id: u32, at: Instant) {
        if let Some(request) = self.requests.get(id) {
            let old = request.deadline.replace(at);
            if let Some(old) = old {
                self.timers.remove(&(old, id));
            }
            self.timers.insert((at, id));
        }
    }

    /// Begins a time-out.
    pub(super) fn start_timer(&mut self, id: u32, time: Timeout) {
        let posted = self.posted;
        if let Some(request) = self.requests.get(id) {
            request.stage = Stage::Timer;
            request.work = Some(Work::Timeout(time));
            if time.count > 0 {
                request.target = Some(posted + u64::from(time.count));
                self.counting.push(id);
            }
        }
        self.set_timer(id, deadline_after(time.after));
    }

    /// Begins the time-out that is linked to an operation that begins.
    pub(super) fn arm_linked_timeout(&mut self, id: u32) {
        let next = self.requests.get(id).and_then(|request| request.next);
        let Some(linked_timeout) = next.and_then(|next| self.requests.get(next)) else {
            return;
        };
        let Some(Work::LinkTimeout(after)) = linked_timeout.work else {
            return;
        };
        linked_timeout.stage = Stage::LinkedTimeout(id);
        let after_it = linked_timeout.next.take();
        if let Some(request) = self.requests.get(id) {
            request.linked_timeout = next;
            request.next = after_it;
        }
        if let Some(linked_timeout) = next {
            self.set_timer(linked_timeout, deadline_after(after));
        }
    }

    /// The operation of a linked time-out is done.
    pub(super) fn cancel_linked_timeout(&mut self, linked_timeout: Option<u32>) {
        if let Some(linked_timeout) = linked_timeout {
            self.finish(linked_timeout, Err(Errno::ECANCELED.into()));
        }
    }

    /// Expires time-outs.
    #[cold]
    pub(super) fn expire_timers(&mut self) {
        let now = Instant::now();
        while let Some(&(at, id)) = self.timers.first()
            && at <= now
        {
            self.timers.pop_first();
            self.expire(id, at);
        }
    }

    fn expire(&mut self, id: u32, at: Instant) {
        let room = self.has_room(1);
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let watched = match request.stage {
            Stage::LinkedTimeout(watched) => Some(watched),
            _ => None,
        };
        if let Some(watched) = watched {
            if let Some(watched) = self.requests.get(watched) {
                watched.linked_timeout = None;
            }
            self.finish(id, Err(Errno::ETIME.into()));
            // An operation that a worker has begun ends later.
            let _already = self.cancel_one(watched);
            return;
        }
        let data = request.user_data;
        if let Some(Work::Timeout(time)) = &mut request.work
            && time.times != 1
            && room
        {
            time.times = time.times.saturating_sub(1);
            let next = at + time.after.clamp(TICK, LONGEST);
            self.set_timer(id, next);
            self.post(data, Err(Errno::ETIME.into()), true);
            self.posted -= 1;
            return;
        }
        self.finish(id, Err(Errno::ETIME.into()));
    }

    /// Removes the deadline of an operation.
    pub(super) fn forget_timer(&mut self, id: u32, request: &Request) {
        if let Some(at) = request.deadline {
            self.timers.remove(&(at, id));
        }
        if request.target.is_some() {
            self.counting.retain(|&other| other != id);
        }
    }

    /// Ends time-outs that have seen as many completions as they wait for; returns whether any.
    pub(super) fn end_due_counts(&mut self) -> bool {
        let mut any = false;
        while let Some(id) = self.due_count() {
            self.finish(id, Ok(Done::default()));
            any = true;
        }
        any
    }

    fn due_count(&mut self) -> Option<u32> {
        let posted = self.posted;
        let counting = std::mem::take(&mut self.counting);
        let is_due = |request: &mut Request| request.target.is_some_and(|at| at <= posted);
        let due = counting
            .iter()
            .copied()
            .find(|&id| self.requests.get(id).is_some_and(is_due));
        self.counting = counting;
        due
    }

    /// The time-out with this `user_data`.
    fn find_timer(&self, of: u64) -> Result<u32, Errno> {
        let is_it = |request: &Request| request.stage == Stage::Timer && request.user_data == of;
        let mut found = self.requests.iter().filter(|(_, request)| is_it(request));
        found.next().map(|(id, _)| id).ok_or(Errno::ENOENT)
    }

    /// Ends a time-out early.
    ///
    /// # Errors
    /// `ENOENT`.
    pub(super) fn remove_timer(&mut self, of: u64) -> Result<u64, Errno> {
        let id = self.find_timer(of)?;
        self.cancel_one(id)
    }

    /// Gives a time-out a new time.
    ///
    /// # Errors
    /// `ENOENT`.
    pub(super) fn update_timer(&mut self, of: u64, after: Duration) -> Result<u64, Errno> {
        let id = self.find_timer(of)?;
        self.set_timer(id, deadline_after(after));
        Ok(0)
    }
}

/// The shortest time between two completions of one time-out.
const TICK: Duration = Duration::from_micros(50);
