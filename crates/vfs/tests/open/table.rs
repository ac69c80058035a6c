// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that open(2) with every kind of last component and every flag answers as Linux 6.18 does
//! on a tmpfs. `table.txt` has that kernel's answers.

use crate::world::*;
use openpath_abi::fcntl::*;
use openpath_abi::{Errno, XattrFlags, mode, stat};
use openpath_vfs::{Fd, Task};

/// The tree of the recorded answers; the task is in `/w`.
fn tree(task: &Task) {
    task.dir("/w", 0o755, (0, 0));
    task.chdir(b"/w").expect("chdir");
    task.data("f", b"xxxxxxxxxx");
    task.dir("d", 0o755, (0, 0));
    task.data("d/g", b"y");
    for (name, body) in [
        ("ls", "f"),
        ("ld", "d"),
        ("dang", "nope"),
        ("dang2", "nodir/x"),
        ("dang3", "nope2/"),
        ("l1", "l2"),
        ("l2", "l1"),
        ("lfs", "f/"),
        ("lds", "d/"),
        ("labs", "/"),
        ("lup", ".."),
        ("ldot", "."),
    ] {
        task.link_to(name, body);
    }
    task.node("p", mode::S_IFIFO | 0o644, 0);
    task.node("sock", mode::S_IFSOCK | 0o755, 0);
    task.node("null", mode::S_IFCHR | 0o666, stat::makedev(1, 3));
    task.node("tty", mode::S_IFCHR | 0o666, stat::makedev(5, 0));
    let mut before = "f".to_owned();
    for i in 1..=42 {
        let name = format!("c{i}");
        task.link_to(&name, &before);
        before = name;
    }
}

fn open(task: &Task, at: Fd, path: &str, names: &str) -> String {
    say(task.shut(task.openat(at, path.as_bytes(), flags(names), 0o644)))
}

/// Compares lines of `path flags answer`.
fn compare(task: &Task, lines: &str) {
    let mut wrong = Vec::new();
    for line in lines.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [path, names, answer] = words[..] else {
            panic!("{line}")
        };
        let path = path.replace("''", "");
        let got = open(task, AT_FDCWD, &path, names);
        if got != answer {
            wrong.push(format!("{line}: {got}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_last_component_answers_every_flag_as_in_linux() {
    let vfs = world();
    let task = root(&vfs);
    tree(&task);
    let mut lines = include_str!("table.txt").lines();
    let mut lines = lines.by_ref().filter(|l| !l.starts_with('#'));
    let head: Vec<&str> = lines.next().expect("a head").split_whitespace().collect();
    let mut wrong = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        for (names, answer) in head.iter().zip(&words).skip(1) {
            let got = open(&task, AT_FDCWD, words[0], names);
            if got != *answer {
                wrong.push(format!("{} {names}: {got}, not {answer}", words[0]));
            }
            for made in [b"nope".as_slice(), b"nope2"] {
                let _gone = task.unlink(made);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn empty_and_overlong_paths_are_refused() {
    let vfs = world();
    let task = root(&vfs);
    tree(&task);
    let a = |n: usize| "a".repeat(n);
    for (path, names, answer) in [
        (String::new(), "RD", "ENOENT"),
        (a(255), "RD", "ENOENT"),
        (a(256), "RD", "ENAMETOOLONG"),
        (a(256), "CREAT|WR", "ENAMETOOLONG"),
        ("/".repeat(4095), "RD", "OK"),
        ("/".repeat(4096), "RD", "ENAMETOOLONG"),
        (format!("nodir/{}", a(256)), "RD", "ENOENT"),
        (format!("f/{}", a(256)), "RD", "ENOTDIR"),
        (format!("d/{}", a(256)), "RD", "ENAMETOOLONG"),
        (format!("d/{}/../g", a(256)), "RD", "ENAMETOOLONG"),
    ] {
        let label: String = path.chars().take(20).collect();
        let got = open(&task, AT_FDCWD, &path, names);
        assert_eq!(got, answer, "{label} {names}");
    }
}

#[test]
fn opens_check_tmpfile_and_other_flags() {
    let vfs = world();
    let task = root(&vfs);
    tree(&task);
    compare(
        &task,
        "'' TMP1|RW EINVAL
         '' CREAT|DIR EINVAL
         '' TMPFILE|RD EINVAL
         '' TMPFILE|CREAT|RW EINVAL
         d TMPFILE|RW OK
         f TMPFILE|RW ENOTDIR
         nope TMPFILE|RW ENOENT
         ld TMPFILE|RW|NOFOLLOW ENOTDIR
         d TMPFILE|RW|TRUNC OK
         d TMPFILE|WR|EXCL OK
         d PATH|TMPFILE|RW OK",
    );
}

#[test]
fn opens_of_dangling_links_directories_and_special_files_answer_as_in_linux() {
    let vfs = world();
    let task = root(&vfs);
    tree(&task);
    compare(
        &task,
        "dang RD ENOENT
         dang RD|CREAT|EXCL EEXIST
         dang RD|CREAT|NOFOLLOW ELOOP
         nope RD ENOENT
         dang RD|CREAT OK
         nope RD OK
         dang2 RD|CREAT ENOENT
         dang3 RD|CREAT EISDIR
         dang/ RD|CREAT EISDIR
         l1 RD|CREAT ELOOP
         l1 RD|CREAT|EXCL EEXIST
         ls RD|CREAT|NOFOLLOW ELOOP
         ls WR|TRUNC|NOFOLLOW ELOOP
         ls RD|NOFOLLOW|CREAT|EXCL EEXIST
         d WR EISDIR
         d RW|DIR EISDIR
         f WR|DIR ENOTDIR
         d RD|TRUNC EISDIR
         d A3 EISDIR
         d RD|APPEND OK
         d RD|DIRECT EINVAL
         d RD|CREAT EISDIR
         d RD|CREAT|EXCL EEXIST
         d RD|DIR|EXCL OK
         p RD|NONBLOCK OK
         p WR|NONBLOCK ENXIO
         p RW|NONBLOCK OK
         p RD|NONBLOCK|CREAT OK
         p RD|NONBLOCK|CREAT|EXCL EEXIST
         p RD|NONBLOCK|TRUNC OK
         p RD|DIR|NONBLOCK ENOTDIR
         sock RD ENXIO
         sock PATH OK
         sock RD|CREAT ENXIO
         tty RD|NONBLOCK ENXIO
         nope9 PATH|CREAT ENOENT
         f PATH|TRUNC|WR OK
         f PATH|DIR ENOTDIR
         ls PATH OK
         p PATH|RW OK
         ls PATH|NOFOLLOW OK",
    );
    assert_eq!(task.stat(b"f").map(|s| s.size), Ok(10));
}

#[test]
fn paths_start_at_a_directory_descriptor() {
    let vfs = world();
    let task = root(&vfs);
    tree(&task);
    let (dir, file) = (task.get("d", "RD"), task.get("f", "RD"));
    let (path_dir, path_file) = (task.get("d", "PATH"), task.get("f", "PATH"));
    task.dir("dead", 0o755, (0, 0));
    let dead = task.get("dead", "RD");
    task.rmdir(b"dead").expect("rmdir");
    for (at, path, names, answer) in [
        (BAD, "/w/f", "RD", "OK"),
        (dir, "g", "RD", "OK"),
        (BAD, "g", "RD", "EBADF"),
        (file, "g", "RD", "ENOTDIR"),
        (BAD, "", "RD", "ENOENT"),
        (file, "", "RD", "ENOENT"),
        (path_dir, "g", "RD", "OK"),
        (path_file, "g", "RD", "ENOTDIR"),
        (file, ".", "RD", "ENOTDIR"),
        (file, "/w/f", "RD", "OK"),
        (dead, "x", "RD", "ENOENT"),
        (dead, ".", "RD", "OK"),
        (dead, "..", "RD", "OK"),
        (dead, "./", "RD", "OK"),
        (dead, "../f", "RD", "OK"),
        (dead, "x", "RD|CREAT", "ENOENT"),
        (dead, ".", "TMPFILE|RW", "OK"),
    ] {
        assert_eq!(open(&task, at, path, names), answer, "{path} {names}");
    }
    assert_eq!(
        say(task.mkdirat(dead, b"z", 0o755)),
        "ENOENT",
        "mkdir in a removed directory"
    );
}

#[test]
fn an_o_path_descriptor_does_no_io() {
    let vfs = world();
    let task = root(&vfs);
    tree(&task);
    let (file, dir) = (task.get("f", "PATH"), task.get("d", "PATH"));
    let mut buf = [0; 4];
    let none = openpath_abi::TimeSet::Now;
    for (call, result) in [
        ("read", say(task.read(file, &mut buf))),
        ("pread", say(task.pread(file, &mut buf, 0))),
        ("write", say(task.write(file, b"a"))),
        ("pwrite", say(task.pwrite(file, b"a", 0))),
        ("lseek", say(task.lseek(file, 0, SEEK_SET))),
        ("fchmod", say(task.fchmod(file, 0o644))),
        ("fchown", say(task.fchown(file, 0, 0))),
        ("ftruncate", say(task.ftruncate(file, 1))),
        ("futimens", say(task.futimens(file, [none, none]))),
        (
            "fsetxattr",
            say(task.fsetxattr(file, b"user.a", b"b", XattrFlags::empty())),
        ),
        ("fgetxattr", say(task.fgetxattr(file, b"user.a"))),
        ("flistxattr", say(task.flistxattr(file))),
        ("fremovexattr", say(task.fremovexattr(file, b"user.a"))),
        ("syncfs", say(task.syncfs(file))),
        ("getdents64", say(task.getdents64(dir, 512))),
    ] {
        assert_eq!(result, "EBADF", "{call}");
    }
    assert_eq!(say(task.fstat(file)), "OK");
    assert_eq!(say(task.fstatfs(file)), "OK");
    assert_eq!(say(task.fchdir(file)), "ENOTDIR");
    assert_eq!(say(task.fchdir(dir)), "OK");
    assert_eq!(task.getcwd(), Ok(b"/w/d".to_vec()));
}

#[test]
fn f_getfl_returns_the_flags_that_linux_keeps() {
    let vfs = world();
    let task = root(&vfs);
    tree(&task);
    for (path, names, kept) in [
        ("f", "RD", 0o100000),
        ("f", "RW|CREAT|TRUNC", 0o100002),
        ("f", "RD|CLOEXEC", 0o100000),
        ("f", "RD|NOFOLLOW", 0o500000),
        ("f", "WR|APPEND", 0o102001),
        ("f", "RD|NONBLOCK", 0o104000),
        ("f", "RD|NOATIME", 0o1100000),
        ("f", "WR|SYNC", 0o4110001),
        ("f", "WR|DSYNC", 0o110001),
        ("f", "RD|NOCTTY", 0o100000),
        ("f", "RD|ASYNC", 0o120000),
        ("f", "RD|DIRECT", 0o140000),
        ("f", "RD|LARGE", 0o100000),
        ("f", "A3", 0o100003),
        ("d", "RD|DIR", 0o300000),
        ("d", "TMPFILE|RW", 0o20300002),
        ("d", "PATH|DIR|CLOEXEC", 0o10200000),
        ("ls", "PATH|NOFOLLOW", 0o10400000),
        ("d", "TMPFILE|RW|EXCL", 0o20300002),
        ("f", "PATH", 0o10000000),
    ] {
        let got = task.with(path, names, |fd| task.kept(fd));
        assert_eq!(got, kept, "{path} {names}");
    }
}

#[test]
fn an_open_without_a_free_descriptor_fails_with_emfile() {
    let vfs = world();
    let task = root(&vfs);
    tree(&task);
    task.set_rlimit_nofile(0);
    compare(
        &task,
        "f RD EMFILE
         nope RD EMFILE
         '' RD ENOENT
         f RD|CREAT|DIR EINVAL
         new RD|CREAT EMFILE",
    );
    let long = "a".repeat(5000);
    assert_eq!(open(&task, AT_FDCWD, &long, "RD"), "ENAMETOOLONG");
    assert_eq!(open(&task, BAD, "f", "RD"), "EMFILE");
    assert_eq!(task.lstat(b"new").err(), Some(Errno::ENOENT));
}

#[test]
fn errors_of_a_user_without_permission_come_in_order() {
    let vfs = world();
    let task = root(&vfs);
    tree(&task);
    task.touch("ro", 0o444, (0, 0));
    task.touch("none", 0, (0, 0));
    for (name, mode) in [("nox", 0o600), ("nord", 0o711), ("nowr", 0o555)] {
        task.dir(name, 0o700, (0, 0));
        task.touch(&format!("{name}/f"), 0o644, (0, 0));
        task.chmod(name.as_bytes(), mode).expect("chmod");
    }
    let nobody = user(&vfs, 65534, &[], &[]);
    nobody.chdir(b"/w").expect("chdir");
    let lines = "ro WR EACCES
         ro RD|TRUNC EACCES
         none RD EACCES
         none PATH OK
         none WR|CREAT EACCES
         none WR|CREAT|EXCL EEXIST
         none RD|DIR ENOTDIR
         nox/f RD EACCES
         nox/nope RD EACCES
         nox/f PATH EACCES
         nox RD EACCES
         nord RD EACCES
         nord/f RD OK
         nord/ PATH OK
         nowr/new WR|CREAT EACCES
         nowr/f RD|CREAT OK
         nowr/f RD|CREAT|EXCL EEXIST
         nowr/f WR|CREAT EACCES
         nowr/new/ WR|CREAT EISDIR
         nowr TMPFILE|RW EACCES
         ro RD|NOATIME EPERM
         none RD|NOATIME EACCES
         ro A3 EACCES
         none/x RD ENOTDIR
         none/ RD ENOTDIR
         nowr/. RD|CREAT EISDIR
         nowr WR|DIR EISDIR
         f/.. RD ENOTDIR
         nox/.. RD EACCES
         nox/. RD EACCES
         nox/ RD|CREAT EISDIR";
    // Twice: the second time from the cache.
    compare(&nobody, lines);
    compare(&nobody, lines);
    let long = format!("nox/{}", "a".repeat(300));
    assert_eq!(open(&nobody, AT_FDCWD, &long, "RD"), "EACCES");
}
