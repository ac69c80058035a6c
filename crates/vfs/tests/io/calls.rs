// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that reads, writes, seeks and listings of directories answer as Linux 6.18 does on a
//! tmpfs.

use crate::world::*;
use openpath_abi::caps::*;
use openpath_abi::fcntl::*;
use openpath_abi::{Errno, TimeSet, UmountFlags, dirent, mode, stat};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{DirEntry, Fd, MountFlags, Task};

const MAX: i64 = i64::MAX;

fn null(minor: u32) -> u64 {
    stat::makedev(1, minor)
}

fn number<T: ToString>(result: Result<T, Errno>) -> String {
    match result {
        Ok(n) => n.to_string(),
        Err(errno) => errno.to_string(),
    }
}

#[test]
fn reads_and_writes_check_offsets_and_access() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"hello world");
    task.dir("/d", 0o755, (0, 0));
    task.node("/p", mode::S_IFIFO | 0o666, 0);
    let (rw, rd, wr) = (
        task.get("/f", "RW"),
        task.get("/f", "RD"),
        task.get("/f", "WR"),
    );
    let (neither, dir) = (task.get("/f", "A3"), task.get("/d", "RD"));
    let (place, fifo) = (task.get("/f", "PATH"), task.get("/p", "RW"));
    for (file, len, offset, read, write) in [
        (rw, 1, -1, "EINVAL", "EINVAL"),
        (rw, 0, -1, "EINVAL", "EINVAL"),
        (rw, 10, MAX - 5, "EINVAL", "EINVAL"),
        (rw, 1, MAX, "EINVAL", "EINVAL"),
        (rw, 0, MAX, "0", "0"),
        (rw, 5, MAX - 4, "EINVAL", "EINVAL"),
        (rw, 5, 0, "5", "5"),
        (rd, 5, 0, "5", "EBADF"),
        (rd, 5, 9, "2", "EBADF"),
        (rd, 5, 1000, "0", "EBADF"),
        (rd, 5, -1, "EINVAL", "EINVAL"),
        (wr, 5, 0, "EBADF", "5"),
        (neither, 5, 0, "EBADF", "EBADF"),
        (dir, 1, 0, "EISDIR", "EBADF"),
        (dir, 0, 0, "EISDIR", "EBADF"),
        (dir, 10, MAX - 5, "EINVAL", "EBADF"),
        (place, 1, -1, "EINVAL", "EINVAL"),
        (place, 1, 0, "EBADF", "EBADF"),
        (fifo, 1, 0, "ESPIPE", "ESPIPE"),
    ] {
        let mut buf = vec![b'x'; len];
        let label = format!("{:o} {len} {offset:#x}", task.kept(file));
        assert_eq!(number(task.pwrite(file, &buf, offset)), write, "{label}");
        assert_eq!(number(task.pread(file, &mut buf, offset)), read, "{label}");
    }
    assert_eq!(task.stat(b"/f").map(|s| s.size), Ok(11));
    assert_eq!(task.read(dir, &mut [0]), Err(Errno::EISDIR));
    assert_eq!(task.pwrite(rw, &[b'y'; 5], MAX - 5), Ok(5));
    assert_eq!(task.stat(b"/f").map(|s| s.size), Ok(i64::MAX));
    let mut end = [0; 5];
    assert_eq!((task.pread(rw, &mut end, MAX - 5), &end), (Ok(5), b"yyyyy"));
}

#[test]
fn the_offset_moves_with_reads_and_writes() {
    let vfs = world();
    let task = root(&vfs);
    let file = task.get("/f", "RW|CREAT");
    assert_eq!(task.write(file, b"hello "), Ok(6));
    assert_eq!(task.write(file, b"world"), Ok(5));
    assert_eq!(task.lseek(file, 0, SEEK_CUR), Ok(11));
    assert_eq!(task.pwrite(file, b"H", 0), Ok(1));
    assert_eq!(task.lseek(file, 0, SEEK_CUR), Ok(11));
    assert_eq!(task.read(file, &mut [0; 4]), Ok(0));
    assert_eq!(task.lseek(file, 0, SEEK_SET), Ok(0));
    let mut buf = [0; 8];
    assert_eq!((task.read(file, &mut buf), &buf), (Ok(8), b"Hello wo"));
    assert_eq!(
        (task.read(file, &mut buf), &buf[..3]),
        (Ok(3), b"rld".as_slice())
    );
    assert_eq!(task.lseek(file, 20, SEEK_SET), Ok(20));
    assert_eq!(task.write(file, b"z"), Ok(1));
    assert_eq!(
        (task.pread(file, &mut buf, 10), &buf),
        (Ok(8), b"d\0\0\0\0\0\0\0")
    );
    let other = task.get("/f", "RD");
    assert_eq!(
        task.lseek(other, 0, SEEK_CUR),
        Ok(0),
        "each open file has its own"
    );
}

#[test]
fn a_file_ends_at_the_largest_offset() {
    let vfs = world();
    let task = root(&vfs);
    let file = task.get("/f", "RW|CREAT");
    let near = i64::MAX - 5;
    task.ftruncate(file, near).expect("ftruncate");
    let append = task.get("/f", "WR|APPEND");
    assert_eq!(task.write(append, &[b'a'; 10]), Ok(5), "as much as fits");
    assert_eq!(task.lseek(append, 0, SEEK_CUR), Ok(i64::MAX));
    assert_eq!(task.write(append, b"a"), Err(Errno::EINVAL));
    assert_eq!(task.write(append, b""), Ok(0));
    let fresh = task.get("/f", "WR|APPEND");
    assert_eq!(task.write(fresh, b"a"), Err(Errno::EFBIG));
    task.ftruncate(file, 0).expect("ftruncate");
    assert_eq!(task.lseek(file, near, SEEK_SET), Ok(near));
    assert_eq!(task.write(file, &[b'a'; 10]), Err(Errno::EINVAL));
    assert_eq!(task.write(file, &[b'a'; 5]), Ok(5));
    assert_eq!(task.write(file, b"a"), Err(Errno::EINVAL));
    assert_eq!(task.read(file, &mut [0]), Err(Errno::EINVAL));
    assert_eq!(task.read(file, &mut []), Ok(0));
}

#[test]
fn append_writes_at_the_end() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"hello world");
    let file = task.get("/f", "RW|APPEND");
    assert_eq!(task.pwrite(file, b"abc", 0), Ok(3));
    assert_eq!(task.stat(b"/f").map(|s| s.size), Ok(14));
    assert_eq!(task.lseek(file, 0, SEEK_CUR), Ok(0));
    assert_eq!(task.write(file, b"de"), Ok(2));
    assert_eq!(task.lseek(file, 0, SEEK_CUR), Ok(16));
    let mut buf = [0; 16];
    assert_eq!(
        (task.pread(file, &mut buf, 0), &buf),
        (Ok(16), b"hello worldabcde")
    );
}

#[test]
fn lseek_answers_as_in_linux() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"hello");
    task.truncate(b"/f", 10_000).expect("truncate");
    let file = task.get("/f", "A3");
    let m = i64::MAX;
    for (offset, whence, answer) in [
        (0, 5, "EINVAL"),
        (-1, SEEK_SET, "EINVAL"),
        (m, SEEK_SET, "9223372036854775807"),
        (1, SEEK_CUR, "EINVAL"),
        (0, SEEK_CUR, "9223372036854775807"),
        (m, SEEK_CUR, "EINVAL"),
        (m, SEEK_END, "EINVAL"),
        (i64::MIN, SEEK_END, "EINVAL"),
        (i64::MIN, SEEK_CUR, "EINVAL"),
        (5, SEEK_SET, "5"),
        (m - 5, SEEK_CUR, "9223372036854775807"),
        (-1, SEEK_END, "9999"),
        (0, SEEK_END, "10000"),
        (5, SEEK_CUR, "10005"),
        (-20_000, SEEK_END, "EINVAL"),
        (0, SEEK_DATA, "0"),
        (0, SEEK_HOLE, "4096"),
        (10_000, SEEK_DATA, "ENXIO"),
        (9_999, SEEK_DATA, "ENXIO"),
        (9_999, SEEK_HOLE, "9999"),
        (-1, SEEK_DATA, "ENXIO"),
        (-1, SEEK_HOLE, "ENXIO"),
        (10_000, SEEK_HOLE, "ENXIO"),
        (0, SEEK_CUR, "9999"),
    ] {
        assert_eq!(
            number(task.lseek(file, offset, whence)),
            answer,
            "{offset} {whence}"
        );
    }
    let place = task.get("/f", "PATH");
    assert_eq!(task.lseek(place, 0, 77), Err(Errno::EBADF));
}

#[test]
fn null_and_zero_devices_read_and_write_as_in_linux() {
    let vfs = world();
    let task = root(&vfs);
    task.node("/null", mode::S_IFCHR | 0o666, null(3));
    task.node("/zero", mode::S_IFCHR | 0o666, null(5));
    let (null, zero) = (task.get("/null", "RW"), task.get("/zero", "RW"));
    let mut buf = [7; 4];
    assert_eq!((task.read(null, &mut buf), buf), (Ok(0), [7; 4]));
    assert_eq!((task.read(zero, &mut buf), buf), (Ok(4), [0; 4]));
    for device in [null, zero] {
        assert_eq!(task.write(device, &[1; 50]), Ok(50));
        assert_eq!(task.pwrite(device, &[1; 5], 7), Ok(5));
        assert_eq!(task.pwrite(device, b"a", -1), Err(Errno::EINVAL));
        for (offset, whence) in [(55, SEEK_END), (-55, SEEK_SET), (0, SEEK_CUR)] {
            assert_eq!(task.lseek(device, offset, whence), Ok(0));
        }
        assert_eq!(task.lseek(device, 0, 6), Err(Errno::EINVAL));
        assert_eq!(task.getdents64(device, 100), Err(Errno::ENOTDIR));
    }
    assert_eq!(
        (task.pread(null, &mut buf, 7), task.pread(zero, &mut buf, 7)),
        (Ok(0), Ok(4))
    );
}

#[test]
fn a_write_clears_set_id_bits() {
    let vfs = world();
    let task = root(&vfs);
    let write = |by: &Task, data: &[u8]| by.with("/t", "WR", |fd| by.write(fd, data).map(drop));
    let one: UserSpec<'_> = (1000, &[], &[]);
    for (bits, gid, who, data, left) in [
        (0o6777, 1000, one, b"abc".as_slice(), 0o777),
        (0o2767, 1000, one, b"abc", 0o2767),
        (0o2766, 2000, one, b"abc", 0o766),
        (0o2746, 1000, one, b"abc", 0o2746),
        (0o6777, 1000, one, b"", 0o6777),
        (0o6777, 1000, (1001, &[], &[CAP_FSETID]), b"abc", 0o6777),
        (0o6777, 1000, (1001, &[], &[]), b"abc", 0o777),
    ] {
        task.touch("/t", bits, (1000, gid));
        let by = user(&vfs, who.0, who.1, who.2);
        let times = if data.is_empty() { "" } else { "mc" };
        let label = format!("{bits:o} {gid} {who:?}");
        let expected = ("OK", left, (1000, gid), times);
        check(&task, "/t", &label, || write(&by, data), expected);
        task.gone("/t");
    }
    task.touch("/t", 0o6777, (1000, 1000));
    check(
        &task,
        "/t",
        "root",
        || write(&task, b"a"),
        ("OK", 0o6777, (1000, 1000), "mc"),
    );
}

#[test]
fn a_read_moves_the_access_time_when_relatime_says() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"hello");
    task.dir("/d", 0o755, (0, 0));
    task.link_to("/l", "f");
    let old = |path: &str| {
        let times = [TimeSet::At(OLD), TimeSet::At(OLD)];
        let path = Some(path.as_bytes());
        task.utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW)
            .expect("utimensat");
    };
    let at = |path: &str| task.lstat(path.as_bytes()).expect(path).atime;
    let (file, quiet) = (task.get("/f", "RW"), task.get("/f", "RD|NOATIME"));
    let dir = task.get("/d", "RD");
    let reads: [(&str, &str, &dyn Fn() -> bool, bool); 8] = [
        (
            "pread",
            "/f",
            &|| task.pread(file, &mut [0], 0).is_ok(),
            true,
        ),
        (
            "empty pread",
            "/f",
            &|| task.pread(file, &mut [], 0).is_ok(),
            true,
        ),
        (
            "pread at the end",
            "/f",
            &|| task.pread(file, &mut [0], 999).is_ok(),
            true,
        ),
        ("read", "/f", &|| task.read(file, &mut [0]).is_ok(), true),
        (
            "with O_NOATIME",
            "/f",
            &|| task.read(quiet, &mut [0]).is_ok(),
            false,
        ),
        (
            "getdents64",
            "/d",
            &|| task.getdents64(dir, 4096).is_ok(),
            true,
        ),
        (
            "getdents64 without room",
            "/d",
            &|| task.getdents64(dir, 3).is_ok(),
            true,
        ),
        ("readlink", "/l", &|| task.readlink(b"/l").is_ok(), true),
    ];
    for (label, path, read, moves) in reads {
        old(path);
        assert!(read(), "{label}");
        assert_eq!(at(path) != OLD, moves, "{label}");
        let once = at(path);
        assert!(read(), "{label}");
        assert_eq!(at(path), once, "{label}: relatime moves the time once");
    }
    old("/d");
    task.lseek(dir, 0, SEEK_SET).expect("lseek");
    assert_eq!(task.getdents64(dir, 3), Err(Errno::EINVAL));
    assert_ne!(at("/d"), OLD, "even if no entry fits");
}

#[test]
fn no_access_time_moves_on_a_read_only_or_noatime_mount() {
    let vfs = world();
    let task = root(&vfs);
    for dir in ["/s", "/noatime", "/ro", "/rosb"] {
        task.dir(dir, 0o755, (0, 0));
    }
    task.dir("/s/d", 0o755, (0, 0));
    task.data("/s/f", b"hello");
    task.link_to("/s/l", "f");
    for (dir, flags) in [
        ("/noatime", MountFlags::NO_ATIME),
        ("/ro", MountFlags::READ_ONLY),
    ] {
        task.bind(b"/s", dir.as_bytes()).expect("bind");
        task.remount_bind(dir.as_bytes(), flags).expect("remount");
    }
    let tree = MemFs::new(MemOptions::default());
    task.mount(tree, b"/rosb", MountFlags::NONE).expect("mount");
    task.dir("/rosb/d", 0o755, (0, 0));
    task.data("/rosb/f", b"hello");
    task.link_to("/rosb/l", "f");
    task.remount_sb(b"/rosb", true).expect("remount");
    for dir in ["/noatime", "/ro", "/rosb"] {
        let path = |name: &str| format!("{dir}/{name}");
        let at = |name: &str| task.lstat(path(name).as_bytes()).expect(dir).atime;
        let before = ["d", "f", "l"].map(at);
        let read = |fd| task.read(fd, &mut [0; 3]).expect("read");
        let list = |fd| task.getdents64(fd, 4096).expect("getdents64");
        task.with(&path("f"), "RD", read);
        task.with(&path("d"), "RD", list);
        task.readlink(path("l").as_bytes()).expect("readlink");
        assert_eq!(["d", "f", "l"].map(at), before, "{dir}");
        task.with(&path("l"), "RD", read);
        assert_eq!(["d", "f", "l"].map(at), before, "{dir}, following the link");
    }
}

/// Names, cookies and types.
fn shown(entries: &[DirEntry]) -> Vec<(String, u8)> {
    let text = |e: &DirEntry| String::from_utf8(e.name.clone()).expect("text");
    entries.iter().map(|e| (text(e), e.kind)).collect()
}

fn all(task: &Task, dir: Fd, room: usize) -> Vec<DirEntry> {
    let mut all = Vec::new();
    loop {
        let part = task.getdents64(dir, room).expect("getdents64");
        if part.is_empty() {
            return all;
        }
        all.extend(part);
    }
}

#[test]
fn a_listing_fills_the_buffer() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    task.data("/d/g", b"");
    let dir = task.get("/d", "RD");
    let one = |room| task.getdents64(dir, room).map(|e| shown(&e));
    let dot = |name: &str| Ok(vec![(name.to_owned(), dirent::DT_DIR)]);
    assert_eq!((one(0), one(23)), (Err(Errno::EINVAL), Err(Errno::EINVAL)));
    assert_eq!((one(24), one(24)), (dot("."), dot("..")));
    assert_eq!(one(10), Err(Errno::EINVAL));
    assert_eq!(one(1000), Ok(vec![("g".to_owned(), dirent::DT_REG)]));
    assert_eq!((one(1000), one(10)), (Ok(vec![]), Ok(vec![])));
    let cookies = |room| {
        task.lseek(dir, 0, SEEK_SET).expect("rewind");
        all(&task, dir, room)
    };
    let whole = cookies(4096);
    assert_eq!((whole[0].off, whole[1].off), (1, 2));
    let (here, up) = (task.stat(b"/d").expect("d"), task.stat(b"/").expect("/"));
    assert_eq!((whole[0].ino, whole[1].ino), (here.ino, up.ino));
    assert_eq!(whole[2].ino, task.stat(b"/d/g").expect("g").ino);
    assert_eq!(cookies(24), whole);
}

#[test]
fn cookies_stay_valid() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    for i in 0..100 {
        task.data(&format!("/d/{i}"), b"");
    }
    let dir = task.get("/d", "RD");
    let whole = all(&task, dir, 100);
    assert_eq!(whole.len(), 102);
    for at in [0, 1, 2, 50, 101] {
        task.lseek(dir, whole[at].off, SEEK_SET).expect("lseek");
        assert_eq!(all(&task, dir, 4096), whole[at + 1..], "after {at}");
    }
    for i in (0..100).step_by(2) {
        task.gone(&format!("/d/{i}"));
    }
    task.data("/d/new", b"");
    task.lseek(dir, whole[50].off, SEEK_SET).expect("lseek");
    let odd = |e: &&DirEntry| e.name.last().is_some_and(|c| c % 2 == 1);
    let left: Vec<DirEntry> = whole[51..].iter().filter(odd).cloned().collect();
    assert_eq!(all(&task, dir, 100), left);
}

#[test]
fn a_listing_at_its_end_stays_there() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/d", 0o755, (0, 0));
    let (dir, other) = (task.get("/d", "RD"), task.get("/d", "RD"));
    assert_eq!(task.getdents64(dir, 48).map(|e| e.len()), Ok(2));
    assert_eq!(task.getdents64(other, 24).map(|e| e.len()), Ok(1));
    assert_eq!(task.read(dir, &mut [0; 4096]), Err(Errno::EISDIR));
    task.data("/d/new", b"");
    assert_eq!(
        (task.getdents64(dir, 4096), task.getdents64(dir, 0)),
        (Ok(vec![]), Ok(vec![]))
    );
    let names = |dir| shown(&all(&task, dir, 4096)).len();
    assert_eq!(
        names(other),
        2,
        "a listing that had not met the end sees it"
    );
    assert_eq!(task.lseek(dir, 2, SEEK_SET), Ok(2));
    assert_eq!(names(dir), 1);
    assert_eq!(names(dir), 0);
    assert_eq!(task.lseek(dir, 0, SEEK_SET), Ok(0));
    assert_eq!(names(dir), 3);
}

#[test]
fn only_an_open_directory_can_be_listed() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"");
    task.dir("/d", 0o755, (0, 0));
    task.dir("/d/e", 0o755, (0, 0));
    let (file, dead) = (task.get("/f", "RD"), task.get("/d/e", "RD"));
    assert_eq!(task.getdents64(file, 4096), Err(Errno::ENOTDIR));
    assert_eq!(shown(&task.getdents64(dead, 4096).expect("alive")).len(), 2);
    task.rmdir(b"/d/e").expect("rmdir");
    assert_eq!(task.getdents64(dead, 4096), Err(Errno::ENOENT));
}

#[test]
fn dotdot_lists_the_parent_within_the_tree() {
    let vfs = world();
    let task = root(&vfs);
    let parent = |path: &str| task.with(path, "RD", |dir| all(&task, dir, 4096)[1].ino);
    let ino = |path: &str| task.stat(path.as_bytes()).expect(path).ino;
    task.dir("/a", 0o755, (0, 0));
    task.dir("/a/b", 0o755, (0, 0));
    task.dir("/c", 0o755, (0, 0));
    assert_eq!((parent("/"), parent("/a/b")), (ino("/"), ino("/a")));
    task.dir("/a/m", 0o755, (0, 0));
    let tree = MemFs::new(MemOptions::default());
    task.mount(tree, b"/a/m", MountFlags::default())
        .expect("mount");
    assert_eq!(
        parent("/a/m"),
        ino("/a/m"),
        "a tree's root is its own parent"
    );
    task.bind(b"/a/b", b"/c").expect("bind");
    assert_eq!(parent("/c"), ino("/a"), "also at a bind mount");
    let open = task.get("/a/b", "RD");
    task.dir("/x", 0o755, (0, 0));
    task.umount(b"/c", UmountFlags::empty()).expect("umount");
    task.rename(b"/a/b", b"/x/b").expect("rename");
    assert_eq!(all(&task, open, 4096)[1].ino, ino("/x"));
}
