// SPDX-License-Identifier: MIT OR Apache-2.0
//! A short soak; `cargo xtask soak` is a long one.

use openpath_testkit::soak::{Plan, run};

#[test]
fn fifty_thousand_operations_complete_once_and_leave_nothing() {
    let plan = Plan {
        ops: 50_000,
        seed: 7,
    };
    let report = run(plan).expect("a world");
    assert!(report.wrong.is_empty(), "{:#?}", report.wrong);
    assert!(report.completed > 0 && report.dropped > 0);
}
