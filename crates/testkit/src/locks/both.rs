// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a script of lock calls on openpath and on the kernel, reports the first difference, and
//! shrinks the script.

use super::kernel::Kernel;
use super::ours::Ours;
use super::{Answer, Layout, Script, Step, text};
use crate::shrink::fewer;
use std::io;

/// The most scripts that one shrinking tries.
const TRIES_MAX: usize = 600;

/// Both sides.
pub(super) struct Both {
    kernel: Kernel,
    ours: Ours,
}

/// Two different answers to one call.
pub(super) struct Difference {
    /// The number of the step, or of the step before the look.
    at: usize,
    /// The difference as text.
    pub(super) text: String,
}

impl Both {
    pub(super) fn new(layout: &Layout) -> io::Result<Self> {
        let ours = Ours::new(layout).map_err(|e| io::Error::other(format!("no Vfs: {e}")))?;
        Ok(Self {
            kernel: Kernel::new(layout)?,
            ours,
        })
    }

    /// Runs steps on both sides at the same time; returns the kernel's answers and ours.
    pub(super) fn run(&self, steps: Vec<Step>) -> [Vec<Answer>; 2] {
        let batch = self.kernel.group().begin(steps.clone());
        let ours = self.ours.run(steps.into_iter());
        [batch.wait(), ours]
    }

    /// Ends both sides after this many steps; reports a lock of ours that is left.
    pub(super) fn end(self, at: usize) -> Option<Difference> {
        drop(self.kernel);
        let is_left = !self.ours.end().is_empty();
        is_left.then(|| Difference {
            at,
            text: "    openpath: locked when all have ended\n".to_owned(),
        })
    }
}

/// The first call with two answers, each call with the number of its step.
pub(super) fn first(all: &[(usize, Step)], [kernel, ours]: [&[Answer]; 2]) -> Option<Difference> {
    let mut pairs = all.iter().zip(kernel.iter().zip(ours));
    let found = pairs.find(|(_, (kernel, ours))| kernel != ours);
    found.map(|((at, step), (kernel, ours))| Difference {
        at: *at,
        text: text::differ(&step.op, kernel, ours),
    })
}

/// Runs a script on both sides; returns the first difference.
fn differ(script: &Script) -> io::Result<Option<Difference>> {
    let both = Both::new(&script.layout)?;
    let all = script.all();
    let [kernel, ours] = both.run(all.iter().map(|(_, step)| *step).collect());
    Ok(first(&all, [&kernel, &ours]).or(both.end(script.steps.len())))
}

/// The smallest differing script found, with its difference; none if it does not differ again.
fn shrink(script: &Script) -> io::Result<Option<(Script, Difference)>> {
    let Some(mut found) = differ(script)? else {
        return Ok(None);
    };
    let mut best = script.clone();
    best.steps.truncate(found.at + 1);
    let mut tries = 0;
    fewer(best.steps.len(), |run| {
        let mut candidate = best.clone();
        candidate.steps.drain(run);
        tries += 1;
        if tries <= TRIES_MAX
            && let Ok(Some(smaller)) = differ(&candidate)
        {
            (best, found) = (candidate, smaller);
        }
        best.steps.len()
    });
    Ok(Some((best, found)))
}

/// The report of a differing script: the smallest one nearby, and its difference.
pub(super) fn report(script: &Script, first: &Difference) -> io::Result<String> {
    Ok(match shrink(script)? {
        Some((small, found)) => format!("{small}{}", found.text),
        None => format!("only once:\n{script}{}", first.text),
    })
}
