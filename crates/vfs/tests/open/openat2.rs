// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that openat2(2) checks the size and fields of its argument, and answers with each
//! `RESOLVE_*` flag, as Linux 6.18 does.

use crate::world::*;
use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_abi::resolve::*;
use openpath_abi::{Errno, OpenHow, ResolveFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Fd, MountFlags, Task, Vfs};

/// The tree of the recorded answers; the task is in `/w`.
fn tree() -> (Vfs, Task) {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/w", 0o755, (0, 0));
    task.dir("/etc", 0o755, (0, 0));
    task.data("/etc/passwd", b"root");
    task.chdir(b"/w").expect("chdir");
    task.data("f", b"xxxxxxxxxx");
    task.dir("d", 0o755, (0, 0));
    task.dir("d/e", 0o755, (0, 0));
    task.data("d/g", b"y");
    for (name, body) in [
        ("ls", "f"),
        ("labs", "/etc/passwd"),
        ("labsself", "/w/f"),
        ("lrel", "f"),
        ("d/lup", "../f"),
        ("d/ldd", ".."),
        ("d/lroot", "/d/g"),
        ("lr", "/"),
        ("labsd", "/w/d"),
    ] {
        task.link_to(name, body);
    }
    (vfs, task)
}

fn how(names: u64, mode: u64, resolve: u64) -> OpenHow {
    OpenHow {
        flags: names,
        mode,
        resolve: ResolveFlags::from_bits_retain(resolve),
    }
}

fn open(task: &Task, at: Fd, path: &str, names: &str, mode: u64, resolve: ResolveFlags) -> String {
    let how = how(u64::from(flags(names)), mode, resolve.bits());
    say(task.shut(task.openat2(at, path.as_bytes(), &how)))
}

#[test]
fn openat2_checks_the_size_of_its_argument() {
    let (_vfs, task) = tree();
    let raw = |readable: usize, set: Option<usize>, size: usize| {
        let mut bytes = vec![0u8; readable];
        if let Some(at) = set {
            bytes[at] = 1;
        }
        say(task.shut(task.openat2_raw(AT_FDCWD, b"f", &bytes, size)))
    };
    for (readable, set, size, answer) in [
        (24, None, 0, "EINVAL"),
        (24, None, 23, "EINVAL"),
        (24, None, 24, "OK"),
        (32, None, 32, "OK"),
        (32, Some(24), 32, "E2BIG"),
        (4096, None, 4096, "OK"),
        (4097, None, 4097, "E2BIG"),
        (4096, Some(4095), 4096, "E2BIG"),
        (0, None, 24, "EFAULT"),
        (23, None, 24, "EFAULT"),
        (0, None, 23, "EINVAL"),
        (0, None, 5000, "E2BIG"),
    ] {
        assert_eq!(
            raw(readable, set, size),
            answer,
            "{readable} {set:?} {size}"
        );
    }
}

#[test]
fn openat2_checks_the_fields_of_its_argument() {
    let (_vfs, task) = tree();
    let try_one = |path: &str, names: u64, mode: u64, resolve: u64| {
        let opened = task.openat2(AT_FDCWD, path.as_bytes(), &how(names, mode, resolve));
        say(task.shut(opened))
    };
    for (path, raw, mode, resolve, answer) in [
        ("f", 0x8000_0000, 0, 0, "EINVAL"),
        ("f", 1 << 32, 0, 0, "EINVAL"),
        ("f", 1 << 33, 0, 0, "EINVAL"),
        ("f", 1 << 40, 0, 0, "EINVAL"),
        ("f", 4, 0, 0, "EINVAL"),
        ("f", 3, 0, 0, "OK"),
        ("f", 0x400_0000, 0, 0, "EINVAL"),
        ("f", 0, 0, 0x40, "EINVAL"),
        ("f", 0, 0, 1 << 40, "EINVAL"),
        ("f", 0, 0, 0x18, "EINVAL"),
        ("f", 0, 0o644, 0, "EINVAL"),
        ("", 1 << 40, 0, 0, "EINVAL"),
        ("", 0, 0, 0, "ENOENT"),
    ] {
        assert_eq!(
            try_one(path, raw, mode, resolve),
            answer,
            "{raw:#x} {mode:o} {resolve:#x}"
        );
    }
    let (none, cached) = (ResolveFlags::empty(), RESOLVE_CACHED);
    for (path, names, mode, resolve, answer) in [
        ("new1", "CREAT", 0o644, none, "OK"),
        ("new1", "CREAT", 0o10644, none, "EINVAL"),
        ("new1", "CREAT", 1 << 40, none, "EINVAL"),
        ("new1", "CREAT", 0o7777, none, "OK"),
        ("d", "TMPFILE|RW", 0o600, none, "OK"),
        ("d", "DIR|CREAT", 0o600, none, "EINVAL"),
        ("f", "PATH|RW", 0, none, "EINVAL"),
        ("f", "PATH|CREAT", 0o600, none, "EINVAL"),
        ("f", "PATH|TRUNC", 0, none, "EINVAL"),
        ("f", "PATH|LARGE", 0, none, "EINVAL"),
        ("f", "PATH|CLOEXEC|NOFOLLOW", 0, none, "OK"),
        ("f", "PATH|APPEND", 0, none, "EINVAL"),
        ("d", "PATH|DIR", 0, none, "OK"),
        ("f", "PATH|NOATIME", 0, none, "EINVAL"),
        ("f", "EXCL", 0, none, "OK"),
        ("", "CREAT", 0o600, cached, "EAGAIN"),
        ("", "CREAT", 0, cached, "EAGAIN"),
        (
            "",
            "CREAT",
            0,
            cached | ResolveFlags::from_bits_retain(0x40),
            "EINVAL",
        ),
    ] {
        let got = open(&task, AT_FDCWD, path, names, mode, resolve);
        assert_eq!(got, answer, "{path:?} {names} {mode:o} {resolve:#x}");
    }
}

#[test]
fn resolve_cached_answers_only_from_the_cache() {
    let (vfs, task) = tree();
    let cached = |path: &str, names: &str| {
        let mode = if names.contains("CREAT") || names.contains("TMP") {
            0o600
        } else {
            0
        };
        open(&task, AT_FDCWD, path, names, mode, RESOLVE_CACHED)
    };
    // Caches what a cached walk needs, and moves the access time of the link.
    for path in ["f", "d/g", "ls"] {
        task.with(path, "RD", |_| ());
    }
    for (path, names, answer) in [
        ("f", "RD", "OK"),
        ("f", "WR", "OK"),
        ("f", "RD|TRUNC", "EAGAIN"),
        ("f", "CREAT", "EAGAIN"),
        ("d", "TMPFILE|RW", "EAGAIN"),
        ("f", "PATH", "OK"),
        ("ls", "RD", "OK"),
        ("f/x", "RD", "EAGAIN"),
        ("f/", "RD", "ENOTDIR"),
        ("", "RD", "ENOENT"),
        // All names of the tree are cached, so a miss is `ENOENT`.
        ("neg", "RD", "ENOENT"),
        ("neg/x", "RD", "ENOENT"),
        ("d/neg", "WR", "ENOENT"),
    ] {
        assert_eq!(cached(path, names), answer, "{path} {names}");
    }
    assert_eq!(cached(&"a".repeat(300), "RD"), "EAGAIN");
    assert_eq!(open(&task, BAD, "x", "RD", 0, RESOLVE_CACHED), "EBADF");
    assert_eq!(say(task.open(b"neg", O_RDONLY, 0)), "ENOENT");
    for (path, names, answer) in [
        ("neg", "RD", "ENOENT"),
        ("neg/x", "RD", "ENOENT"),
        ("d", "WR", "EISDIR"),
        ("d/..", "RD", "OK"),
        ("d", "DIR", "OK"),
        ("f", "DIR", "ENOTDIR"),
        ("ls", "NOFOLLOW", "ELOOP"),
        ("f", "EXCL", "OK"),
    ] {
        assert_eq!(cached(path, names), answer, "{path} {names}");
    }
    // After an eviction, an absent name is cached from its second lookup on.
    vfs.shrink(u32::MAX);
    for answer in ["EAGAIN", "EAGAIN"] {
        assert_eq!(cached("other", "RD"), answer);
    }
    assert_eq!(say(task.open(b"other", O_RDONLY, 0)), "ENOENT");
    assert_eq!(cached("other", "RD"), "ENOENT");
}

#[test]
fn a_cached_open_does_not_follow_a_link_whose_access_time_must_move() {
    let (_vfs, task) = tree();
    let cached = |path| open(&task, AT_FDCWD, path, "RD", 0, RESOLVE_CACHED);
    task.with("ls", "RD", |_| ());
    assert_eq!(cached("ls"), "OK");
    let old = openpath_abi::TimeSet::At(OLD);
    let nofollow = openpath_abi::fcntl::AT_SYMLINK_NOFOLLOW;
    task.utimensat(AT_FDCWD, Some(b"ls"), [old, old], nofollow)
        .expect("utimensat");
    assert_eq!(cached("ls"), "EAGAIN");
    task.with("ls", "RD", |_| ());
    assert_eq!(cached("ls"), "OK");
}

/// Paths from `/w/d`, and the answers with `BENEATH`, `IN_ROOT`, `NO_SYMLINKS`, `NO_MAGICLINKS` and
/// `NO_XDEV`.
const SCOPES: &str = "
    g        OK      OK      OK      OK      OK
    .        OK      OK      OK      OK      OK
    ..       EXDEV   OK      OK      OK      OK
    e/..     OK      OK      OK      OK      OK
    e/../..  EXDEV   OK      OK      OK      OK
    ../d/g   EXDEV   ENOENT  OK      OK      OK
    /        EXDEV   OK      OK      OK      OK
    /d/g     EXDEV   ENOENT  ENOENT  ENOENT  ENOENT
    /g       EXDEV   OK      ENOENT  ENOENT  ENOENT
    //       EXDEV   OK      OK      OK      OK
    lup      EXDEV   ENOENT  ELOOP   OK      OK
    ldd      EXDEV   OK      ELOOP   OK      OK
    lroot    EXDEV   ENOENT  ELOOP   ENOENT  EXDEV
    nope     ENOENT  ENOENT  ENOENT  ENOENT  ENOENT
    nope/..  ENOENT  ENOENT  ENOENT  ENOENT  ENOENT
    e/../g   OK      OK      OK      OK      OK
    g/..     ENOTDIR ENOTDIR ENOTDIR ENOTDIR ENOTDIR";

#[test]
fn each_scope_answers_as_in_linux() {
    let (_vfs, task) = tree();
    let dir = task.get("d", "RD|DIR");
    let each_scope_answers_as_in_linux = [
        RESOLVE_BENEATH,
        RESOLVE_IN_ROOT,
        RESOLVE_NO_SYMLINKS,
        RESOLVE_NO_MAGICLINKS,
        RESOLVE_NO_XDEV,
    ];
    let mut wrong = Vec::new();
    // Twice: the second time from the cache.
    for _ in 0..2 {
        for line in SCOPES.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            for (resolve, answer) in each_scope_answers_as_in_linux.iter().zip(&words[1..]) {
                let got = open(&task, dir, words[0], "RD", 0, *resolve);
                if got != *answer {
                    wrong.push(format!("{} {resolve:#x}: {got}, not {answer}", words[0]));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn scopes_begin_at_the_directory_descriptor() {
    let (_vfs, task) = tree();
    let file = task.get("f", "RD");
    let (beneath, in_root) = (RESOLVE_BENEATH, RESOLVE_IN_ROOT);
    for (at, path, resolve, answer) in [
        (file, "x", beneath, "ENOTDIR"),
        (file, "/x", beneath, "EXDEV"),
        (BAD, "g", beneath, "EBADF"),
        (BAD, "/g", beneath, "EXDEV"),
        (AT_FDCWD, "f", beneath, "OK"),
        (AT_FDCWD, "/f", beneath, "EXDEV"),
        (AT_FDCWD, "..", beneath, "EXDEV"),
        (file, "x", in_root, "ENOTDIR"),
        (file, "/x", in_root, "ENOTDIR"),
        (BAD, "g", in_root, "EBADF"),
        (BAD, "/g", in_root, "EBADF"),
        (AT_FDCWD, "f", in_root, "OK"),
        (AT_FDCWD, "/f", in_root, "OK"),
        (AT_FDCWD, "..", in_root, "OK"),
    ] {
        assert_eq!(
            open(&task, at, path, "RD", 0, resolve),
            answer,
            "{path} {resolve:#x}"
        );
    }
    task.dir("dead", 0o755, (0, 0));
    let dead = task.get("dead", "RD");
    task.rmdir(b"dead").expect("rmdir");
    for (path, resolve, answer) in [
        (".", beneath, "OK"),
        (".", in_root, "OK"),
        ("..", beneath, "EXDEV"),
        ("..", in_root, "OK"),
        ("x", beneath, "ENOENT"),
        ("x", in_root, "ENOENT"),
    ] {
        let got = open(&task, dead, path, "RD", 0, resolve);
        assert_eq!(got, answer, "{path} in a removed directory, {resolve:#x}");
    }
}

#[test]
fn resolve_no_symlinks_follows_no_link() {
    let (_vfs, task) = tree();
    for (path, names, mode, answer) in [
        ("ls", "PATH|NOFOLLOW", 0, "OK"),
        ("ls", "NOFOLLOW", 0, "ELOOP"),
        ("ls", "CREAT|EXCL", 0o600, "EEXIST"),
        ("ls", "CREAT", 0o600, "ELOOP"),
        ("ls/", "PATH|NOFOLLOW", 0, "ELOOP"),
        ("ls", "DIR|NOFOLLOW", 0, "ENOTDIR"),
    ] {
        let got = open(&task, AT_FDCWD, path, names, mode, RESOLVE_NO_SYMLINKS);
        assert_eq!(got, answer, "{path} {names}");
    }
}

/// A second tree at `/m`, opened.
fn other_mount(task: &Task) -> Fd {
    task.dir("/m", 0o755, (0, 0));
    let tree = MemFs::new(MemOptions::default());
    task.mount(tree, b"/m", MountFlags::default())
        .expect("mount");
    task.dir("/m/in", 0o755, (0, 0));
    task.link_to("/m/self", "in");
    task.get("/m", "RD")
}

#[test]
fn resolve_no_xdev_enters_no_other_mount() {
    let (_vfs, task) = tree();
    let inside = other_mount(&task);
    for (at, path, names, answer) in [
        (AT_FDCWD, "/m", "DIR", "EXDEV"),
        (AT_FDCWD, "/m/", "PATH|NOFOLLOW", "EXDEV"),
        (AT_FDCWD, "/m/in", "RD", "EXDEV"),
        (inside, "..", "RD", "EXDEV"),
        (inside, ".", "RD", "OK"),
        (inside, "self", "RD", "OK"),
        (inside, "/etc/passwd", "RD", "OK"),
        (inside, "/", "RD", "OK"),
        (inside, "/m/self", "RD", "EXDEV"),
        (AT_FDCWD, "lr/etc/passwd", "RD", "EXDEV"),
        (AT_FDCWD, "labs", "RD", "EXDEV"),
        // An absolute link leads to another mount, unless the walk was at the root before.
        (AT_FDCWD, "labsself", "RD", "EXDEV"),
        (AT_FDCWD, "./labsself", "RD", "EXDEV"),
        (AT_FDCWD, "/w/labsself", "RD", "OK"),
        (AT_FDCWD, "lrel", "RD", "OK"),
        (AT_FDCWD, "labsd/e", "DIR", "EXDEV"),
        (AT_FDCWD, "d/../labsself", "RD", "OK"),
    ] {
        for _ in 0..2 {
            let got = open(&task, at, path, names, 0, RESOLVE_NO_XDEV);
            assert_eq!(got, answer, "{path} {names}");
        }
    }
    let all = RESOLVE_NO_XDEV | RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
    assert_eq!(
        open(
            &task,
            AT_FDCWD,
            "nope",
            "RD",
            0,
            ResolveFlags::from_bits_retain(all.bits())
        ),
        "ENOENT"
    );
}

#[test]
fn scoped_opens_create_files() {
    let (_vfs, task) = tree();
    let inside = task.get("d", "RD|DIR");
    let (beneath, in_root) = (RESOLVE_BENEATH, RESOLVE_IN_ROOT);
    for (at, path, names, resolve, answer) in [
        (AT_FDCWD, "newb", "CREAT|EXCL|WR", beneath, "OK"),
        (AT_FDCWD, "../newb", "CREAT|EXCL|WR", beneath, "EXDEV"),
        (inside, "../newc", "CREAT|WR", in_root, "OK"),
        (inside, ".", "TMPFILE|RW", beneath, "OK"),
        (inside, "..", "TMPFILE|RW", beneath, "EXDEV"),
    ] {
        assert_eq!(
            open(&task, at, path, names, 0o600, resolve),
            answer,
            "{path} {names}"
        );
    }
    assert_eq!(say(task.stat(b"d/newc")), "OK");
    assert_eq!(task.stat(b"newc").err(), Some(Errno::ENOENT));
}
