// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that copy_file_range(2) within a tree in memory answers as tmpfs on Linux 6.18 does: for
//! holes, the end of a file, a full tree, one file with itself, and invalid arguments.

mod bytes;
mod common;

use bytes::*;
use common::*;
use openpath_abi::Errno;
use openpath_mem::MemOptions;
use openpath_vfs::Inode;
use std::sync::Arc;

/// A tree of this many blocks, with a file that has a page of data between holes, and an empty one.
fn pair(blocks: u64) -> (Fs, Arc<Inode>, Arc<Inode>) {
    let fs = with(MemOptions::default().size(blocks * P));
    let (from, to) = (fs.root().file("a", 2), fs.root().file("b", 2));
    truncate(&from, 4 * P, 3).expect("a hole");
    write(&from, b"0123456789", P, 4).expect("data");
    (fs, from, to)
}

#[test]
fn holes_are_copied_as_data() {
    let (_fs, from, to) = pair(16);
    assert_eq!(copy((&from, 0), (&to, 0), 4 * P), Ok(4 * P as usize));
    assert_eq!((layout(&to).as_str(), extent(&to)), ("DDDD", (4 * P, 4)));
    assert_eq!(times(&to.attr(), 60), MC);
    assert_eq!(
        (layout(&from).as_str(), times(&from.attr(), 60)),
        ("HDHH", NONE)
    );
    assert_eq!(read(&to, 12, P - 1), b"\x000123456789\0");
    // So does a preallocated page.
    assert_eq!(fallocate(&from, 0, 0, 4 * P), Ok(()));
    assert_eq!(truncate(&to, 0, 5), Ok(()));
    assert_eq!(copy((&from, 2 * P), (&to, 0), 2 * P), Ok(2 * P as usize));
    assert_eq!((layout(&to).as_str(), extent(&to)), ("DD", (2 * P, 2)));
    assert_eq!(layout(&from), "HDHH");
}

#[test]
fn copy_ends_at_end_of_source() {
    let (_fs, from, to) = pair(16);
    assert_eq!(copy((&from, 3 * P + 10), (&to, 0), 4 * P), Ok(4086));
    assert_eq!(extent(&to), (4086, 1));
    write(&to, b"x", 0, 70).expect("a byte");
    for from in [(&*from, 4 * P), (&*from, 9 * P), (&*to, 4086)] {
        assert_eq!(copy(from, (&to, 0), 4 * P), Ok(0));
    }
    assert_eq!(copy((&from, 0), (&to, 0), 0), Ok(0));
    assert_eq!(times(&to.attr(), 70), MC);
}

#[test]
fn full_tree_copies_a_part() {
    let (fs, from, to) = pair(4);
    assert_eq!(fs.free().0, 3);
    assert_eq!(copy((&from, 0), (&to, 0), 4 * P), Ok(3 * P as usize));
    assert_eq!(extent(&to), (3 * P, 3));
    let answer = from.ops().copy_range(&from, 0, &to, 3 * P, P, at(61));
    assert_eq!(answer, Err(Errno::ENOSPC));
    // The times move even so.
    assert_eq!((extent(&to), times(&to.attr(), 61)), ((3 * P, 3), MC));
    assert_eq!(copy((&from, 0), (&to, 2 * P + 100), 2 * P), Ok(3996));
    assert_eq!(fs.free().0, 0);
}

#[test]
fn file_can_be_copied_to_itself() {
    let (_fs, file, _) = pair(16);
    assert_eq!(copy((&file, P), (&file, 2 * P), P), Ok(P as usize));
    assert_eq!(layout(&file), "HDDH");
    assert_eq!(read(&file, 10, 2 * P), b"0123456789");
    assert_eq!(copy((&file, P), (&file, P + 100), 50), Ok(50));
    assert_eq!(read(&file, 12, P + 100), b"0123456789\0\0");
    // The bytes that the copy adds are not copied again.
    assert_eq!(truncate(&file, P + 10, 3), Ok(()));
    assert_eq!(copy((&file, P), (&file, P + 10), 100), Ok(10));
    assert_eq!(copy((&file, P + 5), (&file, P + 20), 100), Ok(15));
    assert_eq!(extent(&file), (P + 35, 1));
    assert_eq!(read(&file, 99, P), b"01234567890123456789567890123456789");
}

/// Copies through several batches, at every shift against the pages.
#[test]
fn copied_bytes_match_source() {
    let fs = fs();
    let from = fs.root().file("a", 2);
    let data: Vec<u8> = (0..70 * P).map(|i| (i % 251) as u8).collect();
    assert_eq!(write(&from, &data, 0, 3), Ok(data.len()));
    for (begin, end) in [(0, 0), (0, 1), (1, 0), (5, 9), (9, 5), (4095, 4095)] {
        let to = fs.root().file(&format!("{begin} {end}"), 4);
        assert_eq!(write(&to, &pages(b'o', 30), 20 * P, 5), Ok(30 * P as usize));
        let len = data.len() - P as usize;
        let copied = copy((&from, begin), (&to, end), len as u64);
        assert_eq!(copied, Ok(len));
        assert_eq!(extent(&to).0, end + len as u64);
        let begin = begin as usize;
        assert!(read(&to, len, end) == data[begin..begin + len]);
        assert_eq!(read(&to, end as usize, 0), vec![0; end as usize]);
    }
}

#[test]
fn concurrent_copies_in_both_directions_finish() {
    let fs = fs();
    let (a, b) = (fs.root().file("a", 2), fs.root().file("b", 2));
    for (file, byte) in [(&a, b'a'), (&b, b'b')] {
        assert_eq!(write(file, &pages(byte, 64), 0, 3), Ok(64 * P as usize));
    }
    std::thread::scope(|threads| {
        for (from, to) in [(&a, &b), (&b, &a)] {
            threads.spawn(move || {
                for _ in 0..200 {
                    assert_eq!(copy((from, 0), (to, 0), 64 * P), Ok(64 * P as usize));
                }
            });
        }
    });
    assert_eq!((extent(&a), extent(&b)), ((64 * P, 64), (64 * P, 64)));
}

#[test]
fn invalid_copies_are_refused() {
    let (fs, from, to) = pair(16);
    let dir = fs.root().dir("d", 2);
    let other = common::fs();
    let stranger = other.root().file("f", 2);
    assert_eq!(copy((&from, 0), (&stranger, 0), 1), Err(Errno::EXDEV));
    assert_eq!(copy((&from, 0), (&dir, 0), 1), Err(Errno::EINVAL));
    assert_eq!(copy((&dir, 0), (&to, 0), 1), Err(Errno::EINVAL));
    let most = i64::MAX.cast_unsigned();
    assert_eq!(copy((&from, 0), (&to, most), 1), Err(Errno::EFBIG));
    assert_eq!(copy((&from, 0), (&to, most - 1), 2), Ok(1));
}
