// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that utimensat and truncate check their arguments and change times as Linux 6.18 does on a
//! tmpfs.

use crate::world::*;
use openpath_abi::caps::*;
use openpath_abi::fcntl::*;
use openpath_abi::{AtFlags, Errno, TimeSet, Timespec, mode, stat};
use openpath_vfs::{MountFlags, Profile};

const OMIT: TimeSet = TimeSet::Omit;
const NOW: TimeSet = TimeSet::Now;

fn given(sec: i64) -> TimeSet {
    TimeSet::At(Timespec::new(sec, 0))
}

#[test]
fn owners_set_any_time_and_writers_only_now() {
    let vfs = world();
    let task = root(&vfs);
    task.touch("/t", 0o666, (1000, 1000));
    let other: UserSpec<'_> = (1001, &[], &[]);
    let fowner: UserSpec<'_> = (1001, &[], &[CAP_FOWNER]);
    let overrider: UserSpec<'_> = (1001, &[], &[CAP_DAC_OVERRIDE]);
    for (bits, who, times, answer, which) in [
        (0o666, other, [NOW, NOW], "OK", "amc"),
        (0o666, other, [NOW, OMIT], "EPERM", ""),
        (0o666, other, [given(1), given(1)], "EPERM", ""),
        (0o666, other, [OMIT, OMIT], "OK", ""),
        (0o644, other, [NOW, NOW], "EACCES", ""),
        (0o644, other, [NOW, OMIT], "EPERM", ""),
        (0o644, fowner, [given(1), given(1)], "OK", "amc"),
        (0o644, fowner, [NOW, NOW], "OK", "amc"),
        (0o644, overrider, [NOW, NOW], "OK", "amc"),
        (0o644, overrider, [given(1), given(2)], "EPERM", ""),
        (0o444, (1000, &[], &[]), [NOW, NOW], "OK", "amc"),
        (0o444, (1000, &[], &[]), [given(3), OMIT], "OK", "ac"),
        (0o444, (1000, &[], &[]), [OMIT, NOW], "OK", "mc"),
    ] {
        task.chmod(b"/t", bits).expect("chmod");
        let by = user(&vfs, who.0, who.1, who.2);
        let label = format!("{bits:o} {who:?} {times:?}");
        let call = || by.utimensat(AT_FDCWD, Some(b"/t"), times, AtFlags::empty());
        check(
            &task,
            "/t",
            &label,
            call,
            (answer, bits, (1000, 1000), which),
        );
    }
    let times = [
        TimeSet::At(Timespec::new(-5, 5)),
        TimeSet::At(Timespec::new(i64::MAX, 6)),
    ];
    task.utimensat(AT_FDCWD, Some(b"/t"), times, AtFlags::empty())
        .expect("utimensat");
    let s = task.stat(b"/t").expect("stat");
    assert_eq!(
        (s.atime, s.mtime),
        (Timespec::new(-5, 5), Timespec::new(i64::MAX, 6))
    );
    task.link_to("/tl", "t");
    let by = user(&vfs, 1001, &[], &[]);
    let link = |times| say(by.utimensat(AT_FDCWD, Some(b"/tl"), times, AT_SYMLINK_NOFOLLOW));
    assert_eq!(link([NOW, NOW]), "OK", "any user may write a link");
    assert_eq!(link([given(1), given(1)]), "EPERM");
}

#[test]
fn utimensat_checks_its_arguments() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"");
    let (of, at_place) = (task.get("/f", "RD"), task.get("/f", "PATH"));
    let wrong = TimeSet::At(Timespec::new(1, 1_000_000_000));
    let long = [b'a'; 5000];
    let (some, none) = (Some(b"f".as_slice()), None);
    let nope = Some(b"nope".as_slice());
    for (at, path, times, flags, answer) in [
        (AT_FDCWD, nope, [OMIT, OMIT], 0, "OK"),
        (AT_FDCWD, nope, [OMIT, OMIT], 0x8000, "OK"),
        (BAD, nope, [OMIT, OMIT], 0, "OK"),
        (BAD, Some(&long), [OMIT, OMIT], 0, "OK"),
        (BAD, none, [OMIT, OMIT], 0, "OK"),
        (AT_FDCWD, nope, [wrong, NOW], 0, "ENOENT"),
        (AT_FDCWD, some, [wrong, NOW], 0, "EINVAL"),
        (AT_FDCWD, some, [OMIT, wrong], 0, "EINVAL"),
        (AT_FDCWD, some, [NOW, NOW], 0x400, "EINVAL"),
        (AT_FDCWD, none, [NOW, NOW], 0, "EFAULT"),
        (of, none, [NOW, NOW], 0, "OK"),
        (of, none, [NOW, NOW], AT_SYMLINK_NOFOLLOW.bits(), "EINVAL"),
        (BAD, none, [NOW, NOW], AT_SYMLINK_NOFOLLOW.bits(), "EINVAL"),
        (BAD, none, [NOW, NOW], 0, "EBADF"),
        (at_place, none, [NOW, NOW], 0, "EBADF"),
        (at_place, Some(b""), [NOW, NOW], AT_EMPTY_PATH.bits(), "OK"),
        (at_place, Some(b""), [NOW, NOW], 0, "ENOENT"),
    ] {
        let got = say(task.utimensat(at, path, times, AtFlags::from_bits_retain(flags)));
        assert_eq!(got, answer, "{times:?} {flags:#x}");
    }
    assert_eq!(task.futimens(at_place, [OMIT, OMIT]), Ok(()));
    assert_eq!(task.futimens(of, [given(9), given(9)]), Ok(()));
    assert_eq!(task.stat(b"/f").map(|s| s.mtime.sec), Ok(9));
}

#[test]
fn truncate_checks_in_order() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"0123456789");
    task.link_to("/ls", "f");
    task.dir("/d", 0o755, (0, 0));
    for (name, kind) in [
        ("/p", mode::S_IFIFO),
        ("/s", mode::S_IFSOCK),
        ("/n", mode::S_IFCHR),
    ] {
        task.node(name, kind | 0o666, stat::makedev(1, 3));
    }
    for (path, len, answer) in [
        ("nope", -1, "EINVAL"),
        ("nope", 0, "ENOENT"),
        ("d", 0, "EISDIR"),
        ("p", 0, "EINVAL"),
        ("s", 0, "EINVAL"),
        ("n", 0, "EINVAL"),
        ("f", i64::MAX, "OK"),
        ("f", 10, "OK"),
        ("ls", 3, "OK"),
        ("", -1, "EINVAL"),
        ("", 0, "ENOENT"),
        ("f/", 0, "ENOTDIR"),
    ] {
        assert_eq!(
            say(task.truncate(path.as_bytes(), len)),
            answer,
            "{path} {len}"
        );
    }
    assert_eq!(task.stat(b"/f").map(|s| s.size), Ok(3));
    for (path, names, len, answer) in [
        ("/f", "RD", -1, "EINVAL"),
        ("/f", "PATH", -1, "EINVAL"),
        ("/f", "PATH", 5, "EBADF"),
        ("/f", "RD", 5, "EINVAL"),
        ("/f", "A3", 5, "EINVAL"),
        ("/d", "RD", 5, "EINVAL"),
        ("/p", "RW", 5, "EINVAL"),
        ("/n", "RW", 5, "EINVAL"),
        ("/f", "WR", 5, "OK"),
    ] {
        let got = task.with(path, names, |fd| say(task.ftruncate(fd, len)));
        assert_eq!(got, answer, "{path} {names} {len}");
    }
    task.chmod(b"/f", 0o644).expect("chmod");
    let other = user(&vfs, 1000, &[], &[]);
    assert_eq!(say(other.truncate(b"/f", 0)), "EACCES");
}

#[test]
fn each_truncation_moves_times_and_clears_set_id_bits_as_on_tmpfs() {
    let vfs = world();
    let task = root(&vfs);
    let by = user(&vfs, 1000, &[], &[]);
    let cut = |len| by.truncate(b"/t", len);
    let fcut = |len| by.with("/t", "WR", |fd| by.ftruncate(fd, len));
    let open = |_| by.shut(by.open(b"/t", O_WRONLY | O_TRUNC, 0));
    type Cut<'a> = &'a dyn Fn(i64) -> Result<(), Errno>;
    let calls: [(&str, Cut<'_>, &str); 3] = [
        ("truncate", &cut, ""),
        ("ftruncate", &fcut, "mc"),
        ("O_TRUNC", &open, "mc"),
    ];
    let mine = (1000, 1000);
    for (name, call, times) in calls {
        for (bits, gid, left) in [
            (0o6777, 1000, 0o777),
            (0o2767, 1000, 0o2767),
            (0o2766, 2000, 0o766),
            (0o2746, 1000, 0o2746),
        ] {
            task.touch("/t", bits, (1000, gid));
            let label = format!("{name} of an empty file, {bits:o}");
            check(
                &task,
                "/t",
                &label,
                || call(0),
                ("OK", left, (1000, gid), times),
            );
            task.gone("/t");
        }
        task.touch("/t", 0o666, mine);
        by.with("/t", "WR", |fd| by.write(fd, b"0123456789"))
            .expect("write");
        let label = format!("{name} with blocks");
        let len = if name == "O_TRUNC" { 0 } else { 10 };
        check(&task, "/t", &label, || call(len), ("OK", 0o666, mine, "mc"));
        task.gone("/t");
    }
    task.touch("/t", 0o6777, mine);
    check(&task, "/t", "longer", || cut(5), ("OK", 0o777, mine, "mc"));
    task.chmod(b"/t", 0o6777).expect("chmod");
    task.truncate(b"/t", 1).expect("truncate");
    assert_eq!(task.bits("/t"), 0o6777, "root keeps the bits");
}

#[test]
fn before_linux_6_14_a_read_only_mount_is_checked_first() {
    for (profile, answer) in [(Profile::V6_12, "EROFS"), (Profile::V6_18, "EACCES")] {
        let vfs = world_like(profile);
        let task = root(&vfs);
        task.dir("/d", 0o755, (0, 0));
        task.touch("/d/f", 0o600, (0, 0));
        task.bind(b"/d", b"/d").expect("bind");
        let flags = MountFlags::default() | MountFlags::READ_ONLY;
        task.remount_bind(b"/d", flags).expect("remount");
        let by = user(&vfs, 1000, &[], &[]);
        assert_eq!(say(by.truncate(b"/d/f", 0)), answer, "{profile:?}");
    }
}
