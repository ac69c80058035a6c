// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an access control list is read from its extended attribute as the kernel reads it,
//! that the right entry and the mask decide a permission, and that mode and list follow each other.

use super::*;
use crate::cred::Cred;

fn value(entries: &[(u16, u16, u32)]) -> Vec<u8> {
    let mut value = 2u32.to_le_bytes().to_vec();
    for (tag, perm, id) in entries {
        value.extend(tag.to_le_bytes());
        value.extend(perm.to_le_bytes());
        value.extend(id.to_le_bytes());
    }
    value
}

fn acl(entries: &[(u16, u16, u32)]) -> Acl {
    let parsed = Acl::parse(&value(entries)).expect("well-formed");
    parsed.expect("some entries")
}

const NONE: u32 = u32::MAX;

#[test]
fn value_is_read_in_the_order_of_the_kernel() {
    let parse = |value: &[u8]| Acl::parse(value);
    assert_eq!(parse(b"v"), Err(Errno::EINVAL));
    assert_eq!(parse(&[1, 0, 0, 0, 9]), Err(Errno::EOPNOTSUPP));
    assert_eq!(parse(&[2, 0, 0, 0, 9]), Err(Errno::EINVAL));
    assert_eq!(parse(&[2, 0, 0, 0]), Ok(None));
    assert_eq!(parse(&value(&[(3, 0, 0)])), Err(Errno::EINVAL));
    assert_eq!(parse(&value(&[(2, 7, NONE)])), Err(Errno::EINVAL));
    // Permissions are checked later.
    let odd = value(&[(1, 8, 5)]);
    assert_eq!(acl(&[(1, 8, 5)]).check(), Err(Errno::EINVAL));
    // What is no id is not kept.
    assert_eq!(
        parse(&odd).expect("read").expect("some").encode(),
        value(&[(1, 8, NONE)])
    );
}

#[test]
fn valid_list_is_in_order_and_has_a_mask_if_it_names_anyone() {
    let plain = [(1, 6, NONE), (4, 4, NONE), (0x20, 0, NONE)];
    assert_eq!(acl(&plain).check(), Ok(()));
    let named = [
        (1, 6, NONE),
        (2, 7, 1000),
        (4, 4, NONE),
        (8, 1, 50),
        (0x10, 6, NONE),
        (0x20, 0, NONE),
    ];
    assert_eq!(acl(&named).check(), Ok(()));
    assert_eq!(acl(&named).encode(), value(&named));
    for skip in 0..named.len() {
        let mut less = named.to_vec();
        less.remove(skip);
        let needed = !matches!(named[skip].0, 2 | 8);
        assert_eq!(acl(&less).check().is_err(), needed, "{less:?}");
    }
    for swap in 0..named.len() - 1 {
        let mut other = named;
        other.swap(swap, swap + 1);
        assert_eq!(acl(&other).check(), Err(Errno::EINVAL), "{other:?}");
    }
}

#[test]
fn entry_decides_and_mask_limits_it() {
    let list = acl(&[
        (1, 7, NONE),
        (2, 0, 1000),
        (2, 7, 1001),
        (4, 4, NONE),
        (8, 2, 50),
        (0x10, 6, NONE),
        (0x20, 5, NONE),
    ]);
    let by = |uid, groups: &[u32], asked| list.decide(&Cred::user(uid, 9, groups), 20, asked);
    assert_eq!(by(1000, &[20], 4), (AclMatch::User(1000), false));
    assert_eq!(by(1001, &[], 6), (AclMatch::User(1001), true));
    assert_eq!(by(1001, &[], 1), (AclMatch::Mask, false));
    assert_eq!(by(5, &[20], 4), (AclMatch::GroupObj, true));
    assert_eq!(by(5, &[20, 50], 2), (AclMatch::Group(50), true));
    // No single group gives both.
    assert_eq!(by(5, &[20, 50], 6), (AclMatch::Groups, false));
    assert_eq!(by(5, &[], 5), (AclMatch::Other, true));
    assert_eq!(by(5, &[], 2), (AclMatch::Other, false));
    assert_eq!(list.granted(&Cred::user(1001, 9, &[]), 20), 6);
    assert_eq!(list.mode_bits(), (0o765, false));
}

#[test]
fn mode_and_list_follow_each_other() {
    let plain = acl(&[(1, 6, NONE), (4, 4, NONE), (0x20, 0, NONE)]);
    assert_eq!(plain.mode_bits(), (0o640, true));
    assert_eq!(plain.after_chmod(0o751).mode_bits(), (0o751, true));
    let masked = acl(&[
        (1, 7, NONE),
        (2, 7, 1000),
        (4, 5, NONE),
        (0x10, 7, NONE),
        (0x20, 5, NONE),
    ]);
    let changed = masked.after_chmod(0o604);
    assert_eq!(changed.mode_bits(), (0o604, false));
    assert_eq!(changed.perm(AclTag::GroupObj), 5);
    let (made, bits) = masked.inherited(0o100_662);
    assert_eq!(bits, 0o100_660);
    assert_eq!(made.mode_bits(), (0o660, false));
    assert_eq!(made.perm(AclTag::User(1000)), 7);
}

impl Acl {
    fn perm(&self, tag: AclTag) -> u16 {
        let entry = self.entries.iter().find(|entry| entry.tag == tag);
        entry.expect("there").perm
    }
}
