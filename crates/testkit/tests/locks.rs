// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that some sequences of file lock calls, random calls and circles of waits give the running
//! kernel's answers on openpath; `cargo xtask oracle --part locks` compares more.

use openpath_testkit::locks::{circles, every, part, random};
use std::process::Command;

#[test]
fn sequences_of_three_calls_match_the_kernel() {
    let sum = every::run(part::SHARE, 3).expect("both sides");
    assert!(sum.reports.is_empty(), "{}", sum.reports.join("\n"));
    assert!(sum.sequences > 6_000, "{}", sum.sequences);
}

#[test]
fn random_lock_calls_match_the_kernel() {
    let sum = random::run(1, 20_000, 3).expect("both sides");
    assert!(sum.reports.is_empty(), "{}", sum.reports.join("\n"));
    assert!(
        sum.worked * 2 > sum.calls,
        "{} of {}",
        sum.worked,
        sum.calls
    );
}

#[test]
fn circles_of_waits_are_refused_as_by_the_kernel() {
    let sum = circles::run(1, 120, 3).expect("both sides");
    assert!(sum.reports.is_empty(), "{}", sum.reports.join("\n"));
    assert_eq!(sum.lengths.len(), circles::LONGEST - 1, "each length");
    for (length, [all, refused]) in sum.lengths {
        let seen = if length <= circles::SEEN { all } else { 0 };
        assert_eq!(refused, seen, "of circles of {length}");
    }
}

#[test]
fn locks_part_needs_memory_and_no_flip() {
    for elsewhere in [
        ["--back", "host"],
        ["--back", "fuse"],
        ["--flip", "explain"],
    ] {
        let mut oracle = Command::new(env!("CARGO_BIN_EXE_oracle"));
        let asked = oracle.args(["--part", "locks"]).args(elsewhere);
        let said = asked.output().expect("the oracle");
        assert_eq!(said.status.code(), Some(2), "{elsewhere:?}");
        let why = String::from_utf8_lossy(&said.stderr);
        assert!(why.contains("in memory only"), "{elsewhere:?}: {why}");
    }
}
