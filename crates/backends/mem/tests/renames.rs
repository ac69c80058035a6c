// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that renames in memory, with each flag, move names and change link counts, sizes and times
//! as on tmpfs, and that a request that does not match the tree changes nothing.

mod common;

use common::*;
use openpath_abi::{Errno, mode};
use openpath_vfs::Inode;
use std::sync::Arc;

struct Pair {
    fs: Fs,
    p: Arc<Inode>,
    q: Arc<Inode>,
}

fn pair() -> Pair {
    let fs = fs();
    let (p, q) = (fs.root().dir("p", 1), fs.root().dir("q", 1));
    Pair { fs, p, q }
}

/// Links, size and times (those that are `now`) of a directory.
fn shape(dir: &Inode, now: i64) -> (u32, u64, [bool; 3]) {
    let a = dir.attr();
    (a.nlink, a.size, times(&a, now))
}

#[test]
fn rename_within_directory() {
    let Pair { p, .. } = pair();
    let f = p.file("f", 2);
    rename((&p, "f"), (&p, "g"), 3, |_| ()).expect("rename");
    assert_eq!(shape(&p, 3), (2, 60, MC));
    assert_eq!((f.nlink(), times(&f.attr(), 3)), (1, C));
    assert_eq!(p.list(), ["g"]);
}

#[test]
fn across_directories() {
    let Pair { p, q, .. } = pair();
    let (f, d) = (p.file("f", 2), p.dir("d", 2));
    rename((&p, "f"), (&q, "f"), 3, |_| ()).expect("file");
    assert_eq!((shape(&p, 3), shape(&q, 3)), ((3, 60, MC), (2, 60, MC)));
    rename((&p, "d"), (&q, "e"), 4, |_| ()).expect("directory");
    assert_eq!((shape(&p, 4), shape(&q, 4)), ((2, 40, MC), (3, 80, MC)));
    assert_eq!((times(&f.attr(), 3), times(&d.attr(), 4)), (C, C));
    assert_eq!(q.list(), ["e", "f"]);
}

#[test]
fn rename_over_file() {
    let Pair { p, q, .. } = pair();
    p.file("f", 2);
    let t = q.file("t", 2);
    q.link("also", &t, 2).expect("link");
    rename((&p, "f"), (&q, "t"), 3, |_| ()).expect("rename");
    assert_eq!((shape(&p, 3), shape(&q, 3)), ((2, 40, MC), (2, 80, MC)));
    assert_eq!((t.nlink(), times(&t.attr(), 3)), (1, C));
    rename((&q, "t"), (&q, "also"), 4, |_| ()).expect("rename");
    assert_eq!((t.nlink(), times(&t.attr(), 4)), (0, C));
    assert_eq!(shape(&q, 4), (2, 60, MC));
}

#[test]
fn rename_over_directory() {
    let Pair { fs, p, q } = pair();
    let (d, t) = (p.dir("d", 2), q.dir("t", 2));
    let inner = t.file("x", 2);
    assert_eq!(
        rename((&p, "d"), (&q, "t"), 3, |_| ()),
        Err(Errno::ENOTEMPTY)
    );
    assert_eq!((shape(&p, 3), shape(&q, 3)), ((3, 60, NONE), (3, 60, NONE)));
    t.ops().unlink(&t, b"x", &inner, at(4)).expect("unlink");
    rename((&p, "d"), (&q, "t"), 5, |_| ()).expect("across");
    assert_eq!((shape(&p, 5), shape(&q, 5)), ((2, 40, MC), (3, 60, MC)));
    assert_eq!((t.nlink(), t.size(), times(&t.attr(), 5)), (0, 40, C));
    assert_eq!(times(&d.attr(), 5), C);
    rename((fs.root(), "p"), (fs.root(), "q"), 6, |_| ()).expect_err("q is not empty");
    q.remove("t", 7).expect("rmdir");
    rename((fs.root(), "p"), (fs.root(), "q"), 8, |_| ()).expect("within");
    assert_eq!(shape(fs.root(), 8), (3, 60, MC));
    assert!(Arc::ptr_eq(&fs.root().get("q"), &p));
}

#[test]
fn target_type_must_match_unless_exchanged() {
    let Pair { p, .. } = pair();
    p.file("f", 2);
    p.dir("d", 2);
    assert_eq!(rename((&p, "f"), (&p, "d"), 3, |_| ()), Err(Errno::EISDIR));
    assert_eq!(rename((&p, "d"), (&p, "f"), 3, |_| ()), Err(Errno::ENOTDIR));
    assert_eq!(
        rename((&p, "d"), (&p, "f"), 3, |r| r.exchange = true),
        Ok(())
    );
    assert!(p.get("f").is_dir() && !p.get("d").is_dir());
}

#[test]
fn exchange_moves_links_but_no_sizes() {
    let Pair { p, q, .. } = pair();
    let (f, d) = (p.file("f", 2), q.dir("d", 2));
    d.file("inside", 2);
    rename((&p, "f"), (&q, "d"), 3, |r| r.exchange = true).expect("exchange");
    assert_eq!((shape(&p, 3), shape(&q, 3)), ((3, 60, MC), (2, 60, MC)));
    assert_eq!((times(&f.attr(), 3), times(&d.attr(), 3)), (C, C));
    assert!(Arc::ptr_eq(&p.get("f"), &d) && Arc::ptr_eq(&q.get("d"), &f));
    let e = q.dir("e", 4);
    rename((&q, "e"), (&p, "f"), 5, |r| r.exchange = true).expect("exchange");
    assert_eq!((shape(&p, 5), shape(&q, 5)), ((3, 60, MC), (3, 80, MC)));
    assert!(Arc::ptr_eq(&p.get("f"), &e) && Arc::ptr_eq(&q.get("e"), &d));
    assert_eq!(
        rename((&p, "f"), (&p, "none"), 6, |r| r.exchange = true),
        Err(Errno::ENOENT)
    );
}

#[test]
fn whiteout_stays_under_old_name() {
    let Pair { fs, p, q } = pair();
    let f = p.file("f", 2);
    let (_, before) = fs.free();
    let white = |now| {
        move |r: &mut openpath_vfs::Rename<'_>| {
            r.whiteout = Some(new(mode::S_IFCHR, now));
        }
    };
    rename((&p, "f"), (&p, "g"), 3, white(3)).expect("within");
    let w = p.get("f");
    let a = w.attr();
    assert_eq!(
        (a.mode, w.rdev(), a.nlink, times(&a, 3)),
        (mode::S_IFCHR, 0, 1, ALL)
    );
    assert_eq!((shape(&p, 3), times(&f.attr(), 3)), ((2, 80, MC), C));
    rename((&p, "g"), (&q, "f"), 4, white(4)).expect("across");
    assert_eq!((shape(&p, 4), shape(&q, 4)), ((2, 80, MC), (2, 60, MC)));
    let t = p.file("t", 5);
    rename((&q, "f"), (&p, "t"), 6, white(6)).expect("over a file");
    assert_eq!((shape(&p, 6), shape(&q, 6)), ((2, 100, MC), (2, 60, MC)));
    assert_eq!((t.nlink(), times(&t.attr(), 6)), (0, C));
    drop(t);
    assert_eq!(fs.free().1, before - 3);
    rename((fs.root(), "p"), (fs.root(), "r"), 7, white(7)).expect("a directory");
    assert_eq!(shape(fs.root(), 7), (4, 100, MC));
}

#[test]
fn rename_between_links_of_one_inode_does_nothing() {
    let Pair { p, q, .. } = pair();
    let f = p.file("f", 2);
    q.link("g", &f, 3).expect("link");
    rename((&p, "f"), (&q, "g"), 4, |_| ()).expect("nothing to do");
    assert_eq!((f.nlink(), times(&f.attr(), 4)), (2, NONE));
    assert_eq!((p.list(), q.list()), (vec!["f".into()], vec!["g".into()]));
    p.dir("d", 5).file("inside", 5);
    rename((&p, "d"), (&p, "d"), 6, |_| ()).expect("to itself, though not empty");
    assert_eq!(shape(&p, 6), (3, 80, NONE));
}

#[test]
fn mismatched_request_changes_nothing() {
    let Pair { p, q, .. } = pair();
    let (f, g) = (p.file("f", 2), p.file("g", 2));
    let (from, to) = ((&p, "f"), (&q, "x"));
    let ask = |source, to, target| p.ops().rename(&request(from, source, to, target, 3));
    assert_eq!(ask(&g, to, None), Err(Errno::ENOENT));
    assert_eq!(ask(&f, to, Some(&g)), Err(Errno::ENOENT));
    assert_eq!(ask(&f, (&p, "g"), None), Err(Errno::EEXIST));
    assert_eq!(ask(&f, (&f, "x"), None), Err(Errno::ENOTDIR));
    let sub = p.dir("sub", 3);
    q.update(|a| a.nlink = u32::MAX);
    assert_eq!(rename((&p, "sub"), to, 4, |_| ()), Err(Errno::EMLINK));
    q.update(|a| a.nlink = 0);
    assert_eq!(rename((&p, "f"), to, 4, |_| ()), Err(Errno::ENOENT));
    assert_eq!((sub.nlink(), shape(&p, 4)), (2, (3, 100, NONE)));
    assert_eq!(
        (p.list(), q.list()),
        (vec!["sub".into(), "g".into(), "f".into()], vec![])
    );
}
