// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests runs that are killed at random moments; `cargo xtask kills` kills more of them.

use openpath_testkit::kills::{self, Plan};
use std::time::Duration;

#[test]
fn twenty_kills_hang_no_process_and_lose_no_change() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this is for root");
        return;
    }
    let plan = Plan {
        openpath: env!("CARGO_BIN_EXE_openpath").into(),
        folder: std::env::temp_dir(),
        rounds: 20,
        seed: 20,
        longest: Duration::from_millis(700),
    };
    let report = kills::storm(&plan, |round| println!("{round}")).unwrap();
    assert_eq!(report.wrong, Vec::<String>::new());
    assert!(report.kept > 5 && report.promises > 0, "{report:?}");
}

#[test]
fn killed_commits_and_discards_are_done_or_undone() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("skipped: this is for root");
        return;
    }
    let plan = Plan {
        openpath: env!("CARGO_BIN_EXE_openpath").into(),
        folder: std::env::temp_dir(),
        rounds: 12,
        seed: 3,
        longest: Duration::from_millis(90),
    };
    let report = kills::commits(&plan, |round| println!("{round}")).unwrap();
    assert_eq!(report.wrong, Vec::<String>::new());
    assert!(report.kept > 2, "{report:?}");
}
