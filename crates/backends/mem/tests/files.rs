// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that writes, truncations, seeks and attributes of regular files in memory, up to the
//! largest size and in a full tree, give what tmpfs gives, and that each read sees a concurrent
//! write whole.

mod common;

use common::*;
use openpath_abi::Errno;
use openpath_mem::MemOptions;
use openpath_vfs::{Extent, Inode, SetAttr};
use std::sync::Arc;

const PAGE: u64 = 4096;
const MAX: u64 = i64::MAX as u64;

fn file() -> (Fs, Arc<Inode>) {
    let fs = fs();
    let f = fs.root().file("f", 1);
    (fs, f)
}

fn seek(f: &Inode, offset: u64) -> (Result<u64, Errno>, Result<u64, Errno>) {
    let go = |extent| f.ops().seek_extent(f, offset, extent);
    (go(Extent::Data), go(Extent::Hole))
}

#[test]
fn writes_grow_size_and_blocks() {
    let (fs, f) = file();
    assert_eq!(write(&f, &[1; 5000], 0, 2), Ok(5000));
    let a = f.attr();
    assert_eq!((a.size, a.blocks, times(&a, 2)), (5000, 16, MC));
    assert_eq!(write(&f, &[2], 0, 3), Ok(1));
    assert_eq!(
        (f.size(), f.attr().blocks, times(&f.attr(), 3)),
        (5000, 16, MC)
    );
    assert_eq!(write(&f, &[], 100_000, 4), Ok(0));
    assert_eq!((f.size(), times(&f.attr(), 4)), (5000, NONE));
    assert_eq!(write(&f, &[3], 1_000_000, 5), Ok(1));
    assert_eq!((f.size(), f.attr().blocks), (1_000_001, 24));
    assert_eq!(read(&f, 3, 4999), [1, 0, 0]);
    assert_eq!(read(&f, 10, 999_999), [0, 3]);
    assert_eq!(
        (read(&f, 10, 1_000_001), read(&f, 10, u64::MAX)),
        (vec![], vec![])
    );
    let used = fs.figures();
    assert_eq!(used.blocks - used.bfree, 3);
}

#[test]
fn truncation_frees_blocks_and_clears_bytes() {
    let (fs, f) = file();
    write(&f, &[9; 3 * 4096], 0, 2).expect("write");
    for (size, blocks) in [
        (4097, 16),
        (4096, 8),
        (10, 8),
        (10_000, 8),
        (10_000, 8),
        (0, 0),
    ] {
        truncate(&f, size, 3).expect("truncate");
        assert_eq!((f.size(), f.attr().blocks), (size, blocks));
        if size == 10_000 {
            let data = read(&f, 10_000, 0);
            assert!(data[..10].iter().all(|b| *b == 9) && data[10..].iter().all(|b| *b == 0));
        }
    }
    assert_eq!(times(&f.attr(), 3), MC);
    assert_eq!(fs.figures().bfree, fs.figures().blocks);
    assert_eq!(truncate(&f, MAX, 4), Ok(()));
    assert_eq!((f.attr().blocks, read(&f, 2, MAX - 1)), (0, vec![0]));
    assert_eq!(truncate(&f, MAX + 1, 5), Err(Errno::EFBIG));
    assert_eq!((f.size(), times(&f.attr(), 5)), (MAX, NONE));
}

#[test]
fn largest_size_is_enforced() {
    let (_fs, f) = file();
    assert_eq!(write(&f, &[1; 8], MAX - 3, 2), Ok(3));
    assert_eq!((f.size(), f.attr().blocks), (MAX, 8));
    for offset in [MAX, MAX + 1, u64::MAX] {
        assert_eq!(write(&f, &[1], offset, 3), Err(Errno::EFBIG));
    }
    assert_eq!(read(&f, 9, MAX - 4), [0, 1, 1, 1]);
    assert_eq!(seek(&f, 0), (Ok((MAX - 3) / PAGE * PAGE), Ok(0)));
    assert_eq!(seek(&f, MAX - 1), (Ok(MAX - 1), Ok(MAX)));
}

#[test]
fn data_and_holes_are_found_by_page() {
    let (_fs, f) = file();
    write(&f, &[1], PAGE, 2).expect("write");
    write(&f, &[1; 5000], 3 * PAGE + 10, 2).expect("write");
    truncate(&f, 6 * PAGE + 5, 2).expect("truncate");
    let none = Err(Errno::ENXIO);
    let p = PAGE;
    for (offset, data, hole) in [
        (0, Ok(p), Ok(0)),
        (1, Ok(p), Ok(1)),
        (p - 1, Ok(p), Ok(p - 1)),
        (p, Ok(p), Ok(2 * p)),
        (p + 1, Ok(p + 1), Ok(2 * p)),
        (2 * p - 1, Ok(2 * p - 1), Ok(2 * p)),
        (2 * p, Ok(3 * p), Ok(2 * p)),
        (3 * p, Ok(3 * p), Ok(5 * p)),
        (4 * p, Ok(4 * p), Ok(5 * p)),
        (5 * p, none, Ok(5 * p)),
        (6 * p + 4, none, Ok(6 * p + 4)),
        (6 * p + 5, none, none),
        (u64::MAX, none, none),
    ] {
        assert_eq!(seek(&f, offset), (data, hole), "at {offset}");
    }
    truncate(&f, 4 * p + 5, 2).expect("truncate");
    assert_eq!(seek(&f, 4 * p + 4), (Ok(4 * p + 4), Ok(4 * p + 5)));
}

#[test]
fn full_tree_cuts_write_short_then_refuses() {
    let fs = with(MemOptions::default().size(5000));
    let f = fs.root().file("f", 1);
    assert_eq!(fs.figures().blocks, 2);
    assert_eq!(write(&f, &[1; 3 * 4096 + 100], 10, 2), Ok(8182));
    assert_eq!(
        (f.size(), f.attr().blocks, fs.figures().bfree),
        (8192, 16, 0)
    );
    assert_eq!(write(&f, &[1; 10], 200 * PAGE, 3), Err(Errno::ENOSPC));
    assert_eq!((f.size(), times(&f.attr(), 3)), (8192, MC));
    assert_eq!(write(&f, &[2; 4 * 4096], 0, 4), Ok(8192));
    assert_eq!(truncate(&f, 1 << 40, 5), Ok(()));
    assert_eq!(
        fs.root().symlink("s", &[b'x'; 128], 6).err(),
        Some(Errno::ENOSPC)
    );
    assert!(fs.root().symlink("s", &[b'x'; 127], 6).is_ok());
    assert_eq!(truncate(&f, 5000, 7), Ok(()));
    assert_eq!(truncate(&f, 4096, 7), Ok(()));
    assert!(fs.root().symlink("t", &[b'x'; 128], 8).is_ok());
    assert_eq!(fs.figures().bfree, 0);
}

#[test]
fn requested_attributes_are_set() {
    let (_fs, f) = file();
    let change = SetAttr {
        mode: Some(0o600),
        uid: Some(5),
        atime: Some(at(9)),
        ..SetAttr::default()
    };
    f.ops().setattr(&f, &change).expect("setattr");
    let a = f.attr();
    assert_eq!(
        (a.mode & 0o7777, a.uid, a.gid, a.atime, a.mtime),
        (0o600, 5, 8, at(9), at(1))
    );
}

#[test]
fn data_lives_until_last_reference() {
    let (fs, f) = file();
    write(&f, &[1; 4096], 0, 2).expect("write");
    fs.root().remove("f", 3).expect("unlink");
    let (total, now) = (fs.figures().blocks, fs.free());
    assert_eq!((now.0, read(&f, 1, 0)), (total - 1, vec![1]));
    drop(f);
    assert_eq!(fs.free(), (total, now.1 + 1));
}

#[test]
fn reads_see_each_write_whole() {
    let (_fs, f) = file();
    let len = 3 * 4096;
    write(&f, &vec![0; len], 0, 2).expect("write");
    std::thread::scope(|s| {
        s.spawn(|| {
            for i in 0..=255 {
                write(&f, &vec![i; len], 0, 3).expect("write");
                truncate(&f, 0, 4).expect("truncate");
                write(&f, &vec![i; len], 0, 5).expect("write");
            }
        });
        s.spawn(|| {
            for _ in 0..500 {
                let data = read(&f, len, 0);
                assert!(data.is_empty() || data.len() == len);
                assert!(data.iter().all(|b| *b == data[0]));
            }
        });
    });
}
