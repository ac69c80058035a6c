// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows the progress of `commit`, `diff` and `discard` as a bar on a terminal, and shows nothing
//! elsewhere.
//!
//! # Rules
//! R1. A command that takes less than [`PATIENCE`] shows no bar.
//! R2. The bar is on standard error, and disappears before anything else is printed.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use openpath_run::{CommitObserver, Phase};
use std::time::{Duration, Instant};

/// A command that takes less time shows no bar (R1).
const PATIENCE: Duration = Duration::from_millis(300);

/// A bar for each phase.
pub(crate) struct Bars {
    shown: bool,
    patience: Duration,
    begun: Instant,
    bar: Option<(&'static str, ProgressBar)>,
    bytes: u64,
}

impl Bars {
    pub(crate) fn new(shown: bool) -> Bars {
        Bars {
            shown,
            patience: PATIENCE,
            begun: Instant::now(),
            bar: None,
            bytes: 0,
        }
    }

    /// Shows what is done in words, and how often of how many times; 0: nobody knows.
    pub(crate) fn show(&mut self, what: &'static str, done: u64, of: u64) {
        if !self.shown || self.begun.elapsed() < self.patience {
            return;
        }
        if self.bar.as_ref().is_none_or(|(known, _)| *known != what) {
            let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
            bar.set_prefix(what);
            self.clear();
            self.bar = Some((what, bar));
            self.set_style(of);
        }
        let Some((_, bar)) = &self.bar else {
            return;
        };
        if bar.length().unwrap_or(0) != of {
            bar.set_length(of);
            self.set_style(of);
        }
        if let Some((_, bar)) = &self.bar {
            bar.set_position(done);
        }
    }

    /// Removes the bar, so that something else can be printed (R2).
    pub(crate) fn clear(&mut self) {
        if let Some((_, bar)) = self.bar.take() {
            bar.finish_and_clear();
        }
    }

    fn set_style(&self, of: u64) {
        let style = match of {
            0 => "openpath: {prefix} {human_pos}",
            _ => "openpath: {prefix} {bar:30} {human_pos} of {human_len} {msg}",
        };
        if let (Ok(style), Some((_, bar))) = (ProgressStyle::with_template(style), &self.bar) {
            bar.set_style(style);
        }
    }
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Comparing => "comparing",
        Phase::Planning => "planning",
        Phase::Copying => "copying",
        Phase::Exchanging => "committing",
        Phase::Settling => "settling",
        Phase::Undoing => "undoing",
        _ => "working",
    }
}

impl CommitObserver for Bars {
    fn step(&mut self, phase: Phase, done: u64, of: u64) -> bool {
        self.show(word(phase), done, of);
        true
    }

    fn looked(&mut self, phase: Phase, done: u64, of: u64) {
        self.show(word(phase), done, of);
    }

    fn copied(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
        if let Some((_, bar)) = &self.bar {
            bar.set_message(crate::summary::bytes(self.bytes));
        }
    }
}

impl Drop for Bars {
    fn drop(&mut self) {
        self.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Bars;
    use openpath_run::{CommitObserver as _, Phase};
    use std::time::Duration;

    #[test]
    fn bar_shows_how_much_of_a_phase_is_done() {
        let mut bars = Bars::new(true);
        bars.patience = Duration::ZERO;
        let shown = |bars: &Bars| {
            let bar = bars.bar.as_ref();
            bar.map(|(what, bar)| (*what, bar.position(), bar.length()))
        };
        bars.looked(Phase::Comparing, 7, 0);
        assert_eq!(shown(&bars), Some(("comparing", 7, Some(0))));
        bars.looked(Phase::Comparing, 3, 20);
        assert_eq!(shown(&bars), Some(("comparing", 3, Some(20))));
        bars.step(Phase::Exchanging, 12_000, 100_000);
        assert_eq!(shown(&bars), Some(("committing", 12_000, Some(100_000))));
        bars.clear();
        assert_eq!(shown(&bars), None);
    }

    #[test]
    fn short_command_and_json_show_no_bar() {
        for (shown, patience) in [(true, Duration::MAX), (false, Duration::ZERO)] {
            let mut bars = Bars::new(shown);
            bars.patience = patience;
            bars.step(Phase::Copying, 1, 2);
            assert!(bars.bar.is_none());
        }
    }
}
