// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the handle of a tenant shares no cache line with other data. Limits and counts of
//! tenants are tested with a backend (`tests/tenants`).

use super::Handle;

#[test]
fn a_handle_shares_no_line() {
    assert_eq!(align_of::<Handle>(), 128);
    assert_eq!(size_of::<Handle>() % 128, 0);
}
