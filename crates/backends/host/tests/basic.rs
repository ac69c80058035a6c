// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that changes of names, data and attributes through a tree over a directory of the host
//! reach the host and show at once. Tests also that a cached open makes no call of the host, and
//! that more files than handles can be open.

mod common;

use common::{POLICIES, Scratch, policy, read, world, write};
use openpath_abi::fcntl::{O_APPEND, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_abi::{Errno, mode, rename};
use openpath_host::Policy;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};

#[test]
fn changes_here_reach_the_host() {
    for p in POLICIES {
        let s = Scratch::new("there");
        let (_vfs, task) = world(&s, policy(p));
        task.umask(0o027);
        task.mkdir(b"/d", 0o777).expect("mkdir");
        write(&task, "/d/f", "hello").expect("write");
        task.symlink(b"f", b"/d/l").expect("symlink");
        task.link(b"/d/f", b"/h").expect("link");
        task.chmod(b"/h", 0o604).expect("chmod");
        assert_eq!(s.get("d/l"), "hello", "{p:?}");
        assert_eq!(read(&task, "/d/l"), Ok("hello".to_owned()), "{p:?}");
        let there = std::fs::metadata(s.at("d/f")).expect("stat");
        let here = task.stat(b"/d/f").expect("stat");
        assert_eq!(
            (there.nlink(), there.permissions().mode() & 0o7777),
            (2, 0o604)
        );
        assert_eq!((here.nlink, here.mode & 0o7777), (2, 0o604), "{p:?}");
        assert_eq!(here.ino, there.ino());
        assert_eq!(here.blocks, there.blocks().cast_signed());
        assert_eq!(
            std::fs::metadata(s.at("d")).expect("stat").mode() & 0o7777,
            0o750
        );
        task.rename(b"/h", b"/d/g").expect("rename");
        task.unlink(b"/d/f").expect("unlink");
        assert_eq!(task.rmdir(b"/d"), Err(Errno::ENOTEMPTY));
        assert_eq!(s.get("d/g"), "hello");
        assert!(!s.at("h").exists() && !s.at("d/f").exists());
        assert_eq!(task.stat(b"/h").map(|s| s.ino), Err(Errno::ENOENT), "{p:?}");
    }
}

#[test]
fn own_changes_show_in_attributes_at_once() {
    for p in POLICIES {
        let s = Scratch::new("attributes");
        let (_vfs, task) = world(&s, policy(p));
        let fd = task.open(b"/f", O_RDWR | O_CREAT, 0o600).expect("open");
        for round in 1..=3u64 {
            task.pwrite(fd, &[7; 10_000], 10_000 * round.cast_signed())
                .expect("write");
            let here = task.fstat(fd).expect("fstat");
            let there = std::fs::metadata(s.at("f")).expect("stat");
            assert_eq!(here.size, there.size().cast_signed(), "{p:?}");
            assert_eq!(here.blocks, there.blocks().cast_signed(), "{p:?}");
            let times = (here.mtime.sec, i64::from(here.mtime.nsec));
            assert_eq!(times, (there.mtime(), there.mtime_nsec()), "{p:?}");
        }
        task.ftruncate(fd, 5).expect("ftruncate");
        assert_eq!(task.fstat(fd).expect("fstat").size, 5);
        let more = task.open(b"/f", O_WRONLY | O_APPEND, 0).expect("open");
        task.write(more, b"end").expect("append");
        assert_eq!(task.fstat(fd).expect("fstat").size, 8, "{p:?}");
        assert_eq!(task.fsync(fd), Ok(()));
    }
}

#[test]
fn cached_open_makes_no_call_of_the_host() {
    let s = Scratch::new("cached");
    std::fs::create_dir_all(s.at("a/b")).expect("directories");
    s.put("a/b/f", "text");
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    assert_eq!(read(&task, "/a/b/f"), Ok("text".to_owned()));
    // Removed on the host, and still here: nothing was asked for.
    std::fs::remove_dir_all(s.at("a")).expect("remove");
    assert_eq!(read(&task, "/a/b/f"), Ok("text".to_owned()));
    assert_eq!(task.stat(b"/a/b/f").map(|s| s.size), Ok(4));
}

#[test]
fn unlinked_file_stays_open_while_others_are_opened() {
    for p in POLICIES {
        let s = Scratch::new("unlinked");
        let options = policy(p).handles_max(16);
        let (_vfs, task) = world(&s, options);
        write(&task, "/f", "kept").expect("write");
        let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
        task.unlink(b"/f").expect("unlink");
        for n in 0..40 {
            write(&task, &format!("/g{n}"), "x").expect("write");
            read(&task, &format!("/g{n}")).expect("read");
        }
        let mut buf = [0; 4];
        assert_eq!((task.read(fd, &mut buf), &buf), (Ok(4), b"kept"), "{p:?}");
        assert_eq!(task.fstat(fd).map(|s| s.nlink), Ok(0), "{p:?}");
    }
}

#[test]
fn more_files_than_handles_can_be_open() {
    for p in POLICIES {
        let s = Scratch::new("handles");
        let options = policy(p).handles_max(16);
        let (_vfs, task) = world(&s, options);
        task.mkdir(b"/d", 0o755).expect("mkdir");
        let names: Vec<String> = (0..100).map(|n| format!("/d/{n}")).collect();
        let open = |name: &String| task.open(name.as_bytes(), O_RDWR | O_CREAT, 0o644);
        let fds: Vec<i32> = names.iter().map(|n| open(n).expect("open")).collect();
        for (n, fd) in fds.iter().enumerate() {
            let text = format!("file {n}");
            assert_eq!(task.write(*fd, text.as_bytes()), Ok(text.len()), "{p:?}");
        }
        // A name that changed meanwhile still leads to the file.
        task.rename(b"/d", b"/e").expect("rename");
        let mut buf = [0; 16];
        for (n, fd) in fds.iter().enumerate() {
            let text = format!("file {n}");
            assert_eq!(task.pread(*fd, &mut buf, 0), Ok(text.len()), "{p:?}");
            assert_eq!(&buf[..text.len()], text.as_bytes(), "{p:?}");
        }
        let held = std::fs::read_dir("/proc/self/fd").expect("descriptors");
        let below = |entry: &std::fs::DirEntry| {
            std::fs::read_link(entry.path()).is_ok_and(|place| place.starts_with(s.path()))
        };
        let held = held.filter_map(Result::ok).filter(below).count();
        assert!(held <= 16, "{held} descriptors, {p:?}");
    }
}

#[test]
fn names_of_one_file_are_one_inode() {
    let s = Scratch::new("one");
    s.put("a", "x");
    std::fs::hard_link(s.at("a"), s.at("b")).expect("link");
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    let fd = task.open(b"/a", O_RDWR, 0).expect("open");
    task.stat(b"/b").expect("stat");
    task.write(fd, b"longer").expect("write");
    assert_eq!(task.stat(b"/b").map(|s| s.size), Ok(6));
}

#[test]
fn file_without_a_name_can_be_linked() {
    let s = Scratch::new("nameless");
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    let flags = openpath_abi::fcntl::O_TMPFILE | O_RDWR;
    let fd = match task.open(b"/", flags, 0o640) {
        Err(Errno::EOPNOTSUPP) => return,
        fd => fd.expect("tmpfile"),
    };
    task.write(fd, b"soon").expect("write");
    task.linkat(
        fd,
        b"",
        openpath_abi::fcntl::AT_FDCWD,
        b"/n",
        openpath_abi::fcntl::AT_EMPTY_PATH,
    )
    .expect("linkat");
    assert_eq!(s.get("n"), "soon");
    assert_eq!(
        task.stat(b"/n").map(|s| (s.nlink, s.mode)),
        Ok((1, mode::S_IFREG | 0o640))
    );
}

#[test]
fn changing_directory_lists_each_name_once() {
    let s = Scratch::new("listing");
    for n in 0..500 {
        s.put(&format!("file-{n:03}"), "");
    }
    let (_vfs, task) = world(&s, policy(Policy::Revalidate));
    let fd = task.open(b"/", O_RDONLY | O_DIRECTORY, 0).expect("open");
    let mut seen = std::collections::BTreeSet::new();
    let mut rounds = 0;
    loop {
        let batch = task.getdents64(fd, 600).expect("getdents64");
        if batch.is_empty() {
            break;
        }
        for entry in batch {
            let name = String::from_utf8(entry.name).expect("a name");
            assert!(seen.insert(name.clone()), "{name} twice");
        }
        rounds += 1;
        s.put(&format!("new-{rounds}"), "");
        let _gone = std::fs::remove_file(s.at(&format!("new-{}", rounds - 1)));
    }
    let kept = seen.iter().filter(|name| name.starts_with("file-")).count();
    assert_eq!(kept, 500);
    assert!(seen.contains(".") && seen.contains(".."));
}

#[test]
fn rename_flags_act_as_on_the_host() {
    let s = Scratch::new("flags");
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    write(&task, "/a", "a").expect("write");
    write(&task, "/b", "b").expect("write");
    let cwd = openpath_abi::fcntl::AT_FDCWD;
    let noreplace = task.renameat2(cwd, b"/a", cwd, b"/b", rename::RENAME_NOREPLACE);
    assert_eq!(noreplace, Err(Errno::EEXIST));
    task.renameat2(cwd, b"/a", cwd, b"/b", rename::RENAME_EXCHANGE)
        .expect("exchange");
    assert_eq!((s.get("a"), s.get("b")), ("b".to_owned(), "a".to_owned()));
    assert_eq!(read(&task, "/a"), Ok("b".to_owned()));
}

#[test]
fn exclusive_creation_fails_for_an_existing_name() {
    for p in POLICIES {
        let s = Scratch::new("exclusive");
        s.put("f", "x");
        let (_vfs, task) = world(&s, policy(p));
        let made = task.open(b"/f", O_WRONLY | O_CREAT | O_EXCL, 0o644);
        assert_eq!(made, Err(Errno::EEXIST), "{p:?}");
    }
}

#[test]
fn file_that_loses_its_last_alias_has_one_link_less() {
    let s = Scratch::new("fewer");
    s.put("a", "x");
    std::fs::hard_link(s.at("a"), s.at("b")).expect("link");
    let (_vfs, task) = world(&s, policy(Policy::Exclusive));
    task.stat(b"/a").expect("stat");
    assert_eq!(task.stat(b"/b").map(|st| st.nlink), Ok(2));
    task.unlink(b"/b").expect("unlink");
    assert_eq!(task.stat(b"/a").map(|st| st.nlink), Ok(1));
    s.put("c", "y");
    std::fs::hard_link(s.at("c"), s.at("d")).expect("link");
    task.stat(b"/c").expect("stat");
    task.stat(b"/d").expect("stat");
    task.rename(b"/a", b"/d").expect("rename");
    assert_eq!(task.stat(b"/c").map(|st| st.nlink), Ok(1));
}
