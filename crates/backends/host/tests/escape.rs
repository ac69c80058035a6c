// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that no guest leaves its directory of the host: runs the random attacks of the example
//! `escape` for a moment under each policy and each way to resolve paths.

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
