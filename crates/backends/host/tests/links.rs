// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a file of the host that loses one of its names, by this tree or by others, stays
//! usable by its other names, even after its handles (open descriptors of the host) were evicted.

mod common;

use common::{POLICIES, Scratch, policy, read, tree, world, write};
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_PATH, O_RDONLY, O_RDWR};
use openpath_abi::{Errno, rename};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_vfs::{Cred, Task, Vfs};

/// The fewest handles.
fn few(p: Policy) -> HostOptions {
    policy(p).handles_max(16)
}

/// Has all handles evicted that are not needed.
fn crowd(task: &Task) {
    for n in 0..40 {
        write(task, &format!("/crowd{n}"), "x").expect("write");
        read(task, &format!("/crowd{n}")).expect("read");
    }
}

/// A file by the names `p`, found last, and `q`; the directories `e` and `g`.
fn two_names(task: &Task) {
    task.mkdir(b"/e", 0o755).expect("mkdir");
    task.mkdir(b"/g", 0o755).expect("mkdir");
    write(task, "/q", "text").expect("write");
    task.link(b"/q", b"/p").expect("link");
}

/// The open file still works, by a readable descriptor and by an `O_PATH` one.
fn goes_on(task: &Task, (file, place): (i32, i32), nlink: u64, p: Policy, by: &str) {
    crowd(task);
    assert_eq!(task.fstat(place).map(|s| s.nlink), Ok(nlink), "{p:?} {by}");
    is_read(task, (file, place), p, by);
}

fn is_read(task: &Task, (file, place): (i32, i32), p: Policy, by: &str) {
    crowd(task);
    let mut buf = [0; 8];
    task.fstat(place).expect("fstat");
    assert_eq!(task.pread(file, &mut buf, 0), Ok(4), "{p:?} {by}");
    assert_eq!(&buf[..4], b"text", "{p:?} {by}");
    crowd(task);
    let again = task.reopen(place, O_RDONLY).expect("reopen");
    assert_eq!(task.read(again, &mut buf), Ok(4), "{p:?} {by}");
    task.close(again).expect("close");
}

/// How the name `p` is lost.
type Loss = (&'static str, fn(&Task));

const LOSSES: [Loss; 5] = [
    ("unlink", |task| task.unlink(b"/p").expect("unlink")),
    ("unlink where it was moved", |task| {
        task.rename(b"/p", b"/e/p").expect("rename");
        task.unlink(b"/e/p").expect("unlink");
    }),
    ("rename over it", |task| {
        write(task, "/other", "other").expect("write");
        task.rename(b"/other", b"/p").expect("rename");
    }),
    ("unlink below a directory that moved", |task| {
        task.rename(b"/p", b"/e/p").expect("rename");
        task.rename(b"/e", b"/g/e").expect("rename");
        crowd(task);
        task.unlink(b"/g/e/p").expect("unlink");
    }),
    ("exchange, and unlink there", |task| {
        write(task, "/e/other", "other").expect("write");
        let flags = rename::RENAME_EXCHANGE;
        let done = task.renameat2(AT_FDCWD, b"/p", AT_FDCWD, b"/e/other", flags);
        done.expect("exchange");
        crowd(task);
        task.unlink(b"/e/other").expect("unlink");
    }),
];

#[test]
fn file_is_found_by_its_remaining_name() {
    for p in POLICIES {
        for (by, lose) in LOSSES {
            let s = Scratch::new("left");
            let (_vfs, task) = world(&s, few(p));
            two_names(&task);
            let file = task.open(b"/p", O_RDONLY, 0).expect("open");
            let place = task.open(b"/q", O_PATH, 0).expect("open");
            lose(&task);
            goes_on(&task, (file, place), 1, p, by);
            crowd(&task);
            assert_eq!(task.stat(b"/q").map(|s| s.nlink), Ok(1), "{p:?} {by}");
            crowd(&task);
            assert_eq!(read(&task, "/q"), Ok("text".to_owned()), "{p:?} {by}");
            crowd(&task);
            assert_eq!(task.chmod(b"/q", 0o600), Ok(()), "{p:?} {by}");
            // And without any name.
            task.unlink(b"/q").expect("unlink");
            goes_on(&task, (file, place), 0, p, by);
        }
    }
}

#[test]
fn file_with_unknown_other_name_keeps_its_handle_until_found() {
    for p in POLICIES {
        for (by, lose) in LOSSES {
            let s = Scratch::new("unmet");
            let (_vfs, task) = world(&s, few(p));
            two_names(&task);
            std::fs::hard_link(s.at("q"), s.at("hidden")).expect("link");
            task.unlink(b"/q").expect("unlink");
            let file = task.open(b"/p", O_RDONLY, 0).expect("open");
            let place = task.open(b"/p", O_PATH, 0).expect("open");
            lose(&task);
            goes_on(&task, (file, place), 1, p, by);
            // Found again, it is a file like others once more.
            assert_eq!(read(&task, "/hidden"), Ok("text".to_owned()), "{p:?} {by}");
            goes_on(&task, (file, place), 1, p, by);
        }
    }
}

#[test]
fn files_found_again_hold_no_handles() {
    let s = Scratch::new("bound");
    let (_vfs, task) = world(&s, few(Policy::Exclusive));
    let mut fds = Vec::new();
    for n in 0..60 {
        let (known, hidden) = (format!("/f{n}"), format!("/h{n}"));
        write(&task, &known, "text").expect("write");
        std::fs::hard_link(s.at(&known[1..]), s.at(&hidden[1..])).expect("link");
        fds.push(task.open(known.as_bytes(), O_RDWR, 0).expect("open"));
        task.unlink(known.as_bytes()).expect("unlink");
        task.stat(hidden.as_bytes()).expect("stat");
    }
    for fd in fds {
        assert_eq!(task.pread(fd, &mut [0; 8], 0), Ok(4));
    }
}

#[test]
fn handles_of_nameless_files_are_bounded() {
    let s = Scratch::new("full");
    let (_vfs, task) = world(&s, few(Policy::Exclusive));
    let mut held = Vec::new();
    let end = loop {
        let (known, hidden) = (format!("/f{}", held.len()), format!("h{}", held.len()));
        s.put(&known[1..], "text");
        std::fs::hard_link(s.at(&known[1..]), s.at(&hidden)).expect("link");
        let opened = task.open(known.as_bytes(), O_RDONLY, 0);
        let removed = opened.and_then(|fd| {
            held.push(fd);
            task.unlink(known.as_bytes())
        });
        match removed {
            Ok(()) if held.len() < 64 => {}
            end => break end,
        }
    };
    assert_eq!(end, Err(Errno::ENFILE));
    // One handle is enough.
    for fd in held {
        task.close(fd).expect("close");
    }
    crowd(&task);
}

#[test]
fn file_with_more_names_than_are_kept_still_works() {
    for p in POLICIES {
        let s = Scratch::new("more");
        let (_vfs, task) = world(&s, few(p));
        let file = task.open(b"/f", O_RDWR | O_CREAT, 0o644).expect("open");
        let place = task.open(b"/f", O_PATH, 0).expect("open");
        task.write(file, b"text").expect("write");
        for n in 0..40 {
            task.link(b"/f", format!("/n{n}").as_bytes()).expect("link");
        }
        for n in (0..40).rev() {
            task.unlink(format!("/n{n}").as_bytes()).expect("unlink");
        }
        goes_on(&task, (file, place), 1, p, "all but the first");
        assert_eq!(read(&task, "/f"), Ok("text".to_owned()), "{p:?}");
    }
}

#[test]
fn name_removed_by_others_leaves_the_other_names() {
    for p in [Policy::Notify, Policy::Revalidate, Policy::None] {
        let s = Scratch::new("others");
        let tree = tree(&s, few(p));
        let vfs = Vfs::builder()
            .build(std::sync::Arc::clone(&tree))
            .expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        two_names(&task);
        let file = task.open(b"/p", O_RDONLY, 0).expect("open");
        let place = task.open(b"/q", O_PATH, 0).expect("open");
        std::fs::remove_file(s.at("p")).expect("remove");
        HostFs::catch_up(&tree);
        // The next look at the file sees the link count.
        is_read(&task, (file, place), p, "removed there");
        crowd(&task);
        assert_eq!(read(&task, "/q"), Ok("text".to_owned()), "{p:?}");
        // Moved on the host: found by the new name, then by that alone.
        std::fs::rename(s.at("q"), s.at("e/r")).expect("rename");
        HostFs::catch_up(&tree);
        assert_eq!(read(&task, "/e/r"), Ok("text".to_owned()), "{p:?}");
        goes_on(&task, (file, place), 1, p, "moved there");
        // Dead names that are left do not make the last handle evictable.
        std::fs::hard_link(s.at("e/r"), s.at("hidden")).expect("link");
        task.unlink(b"/e/r").expect("unlink");
        goes_on(&task, (file, place), 1, p, "with dead names alone");
    }
}

#[test]
fn unreachable_name_leaves_the_other_names() {
    let s = Scratch::new("reached");
    let (_vfs, task) = world(&s, few(Policy::Exclusive));
    two_names(&task);
    task.link(b"/q", b"/e/far").expect("link");
    let fd = task.open(b"/q", O_RDONLY, 0).expect("open");
    std::fs::rename(s.at("e"), s.at("gone")).expect("rename");
    crowd(&task);
    assert_eq!(task.pread(fd, &mut [0; 8], 0), Ok(4));
    assert_eq!(read(&task, "/q"), Ok("text".to_owned()));
}
