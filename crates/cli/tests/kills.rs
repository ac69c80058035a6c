// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that killing processes of `openpath run`, `commit` and `discard` at random moments loses
//! no change, leaves no process, and leaves a commit done or undone. These tests are slow;
//! `cargo xtask kills` kills more of them.

use openpath_testkit::kills::{self, Plan, Report};
use std::time::Duration;

/// What `kills` runs for so many rounds; `None`, with a message, if that needs another user.
fn rounds(
    kills: impl Fn(&Plan) -> std::io::Result<Report>,
    rounds: u64,
    seed: u64,
    longest: Duration,
) -> Option<Report> {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this is for root");
        return None;
    }
    let plan = Plan {
        openpath: env!("CARGO_BIN_EXE_openpath").into(),
        folder: std::env::temp_dir(),
        rounds,
        seed,
        longest,
    };
    let report = kills(&plan).unwrap();
    assert_eq!(report.wrong, Vec::<String>::new());
    Some(report)
}

/// Kills processes of runs.
fn storm(count: u64) -> Option<Report> {
    let storm = |plan: &Plan| kills::storm(plan, |round| println!("{round}"));
    rounds(storm, count, 20, Duration::from_millis(700))
}

/// Kills commits, undos and discards.
fn commits(count: u64) -> Option<Report> {
    let commits = |plan: &Plan| kills::commits(plan, |round| println!("{round}"));
    rounds(commits, count, 3, Duration::from_millis(90))
}

#[test]
#[ignore = "slow: 30 s"]
fn twenty_kills_hang_no_process_and_lose_no_change() {
    let Some(report) = storm(20) else { return };
    assert!(report.kept > 5 && report.promises > 0, "{report:?}");
}

#[test]
#[ignore = "slow: 15 s"]
fn twelve_killed_commits_and_discards_are_done_or_undone() {
    let Some(report) = commits(12) else { return };
    assert!(report.kept > 2, "{report:?}");
}
