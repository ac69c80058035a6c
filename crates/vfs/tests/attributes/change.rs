// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that chmod and chown answer as Linux 6.18 does on a tmpfs, that immutable and read-only
//! files refuse changes, and that cached paths obey a changed mode.

use crate::world::*;
use openpath_abi::access::{R_OK, W_OK, X_OK};
use openpath_abi::caps::*;
use openpath_abi::fcntl::*;
use openpath_abi::{AtFlags, TimeSet, Timespec, XattrFlags, mode, stat};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{LookupResult, MountFlags, Task, WaitMode, flag};

const KEEP: u32 = u32::MAX;
const NOW: TimeSet = TimeSet::Now;

#[test]
fn only_an_owner_may_chmod() {
    let vfs = world();
    let task = root(&vfs);
    type Step<'a> = (Option<(u32, u32)>, UserSpec<'a>, u32, &'a str, u32);
    let steps: [Step<'_>; 9] = [
        (Some((1000, 1000)), (1000, &[], &[]), 0o4755, "OK", 0o4755),
        (None, (1000, &[], &[]), 0o2755, "OK", 0o2755),
        (None, (1001, &[], &[]), 0o644, "EPERM", 0o2755),
        (Some((1000, 2000)), (1000, &[], &[]), 0o2755, "OK", 0o755),
        (None, (1000, &[2000], &[]), 0o2755, "OK", 0o2755),
        (None, (1000, &[], &[CAP_FSETID]), 0o2755, "OK", 0o2755),
        (None, (1001, &[], &[CAP_FOWNER]), 0o6755, "OK", 0o4755),
        (None, (2000, &[], &[CAP_FOWNER]), 0o6755, "OK", 0o6755),
        (None, (1000, &[], &[]), 0o1644, "OK", 0o1644),
    ];
    let mut owner = (0, 0);
    task.touch("/t", 0o644, owner);
    for (new_owner, who, bits, answer, left) in steps {
        if let Some(new) = new_owner {
            owner = new;
            task.chown(b"/t", owner.0, owner.1).expect("chown");
        }
        let by = user(&vfs, who.0, who.1, who.2);
        let times = if answer == "OK" { "c" } else { "" };
        let label = format!("{who:?} {bits:o}");
        let call = || by.chmod(b"/t", bits);
        check(&task, "/t", &label, call, (answer, left, owner, times));
    }
    task.dir("/d", 0o755, (1000, 2000));
    let by = user(&vfs, 1000, &[], &[]);
    by.chmod(b"/d", 0o2755).expect("chmod");
    assert_eq!(task.bits("/d"), 0o755);
    by.chmod(b"/d", 0o107_777_777).expect("chmod");
    assert_eq!(task.bits("/d"), 0o5777);
}

#[test]
fn chmod_and_chown_check_their_arguments() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"");
    task.link_to("/ls", "f");
    let file = task.get("/f", "PATH");
    let link = task.get("/ls", "PATH|NOFOLLOW");
    let (e, n) = (AT_EMPTY_PATH.bits(), AT_SYMLINK_NOFOLLOW.bits());
    for (at, path, flags, chmod, chown) in [
        (AT_FDCWD, "nope", 0x400, "EINVAL", "EINVAL"),
        (AT_FDCWD, "nope", 0, "ENOENT", "ENOENT"),
        (AT_FDCWD, "ls", n, "EOPNOTSUPP", "OK"),
        (AT_FDCWD, "ls", 0, "OK", "OK"),
        (link, "", e, "EOPNOTSUPP", "OK"),
        (file, "", e, "OK", "OK"),
        (BAD, "", e, "EBADF", "EBADF"),
        (BAD, "", 0, "ENOENT", "ENOENT"),
        (AT_FDCWD, "", e, "OK", "OK"),
    ] {
        let path = path.as_bytes();
        assert_eq!(
            say(task.fchmodat2(at, path, 0o644, AtFlags::from_bits_retain(flags))),
            chmod,
            "{path:?} {flags:#x}"
        );
        assert_eq!(
            say(task.fchownat(at, path, KEEP, KEEP, AtFlags::from_bits_retain(flags))),
            chown,
            "{path:?} {flags:#x}"
        );
    }
    task.lchown(b"/ls", 5, 6).expect("lchown");
    assert_eq!(task.lstat(b"/ls").map(|s| (s.uid, s.gid)), Ok((5, 6)));
    assert_eq!(task.stat(b"/ls").map(|s| (s.uid, s.gid)), Ok((0, 0)));
    let neither = task.get("/f", "A3");
    assert_eq!(
        (task.fchmod(neither, 0o600), task.fchown(neither, 3, 4)),
        (Ok(()), Ok(()))
    );
    assert_eq!(
        task.stat(b"/f").map(|s| (s.mode, s.uid, s.gid)),
        Ok((0o100600, 3, 4))
    );
}

#[test]
fn chown_clears_set_id_bits() {
    let vfs = world();
    let task = root(&vfs);
    let me: UserSpec<'_> = (1000, &[], &[]);
    let member: UserSpec<'_> = (1000, &[2000], &[]);
    let other: UserSpec<'_> = (1001, &[], &[]);
    let chowner: UserSpec<'_> = (1002, &[], &[CAP_CHOWN]);
    let both: UserSpec<'_> = (1002, &[], &[CAP_CHOWN, CAP_FOWNER]);
    let able: UserSpec<'_> = (1000, &[], &[CAP_CHOWN, CAP_FOWNER]);
    let mine = (1000, 1000);
    for (bits, owner, who, to, answer, left, after) in [
        (0o6755, mine, me, (1000, KEEP), "OK", 0o755, mine),
        (0o6755, mine, me, (KEEP, 1000), "OK", 0o755, mine),
        (0o6755, mine, me, (KEEP, KEEP), "OK", 0o755, mine),
        (0o6755, mine, other, (KEEP, KEEP), "EPERM", 0o6755, mine),
        (0o755, mine, other, (KEEP, KEEP), "OK", 0o755, mine),
        (0o755, mine, other, (1000, KEEP), "EPERM", 0o755, mine),
        (0o755, mine, me, (1001, KEEP), "EPERM", 0o755, mine),
        (0o755, mine, me, (KEEP, 2000), "EPERM", 0o755, mine),
        (0o755, mine, member, (KEEP, 2000), "OK", 0o755, (1000, 2000)),
        (0o6755, mine, chowner, (1001, 1001), "EPERM", 0o6755, mine),
        (
            0o755,
            mine,
            chowner,
            (1001, 1001),
            "OK",
            0o755,
            (1001, 1001),
        ),
        (0o6755, mine, both, (1001, 1001), "OK", 0o755, (1001, 1001)),
        (
            0o2644,
            mine,
            member,
            (KEEP, 2000),
            "OK",
            0o2644,
            (1000, 2000),
        ),
        (
            0o2644,
            (1000, 3000),
            member,
            (KEEP, 2000),
            "OK",
            0o644,
            (1000, 2000),
        ),
        (
            0o6644,
            mine,
            member,
            (KEEP, 2000),
            "OK",
            0o2644,
            (1000, 2000),
        ),
        (0o6644, mine, able, (KEEP, 2000), "OK", 0o644, (1000, 2000)),
    ] {
        task.touch("/t", bits, owner);
        let by = user(&vfs, who.0, who.1, who.2);
        let times = if answer == "OK" { "c" } else { "" };
        let label = format!("{bits:o} {owner:?} {who:?} {to:?}");
        let call = || by.chown(b"/t", to.0, to.1);
        check(&task, "/t", &label, call, (answer, left, after, times));
        task.gone("/t");
    }
}

#[test]
fn a_chown_by_root_clears_set_id_bits_except_of_directories() {
    let vfs = world();
    let task = root(&vfs);
    for (bits, to, left) in [
        (0o6644, (0, 2000), 0o2644),
        (0o2644, (5, 2000), 0o2644),
        (0o2654, (5, 2000), 0o654),
        (0o6755, (KEEP, KEEP), 0o755),
    ] {
        task.touch("/t", bits, (0, 0));
        task.chown(b"/t", to.0, to.1).expect("chown");
        assert_eq!(task.bits("/t"), left, "root, {bits:o}");
        task.gone("/t");
    }
    task.dir("/d", 0o6755, (1000, 1000));
    let by = user(&vfs, 1000, &[], &[]);
    by.chown(b"/d", 1000, 1000).expect("chown");
    assert_eq!(task.bits("/d"), 0o6755, "directories keep their bits");
}

#[test]
fn immutable_and_append_only_files_refuse_changes() {
    let vfs = world();
    let task = root(&vfs);
    let tree = MemFs::new(MemOptions::default());
    let top = tree.root().clone();
    task.dir("/m", 0o755, (0, 0));
    task.mount(tree, b"/m", MountFlags::default())
        .expect("mount");
    task.data("/m/f", b"abc");
    let Ok(LookupResult::Inode(inode)) = top.ops().lookup(&top, b"f", WaitMode::Cached) else {
        panic!("there is no f");
    };
    let file = task.get("/m/f", "RW");
    let f = b"/m/f".as_slice();
    let times = |time| task.utimensat(AT_FDCWD, Some(f), [time, time], AtFlags::empty());
    let mut answers = Vec::new();
    for set in [flag::IMMUTABLE, flag::APPEND_ONLY] {
        inode.set_flags(set);
        answers.push([
            say(task.chmod(f, 0o600)),
            say(task.chown(f, 1, 1)),
            say(task.chown(f, KEEP, KEEP)),
            say(times(NOW)),
            say(times(TimeSet::At(Timespec::new(5, 0)))),
            say(task.truncate(f, 0)),
            say(task.ftruncate(file, 1)),
            say(task.setxattr(f, b"user.a", b"", XattrFlags::empty())),
            say(task.access(f, W_OK)),
        ]);
        inode.clear_flags(set);
    }
    let (ok, no) = ("OK", "EPERM");
    assert_eq!(answers[0], [no, no, ok, no, no, no, ok, no, no]);
    assert_eq!(answers[1], [no, no, ok, ok, no, no, no, no, ok]);
}

#[test]
fn cached_paths_obey_the_mode_of_each_directory() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (1000, 1000));
    task.dir("/d/e", 0o755, (0, 0));
    task.data("/d/e/f", b"");
    let dir = task.get("/d", "RD");
    let by = user(&vfs, 1001, &[], &[]);
    let look = || {
        // Often enough for any cache of whole paths.
        let all: Vec<String> = (0..5).map(|_| say(by.stat(b"/d/e/f"))).collect();
        assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
        let open = say(by.shut(by.open(b"/d/e/f", O_RDONLY, 0)));
        assert_eq!(open, all[0]);
        open
    };
    let group = user(&vfs, 1002, &[1001], &[]);
    assert_eq!(look(), "OK");
    task.chmod(b"/d", 0o700).expect("chmod");
    assert_eq!(look(), "EACCES");
    task.fchmod(dir, 0o711).expect("fchmod");
    assert_eq!(look(), "OK");
    task.fchmodat2(dir, b"", 0o710, AT_EMPTY_PATH)
        .expect("fchmodat2");
    assert_eq!(look(), "EACCES");
    task.chown(b"/d", KEEP, 1001).expect("chown");
    assert_eq!(
        (look(), say(group.stat(b"/d/e/f"))),
        ("OK".to_owned(), "OK".to_owned())
    );
    task.fchown(dir, KEEP, 0).expect("fchown");
    assert_eq!(look(), "EACCES");
    task.chown(b"/d", 1001, KEEP).expect("chown");
    assert_eq!(look(), "OK");
    task.chmod(b"/d", 0o070).expect("chmod");
    assert_eq!(look(), "EACCES");
}

/// The answers of truncate, chmod, lchmod, chown, utimensat, access R, W, X, setxattr, removexattr
/// (of `user.`, `trusted.`), and setxattr of an unknown name space.
fn all_calls(task: &Task, path: &str) -> String {
    let p = path.as_bytes();
    let nofollow = AT_SYMLINK_NOFOLLOW;
    [
        say(task.truncate(p, 0)),
        say(task.fchmodat2(AT_FDCWD, p, 0o600, AtFlags::empty())),
        say(task.fchmodat2(AT_FDCWD, p, 0o600, nofollow)),
        say(task.chown(p, KEEP, KEEP)),
        say(task.utimensat(AT_FDCWD, Some(p), [NOW, NOW], AtFlags::empty())),
        say(task.access(p, R_OK)),
        say(task.access(p, W_OK)),
        say(task.access(p, X_OK)),
        say(task.setxattr(p, b"user.a", b"v", XattrFlags::empty())),
        say(task.removexattr(p, b"user.a")),
        say(task.removexattr(p, b"trusted.a")),
        say(task.setxattr(p, b"foo.a", b"v", XattrFlags::empty())),
    ]
    .join(" ")
}

/// Each path, then what the kernel answered root, user 1000 and user 1001. Truncate and access
/// only, since all other calls answer `EROFS` everywhere.
const READ_ONLY: &str = "
  ro/own    EROFS  OK     EROFS  EACCES | EROFS  OK     EROFS  EACCES | EACCES OK     EACCES EACCES
  ro/root   EROFS  OK     EROFS  EACCES | EACCES EACCES EACCES EACCES | EACCES EACCES EACCES EACCES
  ro/dir    EISDIR OK     EROFS  OK     | EISDIR OK     EACCES OK     | EISDIR OK     EACCES OK
  ro/p      EINVAL OK     OK     EACCES | EINVAL EACCES EACCES EACCES | EINVAL EACCES EACCES EACCES
  ro/null   EINVAL OK     OK     EACCES | EINVAL OK     EACCES EACCES | EINVAL OK     EACCES EACCES
  ro/x      EROFS  OK     EROFS  EACCES | EACCES OK     EACCES EACCES | EACCES OK     EACCES EACCES
  ro/sl     EROFS  OK     EROFS  EACCES | EROFS  OK     EROFS  EACCES | EACCES OK     EACCES EACCES
  rosb/own  EROFS  OK     EROFS  EACCES | EROFS  OK     EROFS  EACCES | EROFS  OK     EROFS  EACCES
  rosb/root EROFS  OK     EROFS  EACCES | EROFS  EACCES EROFS  EACCES | EROFS  EACCES EROFS  EACCES
  rosb/dir  EISDIR OK     EROFS  OK     | EISDIR OK     EROFS  OK     | EISDIR OK     EROFS  OK
  rosb/p    EINVAL OK     OK     EACCES | EINVAL EACCES EACCES EACCES | EINVAL EACCES EACCES EACCES
  rosb/null EINVAL OK     OK     EACCES | EINVAL OK     EACCES EACCES | EINVAL OK     EACCES EACCES
  rosb/x    EROFS  OK     EROFS  OK     | EROFS  OK     EROFS  OK     | EROFS  OK     EROFS  OK
  rosb/sl   EROFS  OK     EROFS  EACCES | EROFS  OK     EROFS  EACCES | EROFS  OK     EROFS  EACCES
";

#[test]
fn nothing_changes_through_a_read_only_mount_or_tree() {
    let vfs = world();
    let task = root(&vfs);
    let fill = |dir: &str| {
        task.touch(&format!("{dir}/own"), 0o644, (1000, 1000));
        task.touch(&format!("{dir}/root"), 0o600, (0, 0));
        task.touch(&format!("{dir}/x"), 0o755, (0, 0));
        task.dir(&format!("{dir}/dir"), 0o755, (0, 0));
        task.node(&format!("{dir}/p"), mode::S_IFIFO | 0o600, 0);
        task.node(
            &format!("{dir}/null"),
            mode::S_IFCHR | 0o644,
            stat::makedev(1, 3),
        );
        task.link_to(&format!("{dir}/sl"), "own");
    };
    for dir in ["/d", "/ro", "/rosb"] {
        task.dir(dir, 0o755, (0, 0));
    }
    fill("/d");
    task.bind(b"/d", b"/ro").expect("bind");
    let flags = MountFlags::default() | MountFlags::READ_ONLY | MountFlags::NO_EXEC;
    task.remount_bind(b"/ro", flags).expect("remount");
    let tree = MemFs::new(MemOptions::default().mode(0o755));
    task.mount(tree, b"/rosb", MountFlags::default())
        .expect("mount");
    fill("/rosb");
    task.remount_sb(b"/rosb", true).expect("remount");
    let users = [
        task.fork().expect("fork"),
        user(&vfs, 1000, &[], &[]),
        user(&vfs, 1001, &[], &[]),
    ];
    for line in READ_ONLY.lines().filter(|l| !l.is_empty()) {
        let (path, answers) = line.trim().split_once(' ').expect("a path");
        for (by, part) in users.iter().zip(answers.split('|')) {
            let w: Vec<&str> = part.split_whitespace().collect();
            let no = ["EROFS"; 4].join(" ");
            let expected = format!("{} {no} {} {} {} {no}", w[0], w[1], w[2], w[3]);
            let got = all_calls(by, &format!("/{path}"));
            assert_eq!(got, expected, "{path} by {}", by.cred().uid);
        }
    }
    assert_eq!(all_calls(&task, "/ro/nope"), ["ENOENT"; 12].join(" "));
}
