// SPDX-License-Identifier: MIT OR Apache-2.0
//! Adds openers of the same mix of names to a plan, as sides.
//!
//! Most of them hand work to other threads, so the processor clock cannot tell a disturbed window
//! from one that waited as it must. So wall time is measured, and the median of many short windows
//! counts. The names of a window are made before it, untimed; it lasts [`WINDOW_NS`] or more.

use std::time::Instant;

use super::mix::{Mix, Name};
use crate::error::Error;
use crate::harness::{Id, Plan};

/// The shortest window.
const WINDOW_NS: u64 = 2_000_000;
/// Windows are multiples of this many opens: every batch is full.
const STEP: u64 = 32;

/// A way to open.
pub(super) trait Opener {
    /// Opens these names and closes the files; returns how many opens were wrong.
    fn burst(&mut self, names: &[Name]) -> u64;
}

/// Adds an opener of names of which `percent` are cached; `number` makes its missing names
/// different from others.
pub(super) fn add<'a>(
    plan: &mut Plan<'a>,
    label: &str,
    (percent, number): (u64, u64),
    mut opener: impl Opener + 'a,
) -> Id {
    let (mut mix, mut ops) = (Mix::new(percent, number), None);
    let label = label.to_owned();
    let name = label.clone();
    let mut window = move |ops| {
        let names = mix.names(ops);
        let begun = Instant::now();
        let wrong = opener.burst(&names);
        let ns = begun.elapsed().as_nanos() as u64;
        match wrong {
            0 => Ok(ns),
            _ => Err(Error::Wrong(format!("{name}: {wrong} of {ops} opens"))),
        }
    };
    plan.own(&label, move || {
        let ops = match ops {
            Some(ops) => ops,
            None => *ops.insert(size(&mut window)?),
        };
        window(ops).map(|ns| ns as f64 / ops as f64)
    })
}

/// How many opens a window takes.
fn size(window: &mut impl FnMut(u64) -> Result<u64, Error>) -> Result<u64, Error> {
    let mut ops = STEP;
    loop {
        let ns = window(ops)?.max(1);
        if ns >= WINDOW_NS / 2 {
            return Ok((ops * WINDOW_NS).div_ceil(ns).next_multiple_of(STEP));
        }
        ops *= 2;
    }
}
