// SPDX-License-Identifier: MIT OR Apache-2.0
//! Time-outs: by themselves, and linked to what they watch.
//!
//! # Kernel analogue
//! `io_timeout`, `io_timeout_remove`, `io_link_timeout`, `io_flush_timeouts`.
//!
//! # Rules
//! R1. Times are the host's monotonic clock, whatever the clock of the `Vfs`.
//! R2. A time that is up is seen when the owner comes by; a host that waits elsewhere is told by
//!     the pool ([`Ring::on_completion`]).
//!
//! # Divergence: L35

use super::Ring;
use super::request::{Request, Stage};
use crate::op::Done;
use crate::sqe::{Timeout, Work};
use openpath_abi::Errno;
use std::time::{Duration, Instant};

/// A time that nobody lives to see stands for those that no clock shows.
const LONGEST: Duration = Duration::from_secs(1 << 32);

fn in_that(after: Duration) -> Instant {
    Instant::now() + after.min(LONGEST)
}

impl Ring {
    fn set_time(&mut self, id: u32, at: Instant) {
        if let Some(request) = self.requests.get(id) {
            let old = request.deadline.replace(at);
            if let Some(old) = old {
                self.times.remove(&(old, id));
            }
            self.times.insert((at, id));
        }
    }

    /// Begins to wait for a time.
    pub(super) fn start_time(&mut self, id: u32, time: Timeout) {
        let posted = self.posted;
        if let Some(request) = self.requests.get(id) {
            request.stage = Stage::Ticking;
            request.work = Some(Work::Timeout(time));
            if time.count > 0 {
                request.target = Some(posted + u64::from(time.count));
                self.counting.push(id);
            }
        }
        self.set_time(id, in_that(time.after));
    }

    /// Begins the linked time-out behind an operation that begins.
    pub(super) fn set_guard(&mut self, id: u32) {
        let next = self.requests.get(id).and_then(|request| request.next);
        let Some(guard) = next.and_then(|next| self.requests.get(next)) else {
            return;
        };
        let Some(Work::LinkTimeout(after)) = guard.work else {
            return;
        };
        guard.stage = Stage::Watching(id);
        let after_it = guard.next.take();
        if let Some(request) = self.requests.get(id) {
            request.guard = next;
            request.next = after_it;
        }
        if let Some(guard) = next {
            self.set_time(guard, in_that(after));
        }
    }

    /// What a linked time-out watched is done.
    pub(super) fn relieve_guard(&mut self, guard: Option<u32>) {
        if let Some(guard) = guard {
            self.finish(guard, Err(Errno::ECANCELED.into()));
        }
    }

    /// Ends, or lets go on, whose time is up.
    #[cold]
    pub(super) fn look_at_the_clock(&mut self) {
        let now = Instant::now();
        while let Some(&(at, id)) = self.times.first()
            && at <= now
        {
            self.times.pop_first();
            self.is_up(id, at);
        }
    }

    fn is_up(&mut self, id: u32, at: Instant) {
        let room = self.has_room(1);
        let Some(request) = self.requests.get(id) else {
            return;
        };
        let watched = match request.stage {
            Stage::Watching(watched) => Some(watched),
            _ => None,
        };
        if let Some(watched) = watched {
            if let Some(watched) = self.requests.get(watched) {
                watched.guard = None;
            }
            self.finish(id, Err(Errno::ETIME.into()));
            // What a worker has begun ends later.
            let _already = self.end_early(watched);
            return;
        }
        let data = request.user_data;
        if let Some(Work::Timeout(time)) = &mut request.work
            && time.times != 1
            && room
        {
            time.times = time.times.saturating_sub(1);
            let next = at + time.after.clamp(TICK, LONGEST);
            self.set_time(id, next);
            self.post(data, Err(Errno::ETIME.into()), true);
            self.posted -= 1;
            return;
        }
        self.finish(id, Err(Errno::ETIME.into()));
    }

    /// Forgets when an operation was to end.
    pub(super) fn forget_time(&mut self, id: u32, request: &Request) {
        if let Some(at) = request.deadline {
            self.times.remove(&(at, id));
        }
        if request.target.is_some() {
            self.counting.retain(|&other| other != id);
        }
    }

    /// Ends time-outs that have seen as many completions as they wait for; whether any.
    pub(super) fn end_counts(&mut self) -> bool {
        let mut any = false;
        while let Some(id) = self.counted_out() {
            self.finish(id, Ok(Done::default()));
            any = true;
        }
        any
    }

    fn counted_out(&mut self) -> Option<u32> {
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

    /// The time-out with this mark.
    fn find_time(&self, of: u64) -> Result<u32, Errno> {
        let is_it = |request: &Request| request.stage == Stage::Ticking && request.user_data == of;
        let mut found = self.requests.iter().filter(|(_, request)| is_it(request));
        found.next().map(|(id, _)| id).ok_or(Errno::ENOENT)
    }

    /// Ends a time-out early.
    ///
    /// # Errors
    /// `ENOENT`.
    pub(super) fn remove_time(&mut self, of: u64) -> Result<u64, Errno> {
        let id = self.find_time(of)?;
        self.end_early(id)
    }

    /// Gives a time-out another time.
    ///
    /// # Errors
    /// `ENOENT`.
    pub(super) fn update_time(&mut self, of: u64, after: Duration) -> Result<u64, Errno> {
        let id = self.find_time(of)?;
        self.set_time(id, in_that(after));
        Ok(0)
    }
}

/// The shortest time between two completions of one time-out.
const TICK: Duration = Duration::from_micros(50);
