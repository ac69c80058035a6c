// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows the progress of a commit as a bar on a terminal, and shows nothing elsewhere.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use openpath_run::{CommitObserver, Phase};
use std::time::Duration;

/// A commit that takes less time shows no bar.
const PATIENCE: Duration = Duration::from_millis(300);

/// A bar for each phase.
pub(super) struct Bars {
    shown: bool,
    begun: std::time::Instant,
    bar: Option<(Phase, ProgressBar)>,
    bytes: u64,
}

impl Bars {
    pub(super) fn new(shown: bool) -> Bars {
        Bars {
            shown,
            begun: std::time::Instant::now(),
            bar: None,
            bytes: 0,
        }
    }

    fn bar(&mut self, phase: Phase) -> Option<&ProgressBar> {
        if !self.shown || self.begun.elapsed() < PATIENCE {
            return None;
        }
        if self.bar.as_ref().is_none_or(|(known, _)| *known != phase) {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{prefix} {bar:30} {pos}/{len} {msg}");
            if let Ok(style) = style {
                bar.set_style(style);
            }
            bar.set_prefix(match phase {
                Phase::Copying => "copying   ",
                Phase::Exchanging => "exchanging",
                Phase::Settling => "settling  ",
                Phase::Undoing => "undoing   ",
                _ => "working   ",
            });
            if let Some((_, old)) = self.bar.replace((phase, bar)) {
                old.finish_and_clear();
            }
        }
        self.bar.as_ref().map(|(_, bar)| bar)
    }
}

impl CommitObserver for Bars {
    fn step(&mut self, phase: Phase, done: u64, of: u64) -> bool {
        if let Some(bar) = self.bar(phase) {
            bar.set_length(of);
            bar.set_position(done);
        }
        true
    }

    fn copied(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        let all = crate::summary::bytes(self.bytes);
        if let Some((_, bar)) = &self.bar {
            bar.set_message(all);
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        if let Some((_, bar)) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
