// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the handle of a tenant shares no cache line with other data; other tests of tenants
//! use a backend and are in `crates/vfs/tests/tenants`.

use super::Handle;

#[test]
fn a_handle_shares_no_line() {
    assert_eq!(align_of::<Handle>(), 128);
    assert_eq!(size_of::<Handle>() % 128, 0);
}
