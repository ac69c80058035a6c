// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an overlay shows several trees as one, that removed names stay removed, that a
//! listing keeps its position under changes, and that an overlay without an upper tree is
//! read-only.

mod common;

use common::{Stack, beneath, entries, get, mkdir, names, put, shown, task_in};
use openpath_abi::fcntl::{O_DIRECTORY, O_RDONLY};
use openpath_abi::{Errno, XattrFlags, mode};
use openpath_overlay::{OverlayFs, OverlayOptions};

#[test]
fn topmost_layer_with_a_name_wins_and_directories_merge() {
    let s = Stack::new(2);
    let (top, bottom) = (&s.below[0], &s.below[1]);
    for task in [top, bottom] {
        mkdir(task, "/d");
    }
    put(bottom, "/d/both", "bottom");
    put(bottom, "/d/below", "bottom");
    put(bottom, "/hidden", "bottom");
    put(top, "/d/both", "top");
    put(top, "/d/above", "top");
    mkdir(top, "/hidden");
    top.mknod(b"/d/gone", mode::S_IFCHR, 0).expect("a whiteout");
    put(bottom, "/d/gone", "bottom");
    let (_vfs, task) = s.mount();
    assert_eq!(names(&task, "/d"), ["above", "below", "both"]);
    assert_eq!(get(&task, "/d/both"), Ok("top".to_owned()));
    assert_eq!(get(&task, "/d/below"), Ok("bottom".to_owned()));
    assert_eq!(task.stat(b"/d/gone").err(), Some(Errno::ENOENT));
    assert_eq!(names(&task, "/hidden"), Vec::<String>::new());
    shown(&task, "/");
}

#[test]
fn opaque_directory_hides_lower_layers() {
    let s = Stack::new(2);
    for task in &s.below {
        mkdir(task, "/d");
    }
    put(&s.below[1], "/d/f", "");
    s.below[0]
        .setxattr(b"/d", b"user.overlay.opaque", b"y", XattrFlags::empty())
        .expect("a mark");
    let (_vfs, task) = s.mount();
    assert_eq!(names(&task, "/d"), Vec::<String>::new());
    assert_eq!(get(&task, "/d/f"), Err(Errno::ENOENT));
}

#[test]
fn removed_name_stays_removed_and_can_be_new() {
    let s = Stack::new(1);
    let below = &s.below[0];
    mkdir(below, "/d");
    mkdir(below, "/d/e");
    put(below, "/d/e/f", "below");
    put(below, "/g", "below");
    let before = shown(below, "/");
    {
        let (_vfs, task) = s.mount();
        assert_eq!(task.rmdir(b"/d/e"), Err(Errno::ENOTEMPTY));
        task.unlink(b"/d/e/f").expect("unlink");
        assert_eq!(get(&task, "/d/e/f"), Err(Errno::ENOENT));
        assert_eq!(names(&task, "/d/e"), Vec::<String>::new());
        task.rmdir(b"/d/e").expect("rmdir");
        task.unlink(b"/g").expect("unlink");
        assert_eq!(names(&task, "/"), ["d"]);
    }
    let (_vfs, task) = s.mount();
    assert_eq!(names(&task, "/"), ["d"]);
    assert_eq!(names(&task, "/d"), Vec::<String>::new());
    mkdir(&task, "/d/e");
    assert_eq!(names(&task, "/d/e"), Vec::<String>::new());
    put(&task, "/g", "above");
    mkdir(&task, "/d/e/f");
    drop((_vfs, task));
    let (_vfs, task) = s.mount();
    assert_eq!(get(&task, "/g"), Ok("above".to_owned()));
    assert_eq!(names(&task, "/d/e"), ["f"]);
    assert_eq!(names(&task, "/d/e/f"), Vec::<String>::new());
    assert_eq!(shown(below, "/"), before, "nothing below changed");
    assert_eq!(beneath(&s.upper, "/work"), Vec::<String>::new());
}

#[test]
fn empty_merged_directory_is_replaced() {
    let s = Stack::new(1);
    let below = &s.below[0];
    for dir in ["/d", "/e"] {
        mkdir(below, dir);
    }
    put(below, "/d/f", "below");
    put(below, "/e/g", "below");
    let (_vfs, task) = s.mount();
    assert_eq!(task.rename(b"/e", b"/d"), Err(Errno::ENOTEMPTY));
    task.unlink(b"/d/f").expect("unlink");
    task.rename(b"/e", b"/d").expect("rename");
    assert_eq!(names(&task, "/"), ["d"]);
    assert_eq!(names(&task, "/d"), ["g"]);
    drop((_vfs, task));
    let (_vfs, task) = s.mount();
    assert_eq!(names(&task, "/"), ["d"]);
    assert_eq!(get(&task, "/d/g"), Ok("below".to_owned()));
    assert_eq!(names(&task, "/d"), ["g"]);
}

#[test]
fn overlay_without_an_upper_tree_is_read_only() {
    let s = Stack::new(1);
    put(&s.below[0], "/f", "x");
    let options = s.options().upper(None);
    let (_vfs, task) = task_in(&OverlayFs::new(options).expect("an overlay"));
    assert_eq!(get(&task, "/f"), Ok("x".to_owned()));
    assert_eq!(task.unlink(b"/f"), Err(Errno::EROFS));
    assert_eq!(task.mkdir(b"/d", 0o755), Err(Errno::EROFS));
    let none = OverlayOptions::default().upper(Some(s.upper.clone()));
    assert_eq!(OverlayFs::new(none).err(), Some(Errno::EINVAL));
}

#[test]
fn listing_keeps_its_position_under_changes() {
    let s = Stack::new(1);
    mkdir(&s.below[0], "/d");
    for n in 0..200 {
        put(&s.below[0], &format!("/d/below-{n}"), "");
    }
    let options = s.options().listed_max(0);
    for options in [s.options(), options] {
        let (_vfs, task) = task_in(&OverlayFs::new(options).expect("an overlay"));
        let fd = task
            .open(b"/d", O_RDONLY | O_DIRECTORY, 0)
            .expect("a directory");
        let mut seen = Vec::new();
        let mut round = 0;
        loop {
            let some = task.getdents64(fd, 400).expect("getdents64");
            if some.is_empty() {
                break;
            }
            seen.extend(some.into_iter().map(|entry| entry.name));
            let name = format!("/d/new-{round}");
            put(&task, &name, "");
            if round > 0 {
                task.unlink(format!("/d/new-{}", round - 1).as_bytes())
                    .expect("unlink");
            }
            round += 1;
        }
        let old = |name: &&Vec<u8>| name.starts_with(b"below");
        assert_eq!(seen.iter().filter(old).count(), 200);
        let all = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all, "nothing is listed twice");
        task.unlink(format!("/d/new-{}", round - 1).as_bytes())
            .expect("unlink");
        assert_eq!(entries(&task, "/d").len(), 200);
    }
}

#[test]
fn root_is_its_own_parent() {
    let s = Stack::new(1);
    let (_vfs, task) = s.mount();
    let fd = task.open(b"/", O_RDONLY | O_DIRECTORY, 0).expect("open");
    let some = task.getdents64(fd, 300).expect("getdents64");
    let root = task.stat(b"/").expect("stat").ino;
    assert_eq!((some[0].ino, some[1].ino), (root, root));
}

#[test]
fn whiteout_is_a_file_of_the_upper_tree() {
    let s = Stack::new(1);
    for n in 0..5 {
        put(&s.below[0], &format!("/{n}"), "");
    }
    let (_vfs, task) = s.mount();
    let free = || task.statfs(b"/").expect("statfs").ffree;
    let before = free();
    for n in 0..5 {
        task.unlink(format!("/{n}").as_bytes()).expect("unlink");
    }
    assert_eq!(before - free(), 5);
    assert_eq!(beneath(&s.upper, "/upper").len(), 5);
}
