// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the listing of a directory in memory begins with the newest name, goes on at any
//! position, and has each name that stays once, even if others change meanwhile.

mod common;

use common::*;
use openpath_abi::{dirent, mode};
use openpath_vfs::Inode;
use std::sync::Arc;

/// At most `max` entries from `from` on, and the position after them.
fn part(dir: &Arc<Inode>, from: i64, max: usize) -> (Vec<String>, i64) {
    let (mut names, mut next) = (Vec::new(), from);
    let mut emit = |e: openpath_vfs::ListedEntry<'_>| {
        if names.len() == max {
            return false;
        }
        assert!(e.next > next, "positions rise");
        next = e.next;
        names.push(String::from_utf8(e.name.to_vec()).expect("text"));
        true
    };
    dir.ops().readdir(dir, from, &mut emit).expect("readdir");
    (names, next)
}

#[test]
fn newest_name_is_listed_first() {
    let fs = fs();
    let root = fs.root();
    for name in ["a", "b", "c", "d"] {
        root.file(name, 2);
    }
    assert_eq!(root.list(), ["d", "c", "b", "a"]);
    rename((root, "b"), (root, "e"), 3, |_| ()).expect("rename");
    assert_eq!(root.list(), ["e", "d", "c", "a"]);
    rename((root, "a"), (root, "c"), 4, |_| ()).expect("rename over");
    assert_eq!(root.list(), ["c", "e", "d"]);
    rename((root, "e"), (root, "d"), 5, |r| r.exchange = true).expect("exchange");
    assert_eq!(root.list(), ["d", "e", "c"]);
    let white = Some(new(mode::S_IFCHR, 6));
    rename((root, "c"), (root, "f"), 6, |r| r.whiteout = white).expect("whiteout");
    assert_eq!(root.list(), ["f", "c", "d", "e"]);
}

#[test]
fn entries_carry_number_and_type() {
    let fs = fs();
    let root = fs.root();
    let kinds = [
        (mode::S_IFREG, dirent::DT_REG),
        (mode::S_IFDIR, dirent::DT_DIR),
        (mode::S_IFIFO, dirent::DT_FIFO),
        (mode::S_IFSOCK, dirent::DT_SOCK),
        (mode::S_IFCHR, dirent::DT_CHR),
        (mode::S_IFBLK, dirent::DT_BLK),
        (mode::S_IFLNK, dirent::DT_LNK),
    ];
    for (file_type, _) in kinds {
        root.make(&format!("{file_type}"), file_type, 2)
            .expect("node");
    }
    let mut expected = kinds.iter().rev();
    let mut emit = |e: openpath_vfs::ListedEntry<'_>| {
        let (file_type, kind) = expected.next().expect("no more than were made");
        let inode = root.get(&format!("{file_type}"));
        assert_eq!((e.kind, e.ino), (*kind, inode.ino()));
        assert!(e.next > 2, "0, 1 and 2 stand for the beginning, . and ..");
        true
    };
    root.ops().readdir(root, 0, &mut emit).expect("readdir");
    assert!(expected.next().is_none());
}

#[test]
fn listing_continues_at_its_position() {
    let fs = fs();
    let root = fs.root();
    for i in 0..10 {
        root.file(&format!("{i}"), 2);
    }
    let (first, at) = part(root, 0, 4);
    assert_eq!(first, ["9", "8", "7", "6"]);
    for name in ["6", "5", "3", "9"] {
        root.remove(name, 3).expect("unlink");
    }
    root.file("new", 4);
    rename((root, "2"), (root, "moved"), 5, |_| ()).expect("rename");
    let (rest, end) = part(root, at, 99);
    assert_eq!(rest, ["4", "1", "0"]);
    root.file("newer", 6);
    assert_eq!(part(root, end, 99), (vec![], end));
    assert_eq!(part(root, 0, 2).0, ["newer", "moved"]);
}

#[test]
fn any_position_is_accepted() {
    let fs = fs();
    fs.root().file("f", 2);
    for from in [i64::MIN, -1, 0, 1, 2] {
        let mut names = 0;
        fs.root()
            .ops()
            .readdir(fs.root(), from, &mut |_| {
                names += 1;
                true
            })
            .expect("readdir");
        assert_eq!(names, 1);
    }
    assert!(part(fs.root(), i64::MAX, 9).0.is_empty());
}

#[test]
fn stable_names_are_listed_once_during_changes() {
    let fs = fs();
    let root = fs.root();
    let mut seed = 12345_u64;
    let mut random = move |below: u64| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for i in 0..200 {
        root.file(&format!("stable{i}"), 2);
        root.file(&format!("other{i}"), 2);
    }
    for round in 0..50 {
        let (mut seen, mut at) = (Vec::new(), 0);
        loop {
            let (names, next) = part(root, at, 1 + random(7) as usize);
            if names.is_empty() {
                break;
            }
            seen.extend(names);
            at = next;
            let name = format!("other{}", random(200));
            if root.find(&name).is_some() {
                root.remove(&name, round).expect("unlink");
            } else {
                root.file(&name, round);
            }
        }
        let stable = seen.iter().filter(|n| n.starts_with("stable")).count();
        assert_eq!(stable, 200);
        let all = seen.len();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), all, "a name was listed twice");
    }
}
