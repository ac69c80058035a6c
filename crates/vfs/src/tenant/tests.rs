// SPDX-License-Identifier: MIT OR Apache-2.0
//! Charging alone; the rest is tested with a backend.

use super::charge;
use openpath_abi::Errno;
use openpath_sync::Word;

#[test]
fn a_charge_beyond_the_limit_charges_nothing() {
    let used = Word::new(0);
    assert_eq!(charge(&used, 10, 10), Ok(()));
    assert_eq!(charge(&used, 1, 10), Err(Errno::EDQUOT));
    assert_eq!(charge(&used, u64::MAX, u64::MAX), Err(Errno::EDQUOT));
    assert_eq!(used.get(), 10);
    used.sub(4);
    assert_eq!(charge(&used, 4, 10), Ok(()));
}
