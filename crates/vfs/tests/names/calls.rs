// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that mkdir, mknod, symlink, link, unlink, rmdir and rename, as a task calls them, return
//! the error that comes first on Linux 6.18 with a tmpfs, and leave the same tree.

use crate::tasks::{BAD, NOBODY, Short, root, says, tree, user, vfs};
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_FDCWD, AT_REMOVEDIR, AT_SYMLINK_FOLLOW, O_CREAT, O_EXCL, O_PATH, O_RDONLY,
    O_RDWR, O_TMPFILE, O_WRONLY,
};
use openpath_abi::mode::{S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFMT, S_IFREG, S_IFSOCK};
use openpath_abi::rename::{RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT};
use openpath_abi::{AtFlags, Errno, RenameFlags, stat};
use openpath_vfs::{Cred, MountFlags, Sysctl, Task, Vfs};

/// A task in `/base`, which is a mount, with `r/d1/sub`, `r/d2`, `r/f1`, `r/f2` and the link `r/l`.
fn setup(vfs: &Vfs) -> Task {
    let t = root(vfs);
    t.dir("/base");
    t.mount(tree(), b"/base", MountFlags::default())
        .expect("a mount");
    t.chdir(b"/base").expect("chdir");
    for dir in ["r", "r/d1", "r/d1/sub", "r/d2"] {
        t.dir(dir);
    }
    t.touch("r/f1");
    t.touch("r/f2");
    t.symlink(b"f1", b"r/l").expect("a link");
    t
}

fn rename(t: &Task, old: &str, new: &str, flags: RenameFlags) -> String {
    says(t.renameat2(AT_FDCWD, old.as_bytes(), AT_FDCWD, new.as_bytes(), flags))
}

#[test]
fn a_sequence_of_renames_answers_as_in_linux() {
    const NR: RenameFlags = RENAME_NOREPLACE;
    const EX: RenameFlags = RENAME_EXCHANGE;
    const WH: RenameFlags = RENAME_WHITEOUT;
    let steps: &[(&str, &str, u32, &str)] = &[
        ("r/f1", "r/f1", 0, "0"),
        ("r/f1", "r/f1", NR.bits(), "EEXIST"),
        ("r/f1", "r/f2", NR.bits(), "EEXIST"),
        ("r/f1", "r/new", (NR | EX).bits(), "EINVAL"),
        ("r/f1", "r/new", (EX | WH).bits(), "EINVAL"),
        ("r/f1", "r/new", 8, "EINVAL"),
        ("", "", 8, "EINVAL"),
        ("", "r/x", 0, "ENOENT"),
        ("r/f1", "", 0, "ENOENT"),
        ("r/f1", ".", 0, "EBUSY"),
        ("r/f1", ".", NR.bits(), "EEXIST"),
        (".", "r/x", 0, "EBUSY"),
        ("..", "r/x", 0, "EBUSY"),
        ("/", "r/x", 0, "EXDEV"),
        ("r/f1", "r/..", 0, "EBUSY"),
        ("r/nope", "r/f2", 0, "ENOENT"),
        ("r/nope", ".", 0, "EBUSY"),
        ("r/f1", "r/nodir/x", 0, "ENOENT"),
        ("r/d1", "r/d1/sub/x", 0, "EINVAL"),
        ("r/d1/sub", "r/d1", 0, "ENOTEMPTY"),
        ("r/d1/sub", "r/d1", EX.bits(), "EINVAL"),
        ("r/d1", "r/d1/sub", EX.bits(), "EINVAL"),
        ("r/f1", "r/d2", 0, "EISDIR"),
        ("r/d2", "r/f1", 0, "ENOTDIR"),
        ("r/d2", "r/d1", 0, "ENOTEMPTY"),
        ("r/f1", "r/new/", 0, "ENOTDIR"),
        ("r/f1/", "r/new", 0, "ENOTDIR"),
        ("r/d2", "r/new2/", 0, "0"),
        ("r/new2/", "r/d2/", 0, "0"),
        ("r/f1", "r/nope", EX.bits(), "ENOENT"),
        ("r/f1", "r/d2", EX.bits(), "0"),
        ("r/d2", "r/f1", EX.bits(), "0"),
        ("r/f1", "r/d1/", EX.bits(), "0"),
        ("r/l", "r/l2", 0, "0"),
        ("r/l2", "r/f1/", 0, "ENOTDIR"),
        ("r/f1", "r/wh", WH.bits(), "0"),
    ];
    let vfs = vfs();
    let t = setup(&vfs);
    for &(old, new, flags, expected) in steps {
        assert_eq!(
            rename(&t, old, new, RenameFlags::from_bits_retain(flags)),
            expected,
            "{old:?} {new:?} {flags}"
        );
    }
    let left = t.lstat(b"r/f1").expect("a whiteout");
    assert_eq!((left.mode, left.rdev), (S_IFCHR, 0));
    assert_eq!(t.names("r"), ["d1", "d2", "f1", "f2", "l2", "wh"]);
    assert_eq!(t.names("r/wh"), ["sub"]);
}

#[test]
fn removals_answer_as_in_linux() {
    let steps: &[(&str, u32, &str)] = &[
        ("r/f2/", 0, "ENOTDIR"),
        ("r/nope/", 0, "ENOENT"),
        ("r/d1", 0, "EISDIR"),
        ("r/d1/", 0, "EISDIR"),
        ("r/.", 0, "EISDIR"),
        ("r/..", 0, "EISDIR"),
        ("/", 0, "EISDIR"),
        ("r/.", AT_REMOVEDIR.bits(), "EINVAL"),
        ("r/..", AT_REMOVEDIR.bits(), "ENOTEMPTY"),
        ("/", AT_REMOVEDIR.bits(), "EBUSY"),
        ("r/f2", AT_REMOVEDIR.bits(), "ENOTDIR"),
        ("r/l", AT_REMOVEDIR.bits(), "ENOTDIR"),
        ("r/nope", AT_REMOVEDIR.bits(), "ENOENT"),
        ("r/f2", 0x400, "EINVAL"),
        ("", 0x400, "EINVAL"),
        ("", 0, "ENOENT"),
        ("r/d1", AT_REMOVEDIR.bits(), "ENOTEMPTY"),
        ("r/d1/sub", AT_REMOVEDIR.bits(), "0"),
        ("r/d1/sub", AT_REMOVEDIR.bits(), "ENOENT"),
        ("r/d1/", AT_REMOVEDIR.bits(), "0"),
        ("r/d1", 0, "ENOENT"),
        ("r/l", 0, "0"),
        ("r/f1", 0, "0"),
        ("r/f1", 0, "ENOENT"),
    ];
    let vfs = vfs();
    let t = setup(&vfs);
    for &(path, flags, expected) in steps {
        let said = says(t.unlinkat(AT_FDCWD, path.as_bytes(), AtFlags::from_bits_retain(flags)));
        assert_eq!(said, expected, "{path:?} {flags:#x}");
    }
    assert_eq!(t.names("r"), ["d2", "f2"]);
    assert_eq!(t.lstat(b"r").map(|s| s.nlink), Ok(3));
}

#[test]
fn creations_answer_as_in_linux() {
    let vfs = vfs();
    let t = setup(&vfs);
    let long = "a".repeat(256);
    let too_long = "a".repeat(5000);
    let paths: &[(&str, &str)] = &[
        ("r/d9/", "0"),
        ("r/d9", "EEXIST"),
        ("r/.", "EEXIST"),
        ("r/d9/.", "EEXIST"),
        ("/", "EEXIST"),
        ("r/f2", "EEXIST"),
        ("r/f2/", "EEXIST"),
        ("r/f2/x", "ENOTDIR"),
        ("r/l", "EEXIST"),
        ("r/nope/x", "ENOENT"),
        ("", "ENOENT"),
        (&long, "ENAMETOOLONG"),
        (&too_long, "ENAMETOOLONG"),
    ];
    for &(path, expected) in paths {
        assert_eq!(says(t.mkdir(path.as_bytes(), 0o755)), expected, "{path:?}");
    }
    for (path, expected) in [("r/s/", "ENOENT"), ("r/f2", "EEXIST"), ("r/.", "EEXIST")] {
        assert_eq!(says(t.symlink(b"x", path.as_bytes())), expected, "{path}");
    }
    assert_eq!(t.symlink(b"", b"r/se"), Err(Errno::ENOENT));
    assert_eq!(t.symlink(b"", b"nope/nope"), Err(Errno::ENOENT));
    assert_eq!(t.symlink(&[b'a'; 4095], b"r/s1"), Ok(()));
    assert_eq!(t.symlink(&[b'a'; 4096], b"r/f2"), Err(Errno::ENAMETOOLONG));
    assert_eq!(t.symlink(b"x", b"r/f2/"), Err(Errno::EEXIST));
}

#[test]
fn mknod_checks_the_type_before_the_path() {
    let vfs = vfs();
    let t = setup(&vfs);
    let dev = stat::makedev(1, 3);
    let long = "a".repeat(5000);
    let steps: &[(&str, u32, &str)] = &[
        ("", S_IFDIR | 0o755, "EPERM"),
        ("", 0o170000, "EINVAL"),
        ("", 0o120777, "EINVAL"),
        ("", 0o644, "ENOENT"),
        (&long, S_IFDIR, "EPERM"),
        (&long, 0o644, "ENAMETOOLONG"),
        ("r/f1", 0o644, "EEXIST"),
        ("r/f1/", 0o644, "EEXIST"),
        ("r/n/", 0o644, "ENOENT"),
        (".", 0o644, "EEXIST"),
        ("n1", 0o666, "0"),
        ("n2", S_IFREG | 0o6777, "0"),
        ("n3", S_IFIFO | 0o644, "0"),
        ("n4", S_IFSOCK | 0o644, "0"),
        ("n5", S_IFCHR | 0o644, "0"),
        ("n6", S_IFBLK | 0o644, "0"),
    ];
    for &(path, mode, expected) in steps {
        assert_eq!(
            says(t.mknod(path.as_bytes(), mode, dev)),
            expected,
            "{path} {mode:o}"
        );
    }
    let made = |name: &str| t.lstat(name.as_bytes()).map(|s| (s.mode, s.rdev));
    assert_eq!(made("n1"), Ok((S_IFREG | 0o644, 0)));
    assert_eq!(made("n2"), Ok((S_IFREG | 0o6755, 0)));
    assert_eq!(made("n3"), Ok((S_IFIFO | 0o644, 0)));
    assert_eq!(made("n5"), Ok((S_IFCHR | 0o644, dev)));
    assert_eq!(t.mknod(b"n7", S_IFCHR, 0xffff_ffff_1234_5678), Ok(()));
    assert_eq!(made("n7"), Ok((S_IFCHR, 0x1234_5678)));
}

#[test]
fn devices_need_a_capability_and_whiteouts_do_not() {
    let vfs = vfs();
    let t = root(&vfs);
    t.dir("/w");
    t.fchmodat2(AT_FDCWD, b"/w", 0o777, AtFlags::empty())
        .expect("chmod");
    t.touch("/w/f");
    let u = user(&t, NOBODY);
    let dev = stat::makedev(1, 3);
    assert_eq!(u.mknod(b"/w/c", S_IFCHR | 0o644, dev), Err(Errno::EPERM));
    assert_eq!(u.mknod(b"/w/b", S_IFBLK | 0o644, 0), Err(Errno::EPERM));
    assert_eq!(u.mknod(b"/w/wh", S_IFCHR | 0o644, 0), Ok(()));
    assert_eq!(u.mknod(b"/w/p", S_IFIFO | 0o644, 0), Ok(()));
    assert_eq!(u.mknod(b"/w/s", S_IFSOCK | 0o644, 0), Ok(()));
    assert_eq!(u.mknod(b"/c", S_IFCHR | 0o644, dev), Err(Errno::EACCES));
    assert_eq!(u.mknod(b"/w/f", S_IFCHR | 0o644, dev), Err(Errno::EEXIST));
    u.touch("/w/mine");
    assert_eq!(rename(&u, "/w/mine", "/w/other", RENAME_WHITEOUT), "0");
    let left = u.lstat(b"/w/mine").expect("a whiteout");
    assert_eq!((left.mode, left.uid), (S_IFCHR, NOBODY));
}

#[test]
fn modes_of_new_files_obey_umask_and_set_group_id_directories() {
    let vfs = vfs();
    let t = root(&vfs);
    t.umask(0);
    t.mkdir(b"/m", 0o7777).expect("mkdir");
    assert_eq!(t.mode("/m"), S_IFDIR | 0o1777);
    t.mkdir(b"/sg", 0o777).expect("mkdir");
    t.fchownat(AT_FDCWD, b"/sg", 0, 4242, AtFlags::empty())
        .expect("chown");
    t.fchmodat2(AT_FDCWD, b"/sg", 0o2777, AtFlags::empty())
        .expect("chmod");
    t.mkdir(b"/sg/d", 0o700).expect("mkdir");
    assert_eq!(t.mode("/sg/d"), S_IFDIR | 0o2700);
    assert_eq!(t.lstat(b"/sg/d").map(|s| s.gid), Ok(4242));
    let u = user(&t, NOBODY);
    let made = |name: &str, mode: u32| {
        let path = format!("/sg/{name}");
        u.mknod(path.as_bytes(), mode, 0).expect("mknod");
        let s = u.lstat(path.as_bytes()).expect("stat");
        assert_eq!(s.gid, 4242);
        s.mode & !S_IFMT
    };
    // A caller outside the group creates no set-group-ID executable, whatever the umask leaves.
    assert_eq!(made("x1", 0o2770), 0o770);
    assert_eq!(made("x2", 0o2760), 0o2760);
    assert_eq!(made("x3", 0o6777), 0o4777);
    u.umask(0o010);
    assert_eq!(made("x4", 0o2770), 0o760);
    u.umask(0);
    u.mkdir(b"/sg/x5", 0o770).expect("mkdir");
    assert_eq!(u.mode("/sg/x5") & !S_IFMT, 0o2770);
    u.symlink(b"q", b"/sg/x6").expect("symlink");
    assert_eq!(u.mode("/sg/x6") & !S_IFMT, 0o777);
    u.shut(u.open(b"/sg/x7", O_CREAT | O_WRONLY, 0o2770))
        .expect("open");
    assert_eq!(u.mode("/sg/x7") & !S_IFMT, 0o770);
}

#[test]
fn links_answer_as_in_linux() {
    let vfs = vfs();
    let t = setup(&vfs);
    let link = |old: &str, new: &str, flags| {
        says(t.linkat(AT_FDCWD, old.as_bytes(), AT_FDCWD, new.as_bytes(), flags))
    };
    t.symlink(b"nope", b"r/dang").expect("symlink");
    t.touch("/outside");
    let follow = AT_SYMLINK_FOLLOW;
    let steps: &[(&str, &str, u32, &str)] = &[
        ("", "", 1, "EINVAL"),
        ("", "r/x", 0, "ENOENT"),
        ("r/nope", "r/f1", 0, "ENOENT"),
        ("r/d1", "r/x", 0, "EPERM"),
        ("", "r/x", AT_EMPTY_PATH.bits(), "EPERM"),
        ("r/f1", "r/f2", 0, "EEXIST"),
        ("r/f1", "r/x/", 0, "ENOENT"),
        ("r/f1/", "r/x", 0, "ENOTDIR"),
        ("r/l/", "r/x", 0, "ENOTDIR"),
        ("r/dang", "r/x", follow.bits(), "ENOENT"),
        ("/outside", "r/f1", 0, "EEXIST"),
        ("/outside", "r/x", 0, "EXDEV"),
        ("/", "r/x", 0, "EXDEV"),
        ("/outside", "r/x/", 0, "ENOENT"),
        ("r/l", "r/hl", 0, "0"),
        ("r/l", "r/hf", follow.bits(), "0"),
        ("r/f1", "r/h2", 0, "0"),
    ];
    for &(old, new, flags, expected) in steps {
        assert_eq!(
            link(old, new, AtFlags::from_bits_retain(flags)),
            expected,
            "{old:?} {new:?} {flags:#x}"
        );
    }
    assert_eq!(t.ino("r/hl"), t.ino("r/l"));
    assert_eq!(t.ino("r/hf"), t.ino("r/f1"));
    assert_eq!(t.lstat(b"r/f1").map(|s| s.nlink), Ok(3));
    // Two names of one file: the rename succeeds and does nothing.
    assert_eq!(rename(&t, "r/f1", "r/h2", RenameFlags::empty()), "0");
    assert_eq!(rename(&t, "r/f1", "r/h2", RENAME_NOREPLACE), "EEXIST");
    assert_eq!(rename(&t, "r/f1", "r/h2", RENAME_EXCHANGE), "0");
    assert_eq!(rename(&t, "r/f1", "r/h2", RENAME_WHITEOUT), "0");
    assert!(t.has("r/f1") && t.has("r/h2"));
    t.unlink(b"r/h2").expect("unlink");
    assert_eq!(t.lstat(b"r/f1").map(|s| s.nlink), Ok(2));
}

#[test]
fn a_temporary_file_can_be_linked_once() {
    let vfs = vfs();
    let t = setup(&vfs);
    let name = |file, new: &[u8]| t.linkat(file, b"", AT_FDCWD, new, AT_EMPTY_PATH);
    let file = t.open(b".", O_TMPFILE | O_RDWR, 0o600).expect("tmpfile");
    assert_eq!(t.pwrite(file, b"body", 0), Ok(4));
    assert_eq!(name(file, b"r/f1"), Err(Errno::EEXIST));
    assert_eq!(name(file, b"r/linked"), Ok(()));
    assert_eq!(t.body("r/linked"), b"body");
    assert_eq!(t.lstat(b"r/linked").map(|s| s.nlink), Ok(1));
    // After it had a name and lost it, it can get no other.
    t.unlink(b"r/linked").expect("unlink");
    assert_eq!(name(file, b"r/again"), Err(Errno::ENOENT));
    let file = t
        .open(b".", O_TMPFILE | O_RDWR | O_EXCL, 0o600)
        .expect("tmpfile");
    assert_eq!(name(file, b"r/linked"), Err(Errno::ENOENT));
    let gone = t.open(b"r/f2", O_RDONLY, 0).expect("open");
    t.unlink(b"r/f2").expect("unlink");
    assert_eq!(name(gone, b"r/f2"), Err(Errno::ENOENT));
    // Only its opener may name it, or a task that may read everything.
    let held = t.open(b"r/f1", O_PATH, 0).expect("open");
    t.set_cred(Cred::root());
    assert_eq!(name(held, b"r/h1"), Ok(()));
    t.set_cred(Cred::user(0, 0, &[]));
    assert_eq!(name(held, b"r/h2"), Err(Errno::ENOENT));
}

#[test]
fn protected_hardlinks_allows_owners_and_safe_files() {
    let sysctl = Sysctl::default().protected_hardlinks(true);
    let vfs = Vfs::builder().sysctl(sysctl).build(tree()).expect("a Vfs");
    let t = root(&vfs);
    t.umask(0);
    t.mkdir(b"/w", 0o777).expect("mkdir");
    for (name, mode) in [
        ("ro", 0o644),
        ("rw", 0o666),
        ("suid", 0o4666),
        ("sgid", 0o2676),
    ] {
        let path = format!("/w/{name}");
        t.mknod(path.as_bytes(), mode, 0).expect("mknod");
    }
    t.mknod(b"/w/pipe", S_IFIFO | 0o666, 0).expect("mknod");
    let u = user(&t, NOBODY);
    let link = |name: &str| {
        let new = format!("/w/{name}.new");
        says(u.link(format!("/w/{name}").as_bytes(), new.as_bytes()))
    };
    assert_eq!(link("ro"), "EPERM");
    assert_eq!(link("rw"), "0");
    assert_eq!(link("suid"), "EPERM");
    assert_eq!(link("sgid"), "EPERM");
    assert_eq!(link("pipe"), "EPERM");
    u.touch("/w/mine");
    assert_eq!(link("mine"), "0");
    // This check comes after the name, and before the directory's own permissions.
    assert_eq!(u.link(b"/w/ro", b"/x"), Err(Errno::EPERM));
    assert_eq!(u.link(b"/w/mine", b"/x"), Err(Errno::EACCES));
    assert_eq!(u.link(b"/w/ro", b"/w/rw"), Err(Errno::EEXIST));
}

#[test]
fn permissions_are_checked_after_names_and_before_types() {
    let vfs = vfs();
    let t = root(&vfs);
    t.umask(0);
    t.dir("/nw");
    t.fchmodat2(AT_FDCWD, b"/nw", 0o755, AtFlags::empty())
        .expect("chmod");
    t.touch("/nw/f");
    t.dir("/nw/d");
    t.mkdir(b"/w", 0o777).expect("mkdir");
    let u = user(&t, NOBODY);
    let long = format!("/nw/{}", "a".repeat(256));
    assert_eq!(u.unlink(b"/nw/nope"), Err(Errno::ENOENT));
    assert_eq!(u.unlink(b"/nw/f"), Err(Errno::EACCES));
    assert_eq!(u.unlink(b"/nw/d"), Err(Errno::EACCES));
    assert_eq!(u.rmdir(b"/nw/f"), Err(Errno::EACCES));
    assert_eq!(u.mkdir(b"/nw/f", 0), Err(Errno::EEXIST));
    assert_eq!(u.mkdir(b"/nw/n", 0), Err(Errno::EACCES));
    assert_eq!(u.mkdir(long.as_bytes(), 0), Err(Errno::ENAMETOOLONG));
    assert_eq!(u.rename(b"/nw/f", b"/nw/f2"), Err(Errno::EACCES));
    assert_eq!(u.rename(b"/nw/nope", b"/nw/q"), Err(Errno::ENOENT));
    assert_eq!(u.rename(b"/nw/f", b"/nw/d"), Err(Errno::EACCES));
    assert_eq!(u.rename(b"/nw/f", b"/nw/f"), Ok(()));
    assert_eq!(u.link(b"/nw/f", b"/nw/d"), Err(Errno::EEXIST));
    assert_eq!(u.symlink(b"x", b"/nw/s"), Err(Errno::EACCES));
    u.touch("/w/mine");
    assert_eq!(u.rename(b"/w/mine", b"/nw/q"), Err(Errno::EACCES));
    assert_eq!(u.rename(b"/nw/f", b"/w/q"), Err(Errno::EACCES));
}

#[test]
fn sticky_directories_protect_other_owners_files() {
    let vfs = vfs();
    let t = root(&vfs);
    t.umask(0);
    t.mkdir(b"/st", 0o1777).expect("mkdir");
    t.touch("/st/root");
    t.dir("/st/rd");
    let u = user(&t, NOBODY);
    assert_eq!(u.unlink(b"/st/root"), Err(Errno::EPERM));
    assert_eq!(u.rmdir(b"/st/root"), Err(Errno::EPERM));
    assert_eq!(u.rmdir(b"/st/rd"), Err(Errno::EPERM));
    assert_eq!(u.unlink(b"/st/rd"), Err(Errno::EPERM));
    assert_eq!(u.rename(b"/st/root", b"/st/x"), Err(Errno::EPERM));
    u.touch("/st/mine");
    assert_eq!(u.rename(b"/st/mine", b"/st/root"), Err(Errno::EPERM));
    assert_eq!(u.rename(b"/st/mine", b"/st/mine2"), Ok(()));
    assert_eq!(u.unlink(b"/st/mine2"), Ok(()));
    assert_eq!(t.unlink(b"/st/root"), Ok(()));
}

#[test]
fn a_directory_changes_its_parent_only_if_it_is_writable() {
    let vfs = vfs();
    let t = root(&vfs);
    t.umask(0);
    t.mkdir(b"/w1", 0o777).expect("mkdir");
    t.mkdir(b"/w2", 0o777).expect("mkdir");
    for dir in ["/w1/theirs", "/w1/other"] {
        t.mkdir(dir.as_bytes(), 0o755).expect("mkdir");
    }
    let u = user(&t, NOBODY);
    assert_eq!(
        rename(&u, "/w1/theirs", "/w2/x", RenameFlags::empty()),
        "EACCES"
    );
    assert_eq!(rename(&u, "/w1/theirs", "/w1/x", RenameFlags::empty()), "0");
    u.dir("/w2/own");
    assert_eq!(
        rename(&u, "/w2/own", "/w1/other", RENAME_EXCHANGE),
        "EACCES"
    );
    assert_eq!(
        rename(&u, "/w2/own", "/w1/other", RenameFlags::empty()),
        "0"
    );
    assert_eq!(u.lstat(b"/w1/other").map(|s| s.uid), Ok(NOBODY));
}

#[test]
fn the_first_lookup_of_a_long_name_fails_with_enametoolong() {
    let vfs = vfs();
    let t = root(&vfs);
    t.touch("/f");
    let long = format!("/{}", "a".repeat(256));
    let fits = format!("/{}", "b".repeat(255));
    assert_eq!(
        rename(&t, &long, "/z", RenameFlags::empty()),
        "ENAMETOOLONG"
    );
    assert_eq!(
        rename(&t, "/f", &long, RenameFlags::empty()),
        "ENAMETOOLONG"
    );
    assert_eq!(rename(&t, "/nope", &long, RenameFlags::empty()), "ENOENT");
    assert_eq!(rename(&t, "/f", &fits, RenameFlags::empty()), "0");
    let ino = t.ino(&fits);
    let also = format!("/{}", "c".repeat(17));
    t.touch(&also);
    assert_eq!(rename(&t, &fits, &also, RENAME_EXCHANGE), "0");
    assert_eq!(t.ino(&also), ino);
    assert_eq!(rename(&t, &also, "/f", RenameFlags::empty()), "0");
    assert_eq!(
        (t.ino("/f"), t.has(&also), t.has(&fits)),
        (ino, false, true)
    );
    assert_eq!(t.unlink(long.as_bytes()), Err(Errno::ENAMETOOLONG));
}

#[test]
fn cached_names_follow_a_rename() {
    let vfs = vfs();
    let t = root(&vfs);
    for dir in ["/a", "/a/b", "/a/b/c", "/x", "/x/y"] {
        t.dir(dir);
    }
    t.put("/a/b/c/f", b"old");
    t.put("/x/y/f", b"other");
    for _ in 0..4 {
        assert_eq!(t.body("/a/b/c/f"), b"old");
        assert!(!t.has("/a/b/c/nope") && !t.has("/x/c") && !t.has("/x/c/f"));
    }
    let held = t.open(b"/a/b/c", O_PATH, 0).expect("open");
    t.rename(b"/a/b", b"/x/b").expect("rename");
    for _ in 0..4 {
        assert!(!t.has("/a/b/c/f") && !t.has("/a/b"));
        assert_eq!(t.body("/x/b/c/f"), b"old");
    }
    let up = t.fstatat(held, b"../..", AtFlags::empty()).map(|s| s.ino);
    assert_eq!(up, Ok(t.ino("/x")));
    assert_eq!(rename(&t, "/x/b", "/x/y", RENAME_EXCHANGE), "0");
    assert_eq!(t.body("/x/b/f"), b"other");
    assert_eq!(t.body("/x/y/c/f"), b"old");
    assert_eq!(rename(&t, "/x/y/c", "/a/c", RenameFlags::empty()), "0");
    // A cached absent name now exists, and the old name is cached as absent.
    assert_eq!(rename(&t, "/a/c/f", "/a/c/nope", RenameFlags::empty()), "0");
    assert_eq!(t.body("/a/c/nope"), b"old");
    assert!(!t.has("/a/c/f"));
    t.put("/a/c/f", b"new");
    assert_eq!(rename(&t, "/a/c/f", "/a/c/nope", RenameFlags::empty()), "0");
    assert_eq!(t.body("/a/c/nope"), b"new");
    assert_eq!(t.names("/a/c"), ["nope"]);
}

#[test]
fn a_removed_directory_has_no_names() {
    let vfs = vfs();
    let t = root(&vfs);
    t.dir("/d");
    assert!(!t.has("/d/x"));
    let at = t.open(b"/d", O_PATH, 0).expect("open");
    t.rmdir(b"/d").expect("rmdir");
    for (said, what) in [
        (says(t.mkdirat(at, b"x", 0o755)), "mkdir"),
        (says(t.mknodat(at, b"x", 0o644, 0)), "mknod"),
        (says(t.symlinkat(b"b", at, b"x")), "symlink"),
        (
            says(t.shut(t.openat(at, b"x", O_CREAT | O_RDWR, 0o644))),
            "open",
        ),
        (says(t.unlinkat(at, b"x", AtFlags::empty())), "unlink"),
        (says(t.renameat(at, b"x", AT_FDCWD, b"/y")), "rename"),
    ] {
        assert_eq!(said, "ENOENT", "{what}");
    }
    t.touch("/f");
    assert_eq!(t.renameat(AT_FDCWD, b"/f", at, b"x"), Err(Errno::ENOENT));
    assert_eq!(
        t.linkat(AT_FDCWD, b"/f", at, b"x", AtFlags::empty()),
        Err(Errno::ENOENT)
    );
    assert_eq!(
        t.fstatat(at, b".", AtFlags::empty()).map(|s| s.nlink),
        Ok(0)
    );
    assert_eq!(
        t.fstatat(at, b"..", AtFlags::empty()).map(|s| s.ino),
        Ok(t.ino("/"))
    );
    // So has a replaced directory.
    t.dir("/e1");
    t.dir("/e2");
    let held = t.open(b"/e2", O_PATH, 0).expect("open");
    t.rename(b"/e1", b"/e2").expect("rename");
    assert_eq!(says(t.mkdirat(held, b"x", 0)), "ENOENT");
    assert_eq!(t.names("/"), ["e2", "f"]);
}

#[test]
fn descriptors_that_are_not_open_or_no_directories_are_refused() {
    let vfs = vfs();
    let t = root(&vfs);
    t.touch("/f");
    let file = t.open(b"/f", O_RDONLY, 0).expect("open");
    for (at, expected) in [(BAD, "EBADF"), (file, "ENOTDIR")] {
        assert_eq!(says(t.mkdirat(at, b"x", 0)), expected);
        assert_eq!(says(t.unlinkat(at, b"x", AtFlags::empty())), expected);
        assert_eq!(says(t.renameat(at, b"x", AT_FDCWD, b"y")), expected);
        assert_eq!(says(t.renameat(AT_FDCWD, b"f", at, b"y")), expected);
        assert_eq!(says(t.mkdirat(at, b"/f", 0)), "EEXIST");
    }
    assert_eq!(says(t.renameat(BAD, b"", BAD, b"")), "ENOENT");
}

#[test]
fn removed_files_leave_nothing_behind() {
    let vfs = vfs();
    let t = root(&vfs);
    let before = vfs.usage();
    for round in 0..300 {
        let long = format!("/{round:040}");
        t.dir("/d");
        t.put("/d/f", b"x");
        t.rename(b"/d/f", long.as_bytes()).expect("rename");
        t.symlink(b"t", b"/d/l").expect("symlink");
        t.touch("/other");
        assert_eq!(rename(&t, "/other", &long, RENAME_EXCHANGE), "0");
        t.rename(b"/other", long.as_bytes()).expect("rename");
        t.unlink(long.as_bytes()).expect("unlink");
        t.unlink(b"/d/l").expect("unlink");
        t.rmdir(b"/d").expect("rmdir");
    }
    assert_eq!(t.names("/"), [""; 0]);
    vfs.collect();
    vfs.shrink(u32::MAX);
    let after = vfs.usage();
    assert_eq!((after.pending_free, after.pins), (0, before.pins));
    assert_eq!(after.dentries, before.dentries);
}

/// The root of a tree has no link in any directory and yet was not unlinked: its last close
/// collects nothing.
#[test]
fn the_last_close_collects_an_unlinked_file_but_not_a_root() {
    use openpath_abi::fcntl::O_DIRECTORY;
    let vfs = vfs();
    let t = root(&vfs);
    let open = |path: &[u8], flags| t.open(path, O_RDONLY | flags, 0).expect("open");
    t.touch("/f");
    t.touch("/g");
    let fd = open(b"/g", O_RDONLY);
    t.unlink(b"/f").expect("unlink");
    t.unlink(b"/g").expect("unlink");
    assert_eq!(vfs.usage().pending_free, 2);
    t.close(open(b"/", O_DIRECTORY)).expect("close");
    assert_eq!(vfs.usage().pending_free, 2);
    t.close(fd).expect("close");
    assert_eq!(vfs.usage().pending_free, 0);
}

#[test]
fn space_of_removed_files_is_reclaimed_on_demand() {
    let options = openpath_mem::MemOptions::default().inodes(8);
    let vfs = Vfs::builder()
        .build(openpath_mem::MemFs::new(options))
        .expect("a Vfs");
    let t = root(&vfs);
    for round in 0..100 {
        let name = format!("/{round}");
        assert_eq!(says(t.mknod(name.as_bytes(), 0o644, 0)), "0", "{round}");
        t.unlink(name.as_bytes()).expect("unlink");
    }
}
