// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs the attacks of a hostile guest, scaled down.

use openpath_testkit::hostile::{self, Plan};

#[test]
fn every_bound_holds() {
    let wrong = hostile::run(&Plan {
        names: 800_000,
        full: false,
        seed: 1,
        only: None,
        say: |line| println!("{line}"),
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
