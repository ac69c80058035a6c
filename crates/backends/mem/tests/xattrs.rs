// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that extended attributes in memory are set, listed and removed as on tmpfs, and take room
//! from the tree's limit of inodes.

mod common;

use common::*;
use openpath_abi::xattr::{XATTR_CREATE, XATTR_REPLACE};
use openpath_abi::{Errno, XattrFlags, mode};
use openpath_mem::MemOptions;
use openpath_vfs::Inode;

fn set(i: &Inode, name: &str, value: &[u8], flags: XattrFlags, now: i64) -> Result<(), Errno> {
    i.ops().setxattr(i, name.as_bytes(), value, flags, at(now))
}

fn get(i: &Inode, name: &str) -> Result<Vec<u8>, Errno> {
    i.ops().getxattr(i, name.as_bytes())
}

fn remove(i: &Inode, name: &str, now: i64) -> Result<(), Errno> {
    i.ops().removexattr(i, name.as_bytes(), at(now))
}

fn list(i: &Inode) -> Vec<String> {
    let names = i.ops().listxattr(i).expect("listxattr");
    names
        .into_iter()
        .map(|n| String::from_utf8(n).expect("text"))
        .collect()
}

#[test]
fn xattr_flags_require_presence_or_absence() {
    let fs = fs();
    let f = fs.root().file("f", 1);
    assert_eq!(get(&f, "user.a"), Err(Errno::ENODATA));
    assert_eq!(remove(&f, "user.a", 2), Err(Errno::ENODATA));
    assert_eq!(set(&f, "user.a", b"v", XattrFlags::empty(), 2), Ok(()));
    assert_eq!(times(&f.attr(), 2), C);
    assert_eq!(set(&f, "user.a", b"w", XATTR_CREATE, 3), Err(Errno::EEXIST));
    assert_eq!(
        set(&f, "user.b", b"w", XATTR_REPLACE, 3),
        Err(Errno::ENODATA)
    );
    let both = XATTR_CREATE | XATTR_REPLACE;
    assert_eq!(set(&f, "user.a", b"w", both, 3), Err(Errno::EEXIST));
    assert_eq!(set(&f, "user.b", b"w", both, 3), Err(Errno::ENODATA));
    assert_eq!(
        (get(&f, "user.a"), times(&f.attr(), 3)),
        (Ok(b"v".to_vec()), NONE)
    );
    assert_eq!(set(&f, "user.a", b"", XATTR_REPLACE, 4), Ok(()));
    assert_eq!((get(&f, "user.a"), times(&f.attr(), 4)), (Ok(vec![]), C));
    assert_eq!(remove(&f, "user.a", 5), Ok(()));
    assert_eq!((list(&f).len(), times(&f.attr(), 5)), (0, C));
}

#[test]
fn names_are_listed_in_reverse_order() {
    let fs = fs();
    let d = fs.root().dir("d", 1);
    assert!(list(&d).is_empty());
    let names = [
        "user.z",
        "trusted.b",
        "security.q",
        "user.m",
        "trusted.a",
        "user.A",
        "user.aa",
    ];
    for name in names {
        set(&d, name, b"", XattrFlags::empty(), 2).expect("setxattr");
    }
    let order = [
        "user.z",
        "user.m",
        "user.aa",
        "user.A",
        "trusted.b",
        "trusted.a",
        "security.q",
    ];
    assert_eq!(list(&d), order);
}

#[test]
fn xattr_namespaces_match_tmpfs() {
    let fs = fs();
    let link = fs.root().symlink("l", b"x", 1).expect("symlink");
    let fifo = fs.root().make("p", mode::S_IFIFO, 1).expect("fifo");
    for i in [&fs.root().file("f", 1), &link, &fifo] {
        for name in ["system.foo", "foo.bar", "user", "trusted", "", "userx.y"] {
            assert_eq!(
                set(i, name, b"v", XattrFlags::empty(), 2),
                Err(Errno::EOPNOTSUPP),
                "{name}"
            );
            assert_eq!(get(i, name), Err(Errno::EOPNOTSUPP), "{name}");
            assert_eq!(remove(i, name, 2), Err(Errno::EOPNOTSUPP), "{name}");
        }
        for name in ["user.", "trusted.", "security."] {
            assert_eq!(
                set(i, name, b"v", XattrFlags::empty(), 2),
                Err(Errno::EINVAL),
                "{name}"
            );
            assert_eq!(get(i, name), Err(Errno::EINVAL), "{name}");
        }
        assert_eq!(set(i, "trusted.a", b"v", XattrFlags::empty(), 3), Ok(()));
        assert_eq!(set(i, "security.a", b"v", XattrFlags::empty(), 3), Ok(()));
    }
    // A backend does not treat access control lists as attributes.
    for name in ["system.posix_acl_access", "system.posix_acl_default"] {
        assert_eq!(get(&fifo, name), Err(Errno::EOPNOTSUPP), "{name}");
    }
}

#[test]
fn xattrs_take_room_for_inodes() {
    let fs = with(MemOptions::default().inodes(4));
    let f = fs.root().file("f", 1);
    let free = || fs.figures().ffree;
    // 40 bytes and the name's 6 beside the value, of 2 * 1024.
    assert_eq!(
        set(&f, "user.a", &[0; 2003], XattrFlags::empty(), 2),
        Err(Errno::ENOSPC)
    );
    assert_eq!(
        set(&f, "user.a", &[0; 2002], XattrFlags::empty(), 2),
        Ok(())
    );
    assert_eq!(
        (free(), set(&f, "user.b", &[], XattrFlags::empty(), 2)),
        (0, Err(Errno::ENOSPC))
    );
    remove(&f, "user.a", 3).expect("removexattr");
    for (len, left) in [(0, 1), (978, 1), (979, 0)] {
        set(&f, "user.a", &vec![0; len], XattrFlags::empty(), 4).expect("setxattr");
        assert_eq!(free(), left);
        remove(&f, "user.a", 4).expect("removexattr");
    }
    set(&f, "user.a", &[0; 979], XattrFlags::empty(), 5).expect("setxattr");
    // A new value is charged before the old one is released, and before the flags are checked.
    assert_eq!(
        set(&f, "user.a", &[0; 978], XattrFlags::empty(), 5),
        Err(Errno::ENOSPC)
    );
    assert_eq!(
        set(&f, "user.a", &[0; 978], XATTR_CREATE, 5),
        Err(Errno::ENOSPC)
    );
    assert_eq!(
        set(&f, "user.a", &[0; 9], XATTR_CREATE, 5),
        Err(Errno::EEXIST)
    );
    assert_eq!(set(&f, "user.a", &[0; 9], XattrFlags::empty(), 5), Ok(()));
    assert_eq!(free(), 1);
    fs.root().remove("f", 6).expect("unlink");
    drop(f);
    assert_eq!(free(), 3);
}

#[test]
fn unlimited_tree_limits_only_value_size() {
    let fs = with(MemOptions::default().inodes(0));
    let f = fs.root().file("f", 1);
    assert_eq!(
        set(&f, "user.big", &vec![1; 65536], XattrFlags::empty(), 2),
        Ok(())
    );
    assert_eq!(
        set(&f, "user.big", &vec![1; 65537], XattrFlags::empty(), 3),
        Err(Errno::E2BIG)
    );
    assert_eq!(get(&f, "user.big").map(|v| v.len()), Ok(65536));
}
