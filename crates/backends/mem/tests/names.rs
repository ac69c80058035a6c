// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that making, linking and removing names in memory changes attributes, times, link counts
//! and sizes as on tmpfs, and that each type of file refuses the calls of other types.

mod common;

use common::*;
use openpath_abi::{Errno, mode};
use openpath_vfs::{NewInode, WaitMode};
use std::sync::Arc;

#[test]
fn root_has_mount_options() {
    let fs = with(
        openpath_mem::MemOptions::default()
            .mode(0o750)
            .uid(3)
            .gid(4),
    );
    let a = fs.root().attr();
    assert_eq!(
        (a.mode, a.nlink, a.size, a.blocks),
        (mode::S_IFDIR | 0o750, 2, 40, 0)
    );
    assert_eq!((a.uid, a.gid, fs.root().ino()), (3, 4, 1));
    assert_eq!(times(&a, 1), ALL);
    assert_eq!(common::fs().root().mode(), mode::S_IFDIR | 0o1777);
    assert_eq!(
        (fs.sb.options().kind, fs.sb.options().name_max),
        ("tmpfs", 255)
    );
    assert!(!fs.sb.is_read_only());
    let ro = with(openpath_mem::MemOptions::default().read_only(true));
    assert!(ro.sb.is_read_only());
}

#[test]
fn new_file_has_requested_attributes() {
    let fs = fs();
    let f = fs
        .root()
        .make("f", mode::S_IFREG | 0o4640, 5)
        .expect("file");
    let a = f.attr();
    assert_eq!(
        (a.mode, a.nlink, a.size, a.blocks),
        (mode::S_IFREG | 0o4640, 1, 0, 0)
    );
    assert_eq!(
        (a.uid, a.gid, f.ino(), f.rdev(), f.btime()),
        (7, 8, 2, 0, at(5))
    );
    assert_eq!(times(&a, 5), ALL);
    let root = fs.root().attr();
    assert_eq!((root.nlink, root.size, times(&root, 5)), (2, 60, MC));
    assert!(Arc::ptr_eq(&f, &fs.root().get("f")));
    assert!(fs.root().find("g").is_none());
}

#[test]
fn new_directory_adds_link() {
    let fs = fs();
    let d = fs.root().dir("d", 5);
    let a = d.attr();
    assert_eq!((a.nlink, a.size, a.blocks, times(&a, 5)), (2, 40, 0, ALL));
    let root = fs.root().attr();
    assert_eq!((root.nlink, root.size, times(&root, 5)), (3, 60, MC));
    fs.root().remove("d", 6).expect("rmdir");
    let (a, root) = (d.attr(), fs.root().attr());
    assert_eq!((a.nlink, a.size, times(&a, 6)), (0, 40, C));
    assert_eq!((root.nlink, root.size, times(&root, 6)), (2, 40, MC));
    assert_eq!(d.make("x", mode::S_IFREG, 7).err(), Some(Errno::ENOENT));
}

#[test]
fn nonempty_directory_is_not_removed() {
    let fs = fs();
    let d = fs.root().dir("d", 2);
    d.file("f", 3);
    assert_eq!(fs.root().remove("d", 4), Err(Errno::ENOTEMPTY));
    assert_eq!(
        (fs.root().attr().nlink, times(&fs.root().attr(), 4)),
        (3, NONE)
    );
    d.remove("f", 5).expect("unlink");
    fs.root().remove("d", 6).expect("rmdir");
}

#[test]
fn names_are_unique_and_numbers_never_reused() {
    let fs = fs();
    fs.root().file("a", 2);
    assert_eq!(
        fs.root().make("a", mode::S_IFREG, 3).err(),
        Some(Errno::EEXIST)
    );
    fs.root().remove("a", 4).expect("unlink");
    let again = fs.root().file("a", 5);
    assert!(again.ino() > 2);
    assert_eq!(fs.root().attr().size, 60);
}

#[test]
fn links_are_counted_and_change_times() {
    let fs = fs();
    let f = fs.root().file("f", 2);
    fs.root().link("g", &f, 3).expect("link");
    assert_eq!(
        (f.nlink(), times(&f.attr(), 3), fs.root().attr().size),
        (2, C, 80)
    );
    assert_eq!(times(&fs.root().attr(), 3), MC);
    assert_eq!(fs.root().link("g", &f, 4), Err(Errno::EEXIST));
    fs.root().remove("f", 5).expect("unlink");
    assert_eq!((f.nlink(), times(&f.attr(), 5)), (1, C));
    assert_eq!(times(&fs.root().attr(), 5), MC);
    assert!(Arc::ptr_eq(&f, &fs.root().get("g")));
    fs.root().remove("g", 6).expect("unlink");
    assert_eq!((f.nlink(), times(&f.attr(), 6)), (0, C));
    let d = fs.root().dir("d", 7);
    assert_eq!(fs.root().link("e", &d, 8), Err(Errno::EPERM));
}

#[test]
fn link_count_does_not_wrap() {
    let fs = fs();
    let f = fs.root().file("f", 2);
    f.update(|a| a.nlink = u32::MAX);
    assert_eq!(fs.root().link("g", &f, 3), Err(Errno::EMLINK));
    fs.root().update(|a| a.nlink = u32::MAX);
    let dir = mode::S_IFDIR | 0o755;
    assert_eq!(fs.root().make("d", dir, 3).err(), Some(Errno::EMLINK));
    assert_eq!(fs.root().list(), ["f"]);
}

#[test]
fn temporary_file_can_be_linked() {
    let fs = fs();
    let root = fs.root();
    let t = root
        .ops()
        .tmpfile(root, &new(mode::S_IFREG | 0o600, 4))
        .expect("tmpfile");
    assert_eq!(
        (t.nlink(), root.attr().size, times(&root.attr(), 4)),
        (0, 40, NONE)
    );
    assert_eq!(write(&t, b"abc", 0, 5), Ok(3));
    root.link("named", &t, 6).expect("link");
    assert_eq!(
        (t.nlink(), times(&t.attr(), 6), root.attr().size),
        (1, C, 60)
    );
    assert_eq!(read(&root.get("named"), 9, 0), b"abc");
    let refused = root.ops().tmpfile(root, &new(mode::S_IFDIR | 0o600, 4));
    assert_eq!(refused.err(), Some(Errno::EOPNOTSUPP));
}

#[test]
fn symbolic_links_keep_body() {
    let fs = fs();
    let long = vec![b'x'; 4095];
    for (name, body, blocks) in [
        ("a", &b"../b"[..], 0),
        ("b", &long[..127], 0),
        ("c", &long[..128], 8),
        ("d", &long, 8),
    ] {
        let l = fs.root().symlink(name, body, 3).expect("symlink");
        let a = l.attr();
        assert_eq!((a.size, a.blocks, a.nlink), (body.len() as u64, blocks, 1));
        assert_eq!(a.mode, mode::S_IFLNK | 0o777);
        let answer = l.ops().readlink(&l, WaitMode::Wait).expect("readlink");
        assert!(matches!(answer, std::borrow::Cow::Borrowed(b) if b == body));
    }
    let f = fs.root().file("f", 4);
    assert_eq!(
        f.ops().readlink(&f, WaitMode::Wait).err(),
        Some(Errno::EINVAL)
    );
}

#[test]
fn only_devices_have_a_device_number() {
    let fs = fs();
    let kinds = [
        (mode::S_IFIFO, 0),
        (mode::S_IFSOCK, 0),
        (mode::S_IFCHR, 77),
        (mode::S_IFBLK, 77),
        (mode::S_IFREG, 0),
    ];
    for (kind, rdev) in kinds {
        let node = NewInode {
            rdev: 77,
            ..new(kind | 0o600, 2)
        };
        let name = format!("{kind}");
        let node = fs
            .root()
            .ops()
            .create(fs.root(), name.as_bytes(), &node)
            .expect("node");
        assert_eq!(
            (node.rdev(), node.kind(), node.nlink(), node.size()),
            (rdev, kind, 1, 0)
        );
    }
    assert_eq!(fs.root().make("x", 0o644, 3).err(), Some(Errno::EINVAL));
    assert_eq!(
        fs.root().make("x", mode::S_IFMT, 3).err(),
        Some(Errno::EINVAL)
    );
}

#[test]
fn each_type_refuses_calls_of_other_types() {
    let fs = fs();
    let root = fs.root();
    let f = root.file("f", 2);
    let p = root.make("p", mode::S_IFIFO, 2).expect("fifo");
    for inode in [&f, &p] {
        let found = inode.ops().lookup(inode, b"x", WaitMode::Wait);
        assert_eq!(found.err(), Some(Errno::ENOTDIR));
        assert_eq!(inode.make("x", mode::S_IFREG, 3).err(), Some(Errno::EPERM));
        assert_eq!(inode.link("x", &f, 3), Err(Errno::EPERM));
        assert_eq!(
            inode.ops().readdir(inode, 0, &mut |_| true),
            Err(Errno::ENOTDIR)
        );
        assert_eq!(
            inode.ops().unlink(inode, b"x", &f, at(3)),
            Err(Errno::EPERM)
        );
        assert_eq!(
            root.ops().rmdir(root, b"f", inode, at(3)),
            Err(Errno::ENOTDIR)
        );
    }
    for inode in [root, &p] {
        assert_eq!(inode.ops().read_at(inode, &mut [0], 0), Err(Errno::EINVAL));
        assert_eq!(write(inode, b"x", 0, 3), Err(Errno::EINVAL));
        assert_eq!(truncate(inode, 0, 3), Err(Errno::EINVAL));
    }
    let d = root.dir("d", 4);
    assert_eq!(root.ops().unlink(root, b"d", &d, at(5)), Err(Errno::EISDIR));
    assert_eq!(root.ops().unlink(root, b"p", &f, at(5)), Err(Errno::ENOENT));
}

#[test]
fn inodes_of_another_tree_are_refused() {
    let (ours, theirs) = (fs(), fs());
    let f = theirs.root().file("f", 2);
    let d = theirs.root().dir("d", 2);
    let root = ours.root();
    root.file("f", 2);
    root.dir("d", 2);
    assert_eq!(root.link("g", &f, 3), Err(Errno::EXDEV));
    assert_eq!(root.ops().unlink(root, b"f", &f, at(3)), Err(Errno::EXDEV));
    assert_eq!(root.ops().rmdir(root, b"d", &d, at(3)), Err(Errno::EXDEV));
    let own = root.get("f");
    let ask = |source, to, target| {
        root.ops()
            .rename(&request((root, "f"), source, to, target, 3))
    };
    assert_eq!(ask(&own, (&d, "f"), None), Err(Errno::EXDEV));
    assert_eq!(ask(&f, (root, "g"), None), Err(Errno::EXDEV));
    assert_eq!(ask(&own, (root, "d"), Some(&d)), Err(Errno::ENOENT));
    assert_eq!(root.list(), ["d", "f"]);
}
