// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows the progress of copy-up as a bar on a terminal, while the program that changes a large
//! file waits for its copy. If that program is killed, the copy ends.
//!
//! # Rules
//! R1. A short copy shows no bar, and the bar disappears when all files are copied.
//! R2. No bar is drawn over a program that reads keys one by one, such as an editor.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use openpath_overlay::CopyUpObserver;
use rustix::termios::{LocalModes, tcgetattr};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A copy that takes less time shows no bar.
const PATIENCE: Duration = Duration::from_millis(300);

/// The bar for all running copies.
pub(crate) struct Bar {
    patience: Duration,
    may_draw: fn() -> bool,
    state: Mutex<State>,
}

/// The copies since the last moment without any.
#[derive(Default)]
struct State {
    files: usize,
    moved: u64,
    all: u64,
    begun: Option<Instant>,
    drawn: Option<ProgressBar>,
}

impl Bar {
    pub(crate) fn new(shown: bool) -> Self {
        Self {
            patience: PATIENCE,
            may_draw: if shown { terminal_is_free } else { || false },
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// R2
fn terminal_is_free() -> bool {
    let modes = tcgetattr(std::io::stderr());
    modes.is_ok_and(|modes| modes.local_modes.contains(LocalModes::ICANON))
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
    let style = "openpath: copying up {bar:30} {bytes} of {total_bytes}";
    if let Ok(style) = ProgressStyle::with_template(style) {
        bar.set_style(style);
    }
    bar
}

impl CopyUpObserver for Bar {
    fn begin(&self, bytes: u64) {
        let mut state = self.state();
        state.files += 1;
        state.all += bytes;
        state.begun.get_or_insert_with(Instant::now);
    }

    fn moved(&self, bytes: u64) -> bool {
        let mut state = self.state();
        state.moved += bytes;
        let waited = state.begun.is_some_and(|at| at.elapsed() >= self.patience);
        if waited && (self.may_draw)() {
            let (moved, all) = (state.moved, state.all);
            let drawn = state.drawn.get_or_insert_with(bar);
            drawn.set_length(all);
            drawn.set_position(moved);
        } else {
            state.clear();
        }
        drop(state);
        !openpath_fuse::caller_is_killed()
    }

    fn end(&self, left: u64) {
        let mut state = self.state();
        state.files = state.files.saturating_sub(1);
        state.all = state.all.saturating_sub(left);
        if state.files == 0 {
            state.clear();
            *state = State::default();
        }
    }
}

impl State {
    fn clear(&mut self) {
        if let Some(bar) = self.drawn.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bar, PATIENCE};
    use openpath_overlay::CopyUpObserver as _;
    use std::sync::Mutex;
    use std::time::Duration;

    fn bar(patience: Duration, may_draw: fn() -> bool) -> Bar {
        Bar {
            patience,
            may_draw,
            state: Mutex::default(),
        }
    }

    #[test]
    fn bar_counts_all_files_and_disappears_with_the_last() {
        let bar = bar(Duration::ZERO, || true);
        bar.begin(100);
        bar.begin(50);
        bar.moved(30);
        let shown = |bar: &Bar| {
            let state = bar.state();
            let drawn = state.drawn.as_ref();
            drawn.map(|drawn| (drawn.position(), drawn.length()))
        };
        assert_eq!(shown(&bar), Some((30, Some(150))));
        bar.end(70);
        bar.moved(50);
        assert_eq!(shown(&bar), Some((80, Some(80))));
        bar.end(0);
        assert_eq!(shown(&bar), None);
        bar.begin(10);
        bar.moved(1);
        assert_eq!(shown(&bar), Some((1, Some(10))));
    }

    #[test]
    fn short_copy_and_busy_terminal_show_no_bar() {
        for bar in [bar(PATIENCE, || true), bar(Duration::ZERO, || false)] {
            bar.begin(100);
            bar.moved(30);
            assert!(bar.state().drawn.is_none());
            bar.end(70);
        }
    }
}
