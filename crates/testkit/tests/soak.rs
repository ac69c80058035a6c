// SPDX-License-Identifier: MIT OR Apache-2.0
//! A short soak; `cargo xtask soak` is a long one.

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
fn fifty_thousand_operations_complete_once_and_leave_nothing() {
    soak(50_000, false);
}

#[test]
fn so_do_ten_thousand_over_a_directory_of_the_host() {
    soak(10_000, true);
}
