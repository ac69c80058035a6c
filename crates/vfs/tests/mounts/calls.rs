// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that mount, bind, remount and umount, as a task calls them, and each mount flag answer and
//! act as in Linux 6.18.

use crate::tasks::{NOBODY, Short, root, says, tree, user, vfs};
use openpath_abi::fcntl::{
    AT_FDCWD, AT_REMOVEDIR, O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_PATH,
    O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY,
};
use openpath_abi::mode::{S_IFCHR, S_IFIFO};
use openpath_abi::mount::{MNT_DETACH, MNT_EXPIRE, MNT_FORCE, UMOUNT_NOFOLLOW};
use openpath_abi::rename::RENAME_EXCHANGE;
use openpath_abi::resolve::{RESOLVE_BENEATH, RESOLVE_IN_ROOT, RESOLVE_NO_SYMLINKS};
use openpath_abi::{Errno, OFlags, OpenHow, RenameFlags, UmountFlags, stat};
use openpath_vfs::{MountFlags, Task, Vfs};
use std::sync::Arc;

fn mount(t: &Task, target: &str) -> String {
    says(t.mount(tree(), target.as_bytes(), MountFlags::default()))
}

fn bind(t: &Task, source: &str, target: &str) -> String {
    says(t.bind(source.as_bytes(), target.as_bytes()))
}

fn umount(t: &Task, target: &str, flags: UmountFlags) -> String {
    says(t.umount(target.as_bytes(), flags))
}

fn rename(t: &Task, old: &str, new: &str, flags: RenameFlags) -> String {
    says(t.renameat2(AT_FDCWD, old.as_bytes(), AT_FDCWD, new.as_bytes(), flags))
}

/// A tree with one file of each kind in `/src`.
fn setup() -> (Vfs, Task) {
    let vfs = vfs();
    let t = root(&vfs);
    t.umask(0);
    t.mkdir(b"/src", 0o777).expect("mkdir");
    t.dir("/src/d");
    t.mknod(b"/src/f", 0o644, 0).expect("mknod");
    t.mknod(b"/src/noperm", 0o400, 0).expect("mknod");
    t.symlink(b"f", b"/src/ls").expect("symlink");
    t.mknod(b"/src/p", S_IFIFO | 0o666, 0).expect("mknod");
    let null = stat::makedev(1, 3);
    t.mknod(b"/src/null", S_IFCHR | 0o666, null).expect("mknod");
    let driverless = stat::makedev(240, 77);
    t.mknod(b"/src/nodrv", S_IFCHR | 0o666, driverless)
        .expect("mknod");
    for dir in ["/a", "/b", "/m"] {
        t.dir(dir);
    }
    (vfs, t)
}

#[test]
fn a_read_only_mount_and_a_read_only_tree_give_different_errors() {
    const A3: u32 = 3;
    // Path and flags, then four answers: a read-only bind and a read-only tree, as root and as a
    // user.
    let table: &[(&str, u32, [&str; 4])] = &[
        ("f", O_RDONLY.bits(), ["0"; 4]),
        ("f", O_WRONLY.bits(), ["EROFS", "EROFS", "EACCES", "EROFS"]),
        ("f", O_TRUNC.bits(), ["EROFS"; 4]),
        ("f", O_CREAT.bits(), ["0"; 4]),
        ("f", (O_CREAT | O_EXCL).bits(), ["EEXIST"; 4]),
        (
            "f",
            (O_WRONLY | O_CREAT).bits(),
            ["EROFS", "EROFS", "EACCES", "EROFS"],
        ),
        ("new", O_CREAT.bits(), ["EROFS"; 4]),
        ("new", (O_WRONLY | O_CREAT | O_EXCL).bits(), ["EROFS"; 4]),
        ("new/", O_CREAT.bits(), ["EISDIR"; 4]),
        (
            "noperm",
            O_WRONLY.bits(),
            ["EROFS", "EROFS", "EACCES", "EROFS"],
        ),
        ("noperm", (O_WRONLY | O_TRUNC).bits(), ["EROFS"; 4]),
        ("noperm", O_CREAT.bits(), ["0", "0", "EACCES", "EACCES"]),
        ("d", O_WRONLY.bits(), ["EISDIR"; 4]),
        ("d", O_CREAT.bits(), ["EISDIR"; 4]),
        ("d", (O_TMPFILE | O_RDWR).bits(), ["EROFS"; 4]),
        ("p", (O_WRONLY | O_NONBLOCK).bits(), ["ENXIO"; 4]),
        ("p", (O_RDWR | O_NONBLOCK).bits(), ["0"; 4]),
        ("null", O_WRONLY.bits(), ["0"; 4]),
        ("null", (O_RDWR | O_CREAT).bits(), ["0"; 4]),
        ("f", O_PATH.bits(), ["0"; 4]),
        ("f", (O_WRONLY | O_DIRECTORY).bits(), ["ENOTDIR"; 4]),
        ("nope", O_WRONLY.bits(), ["ENOENT"; 4]),
        ("ls", O_WRONLY.bits(), ["EROFS", "EROFS", "EACCES", "EROFS"]),
        ("f", A3, ["0", "EROFS", "EACCES", "EROFS"]),
        ("f", O_APPEND.bits(), ["0"; 4]),
    ];
    // Two trees with the same content: one is read-only through a mount, one as a tree.
    let (_vfs, by_mount) = setup();
    assert_eq!(bind(&by_mount, "/src", "/m"), "0");
    let read_only = MountFlags::default() | MountFlags::READ_ONLY;
    by_mount.remount_bind(b"/m", read_only).expect("remount");
    let (_vfs2, by_tree) = setup();
    assert_eq!(bind(&by_tree, "/src", "/m"), "0");
    by_tree.remount_sb(b"/m", true).expect("remount");
    let users = [user(&by_mount, NOBODY), user(&by_tree, NOBODY)];
    for &(path, flags, expected) in table {
        let path = format!("/m/{path}");
        let said = [&by_mount, &by_tree, &users[0], &users[1]]
            .map(|t| says(t.shut(t.open(path.as_bytes(), OFlags::from_bits_retain(flags), 0o644))));
        assert_eq!(said, expected, "{path} {flags:#o}");
    }
    // The same files are writable through the other mount; those of the tree are not.
    assert_eq!(
        says(by_mount.shut(by_mount.open(b"/src/f", O_WRONLY, 0))),
        "0"
    );
    assert_eq!(
        says(by_tree.shut(by_tree.open(b"/src/f", O_WRONLY, 0))),
        "EROFS"
    );
}

#[test]
fn creation_checks_the_name_before_a_read_only_mount_and_removal_after() {
    let (_vfs, t) = setup();
    assert_eq!(bind(&t, "/src", "/m"), "0");
    let read_only = MountFlags::default() | MountFlags::READ_ONLY;
    t.remount_bind(b"/m", read_only).expect("remount");
    let long = format!("/m/{}", "a".repeat(256));
    // Path, then seven answers: mkdir; mknod, symlink and link from within; unlink, rmdir, rename,
    // rename to.
    let table: &[(&str, [&str; 6])] = &[
        (
            "/m/f",
            ["EEXIST", "EEXIST", "EROFS", "EROFS", "EROFS", "EROFS"],
        ),
        (
            "/m/n",
            ["EROFS", "EROFS", "EROFS", "EROFS", "EROFS", "EROFS"],
        ),
        (
            "/m/n/",
            ["EROFS", "ENOENT", "EROFS", "EROFS", "EROFS", "EROFS"],
        ),
        (
            "/m/f/",
            ["EEXIST", "EEXIST", "EROFS", "EROFS", "EROFS", "EROFS"],
        ),
        ("/m/nx/x", ["ENOENT"; 6]),
        (
            "/m/.",
            ["EEXIST", "EEXIST", "EISDIR", "EINVAL", "EBUSY", "EBUSY"],
        ),
        (
            "/m/..",
            ["EEXIST", "EEXIST", "EISDIR", "ENOTEMPTY", "EBUSY", "EBUSY"],
        ),
        (
            &long,
            [
                "ENAMETOOLONG",
                "ENAMETOOLONG",
                "EROFS",
                "EROFS",
                "EROFS",
                "EROFS",
            ],
        ),
    ];
    for &(path, expected) in table {
        let p = path.as_bytes();
        let said = [
            says(t.mkdir(p, 0o755)),
            says(t.mknod(p, 0o644, 0)),
            says(t.unlink(p)),
            says(t.unlinkat(AT_FDCWD, p, AT_REMOVEDIR)),
            rename(&t, path, "/m/zz", RenameFlags::empty()),
            rename(&t, "/m/f", path, RenameFlags::empty()),
        ];
        assert_eq!(said, expected, "{path}");
        assert_eq!(says(t.symlink(b"x", p)), expected[1], "{path}");
        assert_eq!(says(t.link(b"/m/f", p)), expected[1], "{path}");
        assert_eq!(says(t.link(b"/src/f", p)), expected[1], "{path}");
    }
}

#[test]
fn links_are_not_followed_on_a_nosymfollow_mount() {
    let (_vfs, t) = setup();
    assert_eq!(bind(&t, "/src", "/m"), "0");
    let flags = MountFlags::default() | MountFlags::NO_SYM_FOLLOW;
    t.remount_bind(b"/m", flags).expect("remount");
    assert_eq!(t.mount_flags(b"/m/f"), Ok(flags));
    let open = |path: &str, flags| says(t.shut(t.open(path.as_bytes(), flags, 0o644)));
    assert_eq!(open("/m/ls", O_RDONLY), "ELOOP");
    assert_eq!(open("/m/ls", O_NOFOLLOW), "ELOOP");
    assert_eq!(open("/m/ls", O_PATH | O_NOFOLLOW), "0");
    assert_eq!(open("/m/ls", O_CREAT | O_EXCL), "EEXIST");
    assert_eq!(open("/m/f", O_RDONLY), "0");
    assert_eq!(open("/src/ls", O_RDONLY), "0");
    assert_eq!(t.readlink(b"/m/ls"), Ok(b"f".to_vec()));
    let how = OpenHow {
        resolve: RESOLVE_NO_SYMLINKS,
        ..OpenHow::default()
    };
    assert_eq!(says(t.shut(t.openat2(AT_FDCWD, b"/m/ls", &how))), "ELOOP");
    // They are followed again without the flag.
    t.remount_bind(b"/m", MountFlags::default())
        .expect("remount");
    assert_eq!(open("/m/ls", O_RDONLY), "0");
}

#[test]
fn devices_are_not_opened_on_a_nodev_mount() {
    let (_vfs, t) = setup();
    assert_eq!(bind(&t, "/src", "/m"), "0");
    let flags = MountFlags::default() | MountFlags::NO_DEV;
    t.remount_bind(b"/m", flags).expect("remount");
    let open = |path: &str, flags| says(t.shut(t.open(path.as_bytes(), flags, 0o644)));
    assert_eq!(open("/m/null", O_RDONLY), "EACCES");
    assert_eq!(open("/m/null", O_PATH), "0");
    assert_eq!(open("/m/p", O_RDWR | O_NONBLOCK), "0");
    assert_eq!(open("/src/nodrv", O_RDONLY), "ENXIO");
    assert_eq!(open("/m/nodrv", O_RDONLY), "EACCES");
    assert_eq!(open("/m/null", O_DIRECTORY), "ENOTDIR");
    assert_eq!(open("/m/null", O_CREAT | O_EXCL), "EEXIST");
    // A bind of it copies its flags, and may drop them.
    assert_eq!(bind(&t, "/m", "/a"), "0");
    assert_eq!(t.mount_flags(b"/a"), Ok(flags));
    assert_eq!(open("/a/null", O_RDONLY), "EACCES");
    t.remount_bind(b"/a", MountFlags::default())
        .expect("remount");
    assert_eq!(open("/a/null", O_RDONLY), "0");
    assert_eq!(open("/m/null", O_RDONLY), "EACCES");
}

#[test]
fn mount_calls_check_paths_then_permission_then_the_rest() {
    let (_vfs, t) = setup();
    assert_eq!(mount(&t, "/nope"), "ENOENT");
    assert_eq!(mount(&t, ""), "ENOENT");
    assert_eq!(mount(&t, "/src/f"), "ENOTDIR");
    assert_eq!(bind(&t, "", "/a"), "EINVAL");
    assert_eq!(bind(&t, "/nope", "/a"), "ENOENT");
    assert_eq!(bind(&t, "/src/f", "/a"), "ENOTDIR");
    assert_eq!(bind(&t, "/a", "/src/f"), "ENOTDIR");
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "EINVAL");
    assert_eq!(
        umount(&t, "/nope", UmountFlags::from_bits_retain(16)),
        "EINVAL"
    );
    let flags = MountFlags::default();
    assert_eq!(t.remount_bind(b"/a", flags), Err(Errno::EINVAL));
    assert_eq!(t.remount_sb(b"/a", true), Err(Errno::EINVAL));
    let u = user(&t, NOBODY);
    assert_eq!(mount(&u, "/nope"), "ENOENT");
    assert_eq!(mount(&u, "/a"), "EPERM");
    assert_eq!(mount(&u, "/src/f"), "EPERM");
    assert_eq!(bind(&u, "/nope", "/a"), "EPERM");
    assert_eq!(bind(&u, "", "/a"), "EPERM");
    assert_eq!(bind(&u, "/a", "/nope"), "ENOENT");
    assert_eq!(u.remount_bind(b"/a", flags), Err(Errno::EPERM));
    assert_eq!(u.remount_sb(b"/a", true), Err(Errno::EPERM));
    assert_eq!(umount(&u, "/a", UmountFlags::empty()), "EPERM");
    assert_eq!(umount(&u, "/", UmountFlags::empty()), "EPERM");
    assert_eq!(umount(&u, "/nope", UmountFlags::empty()), "ENOENT");
    assert_eq!(
        umount(&u, "/nope", UmountFlags::from_bits_retain(16)),
        "EINVAL"
    );
}

#[test]
fn the_topmost_mount_is_seen_and_unmounted_first() {
    let (vfs, t) = setup();
    let mounts = vfs.usage().mounts;
    t.touch("/a/below");
    assert_eq!(mount(&t, "/a"), "0");
    t.touch("/a/one");
    assert_eq!(mount(&t, "/a"), "0");
    assert_eq!(t.names("/a"), [""; 0]);
    t.touch("/a/two");
    assert_eq!(bind(&t, "/a", "/a"), "0");
    assert_eq!(t.names("/a"), ["two"]);
    assert_eq!(t.stat(b"/a/..").map(|s| s.ino), Ok(t.ino("/")));
    assert_eq!(vfs.usage().mounts, mounts + 3);
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "0");
    assert_eq!(t.names("/a"), ["two"]);
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "0");
    assert_eq!(t.names("/a"), ["one"]);
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "0");
    assert_eq!(t.names("/a"), ["below"]);
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "EINVAL");
    assert_eq!(vfs.usage().mounts, mounts);
}

#[test]
fn a_tree_can_be_mounted_often_but_not_on_its_own_root() {
    let (vfs, t) = setup();
    let sb = tree();
    let mount = |path: &str| says(t.mount(sb.clone(), path.as_bytes(), MountFlags::default()));
    assert_eq!(mount("/a"), "0");
    assert_eq!(mount("/a"), "EBUSY");
    assert_eq!(mount("/b"), "0");
    t.put("/a/f", b"both");
    assert_eq!(t.body("/b/f"), b"both");
    assert_eq!(
        t.stat(b"/a/f").map(|s| s.dev),
        t.stat(b"/b/f").map(|s| s.dev)
    );
    assert_eq!(rename(&t, "/a/f", "/b/g", RenameFlags::empty()), "EXDEV");
    assert_eq!(says(t.link(b"/a/f", b"/b/g")), "EXDEV");
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "0");
    assert_eq!(umount(&t, "/b", UmountFlags::empty()), "0");
    // The tree keeps its content, and another Vfs may use it now.
    let other = Vfs::builder().build(sb.clone()).expect("a Vfs");
    assert_eq!(root(&other).body("/f"), b"both");
    assert_eq!(mount("/a"), "EBUSY");
    drop(other);
    assert_eq!(mount("/a"), "0");
    drop(vfs);
}

#[test]
fn files_are_mounted_on_files() {
    let (_vfs, t) = setup();
    t.put("/x", b"x");
    t.put("/y", b"y");
    t.put("/z", b"z");
    assert_eq!(bind(&t, "/x", "/y"), "0");
    assert_eq!(t.body("/y"), b"x");
    assert_eq!(says(t.unlink(b"/y")), "EBUSY");
    assert_eq!(rename(&t, "/y", "/w", RenameFlags::empty()), "EBUSY");
    assert_eq!(rename(&t, "/z", "/y", RenameFlags::empty()), "EBUSY");
    assert_eq!(rename(&t, "/z", "/y", RENAME_EXCHANGE), "EBUSY");
    assert_eq!(says(t.link(b"/y", b"/yy")), "EXDEV");
    assert_eq!(says(t.link(b"/z", b"/y")), "EEXIST");
    assert_eq!(umount(&t, "/y", UmountFlags::empty()), "0");
    assert_eq!(t.body("/y"), b"y");
    assert_eq!(says(t.unlink(b"/y")), "0");
}

#[test]
fn a_mount_point_is_neither_removed_nor_renamed() {
    let (_vfs, t) = setup();
    t.dir("/mp");
    t.dir("/mp/in");
    t.dir("/dir");
    assert_eq!(mount(&t, "/mp/in"), "0");
    assert_eq!(rename(&t, "/mp", "/mp2", RenameFlags::empty()), "0");
    t.touch("/mp2/in/inside");
    assert_eq!(says(t.rmdir(b"/mp2")), "ENOTEMPTY");
    assert_eq!(says(t.rmdir(b"/mp2/in")), "EBUSY");
    assert_eq!(says(t.unlink(b"/mp2/in")), "EISDIR");
    assert_eq!(says(t.mkdir(b"/mp2/in", 0o755)), "EEXIST");
    assert_eq!(
        rename(&t, "/mp2/in", "/mp2/out", RenameFlags::empty()),
        "EBUSY"
    );
    assert_eq!(
        rename(&t, "/mp2/in/", "/mp2/out/", RenameFlags::empty()),
        "EBUSY"
    );
    assert_eq!(rename(&t, "/dir", "/mp2/in", RenameFlags::empty()), "EBUSY");
    assert_eq!(rename(&t, "/dir", "/mp2/in", RENAME_EXCHANGE), "EBUSY");
    assert_eq!(
        rename(&t, "/src/f", "/mp2/in", RenameFlags::empty()),
        "EISDIR"
    );
    assert_eq!(
        rename(&t, "/src/f", "/mp2/in/f", RenameFlags::empty()),
        "EXDEV"
    );
    assert_eq!(
        rename(&t, "/src/nope", "/mp2/in/f", RenameFlags::empty()),
        "EXDEV"
    );
    assert_eq!(t.names("/mp2/in"), ["inside"]);
    assert_eq!(umount(&t, "/mp2/in", UmountFlags::empty()), "0");
    assert_eq!(says(t.rmdir(b"/mp2/in")), "0");
}

#[test]
fn a_removed_directory_cannot_be_mounted_on() {
    let (_vfs, t) = setup();
    t.dir("/dead");
    t.chdir(b"/dead").expect("chdir");
    t.rmdir(b"/dead").expect("rmdir");
    assert_eq!(mount(&t, "."), "ENOENT");
    assert_eq!(bind(&t, "/", "."), "ENOENT");
    assert_eq!(bind(&t, ".", "/a"), "ENOENT");
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "EINVAL");
}

#[test]
fn a_bind_shows_a_subtree_and_outlives_its_name() {
    let (_vfs, t) = setup();
    t.dir("/src/d/deep");
    assert_eq!(bind(&t, "/src/d", "/m"), "0");
    assert_eq!(t.names("/m"), ["deep"]);
    assert_eq!(t.stat(b"/m/..").map(|s| s.ino), Ok(t.ino("/")));
    assert_eq!(rename(&t, "/src/d", "/src/e", RenameFlags::empty()), "0");
    t.touch("/src/e/new");
    assert_eq!(t.names("/m"), ["deep", "new"]);
    assert_eq!(rename(&t, "/m", "/m2", RenameFlags::empty()), "EBUSY");
    assert_eq!(rename(&t, "/src", "/m/x", RenameFlags::empty()), "EXDEV");
    assert_eq!(rename(&t, ".", "/m/x", RenameFlags::empty()), "EXDEV");
    t.unlink(b"/m/new").expect("unlink");
    t.rmdir(b"/m/deep").expect("rmdir");
    assert_eq!(says(t.rmdir(b"/src/e")), "0");
    assert_eq!(says(t.mkdir(b"/m/x", 0o755)), "ENOENT");
    assert_eq!(umount(&t, "/m", UmountFlags::empty()), "0");
}

#[test]
fn dotdot_does_not_leave_a_directory_moved_out_of_its_bind() {
    let (_vfs, t) = setup();
    for dir in [
        "/esc",
        "/esc/root",
        "/esc/root/sub",
        "/esc/root/sub/deep",
        "/esc/mnt",
    ] {
        t.dir(dir);
    }
    assert_eq!(bind(&t, "/esc/root", "/esc/mnt"), "0");
    let at = t.open(b"/esc/mnt/sub/deep", O_DIRECTORY, 0).expect("open");
    for _ in 0..2 {
        assert_eq!(says(t.shut(t.openat(at, b"../..", O_RDONLY, 0))), "0");
    }
    assert_eq!(
        rename(&t, "/esc/root/sub", "/esc/sub_out", RenameFlags::empty()),
        "0"
    );
    for _ in 0..2 {
        assert_eq!(says(t.shut(t.openat(at, b"..", O_RDONLY, 0))), "ENOENT");
        assert_eq!(says(t.shut(t.openat(at, b"../..", O_RDONLY, 0))), "ENOENT");
        assert_eq!(
            says(t.shut(t.openat(at, b"../../..", O_RDONLY, 0))),
            "ENOENT"
        );
        assert_eq!(says(t.shut(t.openat(at, b".", O_RDONLY, 0))), "0");
        for (resolve, expected) in [(RESOLVE_BENEATH, "EXDEV"), (RESOLVE_IN_ROOT, "0")] {
            let how = OpenHow {
                resolve,
                ..OpenHow::default()
            };
            assert_eq!(says(t.shut(t.openat2(at, b"..", &how))), expected);
        }
    }
}

#[test]
fn a_mount_in_use_can_only_be_detached() {
    let (vfs, t) = setup();
    let mounts = vfs.usage().mounts;
    assert_eq!(mount(&t, "/a"), "0");
    for flags in [O_DIRECTORY, O_PATH] {
        let held = t.open(b"/a", flags, 0).expect("open");
        assert_eq!(umount(&t, "/a", UmountFlags::empty()), "EBUSY");
        assert_eq!(umount(&t, "/a", MNT_FORCE), "EBUSY");
        t.close(held).expect("close");
    }
    let other = t.fork().expect("fork");
    other.chdir(b"/a").expect("chdir");
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "EBUSY");
    drop(other);
    t.dir("/a/k");
    assert_eq!(mount(&t, "/a/k"), "0");
    assert_eq!(umount(&t, "/a", UmountFlags::empty()), "EBUSY");
    assert_eq!(umount(&t, "/a", MNT_DETACH), "0");
    assert_eq!(umount(&t, "/a", MNT_DETACH), "EINVAL");
    assert_eq!(t.names("/a"), [""; 0]);
    assert_eq!(vfs.usage().mounts, mounts);
    assert_eq!(mount(&t, "/a"), "0");
    assert_eq!(umount(&t, "/a", MNT_FORCE), "0");
}

#[test]
fn a_detached_tree_is_separated_and_lives_while_in_use() {
    let (vfs, t) = setup();
    let before = vfs.usage();
    assert_eq!(mount(&t, "/a"), "0");
    t.dir("/a/k");
    t.dir("/a/k/l");
    assert_eq!(mount(&t, "/a/k"), "0");
    t.dir("/a/k/z");
    let inside = t.fork().expect("fork");
    inside.chdir(b"/a").expect("chdir");
    assert_eq!(umount(&t, "/a", MNT_DETACH), "0");
    // The mount in it was separated; the directory that it covered is visible.
    assert_eq!(inside.names("k"), ["l"]);
    assert_eq!(mount(&inside, "k"), "ENOENT");
    assert_eq!(bind(&inside, "k", "/b"), "EINVAL");
    assert_eq!(umount(&inside, ".", UmountFlags::empty()), "EINVAL");
    assert_eq!(umount(&inside, ".", MNT_DETACH), "EINVAL");
    let up = inside.stat(b"..").map(|s| s.ino);
    assert_eq!(up, inside.stat(b".").map(|s| s.ino));
    assert_eq!(says(inside.mkdir(b"k/q", 0o755)), "0");
    let flags = MountFlags::default();
    assert_eq!(inside.remount_bind(b".", flags), Err(Errno::EINVAL));
    assert_eq!(inside.remount_sb(b".", true), Err(Errno::EINVAL));
    assert_eq!(rename(&inside, "k", "/k", RenameFlags::empty()), "EXDEV");
    drop(inside);
    // The next change of mounts finds it unused.
    assert_eq!(mount(&t, "/b"), "0");
    assert_eq!(umount(&t, "/b", UmountFlags::empty()), "0");
    vfs.collect();
    let after = vfs.usage();
    assert_eq!((after.mounts, after.pins), (before.mounts, before.pins));
}

#[test]
fn a_mount_expires_at_the_second_call() {
    let (_vfs, t) = setup();
    assert_eq!(mount(&t, "/a"), "0");
    assert_eq!(umount(&t, "/a", MNT_EXPIRE | MNT_DETACH), "EINVAL");
    assert_eq!(umount(&t, "/a", MNT_EXPIRE | MNT_FORCE), "EINVAL");
    assert_eq!(umount(&t, "/", MNT_EXPIRE), "EINVAL");
    let held = t.open(b"/a", O_DIRECTORY, 0).expect("open");
    assert_eq!(umount(&t, "/a", MNT_EXPIRE), "EBUSY");
    t.close(held).expect("close");
    assert_eq!(umount(&t, "/a", MNT_EXPIRE), "EAGAIN");
    assert_eq!(umount(&t, "/a", MNT_EXPIRE), "0");
    assert_eq!(umount(&t, "/a", MNT_EXPIRE), "EINVAL");
}

#[test]
fn umount_follows_a_link_unless_umount_nofollow_is_set() {
    let (_vfs, t) = setup();
    t.symlink(b"a", b"/la").expect("symlink");
    assert_eq!(mount(&t, "/la"), "0");
    assert_eq!(umount(&t, "/la", UMOUNT_NOFOLLOW), "EINVAL");
    assert_eq!(umount(&t, "/la/", UMOUNT_NOFOLLOW), "0");
    assert_eq!(umount(&t, "/la", UmountFlags::empty()), "EINVAL");
}

#[test]
fn umount_of_the_root_makes_it_read_only() {
    let (_vfs, t) = setup();
    assert_eq!(mount(&t, "/a"), "0");
    let inside = t.fork().expect("fork");
    inside.chroot(b"/a").expect("chroot");
    inside.chdir(b"/").expect("chdir");
    let writer = t.open(b"/a/w", O_CREAT | O_WRONLY, 0o644).expect("open");
    assert_eq!(umount(&inside, "/", UmountFlags::empty()), "EBUSY");
    t.close(writer).expect("close");
    assert_eq!(umount(&inside, "/", MNT_FORCE), "0");
    assert_eq!(says(inside.mkdir(b"/q", 0o755)), "EROFS");
    assert_eq!(umount(&inside, "/", MNT_DETACH), "0");
    assert_eq!(t.names("/a"), [""; 0]);
    // What is below `/` cannot be unmounted, and no path leads to it.
    assert_eq!(umount(&t, "/", MNT_DETACH), "0");
    assert_eq!(umount(&t, "/", MNT_DETACH), "EINVAL");
    assert_eq!(says(t.stat(b"/a")), "0");
}

#[test]
fn writers_keep_a_mount_writable() {
    let (_vfs, t) = setup();
    assert_eq!(mount(&t, "/a"), "0");
    assert_eq!(bind(&t, "/a", "/b"), "0");
    let writable = MountFlags::default();
    let read_only = writable | MountFlags::READ_ONLY;
    let busy = Err(Errno::EBUSY);
    let writer = t.open(b"/b/w", O_CREAT | O_WRONLY, 0o644).expect("open");
    assert_eq!(t.remount_bind(b"/b", read_only), busy);
    assert_eq!(t.remount_bind(b"/b", writable | MountFlags::NO_DEV), Ok(()));
    // The other mount has no writer, but the tree has.
    assert_eq!(t.remount_bind(b"/a", read_only), Ok(()));
    assert_eq!(says(t.mkdir(b"/a/y", 0o755)), "EROFS");
    assert_eq!(says(t.mkdir(b"/b/y", 0o755)), "0");
    assert_eq!(t.remount_sb(b"/a", true), busy);
    assert_eq!(says(t.mkdir(b"/b/z", 0o755)), "0");
    t.close(writer).expect("close");
    assert_eq!(t.remount_sb(b"/a", true), Ok(()));
    assert_eq!(t.remount_sb(b"/a", true), Ok(()));
    assert_eq!(says(t.mkdir(b"/b/q", 0o755)), "EROFS");
    // A mount of a read-only tree takes any flag; the tree decides.
    assert_eq!(t.remount_bind(b"/b", read_only), Ok(()));
    assert_eq!(t.remount_bind(b"/b", writable), Ok(()));
    assert_eq!(says(t.mkdir(b"/b/q", 0o755)), "EROFS");
    assert_eq!(t.remount_sb(b"/b", false), Ok(()));
    assert_eq!(says(t.mkdir(b"/b/q", 0o755)), "0");
    assert_eq!(says(t.mkdir(b"/a/r", 0o755)), "EROFS");
}

#[test]
fn files_without_names_keep_a_tree_writable() {
    let (_vfs, t) = setup();
    assert_eq!(mount(&t, "/a"), "0");
    let busy = Err(Errno::EBUSY);
    t.touch("/a/w");
    let reader = t.open(b"/a/w", O_RDONLY, 0).expect("open");
    assert_eq!(t.remount_sb(b"/a", true), Ok(()));
    assert_eq!(t.remount_sb(b"/a", false), Ok(()));
    t.unlink(b"/a/w").expect("unlink");
    assert_eq!(t.remount_sb(b"/a", true), busy);
    // They hold the tree, not the mount.
    let read_only = MountFlags::default() | MountFlags::READ_ONLY;
    assert_eq!(t.remount_bind(b"/a", read_only), Ok(()));
    assert_eq!(t.remount_bind(b"/a", MountFlags::default()), Ok(()));
    t.close(reader).expect("close");
    t.dir("/a/rm");
    let held = t.open(b"/a/rm", O_DIRECTORY, 0).expect("open");
    t.rmdir(b"/a/rm").expect("rmdir");
    assert_eq!(t.remount_sb(b"/a", true), busy);
    t.close(held).expect("close");
    let file = t.open(b"/a", O_TMPFILE | O_RDWR, 0o600).expect("tmpfile");
    assert_eq!(t.remount_sb(b"/a", true), busy);
    t.close(file).expect("close");
    t.touch("/a/two");
    t.link(b"/a/two", b"/a/names").expect("link");
    let held = t.open(b"/a/two", O_RDONLY, 0).expect("open");
    t.unlink(b"/a/two").expect("unlink");
    assert_eq!(t.remount_sb(b"/a", true), Ok(()));
    t.close(held).expect("close");
}

#[test]
fn a_recursive_bind_copies_the_mounts_below() {
    let (vfs, t) = setup();
    let mounts = vfs.usage().mounts;
    for dir in ["/a/x", "/a/x/y", "/a/other"] {
        t.dir(dir);
    }
    assert_eq!(mount(&t, "/a/x/y"), "0");
    t.dir("/a/x/y/deep");
    assert_eq!(mount(&t, "/a/x/y/deep"), "0");
    t.touch("/a/x/y/deep/file");
    assert_eq!(mount(&t, "/a/other"), "0");
    assert_eq!(bind(&t, "/a/x", "/m"), "0");
    assert_eq!(t.names("/m/y"), [""; 0]);
    assert_eq!(umount(&t, "/m", UmountFlags::empty()), "0");
    assert_eq!(says(t.bind_tree(b"/a/x", b"/m")), "0");
    assert_eq!(vfs.usage().mounts, mounts + 3 + 3);
    assert_eq!(t.names("/m/y/deep"), ["file"]);
    assert_eq!(t.stat(b"/m/y/..").map(|s| s.ino), Ok(t.ino("/a/x")));
    assert_eq!(umount(&t, "/m", UmountFlags::empty()), "EBUSY");
    assert_eq!(umount(&t, "/m", MNT_DETACH), "0");
    // A bind into itself copies once, and no deeper.
    assert_eq!(says(t.bind_tree(b"/", b"/b")), "0");
    assert_eq!(t.names("/b/a/x/y/deep"), ["file"]);
    assert_eq!(t.names("/b/b"), [""; 0]);
    assert_eq!(umount(&t, "/b", MNT_DETACH), "0");
    assert_eq!(vfs.usage().mounts, mounts + 3);
}

#[test]
fn cached_paths_notice_a_new_mount_on_their_way() {
    let (_vfs, t) = setup();
    let path = b"/src/d/one/two/three/some-file-with-a-name".as_slice();
    for dir in ["/src/d/one", "/src/d/one/two", "/src/d/one/two/three"] {
        t.dir(dir);
    }
    t.touch(std::str::from_utf8(path).expect("text"));
    for _ in 0..4 {
        assert_eq!(says(t.stat(path)), "0");
    }
    assert_eq!(mount(&t, "/src/d/one"), "0");
    for _ in 0..4 {
        assert_eq!(says(t.stat(path)), "ENOENT");
    }
    assert_eq!(umount(&t, "/src/d/one", UmountFlags::empty()), "0");
    for _ in 0..4 {
        assert_eq!(says(t.stat(path)), "0");
    }
}

#[test]
fn mounts_have_a_limit() {
    let limits = openpath_vfs::Limits::default().mounts_max(5);
    let vfs = Vfs::builder().limits(limits).build(tree()).expect("a Vfs");
    let t = root(&vfs);
    for dir in ["/a", "/a/x", "/b"] {
        t.dir(dir);
    }
    assert_eq!(mount(&t, "/a/x"), "0");
    assert_eq!(bind(&t, "/a", "/b"), "0");
    assert_eq!(umount(&t, "/b", UmountFlags::empty()), "0");
    assert_eq!(mount(&t, "/b"), "0");
    assert_eq!(says(t.bind_tree(b"/a", b"/b")), "ENOSPC");
    assert_eq!(vfs.usage().mounts, 4);
    assert_eq!(mount(&t, "/b"), "0");
    assert_eq!(mount(&t, "/b"), "ENOSPC");
    // A tree that did not fit leaves nothing behind, and belongs to no Vfs.
    let before = vfs.usage();
    let refused = tree();
    for _ in 0..3 {
        let again = t.mount(Arc::clone(&refused), b"/b", MountFlags::default());
        assert_eq!(says(again), "ENOSPC");
    }
    vfs.collect();
    assert_eq!(vfs.usage(), before);
    Vfs::builder().build(refused).expect("a Vfs of its own");
}
