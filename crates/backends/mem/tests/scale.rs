// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that directories of a million names can be listed and removed, that a tree of 100,000
//! levels is dropped without a deep stack, and that many threads can change one tree in memory.

mod common;

use common::*;
use openpath_abi::mode;
use openpath_mem::MemOptions;
use openpath_vfs::ListedEntry;
use std::collections::HashSet;
use std::sync::Arc;

#[test]
fn hundred_thousand_entries_are_listed_and_removed() {
    list_and_remove::<100_000>();
}

#[test]
#[ignore = "slow: 4 s"]
fn million_entries_are_listed_and_removed() {
    list_and_remove::<1_000_000>();
}

fn list_and_remove<const ENTRIES: usize>() {
    let fs = fs();
    let root = fs.root();
    let node = new(mode::S_IFIFO | 0o644, 2);
    for i in 0..ENTRIES {
        root.ops()
            .create(root, format!("{i}").as_bytes(), &node)
            .expect("create");
    }
    assert_eq!(root.size(), 40 + 20 * ENTRIES as u64);
    for i in (0..ENTRIES).rev() {
        assert_eq!(root.get(&format!("{i}")).ino(), i as u64 + 2);
    }
    assert!(root.find(&ENTRIES.to_string()).is_none());
    let (mut count, mut from) = (0, 0);
    loop {
        let (mut batch, start) = (0, from);
        let mut emit = |e: ListedEntry<'_>| {
            batch += 1;
            from = e.next;
            batch < 1000
        };
        root.ops().readdir(root, start, &mut emit).expect("readdir");
        if batch == 0 {
            break;
        }
        count += batch;
    }
    assert_eq!(count, ENTRIES);
    for i in (0..ENTRIES).step_by(2) {
        root.remove(&format!("{i}"), 3).expect("unlink");
    }
    assert_eq!(root.list().len(), ENTRIES / 2);
}

#[test]
fn deep_tree_is_dropped_without_deep_stack() {
    const LEVELS: usize = 100_000;
    let deep = std::thread::Builder::new().stack_size(256 * 1024);
    let work = deep.spawn(|| {
        let fs = fs();
        let mut dir = Arc::clone(fs.root());
        for _ in 0..LEVELS {
            let next = dir.dir("d", 2);
            dir.file("f", 2);
            dir = next;
        }
        let used = fs.figures();
        assert_eq!(used.files - used.ffree, 2 * LEVELS as u64 + 1);
        drop(dir);
        drop(fs);
    });
    work.expect("a thread").join().expect("the drop");
}

#[test]
fn subtree_in_use_outlives_dropped_tree() {
    let fs = fs();
    let keep = fs.root().dir("a", 2).dir("b", 2);
    keep.dir("c", 2).file("f", 2);
    drop(fs);
    assert_eq!(keep.get("c").get("f").ino(), 5);
}

#[test]
fn threads_make_remove_and_list() {
    let fs = with(MemOptions::default().inodes(100_000));
    let root = fs.root();
    for i in 0..500 {
        root.file(&format!("stable{i}"), 2);
    }
    let churn = |t: usize| {
        for i in 0..3000 {
            let name = format!("{t}.{}", i % 50);
            let names = root.lock_names();
            if root.find(&name).is_some() {
                root.remove(&name, 3).expect("unlink");
            } else {
                root.file(&name, 3);
            }
            drop(names);
        }
    };
    let list = || {
        for _ in 0..50 {
            let mut seen = HashSet::new();
            let mut from = 0;
            loop {
                let (mut batch, start) = (0, from);
                let mut emit = |e: ListedEntry<'_>| {
                    assert!(seen.insert(e.name.to_vec()), "listed twice");
                    (from, batch) = (e.next, batch + 1);
                    batch < 64
                };
                let names = root.hold_names();
                root.ops().readdir(root, start, &mut emit).expect("readdir");
                drop(names);
                if batch == 0 {
                    break;
                }
            }
            assert_eq!(
                seen.iter().filter(|n| n.starts_with(b"stable")).count(),
                500
            );
        }
    };
    std::thread::scope(|s| {
        s.spawn(|| churn(0));
        s.spawn(|| churn(1));
        s.spawn(list);
        s.spawn(list);
    });
    assert_eq!(root.size(), 40 + 20 * root.list().len() as u64);
}
