// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides which threads of a server poll `/dev/fuse` for requests: as few as keep up.
//!
//! A client has one request answered at a time, and a second thread that is woken for it only takes
//! the CPU from both. So one thread polls, and the next one is the standby: it checks now and then
//! whether the polling threads make progress, and joins them if they do not.
//!
//! # States of a thread
//! Parked -> standby, when all before it poll -> polling -> standby, when it has nothing to do and
//! another thread polls too. The first thread always polls.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | `polling` | how many threads poll: those with the lowest numbers; the next is the standby |
//! |   | once a thread has ended, it exceeds the number of threads, and none leaves |
//! | `work` | for each thread, requests begun plus requests ended; odd while it handles one |
//! | `idle_standby` | number of the standby that sleeps long, and is woken with the next request |
//!
//! # Rules
//! R1. A request waits behind slow ones for one tick at most, while there are threads. Two
//!     simultaneous requests may wake one of two polling threads, so the standby checks for the
//!     other; where no standby is left, the last polling thread does.
//! R2. Without requests there are no ticks: the standby checks about once in [`IDLE_TICK`].

use openpath_sync::{Word, WriteOnce};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often the standby checks.
const TICK: Duration = Duration::from_millis(1);
/// After so many checks without a request the standby is idle.
const IDLE_CHECKS: u32 = 20;
/// How often an idle standby checks, in case a wake-up was missed.
const IDLE_TICK: Duration = Duration::from_secs(1);

/// The threads of one server.
pub(crate) struct PollGroup {
    threads: Vec<WriteOnce<Thread>>,
    work: Vec<Word>,
    polling: Word,
    idle_standby: Word,
}

/// A thread's membership. Dropped when the thread ends: then all others poll.
pub(crate) struct PollSlot<'a> {
    group: &'a PollGroup,
    number: usize,
}

impl PollGroup {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            threads: (0..count).map(|_| WriteOnce::default()).collect(),
            work: (0..count).map(|_| Word::new(0)).collect(),
            polling: Word::new(1),
            idle_standby: Word::new(0),
        }
    }

    /// The calling thread joins under this number.
    pub(crate) fn join(&self, number: usize) -> PollSlot<'_> {
        self.threads[number].set(thread::current());
        PollSlot {
            group: self,
            number,
        }
    }

    fn polling(&self) -> usize {
        self.polling.get() as usize
    }

    fn unpark(&self, number: usize) {
        if let Some(thread) = self.threads.get(number).and_then(WriteOnce::get) {
            thread.unpark();
        }
    }

    /// Lets one more thread poll, if `number` of them do now.
    fn grow(&self, number: usize) {
        if number < self.threads.len() && self.polling.swap_if(number as u64, number as u64 + 1) {
            self.unpark(number);
            // The next thread is the standby now.
            self.unpark(number + 1);
        }
    }

    /// The sum of `work` of the threads before `number`, and whether all of them handle a request.
    fn progress(&self, number: usize) -> (u64, bool) {
        let words = self.work[..number].iter().map(Word::get);
        words.fold((0, true), |(sum, all), n| (sum + n, all && n % 2 == 1))
    }
}

impl PollSlot<'_> {
    /// Waits until this thread polls.
    pub(crate) fn wait_until_polling(&self, has_request: impl Fn() -> bool) {
        let mut idle = 0;
        loop {
            let polling = self.group.polling();
            if self.number < polling {
                return;
            }
            if self.number > polling {
                thread::park();
                continue;
            }
            self.standby_check(&mut idle, &has_request);
        }
    }

    /// The standby checks whether the polling threads make progress.
    fn standby_check(&self, idle: &mut u32, has_request: impl Fn() -> bool) {
        let group = self.group;
        let me = self.number as u64;
        let before = group.progress(self.number);
        thread::park_timeout(TICK);
        let after = group.progress(self.number);
        match (before == after, after.1) {
            // All of them still handle the same requests.
            (true, true) => group.grow(self.number),
            // A request is left that woke no thread.
            (true, false) if has_request() => group.grow(self.number),
            (true, false) if *idle >= IDLE_CHECKS => {
                group.idle_standby.set(me);
                // A request that began meanwhile and did not see the mark is seen here.
                thread::park_timeout(TICK);
                if group.progress(self.number) == after && group.idle_standby.get() == me {
                    thread::park_timeout(IDLE_TICK);
                }
                // Another thread may be the idle standby by now.
                let slept = group.idle_standby.swap_if(me, 0);
                if !slept || group.progress(self.number) != after {
                    *idle = 0;
                }
            }
            (true, false) => *idle += 1,
            (false, _) => *idle = 0,
        }
    }

    /// This thread begins a request.
    pub(crate) fn begin_request(&self) {
        self.group.work[self.number].bump();
        let idle = self.group.idle_standby.get();
        if idle != 0 && self.group.idle_standby.swap_if(idle, 0) {
            self.group.unpark(self.group.polling());
        }
    }

    /// It has replied.
    pub(crate) fn end_request(&self) {
        self.group.work[self.number].bump();
    }

    /// It has more requests than it can handle.
    pub(crate) fn add_poller(&self) {
        self.group.grow(self.group.polling());
    }

    /// How long this thread may sleep without a request. Where no standby is left, the last thread
    /// checks for requests that woke no thread. It leaves when those before it have nothing to do.
    pub(crate) fn sleep_limit(&self) -> Option<Duration> {
        let is_last = self.number > 0 && self.number + 1 == self.group.threads.len();
        is_last.then_some(TICK)
    }

    /// This thread has nothing to do: it stops polling if another one polls already. Returns
    /// whether it stopped.
    pub(crate) fn try_leave(&self) -> bool {
        let is_last = self.number > 0 && self.group.polling() == self.number + 1;
        let number = self.number as u64;
        is_last
            && !self.group.progress(self.number).1
            && self.group.polling.swap_if(number + 1, number)
    }
}

impl Drop for PollSlot<'_> {
    fn drop(&mut self) {
        let count = self.group.threads.len();
        self.group.polling.set(count as u64 + 1);
        (0..count).for_each(|number| self.group.unpark(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> bool {
        false
    }

    #[test]
    fn a_second_idle_thread_leaves_and_the_first_never_does() {
        let group = PollGroup::new(3);
        let (first, second) = (group.join(0), group.join(1));
        first.wait_until_polling(none);
        assert!(!first.try_leave() && !second.try_leave());
        first.begin_request();
        first.add_poller();
        assert_eq!(group.polling(), 2);
        second.wait_until_polling(none);
        // The first is busy, so that no other thread polls.
        assert!(!second.try_leave());
        first.end_request();
        assert!(second.try_leave());
        assert_eq!(group.polling(), 1);
    }

    #[test]
    fn standby_polls_when_all_polling_threads_are_stuck() {
        let group = PollGroup::new(2);
        let (first, second) = (group.join(0), group.join(1));
        first.begin_request();
        second.wait_until_polling(none);
        assert_eq!(group.polling(), 2);
        assert!(!second.try_leave());
    }

    #[test]
    fn next_request_wakes_the_idle_standby() {
        let group = PollGroup::new(2);
        std::thread::scope(|scope| {
            let standby = scope.spawn(|| {
                let slot = group.join(1);
                slot.wait_until_polling(none);
                group.polling()
            });
            let first = group.join(0);
            while group.idle_standby.get() == 0 {
                std::thread::yield_now();
            }
            first.begin_request();
            assert!(matches!(standby.join(), Ok(2)));
        });
    }

    #[test]
    fn no_more_threads_poll_than_there_are() {
        let group = PollGroup::new(2);
        let (first, second) = (group.join(0), group.join(1));
        (0..3).for_each(|_| first.add_poller());
        assert_eq!(group.polling(), 2);
        assert!(second.try_leave());
    }

    #[test]
    fn standby_polls_for_a_request_that_woke_no_thread() {
        let group = PollGroup::new(3);
        let (first, second, third) = (group.join(0), group.join(1), group.join(2));
        first.add_poller();
        first.begin_request();
        // The second one polls, and was not woken.
        third.wait_until_polling(|| true);
        assert_eq!(group.polling(), 3);
        assert_eq!((first.sleep_limit(), second.sleep_limit()), (None, None));
        assert_eq!(third.sleep_limit(), Some(TICK));
    }

    #[test]
    fn idle_standby_stays_idle_after_timeout() {
        let group = PollGroup::new(2);
        let (_first, standby) = (group.join(0), group.join(1));
        let mut idle = IDLE_CHECKS;
        standby.standby_check(&mut idle, none);
        assert_eq!((idle, group.idle_standby.get()), (IDLE_CHECKS, 0));
    }

    #[test]
    fn all_other_threads_poll_once_one_has_ended() {
        let group = PollGroup::new(3);
        let last = group.join(2);
        drop(group.join(0));
        last.wait_until_polling(none);
        // And go on polling: a thread that left would wait for one that is gone.
        assert!(!last.try_leave());
        last.wait_until_polling(none);
    }
}
