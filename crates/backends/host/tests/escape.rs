// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that no guest leaves its directory, by a short run of the storm of the example `escape` on
//! each tree.

#[path = "../examples/escape.rs"]
mod storm;

#[test]
fn no_guest_escapes() {
    for (name, options) in storm::trees() {
        let report = storm::storm(&format!("test-{name}"), options, 0.6, false);
        assert_eq!(report.escapes, Vec::<String>::new(), "{name}");
        assert!(
            report.worked > 0 && report.changes > 0,
            "{name}: {report:?}"
        );
    }
}
