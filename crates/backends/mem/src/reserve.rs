// SPDX-License-Identifier: MIT OR Apache-2.0
//! What fallocate(2) set aside and nobody has written: runs of page numbers that are paid for, but
//! take no memory.
//!
//! # States
//! | state of a number | how it is reached | reads as | `SEEK_DATA` finds it |
//! |---|---|---|---|
//! | not here | at first; written, punched or cut off | what the pages say | if it has a page |
//! | fresh | set aside once | zeroes | no |
//! | firm | set aside again | zeroes | yes |
//!
//! # Kernel analogue
//! A page that is not up to date is fresh. tmpfs fills it with zeroes when it is set aside once
//! more, so that an undo of the second call does not take away what the first one gave: then it
//! cannot be told from written data.
//!
//! # Rules
//! R1. Runs do not overlap, and two that touch differ in state.

use std::collections::BTreeMap;
use std::ops::Range;

/// Whether a number was set aside once or again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    Fresh,
    Firm,
}

/// Numbers in one state, from the key to here.
#[derive(Clone, Copy)]
struct Run {
    end: u64,
    state: State,
}

/// The numbers of one file that are set aside.
#[derive(Default)]
pub(crate) struct Reserve {
    runs: BTreeMap<u64, Run>,
}

impl Reserve {
    /// The state of `number`, if it is set aside, and where its run ends.
    pub(crate) fn at(&self, number: u64) -> Option<(State, u64)> {
        let (_, run) = self.runs.range(..=number).next_back()?;
        (run.end > number).then_some((run.state, run.end))
    }

    /// Where the first run after `number` starts.
    pub(crate) fn next(&self, number: u64) -> Option<u64> {
        self.runs.range(number..).next().map(|(start, _)| *start)
    }

    /// The first firm number from `number` on.
    pub(crate) fn next_firm(&self, number: u64) -> Option<u64> {
        if let Some((State::Firm, _)) = self.at(number) {
            return Some(number);
        }
        let mut later = self.runs.range(number..);
        later
            .find(|(_, run)| run.state == State::Firm)
            .map(|(start, _)| *start)
    }

    /// Sets numbers aside that are not.
    pub(crate) fn add(&mut self, numbers: Range<u64>, state: State) {
        let Range { mut start, mut end } = numbers;
        if let Some((before, run)) = self.runs.range(..start).next_back()
            && (run.end, run.state) == (start, state)
        {
            start = *before;
        }
        if let Some(run) = self.runs.get(&end)
            && run.state == state
        {
            let after = run.end;
            self.runs.remove(&end);
            end = after;
        }
        self.runs.insert(start, Run { end, state });
    }

    /// Takes numbers away; how many there were.
    pub(crate) fn take(&mut self, numbers: Range<u64>) -> u64 {
        if self.runs.is_empty() || numbers.is_empty() {
            return 0;
        }
        self.split(numbers.start);
        self.split(numbers.end);
        let taken = self.runs.extract_if(numbers, |_, _| true);
        taken.map(|(start, run)| run.end - start).sum()
    }

    /// Takes the fresh ones of some numbers away; how many there were.
    pub(crate) fn take_fresh(&mut self, numbers: Range<u64>) -> u64 {
        let Range { mut start, end } = numbers;
        let mut taken = 0;
        while start < end {
            let Some((state, to)) = self.at(start) else {
                start = self.next(start).unwrap_or(end);
                continue;
            };
            if state == State::Fresh {
                taken += self.take(start..to.min(end));
            }
            start = to;
        }
        taken
    }

    /// Makes numbers firm that are set aside.
    pub(crate) fn firm(&mut self, numbers: Range<u64>) {
        self.take(numbers.clone());
        self.add(numbers, State::Firm);
    }

    /// Makes a run that `number` is inside of two: R1 is put right by what follows.
    fn split(&mut self, number: u64) {
        if let Some((_, run)) = self.runs.range_mut(..number).next_back()
            && run.end > number
        {
            let after = *run;
            run.end = number;
            self.runs.insert(number, after);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::State::{Firm, Fresh};
    use super::*;

    fn list(reserve: &Reserve) -> Vec<(u64, u64, State)> {
        let runs = reserve.runs.iter();
        runs.map(|(start, run)| (*start, run.end, run.state))
            .collect()
    }

    #[test]
    fn runs_that_touch_become_one() {
        let mut reserve = Reserve::default();
        reserve.add(0..2, Fresh);
        reserve.add(4..6, Fresh);
        reserve.add(2..4, Fresh);
        reserve.add(6..7, Firm);
        assert_eq!(list(&reserve), [(0, 6, Fresh), (6, 7, Firm)]);
        reserve.firm(2..6);
        assert_eq!(list(&reserve), [(0, 2, Fresh), (2, 7, Firm)]);
        reserve.firm(0..2);
        assert_eq!(list(&reserve), [(0, 7, Firm)]);
    }

    #[test]
    fn a_part_can_be_taken() {
        let mut reserve = Reserve::default();
        reserve.add(10..20, Fresh);
        reserve.add(20..30, Firm);
        assert_eq!(reserve.take(12..14), 2);
        assert_eq!(reserve.take(0..11), 1);
        assert_eq!(reserve.take(28..99), 2);
        assert_eq!(
            list(&reserve),
            [(11, 12, Fresh), (14, 20, Fresh), (20, 28, Firm)]
        );
        assert_eq!(reserve.take_fresh(15..25), 5);
        assert_eq!(reserve.take(0..99), 1 + 1 + 8);
        assert!(list(&reserve).is_empty());
    }

    #[test]
    fn numbers_are_found() {
        let mut reserve = Reserve::default();
        reserve.add(3..5, Fresh);
        reserve.add(5..7, Firm);
        assert_eq!([2, 7].map(|n| reserve.at(n)), [None; 2]);
        assert_eq!(reserve.at(4), Some((Fresh, 5)));
        assert_eq!(reserve.at(6), Some((Firm, 7)));
        assert_eq!([0, 4, 6].map(|n| reserve.next(n)), [Some(3), Some(5), None]);
        let firm = [0, 6, 7].map(|n| reserve.next_firm(n));
        assert_eq!(firm, [Some(5), Some(6), None]);
    }
}
