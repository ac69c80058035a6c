// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that every limit holds against the attacks of a hostile guest, with fewer names than
//! `cargo xtask hostile` uses.

use openpath_testkit::hostile::{self, Plan};

/// Runs all attacks with so many names.
fn attack(names: u64) {
    let wrong = hostile::run(&Plan {
        names,
        full: false,
        seed: 1,
        only: None,
        say: |line| println!("{line}"),
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_bound_holds() {
    attack(200_000);
}

#[test]
#[ignore = "slow: 6 s"]
fn every_bound_holds_with_very_many_names() {
    attack(800_000);
}
