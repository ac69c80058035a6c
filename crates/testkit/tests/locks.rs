// SPDX-License-Identifier: MIT OR Apache-2.0
//! Locks beside the running kernel, a few of them: `cargo xtask oracle --part locks` does all.

use openpath_testkit::locks::{circles, every, part, random};
use std::process::Command;

#[test]
fn rows_of_three_calls_are_answered_as_by_the_kernel() {
    let sum = every::run(part::SHARE, 3).expect("both sides");
    assert!(sum.reports.is_empty(), "{}", sum.reports.join("\n"));
    assert!(sum.rows > 6_000, "{}", sum.rows);
}

#[test]
fn random_calls_are_answered_as_by_the_kernel() {
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
fn who_waits_in_a_circle_is_refused_as_by_the_kernel() {
    let sum = circles::run(1, 120, 3).expect("both sides");
    assert!(sum.reports.is_empty(), "{}", sum.reports.join("\n"));
    assert_eq!(sum.lengths.len(), circles::LONGEST - 1, "each length");
    for (length, [all, refused]) in sum.lengths {
        let seen = if length <= circles::SEEN { all } else { 0 };
        assert_eq!(refused, seen, "of circles of {length}");
    }
}

#[test]
fn nothing_is_said_of_locks_where_they_are_not_compared() {
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
