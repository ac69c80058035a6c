// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records the pages that fallocate(2) preallocated and no write has filled: runs of page numbers
//! that are charged but take no memory.
//!
//! # States
//! | state of a number | how it is reached | reads as | `SEEK_DATA` finds it |
//! |---|---|---|---|
//! | absent | initially; written, punched or cut off | what the pages say | if it has a page |
//! | fresh | preallocated once | zeroes | no |
//! | firm | preallocated again | zeroes | yes |
//!
//! # Kernel analogue
//! A page that is not up to date is fresh. tmpfs fills it with zeroes when it is preallocated once
//! more, so that undoing the second call does not undo the first. From then on it cannot be told
//! from written data.
//!
//! # Rules
//! R1. Runs do not overlap, and two that touch differ in state.

use std::collections::BTreeMap;
use std::ops::Range;

/// Whether a number was preallocated once or again.
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

/// The preallocated numbers of one file.
#[derive(Default)]
pub(crate) struct Preallocated {
    runs: BTreeMap<u64, Run>,
}

impl Preallocated {
    /// The state of `number`, if it is preallocated, and where its run ends.
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

    /// Adds numbers that are absent.
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

    /// Takes numbers out; returns how many there were.
    pub(crate) fn take(&mut self, numbers: Range<u64>) -> u64 {
        if self.runs.is_empty() || numbers.is_empty() {
            return 0;
        }
        self.split(numbers.start);
        self.split(numbers.end);
        let taken = self.runs.extract_if(numbers, |_, _| true);
        taken.map(|(start, run)| run.end - start).sum()
    }

    /// Takes the fresh ones of some numbers out; returns how many there were.
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

    /// Makes preallocated numbers firm.
    pub(crate) fn firm(&mut self, numbers: Range<u64>) {
        self.take(numbers.clone());
        self.add(numbers, State::Firm);
    }

    /// Splits a run that contains `number`: the caller restores R1.
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

    fn list(runs: &Preallocated) -> Vec<(u64, u64, State)> {
        let runs = runs.runs.iter();
        runs.map(|(start, run)| (*start, run.end, run.state))
            .collect()
    }

    #[test]
    fn touching_runs_of_one_state_merge() {
        let mut runs = Preallocated::default();
        runs.add(0..2, Fresh);
        runs.add(4..6, Fresh);
        runs.add(2..4, Fresh);
        runs.add(6..7, Firm);
        assert_eq!(list(&runs), [(0, 6, Fresh), (6, 7, Firm)]);
        runs.firm(2..6);
        assert_eq!(list(&runs), [(0, 2, Fresh), (2, 7, Firm)]);
        runs.firm(0..2);
        assert_eq!(list(&runs), [(0, 7, Firm)]);
    }

    #[test]
    fn part_of_a_run_can_be_taken() {
        let mut runs = Preallocated::default();
        runs.add(10..20, Fresh);
        runs.add(20..30, Firm);
        assert_eq!(runs.take(12..14), 2);
        assert_eq!(runs.take(0..11), 1);
        assert_eq!(runs.take(28..99), 2);
        assert_eq!(
            list(&runs),
            [(11, 12, Fresh), (14, 20, Fresh), (20, 28, Firm)]
        );
        assert_eq!(runs.take_fresh(15..25), 5);
        assert_eq!(runs.take(0..99), 1 + 1 + 8);
        assert!(list(&runs).is_empty());
    }

    #[test]
    fn preallocated_numbers_are_found() {
        let mut runs = Preallocated::default();
        runs.add(3..5, Fresh);
        runs.add(5..7, Firm);
        assert_eq!([2, 7].map(|n| runs.at(n)), [None; 2]);
        assert_eq!(runs.at(4), Some((Fresh, 5)));
        assert_eq!(runs.at(6), Some((Firm, 7)));
        assert_eq!([0, 4, 6].map(|n| runs.next(n)), [Some(3), Some(5), None]);
        let firm = [0, 6, 7].map(|n| runs.next_firm(n));
        assert_eq!(firm, [Some(5), Some(6), None]);
    }
}
