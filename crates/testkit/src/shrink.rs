// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shrinks a failing case: fewer operations first, then simpler arguments.
//!
//! # Rules
//! * A smaller case is kept if it still fails, in any way: the result is the smallest failing case
//!   nearby, not the same failure.
//! * Without an operation that made a descriptor, later descriptors get other numbers; such a case
//!   is tried with the numbers of later operations lowered.
//! * The number of tries is bounded.

use crate::case::Case;
use crate::op::{Keep, Op};
use core::ops::Range;

/// The most cases that one shrinking tries.
pub const TRIES_MAX: usize = 3000;

/// The smallest failing case found; `fails` is called at most [`TRIES_MAX`] times.
pub fn shrink(case: &Case, mut fails: impl FnMut(&Case) -> bool) -> Case {
    let mut search = Search {
        best: case.clone(),
        tries: 0,
        fails: &mut fails,
    };
    loop {
        let before = search.best.clone();
        search.fewer();
        search.simpler();
        if search.best == before || search.tries >= TRIES_MAX {
            return search.best;
        }
    }
}

/// Proposes runs of items to drop, long runs first, each length from the end on; `without` tries to
/// drop one and returns how many items are left.
pub(crate) fn fewer(mut len: usize, mut without: impl FnMut(Range<usize>) -> usize) {
    let mut run = len.next_power_of_two();
    while run > 0 {
        let mut from = len.saturating_sub(run);
        loop {
            if from < len {
                len = without(from..(from + run).min(len));
            }
            if from == 0 {
                break;
            }
            from = from.saturating_sub(run);
        }
        run /= 2;
    }
}

/// How many descriptor numbers are tried as that of a dropped operation.
const NUMBERS: i32 = 8;

fn makes_descriptor(op: &Op) -> bool {
    match op {
        Op::Open { keep, .. } | Op::Openat2 { keep, .. } => *keep == Keep::Open,
        Op::OpenTree { keep, .. } | Op::Fsmount { keep, .. } => *keep == Keep::Open,
        Op::Dup { .. } | Op::Fcntl { .. } | Op::Pass { .. } | Op::InotifyInit { .. } => true,
        _ => false,
    }
}

struct Search<'a> {
    best: Case,
    tries: usize,
    fails: &'a mut dyn FnMut(&Case) -> bool,
}

impl Search<'_> {
    /// Takes the candidate if it fails.
    fn take(&mut self, candidate: Case) -> bool {
        if self.tries >= TRIES_MAX {
            return false;
        }
        self.tries += 1;
        let fails = (self.fails)(&candidate);
        if fails {
            self.best = candidate;
        }
        fails
    }

    /// Drops runs of operations.
    fn fewer(&mut self) {
        fewer(self.best.ops.len(), |run| {
            if self.best.ops.len() > 1 {
                let mut candidate = self.best.clone();
                candidate.ops.drain(run.clone());
                candidate.setup -= run.clone().filter(|i| *i < self.best.setup).count();
                if !self.take(candidate.clone()) && run.len() == 1 {
                    self.renumbered(&candidate, run.start);
                }
            }
            self.best.ops.len()
        });
    }

    /// Tries a case whose descriptors are lowered because the operation at `from` made one.
    fn renumbered(&mut self, shorter: &Case, from: usize) {
        if !makes_descriptor(&self.best.ops[from]) {
            return;
        }
        for above in 0..NUMBERS {
            let mut candidate = shorter.clone();
            for op in &mut candidate.ops[from..] {
                *op = op.lowered(above);
            }
            if candidate != *shorter && self.take(candidate) {
                return;
            }
        }
    }

    /// Simplifies one argument at a time.
    fn simpler(&mut self) {
        for i in 0..self.best.ops.len() {
            while self.simpler_at(i) {}
        }
    }

    fn simpler_at(&mut self, i: usize) -> bool {
        let candidates: Vec<Op> = self.best.ops[i].simpler();
        candidates.into_iter().any(|op| {
            let mut candidate = self.best.clone();
            candidate.ops[i] = op;
            self.take(candidate)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shrinking_keeps_only_needed_operations() {
        let text = "mkdir cwd a 0755\nmkdir cwd x/y/b 0700\nstat a\n---\n\
                    open + 2 q/b RDWR|CREAT 0640\ngetcwd\n";
        let case: Case = text.parse().expect("a case");
        let small = shrink(&case, |c| {
            let lines = c.to_string();
            lines.contains("CREAT") && lines.contains("mkdir")
        });
        assert_eq!(small.ops.len(), 2);
        assert_eq!(small.ops[1].to_string(), "open - cwd b CREAT 0");
    }

    #[test]
    fn shrinking_drops_runs_of_operations() {
        let mut left: Vec<u32> = (0..100).collect();
        let mut tries = 0;
        fewer(left.len(), |run| {
            let mut candidate = left.clone();
            candidate.drain(run);
            tries += 1;
            if [3, 77].iter().all(|wanted| candidate.contains(wanted)) {
                left = candidate;
            }
            left.len()
        });
        assert_eq!(left, [3, 77]);
        assert!(tries < 50, "{tries}");
        fewer(0, |_| panic!("of nothing"));
    }
}
