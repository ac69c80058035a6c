// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a short soak (random operations on rings and futures) completes each operation once
//! and leaves nothing; `cargo xtask soak` runs a long one.

use openpath_testkit::soak::{Plan, run};

fn soak(ops: u64, over_host: bool) {
    let plan = Plan {
        ops,
        seed: 7,
        over_host,
    };
    let report = run(plan).expect("a world");
    assert!(report.wrong.is_empty(), "{:#?}", report.wrong);
    assert!(report.completed > 0 && report.dropped > 0);
}

#[test]
fn soak_in_memory_completes_once_and_leaves_nothing() {
    soak(50_000, false);
}

#[test]
fn soak_over_host_completes_once_and_leaves_nothing() {
    soak(10_000, true);
}
