// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sides that open the same mix of names, interleaved window by window.
//!
//! Most of them hand work to other threads, so no processor clock tells a disturbed window from one
//! that waited as it must: wall time is taken, and the median of many short windows.
//!
//! # Rules
//! R1. Each round has one window of each side, and starts at another one each time.
//! R2. A window's names are made before it, untimed; it lasts [`WINDOW_NS`] or more.
//! R3. A round in which the machine below stole time is dropped.
//! R4. One wrong answer ends the benchmark.

use std::time::Instant;

use super::mix::{Mix, Name};
use crate::error::Error;
use crate::harness::{Effort, Steal};
use crate::stats::Samples;

/// Shortest window.
const WINDOW_NS: u64 = 2_000_000;
/// Windows are multiples of this many opens: every batch is full.
const STEP: u64 = 32;

/// A way to open.
pub(super) trait Side {
    /// Opens these and closes what it got; how many went wrong.
    fn burst(&mut self, names: &[Name]) -> u64;
}

struct Contender<'a> {
    label: String,
    side: Box<dyn Side + 'a>,
    mix: Mix,
    ops: u64,
    windows: Vec<f64>,
}

impl Contender<'_> {
    /// One window: its nanoseconds.
    fn window(&mut self) -> Result<u64, Error> {
        let names = self.mix.names(self.ops);
        let begun = Instant::now();
        let wrong = self.side.burst(&names);
        let ns = begun.elapsed().as_nanos() as u64;
        if wrong == 0 {
            return Ok(ns);
        }
        let (label, ops) = (&self.label, self.ops);
        Err(Error::Wrong(format!("{label}: {wrong} of {ops} opens")))
    }

    /// Finds how many opens a window takes.
    fn size(&mut self) -> Result<(), Error> {
        self.ops = STEP;
        loop {
            let ns = self.window()?.max(1);
            if ns >= WINDOW_NS / 2 {
                let fit = (self.ops * WINDOW_NS).div_ceil(ns);
                self.ops = fit.next_multiple_of(STEP);
                return Ok(());
            }
            self.ops *= 2;
        }
    }
}

/// Sides to be measured together.
#[derive(Default)]
pub(super) struct Contest<'a>(Vec<Contender<'a>>);

impl<'a> Contest<'a> {
    /// Adds a side that opens names of which `percent` are cached; its place in the answer.
    pub(super) fn add(&mut self, label: &str, percent: u64, side: impl Side + 'a) -> usize {
        let at = self.0.len();
        self.0.push(Contender {
            label: label.to_owned(),
            side: Box::new(side),
            mix: Mix::new(percent, at as u64),
            ops: STEP,
            windows: Vec::new(),
        });
        at
    }

    /// Nanoseconds per open of each side.
    ///
    /// # Errors
    /// `Wrong`.
    pub(super) fn run(mut self, effort: Effort, steal: &Steal) -> Result<Vec<Samples>, Error> {
        for contender in &mut self.0 {
            contender.size()?;
        }
        let (begun, count) = (Instant::now(), self.0.len());
        let (mut kept, mut dropped) = (0, 0);
        while kept < effort.rounds && (kept + dropped == 0 || begun.elapsed() < effort.time) {
            let stolen = steal.ticks();
            let mut windows = Vec::with_capacity(count);
            for i in 0..count {
                let i = (i + kept + dropped) % count;
                windows.push((i, self.0[i].window()?));
            }
            if steal.ticks() != stolen {
                dropped += 1;
                continue;
            }
            kept += 1;
            for (i, ns) in windows {
                let contender = &mut self.0[i];
                contender.windows.push(ns as f64 / contender.ops as f64);
            }
        }
        let all = self.0.into_iter();
        Ok(all.map(|c| Samples::new(c.windows, dropped)).collect())
    }
}
