// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that symbolic links are followed as in Linux 6.18: at most forty of them, with long
//! bodies, and not where a walk must not follow them. Tests also the order of errors, and a walk up
//! from outside a chroot.

use crate::world::*;
use openpath_abi::mode;
use openpath_vfs::{Task, Vfs};

fn tree() -> (Vfs, Task) {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/w", 0o755, (0, 0));
    task.chdir(b"/w").expect("chdir");
    task.data("f", b"x");
    task.dir("d", 0o755, (0, 0));
    task.link_to("dot", ".");
    task.link_to("lrel", "f");
    (vfs, task)
}

fn open(task: &Task, path: &str, names: &str) -> String {
    say(task.shut(task.open(path.as_bytes(), flags(names), 0o644)))
}

#[test]
fn a_walk_follows_at_most_forty_links() {
    let (_vfs, task) = tree();
    let dots = |n: usize, last: &str| "dot/".repeat(n) + last;
    // Twice: the second time from the cache.
    for _ in 0..2 {
        for (n, last, names, answer) in [
            (40, "f", "RD", "OK"),
            (41, "f", "RD", "ELOOP"),
            (39, "lrel", "RD", "OK"),
            (40, "lrel", "RD", "ELOOP"),
            (40, "lrel", "RD|NOFOLLOW", "ELOOP"),
            (40, "lrel", "RD|CREAT|EXCL", "EEXIST"),
            (40, "nope", "RD", "ENOENT"),
            (41, "nope", "RD", "ELOOP"),
        ] {
            let got = open(&task, &dots(n, last), names);
            assert_eq!(got, answer, "{n} links, then {last} {names}");
        }
    }
}

#[test]
fn a_long_link_is_followed_unless_a_name_in_it_is_too_long() {
    let (_vfs, task) = tree();
    task.link_to("long", &("./".repeat(2000) + "f"));
    assert_eq!(open(&task, "long", "RD"), "OK");
    task.link_to("max", &("/".repeat(4094) + "w"));
    assert_eq!(open(&task, "max", "RD"), "OK");
    assert_eq!(open(&task, &("dot/".repeat(40) + "f"), "RD"), "OK");
    assert_eq!(say(task.symlink(&[b'a'; 4096], b"toolong")), "ENAMETOOLONG");
    task.link_to("ltl", &"a".repeat(300));
    assert_eq!(open(&task, "ltl", "RD"), "ENAMETOOLONG");
    assert_eq!(open(&task, "ltl", "RD|CREAT"), "ENAMETOOLONG");
    assert_eq!(open(&task, "ltl", "RD|CREAT|EXCL"), "EEXIST");
}

#[test]
fn errors_of_a_user_without_permission_come_in_order() {
    let (vfs, task) = tree();
    task.dir("nox", 0o700, (0, 0));
    task.touch("nox/f", 0o644, (0, 0));
    task.chmod(b"nox", 0).expect("chmod");
    task.link_to("lnox", "nox/f");
    task.chmod(b"f", 0).expect("chmod");
    task.node("pp", mode::S_IFIFO, 0);
    task.chmod(b"pp", 0o200).expect("chmod");
    let nobody = user(&vfs, 65534, &[], &[]);
    nobody.chdir(b"/w").expect("chdir");
    let loops = "dot/".repeat(41) + "f";
    for (path, names, answer) in [
        ("lnox", "RD", "EACCES"),
        ("lnox", "RD|CREAT|EXCL", "EEXIST"),
        ("nox/../f", "RD", "EACCES"),
        ("pp", "RD|NONBLOCK", "EACCES"),
        ("pp", "RW|NONBLOCK", "EACCES"),
        ("f", "WR|NONBLOCK", "EACCES"),
        (&loops, "RD", "ELOOP"),
        ("f", "RD|NOFOLLOW", "EACCES"),
        ("f/", "RD|CREAT", "EISDIR"),
        ("nox", "RD|DIR", "EACCES"),
        ("nox/f/", "RD|CREAT", "EACCES"),
        ("f", "RD|TRUNC|CREAT", "EACCES"),
        ("newx/y", "RD|CREAT", "ENOENT"),
    ] {
        assert_eq!(open(&nobody, path, names), answer, "{path} {names}");
    }
}

#[test]
fn a_task_outside_its_chroot_can_walk_up() {
    let (_vfs, task) = tree();
    task.dir("d/sub", 0o755, (0, 0));
    task.data("d/in", b"i");
    let inside = task.fork().expect("fork");
    inside.chdir(b"/w/d").expect("chdir");
    inside.chroot(b"sub").expect("chroot");
    let above = inside.stat(b"..").expect("a way up");
    assert_eq!(
        above.ino,
        task.stat(b"/w").expect("w").ino,
        ".. leads out of the chroot"
    );
    for (path, names, answer) in [
        ("..", "RD", "OK"),
        ("/..", "RD", "OK"),
        ("sub", "RD|DIR", "OK"),
        ("../f", "RD", "OK"),
        ("/in", "RD", "ENOENT"),
    ] {
        assert_eq!(open(&inside, path, names), answer, "{path}");
    }
    let top = inside.stat(b"/..").expect("/..");
    assert_eq!(top.ino, inside.stat(b"/").expect("/").ino);
    assert_eq!(inside.getcwd(), Ok(b"(unreachable)/w/d".to_vec()));
}
