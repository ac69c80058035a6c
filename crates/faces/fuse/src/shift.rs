// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which threads of a server wait for requests: as few as keep up.
//!
//! One who asks has one answered at a time, and a second thread that is woken for him as well only
//! takes the processor from both. So one thread is on duty, and the next is its relief: it looks
//! now and then whether those on duty come along, and goes on duty itself if they do not.
//!
//! # States
//! Off duty -> relief, when all before it are on duty -> on duty -> relief, when it has nothing to
//! do and another one waits too. The first is always on duty.
//!
//! # Fields
//! | field | what |
//! |---|---|
//! | `on_duty` | how many are: those with the lowest numbers; the next is the relief; more than
//! |   | there are threads once one has ended, after which nobody leaves |
//! | `work` | of each thread: requests begun and ended; odd while it is at one |
//! | `dozes` | number of the relief that looks no more, and is to be called with the next request |
//!
//! # Rules
//! R1. A request waits for a tick at most behind others that take long, while there are threads:
//!     two that come together may wake one of two that are on duty. So the relief looks whether
//!     one was left, and where no relief is left the last one on duty does.
//! R2. Where nothing is asked nothing ticks: the relief looks about once in [`DOZE`].

use openpath_sync::{Word, WriteOnce};
use std::thread::{self, Thread};
use std::time::Duration;

/// How often the relief looks.
const TICK: Duration = Duration::from_millis(1);
/// After so many looks at nothing it dozes.
const IDLE: u32 = 20;
/// If it was not called though it should have been, it looks after so long.
const DOZE: Duration = Duration::from_secs(1);

/// The threads of one server.
pub(crate) struct Shift {
    threads: Vec<WriteOnce<Thread>>,
    work: Vec<Word>,
    on_duty: Word,
    dozes: Word,
}

/// A thread's part in it. With it goes the thread: then all others are on duty.
pub(crate) struct Turn<'a> {
    shift: &'a Shift,
    number: usize,
}

impl Shift {
    pub(crate) fn new(count: usize) -> Self {
        Self {
            threads: (0..count).map(|_| WriteOnce::default()).collect(),
            work: (0..count).map(|_| Word::new(0)).collect(),
            on_duty: Word::new(1),
            dozes: Word::new(0),
        }
    }

    /// The calling thread comes, with its number.
    pub(crate) fn join(&self, number: usize) -> Turn<'_> {
        self.threads[number].set(thread::current());
        Turn {
            shift: self,
            number,
        }
    }

    fn on_duty(&self) -> usize {
        self.on_duty.get() as usize
    }

    fn call(&self, number: usize) {
        if let Some(thread) = self.threads.get(number).and_then(WriteOnce::get) {
            thread.unpark();
        }
    }

    /// One more goes on duty, if there are still so many.
    fn add(&self, number: usize) {
        if number < self.threads.len() && self.on_duty.swap_if(number as u64, number as u64 + 1) {
            self.call(number);
            // The next is the relief now.
            self.call(number + 1);
        }
    }

    /// How much was done by those before `number`, and whether all of them are at a request.
    fn look(&self, number: usize) -> (u64, bool) {
        let words = self.work[..number].iter().map(Word::get);
        words.fold((0, true), |(sum, all), n| (sum + n, all && n % 2 == 1))
    }
}

impl Turn<'_> {
    /// Waits until it is on duty.
    pub(crate) fn wait(&self, has_more: impl Fn() -> bool) {
        let mut idle = 0;
        loop {
            let on_duty = self.shift.on_duty();
            if self.number < on_duty {
                return;
            }
            if self.number > on_duty {
                thread::park();
                continue;
            }
            self.look_once(&mut idle, &has_more);
        }
    }

    /// The relief looks whether those on duty come along.
    fn look_once(&self, idle: &mut u32, has_more: impl Fn() -> bool) {
        let shift = self.shift;
        let me = self.number as u64;
        let before = shift.look(self.number);
        thread::park_timeout(TICK);
        let after = shift.look(self.number);
        match (before == after, after.1) {
            // All are still at what they were at.
            (true, true) => shift.add(self.number),
            // One is left that nobody was woken for.
            (true, false) if has_more() => shift.add(self.number),
            (true, false) if *idle >= IDLE => {
                shift.dozes.set(me);
                // Who began meanwhile and did not see that is seen here.
                thread::park_timeout(TICK);
                if shift.look(self.number) == after && shift.dozes.get() == me {
                    thread::park_timeout(DOZE);
                }
                // Another one may doze as the relief by now.
                let slept = shift.dozes.swap_if(me, 0);
                if !slept || shift.look(self.number) != after {
                    *idle = 0;
                }
            }
            (true, false) => *idle += 1,
            (false, _) => *idle = 0,
        }
    }

    /// It is at a request.
    pub(crate) fn begin(&self) {
        self.shift.work[self.number].bump();
        let dozes = self.shift.dozes.get();
        if dozes != 0 && self.shift.dozes.swap_if(dozes, 0) {
            self.shift.call(self.shift.on_duty());
        }
    }

    /// It has answered.
    pub(crate) fn end(&self) {
        self.shift.work[self.number].bump();
    }

    /// It has more to do than it can.
    pub(crate) fn more(&self) {
        self.shift.add(self.shift.on_duty());
    }

    /// For how long it waits for a request at most: where no relief is left it looks itself whether
    /// one was left that nobody was woken for. It leaves when those before it have nothing to do.
    pub(crate) fn patience(&self) -> Option<Duration> {
        let is_last = self.number > 0 && self.number + 1 == self.shift.threads.len();
        is_last.then_some(TICK)
    }

    /// It has nothing to do; whether it goes off duty, since another one waits already.
    pub(crate) fn leaves(&self) -> bool {
        let is_last = self.number > 0 && self.shift.on_duty() == self.number + 1;
        let number = self.number as u64;
        is_last && !self.shift.look(self.number).1 && self.shift.on_duty.swap_if(number + 1, number)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let count = self.shift.threads.len();
        self.shift.on_duty.set(count as u64 + 1);
        (0..count).for_each(|number| self.shift.call(number));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn none() -> bool {
        false
    }

    #[test]
    fn one_waits_and_who_has_nothing_to_do_leaves_it_to_him() {
        let shift = Shift::new(3);
        let (first, second) = (shift.join(0), shift.join(1));
        first.wait(none);
        assert!(!first.leaves() && !second.leaves());
        first.begin();
        first.more();
        assert_eq!(shift.on_duty(), 2);
        second.wait(none);
        // Nobody else waits.
        assert!(!second.leaves());
        first.end();
        assert!(second.leaves());
        assert_eq!(shift.on_duty(), 1);
    }

    #[test]
    fn the_relief_comes_when_all_on_duty_are_stuck() {
        let shift = Shift::new(2);
        let (first, second) = (shift.join(0), shift.join(1));
        first.begin();
        second.wait(none);
        assert_eq!(shift.on_duty(), 2);
        assert!(!second.leaves());
    }

    #[test]
    fn who_dozes_is_called_with_the_next_request() {
        let shift = Shift::new(2);
        std::thread::scope(|scope| {
            let relief = scope.spawn(|| {
                let turn = shift.join(1);
                turn.wait(none);
                shift.on_duty()
            });
            let first = shift.join(0);
            while shift.dozes.get() == 0 {
                std::thread::yield_now();
            }
            first.begin();
            assert!(matches!(relief.join(), Ok(2)));
        });
    }

    #[test]
    fn no_more_are_on_duty_than_there_are() {
        let shift = Shift::new(2);
        let (first, second) = (shift.join(0), shift.join(1));
        (0..3).for_each(|_| first.more());
        assert_eq!(shift.on_duty(), 2);
        assert!(second.leaves());
    }

    #[test]
    fn the_relief_comes_for_what_nobody_was_woken_for() {
        let shift = Shift::new(3);
        let (first, second, third) = (shift.join(0), shift.join(1), shift.join(2));
        first.more();
        first.begin();
        // The second one waits, and was not woken.
        third.wait(|| true);
        assert_eq!(shift.on_duty(), 3);
        assert_eq!((first.patience(), second.patience()), (None, None));
        assert_eq!(third.patience(), Some(TICK));
    }

    #[test]
    fn who_dozed_through_dozes_on() {
        let shift = Shift::new(2);
        let (_first, relief) = (shift.join(0), shift.join(1));
        let mut idle = IDLE;
        relief.look_once(&mut idle, none);
        assert_eq!((idle, shift.dozes.get()), (IDLE, 0));
    }

    #[test]
    fn when_one_goes_for_good_all_others_are_on_duty() {
        let shift = Shift::new(3);
        let last = shift.join(2);
        drop(shift.join(0));
        last.wait(none);
        // And stay there: who went off duty would wait for nobody.
        assert!(!last.leaves());
        last.wait(none);
    }
}
