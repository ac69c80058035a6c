// SPDX-License-Identifier: MIT OR Apache-2.0
//! A script on both sides, what differs, and the smallest script nearby that differs too.

use super::kernel::Kernel;
use super::ours::Ours;
use super::{Answer, Cast, Script, Step, text};
use std::io;

/// Most scripts that one shrinking tries.
const TRIES_MAX: usize = 600;

/// Both sides.
pub(super) struct Both {
    kernel: Kernel,
    ours: Ours,
}

/// Two answers to one call that differ.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The number of the step, or of that before the look.
    pub at: usize,
    /// In words.
    pub text: String,
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

    /// Ends both; whether something of ours is locked still.
    pub(super) fn end(self) -> bool {
        drop(self.kernel);
        !self.ours.end().is_empty()
    }
}

/// Does a script on both sides; the first difference.
///
/// # Errors
/// What kept either from being made.
pub fn differ(script: &Script) -> io::Result<Option<Difference>> {
    let both = Both::new(&script.cast)?;
    let all = script.all();
    let [kernel, ours] = both.run(all.iter().map(|(_, step)| *step).collect());
    let pairs = all.iter().zip(kernel.iter().zip(&ours));
    let first = pairs.into_iter().find(|(_, (kernel, ours))| kernel != ours);
    let found = first.map(|((at, step), (kernel, ours))| Difference {
        at: *at,
        text: text::differ(&step.op, kernel, ours),
    });
    let is_left = both.end();
    Ok(found.or_else(|| {
        is_left.then(|| Difference {
            at: script.steps.len(),
            text: "    openpath: locked when all have ended\n".to_owned(),
        })
    }))
}

/// The smallest script found that differs, and in what.
pub(super) fn shrink(script: &Script) -> io::Result<(Script, Option<Difference>)> {
    let mut best = script.clone();
    let mut found = differ(&best)?;
    if let Some(first) = &found {
        best.steps.truncate(first.at + 1);
    }
    let mut tries = 0;
    let mut run = best.steps.len();
    while run > 0 && found.is_some() {
        let mut from = best.steps.len().saturating_sub(run);
        loop {
            let mut candidate = best.clone();
            let to = (from + run).min(candidate.steps.len());
            candidate.steps.drain(from..to);
            tries += 1;
            if tries > TRIES_MAX {
                return Ok((best, found));
            }
            if let Some(smaller) = differ(&candidate)? {
                (best, found) = (candidate, Some(smaller));
            }
            if from == 0 {
                break;
            }
            from = from.saturating_sub(run);
        }
        run /= 2;
    }
    Ok((best, found))
}

/// What is printed of a script that differs: the smallest nearby, and in what.
pub(super) fn report(script: &Script, first: &Difference) -> io::Result<String> {
    let (small, found) = shrink(script)?;
    Ok(match found {
        Some(found) => format!("{small}{}", found.text),
        None => format!("only once:\n{script}{}", first.text),
    })
}
