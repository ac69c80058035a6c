// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that calls on extended attributes check permissions, name spaces and file capabilities as
//! Linux 6.18 does on a tmpfs.

use crate::world::*;
use openpath_abi::caps::*;
use openpath_abi::xattr::{XATTR_CREATE, XATTR_REPLACE};
use openpath_abi::{Errno, OFlags, XattrFlags, mode, stat};
use openpath_vfs::{Task, Vfs};

fn tree() -> (Vfs, Task) {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    task.touch("/d/own", 0o644, (1000, 1000));
    task.touch("/d/root", 0o600, (0, 0));
    task.touch("/d/x", 0o755, (0, 0));
    task.dir("/d/dir", 0o755, (0, 0));
    task.node("/d/p", mode::S_IFIFO | 0o600, 0);
    task.node("/d/null", mode::S_IFCHR | 0o644, stat::makedev(1, 3));
    task.link_to("/d/sl", "own");
    (vfs, task)
}

/// The answers of set, get, remove and a second remove, for one name.
fn round(task: &Task, path: &str, name: &str) -> String {
    let (p, n) = (path.as_bytes(), name.as_bytes());
    let set = say(task.setxattr(p, n, b"v", XattrFlags::empty()));
    let get = say(task.getxattr(p, n));
    let (gone, again) = (say(task.removexattr(p, n)), say(task.removexattr(p, n)));
    format!("{set} {get} {gone} {again}")
}

#[test]
fn each_name_space_has_its_own_rules() {
    let (vfs, task) = tree();
    let (owner, other) = (user(&vfs, 1000, &[], &[]), user(&vfs, 1001, &[], &[]));
    let all = "OK OK OK ENODATA";
    let special = "EPERM ENODATA EPERM EPERM";
    let hidden = "EPERM ENODATA EPERM EPERM";
    let readable = "EACCES ENODATA EACCES EACCES";
    let closed = "EACCES EACCES EACCES EACCES";
    let none = "EOPNOTSUPP EOPNOTSUPP EOPNOTSUPP EOPNOTSUPP";
    let (acl, acl_of_other) = ("EINVAL ENODATA OK OK", "EINVAL ENODATA EPERM EPERM");
    let cap = "EINVAL ENODATA EPERM EPERM";
    let unknown = "EACCES EOPNOTSUPP EACCES EACCES";
    for (path, by_root, by_owner, by_other) in [
        ("/d/own", all, all, readable),
        ("/d/sl", all, all, readable),
        ("/d/root", all, closed, closed),
        ("/d/dir", all, readable, readable),
        ("/d/x", all, readable, readable),
        ("/d/p", special, special, special),
        ("/d/null", special, special, special),
    ] {
        let label = |who: &str| format!("user.a of {path} by {who}");
        assert_eq!(round(&task, path, "user.a"), by_root, "{}", label("root"));
        assert_eq!(round(&owner, path, "user.a"), by_owner, "{}", label("1000"));
        assert_eq!(round(&other, path, "user.a"), by_other, "{}", label("1001"));
        for name in ["trusted.a", "security.a"] {
            assert_eq!(round(&task, path, name), all, "{name} of {path} by root");
            assert_eq!(
                round(&owner, path, name),
                hidden,
                "{name} of {path} by 1000"
            );
        }
        assert_eq!(round(&task, path, "system.a"), none, "{path}");
        assert_eq!(round(&other, path, "system.a"), none, "{path}");
        assert_eq!(round(&task, path, "foo.a"), none, "{path}");
        assert_eq!(round(&other, path, "security.capability"), cap, "{path}");
        let name = "system.posix_acl_access";
        assert_eq!(round(&task, path, name), acl, "{path}");
        assert_eq!(round(&other, path, name), acl_of_other, "{path}");
        let of_files = if path == "/d/dir" { acl_of_other } else { acl };
        assert_eq!(
            round(&other, path, "system.posix_acl_default"),
            of_files,
            "{path}"
        );
    }
    assert_eq!(round(&other, "/d/own", "foo.a"), unknown);
    assert_eq!(round(&other, "/d/root", "foo.a"), closed);
    assert_eq!(round(&owner, "/d/own", "foo.a"), none);
    assert_eq!(
        round(&task, "/d/own", "user."),
        "EINVAL EINVAL EINVAL EINVAL"
    );
    assert_eq!(round(&task, "/d/own", "user"), none);
    assert_eq!(round(&task, "/d/p", "user."), special);
}

#[test]
fn lists_hide_trusted_attributes() {
    let (vfs, task) = tree();
    assert_eq!(task.listxattr(b"/d/own"), Ok(vec![]));
    for name in [b"user.z".as_slice(), b"trusted.z", b"security.z"] {
        task.setxattr(b"/d/own", name, b"v", XattrFlags::empty())
            .expect("setxattr");
    }
    let owner = user(&vfs, 1000, &[], &[]);
    let list = |by: &Task| {
        by.listxattr(b"/d/sl")
            .map(|l| String::from_utf8(l).expect("text"))
    };
    assert_eq!(
        list(&task).as_deref(),
        Ok("user.z\0trusted.z\0security.z\0")
    );
    assert_eq!(list(&owner).as_deref(), Ok("user.z\0security.z\0"));
    assert_eq!(task.llistxattr(b"/d/sl"), Ok(vec![]));
    let file = owner.get("/d/own", "RD");
    assert_eq!(owner.flistxattr(file), Ok(b"user.z\0security.z\0".to_vec()));
    task.chmod(b"/d/own", 0).expect("chmod");
    assert_eq!(say(user(&vfs, 1001, &[], &[]).listxattr(b"/d/own")), "OK");
}

#[test]
fn xattr_calls_check_arguments_in_order() {
    let (_vfs, task) = tree();
    let set = |path: &[u8], name: &[u8], value: &[u8], flags| {
        say(task.setxattr(path, name, value, flags))
    };
    let name = |len: usize| [b"user.".as_slice(), &vec![b'a'; len - 5]].concat();
    let big = vec![b'v'; 65_537];
    assert_eq!(
        set(b"nope", b"", b"v", XattrFlags::from_bits_retain(4)),
        "EINVAL"
    );
    assert_eq!(set(b"nope", b"", &big, XattrFlags::empty()), "ERANGE");
    assert_eq!(
        set(b"nope", &name(256), b"v", XattrFlags::empty()),
        "ERANGE"
    );
    assert_eq!(set(b"nope", b"user.a", &big, XattrFlags::empty()), "E2BIG");
    assert_eq!(set(b"nope", b"user.a", b"v", XattrFlags::empty()), "ENOENT");
    assert_eq!(set(b"", b"user.a", b"v", XattrFlags::empty()), "ENOENT");
    let f = b"/d/x";
    assert_eq!(set(f, &name(255), b"v", XattrFlags::empty()), "OK");
    assert_eq!(set(f, b"user.a", &big[1..], XattrFlags::empty()), "OK");
    assert_eq!(task.getxattr(f, b"user.a").map(|v| v.len()), Ok(65_536));
    let both = XATTR_CREATE | XATTR_REPLACE;
    assert_eq!(set(f, b"user.a", b"v", both), "EEXIST");
    assert_eq!(set(f, b"user.n", b"v", both), "ENODATA");
    assert_eq!(set(f, b"user.a", b"v", XATTR_CREATE), "EEXIST");
    assert_eq!(set(f, b"user.n", b"v", XATTR_REPLACE), "ENODATA");
    assert_eq!(set(f, b"user.n", b"", XATTR_CREATE), "OK");
    assert_eq!(task.getxattr(f, b"user.n"), Ok(vec![]));
    assert_eq!(say(task.getxattr(b"nope", b"")), "ERANGE");
    assert_eq!(say(task.removexattr(b"nope", b"")), "ERANGE");
    let (place, reader) = (task.get("/d/x", "PATH"), task.get("/d/x", "RD"));
    assert_eq!(
        task.fsetxattr(place, b"user.a", b"v", XattrFlags::from_bits_retain(9)),
        Err(Errno::EINVAL)
    );
    assert_eq!(
        task.fsetxattr(place, b"", b"v", XattrFlags::empty()),
        Err(Errno::ERANGE)
    );
    assert_eq!(
        task.fsetxattr(place, b"user.a", b"v", XattrFlags::empty()),
        Err(Errno::EBADF)
    );
    assert_eq!(
        task.fsetxattr(reader, b"user.b", b"v", XattrFlags::empty()),
        Ok(())
    );
    assert_eq!(task.fgetxattr(reader, b"user.b"), Ok(b"v".to_vec()));
    assert_eq!(task.fremovexattr(reader, b"user.b"), Ok(()));
}

#[test]
fn links_have_attributes_of_their_own() {
    let (_vfs, task) = tree();
    let l = b"/d/sl".as_slice();
    let set = |name: &[u8]| say(task.lsetxattr(l, name, b"v", XattrFlags::empty()));
    assert_eq!(set(b"user.a"), "EPERM");
    assert_eq!(say(task.lgetxattr(l, b"user.a")), "ENODATA");
    assert_eq!(
        (set(b"trusted.a"), set(b"security.a")),
        ("OK".into(), "OK".into())
    );
    assert_eq!(task.lgetxattr(l, b"trusted.a"), Ok(b"v".to_vec()));
    assert_eq!(say(task.getxattr(l, b"trusted.a")), "ENODATA");
    assert_eq!(task.llistxattr(l), Ok(b"trusted.a\0security.a\0".to_vec()));
    assert_eq!(say(task.lremovexattr(l, b"trusted.a")), "OK");
    let acl = b"system.posix_acl_access";
    assert_eq!(set(acl), "EINVAL");
    assert_eq!(say(task.lgetxattr(l, acl)), "EOPNOTSUPP");
    assert_eq!(say(task.lremovexattr(l, acl)), "EOPNOTSUPP");
}

#[test]
fn only_the_owner_sets_user_attributes_of_a_sticky_directory() {
    let (vfs, task) = tree();
    task.dir("/st", 0o1777, (0, 0));
    let other = user(&vfs, 1000, &[], &[]);
    let round = |by: &Task| round(by, "/st", "user.a");
    assert_eq!(round(&other), "EPERM ENODATA EPERM EPERM");
    assert_eq!(
        round(&user(&vfs, 1000, &[], &[CAP_FOWNER])),
        "OK OK OK ENODATA"
    );
    task.chmod(b"/st", 0o777).expect("chmod");
    assert_eq!(round(&other), "OK OK OK ENODATA");
}

const CAP: &[u8] = b"security.capability";

/// File capabilities of this version, padded or cut to `len` bytes.
fn caps(version: u32, len: usize, owner: u32) -> Vec<u8> {
    let words = [version, 1 << 10, 0, 0, 0, owner];
    let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    bytes.resize(len, 0);
    bytes
}

#[test]
fn file_capabilities_have_two_versions() {
    let (_vfs, task) = tree();
    let f = b"/d/x";
    let v2 = caps(0x0200_0001, 20, 0);
    let foreign = caps(0x0300_0000, 24, 5);
    for (value, answer, shown) in [
        (v2.clone(), "OK", Ok(v2.clone())),
        (caps(0x0300_0001, 24, 0), "OK", Ok(v2)),
        (foreign.clone(), "OK", Ok(foreign.clone())),
        (vec![1, 2], "EINVAL", Ok(foreign.clone())),
        (caps(0x0200_0001, 21, 0), "EINVAL", Ok(foreign.clone())),
        (caps(0x0100_0000, 12, 0), "EINVAL", Ok(foreign.clone())),
        (caps(0x0200_0000, 24, 0), "EINVAL", Ok(foreign)),
        (vec![], "OK", Err(Errno::EINVAL)),
    ] {
        assert_eq!(
            say(task.setxattr(f, CAP, &value, XattrFlags::empty())),
            answer,
            "{value:?}"
        );
        assert_eq!(task.getxattr(f, CAP), shown, "{value:?}");
    }
}

#[test]
fn file_capabilities_need_cap_setfcap() {
    let (vfs, task) = tree();
    let v2 = caps(0x0200_0001, 20, 0);
    let owner = user(&vfs, 1000, &[], &[]);
    let set = |by: &Task, path: &[u8], value: &[u8]| {
        say(by.setxattr(path, CAP, value, XattrFlags::empty()))
    };
    assert_eq!(set(&owner, b"/d/own", &v2), "EPERM");
    assert_eq!(set(&owner, b"/d/own", b"v"), "EINVAL");
    assert_eq!(set(&owner, b"/d/own", b""), "OK");
    assert_eq!(say(owner.removexattr(b"/d/own", CAP)), "EPERM");
    let setter = user(&vfs, 1000, &[], &[CAP_SETFCAP]);
    assert_eq!(set(&setter, b"/d/root", &v2), "OK");
    assert_eq!(say(setter.removexattr(b"/d/root", CAP)), "OK");
    assert_eq!(
        say(setter.setxattr(b"/d/root", b"security.x", b"v", XattrFlags::empty())),
        "EPERM"
    );
    let admin = user(&vfs, 1000, &[], &[CAP_SYS_ADMIN]);
    assert_eq!(set(&admin, b"/d/root", &v2), "EPERM");
    assert_eq!(round(&admin, "/d/root", "security.x"), "OK OK OK ENODATA");
    assert_eq!(round(&admin, "/d/root", "trusted.x"), "OK OK OK ENODATA");
    let _root = task;
}

#[test]
fn a_change_of_data_removes_file_capabilities() {
    let (_vfs, task) = tree();
    let p = b"/d/x".as_slice();
    let v2 = caps(0x0200_0001, 20, 0);
    let write = |data: &[u8]| task.with("/d/x", "WR", |fd| task.write(fd, data).map(drop));
    type Change<'a> = &'a dyn Fn() -> Result<(), Errno>;
    let changes: [(&str, Change<'_>, bool); 8] = [
        ("write", &|| write(b"a"), false),
        ("empty write", &|| write(b""), true),
        ("truncate", &|| task.truncate(p, 1), false),
        (
            "ftruncate",
            &|| task.with("/d/x", "WR", |fd| task.ftruncate(fd, 0)),
            false,
        ),
        ("chown", &|| task.chown(p, u32::MAX, u32::MAX), false),
        ("chmod", &|| task.chmod(p, 0o644), true),
        (
            "rename",
            &|| {
                task.rename(p, b"/d/y")
                    .and_then(|()| task.rename(b"/d/y", p))
            },
            true,
        ),
        (
            "O_TRUNC",
            &|| task.shut(task.open(p, OFlags::from_bits_retain((flags("WR|TRUNC")).bits()), 0)),
            false,
        ),
    ];
    for (label, change, stays) in changes {
        task.setxattr(p, CAP, &v2, XattrFlags::empty())
            .expect("setxattr");
        assert_eq!(change(), Ok(()), "{label}");
        let left = if stays { "OK" } else { "ENODATA" };
        assert_eq!(say(task.getxattr(p, CAP)), left, "{label}");
    }
}
