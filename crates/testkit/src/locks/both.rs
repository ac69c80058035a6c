// SPDX-License-Identifier: MIT OR Apache-2.0
//! A script on both sides, what differs, and the smallest script nearby that differs too.

use super::kernel::Kernel;
use super::ours::Ours;
use super::{Answer, Cast, Script, Step, text};
use crate::shrink::fewer;
use std::io;

/// Most scripts that one shrinking tries.
const TRIES_MAX: usize = 600;

/// Both sides.
pub(super) struct Both {
    kernel: Kernel,
    ours: Ours,
}

/// Two answers to one call that differ.
pub(super) struct Difference {
    /// The number of the step, or of that before the look.
    at: usize,
    /// In words.
    pub(super) text: String,
}

impl Both {
    pub(super) fn new(cast: &Cast) -> io::Result<Self> {
        let ours = Ours::new(cast).map_err(|e| io::Error::other(format!("no Vfs: {e}")))?;
        Ok(Self {
            kernel: Kernel::new(cast)?,
            ours,
        })
    }

    /// Does steps on both, at the same time; the answers of the kernel, and ours.
    pub(super) fn run(&self, steps: Vec<Step>) -> [Vec<Answer>; 2] {
        let play = self.kernel.crew().begin(steps.clone());
        let ours = self.ours.run(steps.into_iter());
        [play.wait(), ours]
    }

    /// Ends both after so many steps; that something of ours is locked still.
    pub(super) fn end(self, at: usize) -> Option<Difference> {
        drop(self.kernel);
        let is_left = !self.ours.end().is_empty();
        is_left.then(|| Difference {
            at,
            text: "    openpath: locked when all have ended\n".to_owned(),
        })
    }
}

/// The first of the calls, each with the number of its step, that the kernel and we answer in two
/// ways.
pub(super) fn first(all: &[(usize, Step)], [kernel, ours]: [&[Answer]; 2]) -> Option<Difference> {
    let mut pairs = all.iter().zip(kernel.iter().zip(ours));
    let found = pairs.find(|(_, (kernel, ours))| kernel != ours);
    found.map(|((at, step), (kernel, ours))| Difference {
        at: *at,
        text: text::differ(&step.op, kernel, ours),
    })
}

/// Does a script on both sides; the first difference.
fn differ(script: &Script) -> io::Result<Option<Difference>> {
    let both = Both::new(&script.cast)?;
    let all = script.all();
    let [kernel, ours] = both.run(all.iter().map(|(_, step)| *step).collect());
    Ok(first(&all, [&kernel, &ours]).or(both.end(script.steps.len())))
}

/// The smallest script found that differs, and in what; none if it does not differ again.
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

/// What is printed of a script that differs: the smallest nearby, and in what.
pub(super) fn report(script: &Script, first: &Difference) -> io::Result<String> {
    Ok(match shrink(script)? {
        Some((small, found)) => format!("{small}{}", found.text),
        None => format!("only once:\n{script}{}", first.text),
    })
}
