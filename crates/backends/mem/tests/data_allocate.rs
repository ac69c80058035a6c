// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that fallocate(2) on a tree in memory allocates, charges and punches pages, and refuses
//! other modes, as tmpfs on Linux 6.18 does.

mod bytes;
mod common;

use bytes::*;
use common::*;
use openpath_abi::Errno;
use openpath_abi::falloc::*;
use openpath_mem::MemOptions;
use openpath_vfs::Extent;

/// A tree of 16 blocks.
fn small() -> Fs {
    with(MemOptions::default().size(16 * P))
}

#[test]
fn other_fallocate_modes_are_refused() {
    let fs = small();
    let file = fs.root().file("f", 2);
    for mode in [0, KEEP, PUNCH] {
        assert_eq!(fallocate(&file, mode, 0, P), Ok(()), "{mode}");
    }
    for mode in [
        FALLOC_FL_PUNCH_HOLE,
        FALLOC_FL_NO_HIDE_STALE,
        FALLOC_FL_COLLAPSE_RANGE,
        FALLOC_FL_ZERO_RANGE,
        FALLOC_FL_ZERO_RANGE | KEEP,
        FALLOC_FL_INSERT_RANGE,
        FALLOC_FL_UNSHARE_RANGE,
        FALLOC_FL_UNSHARE_RANGE | KEEP,
        0x80,
    ] {
        let answer = fallocate(&file, mode, 0, P);
        assert_eq!(answer, Err(Errno::EOPNOTSUPP), "{mode:#x}");
    }
    let dir = fs.root().dir("d", 2);
    assert_eq!(fallocate(&dir, 0, 0, P), Err(Errno::EOPNOTSUPP));
}

#[test]
fn preallocated_pages_are_charged_holes() {
    let fs = small();
    let file = fs.root().file("f", 2);
    assert_eq!(fallocate_at(&file, 0, 100, 2 * P, 5), Ok(()));
    assert_eq!(extent(&file), (2 * P + 100, 3));
    assert_eq!(times(&file.attr(), 5), MC);
    assert_eq!(fs.free().0, 13);
    assert_eq!(layout(&file), "HHH");
    let seek = |from, what| file.ops().seek_extent(&file, from, what);
    assert_eq!(seek(0, Extent::Data), Err(Errno::ENXIO));
    assert_eq!(seek(5000, Extent::Hole), Ok(5000));
    // Reading does not turn it into data, and allocates nothing.
    assert_eq!(read(&file, 9000, 0), vec![0; 2 * P as usize + 100]);
    assert_eq!((layout(&file).as_str(), fs.free().0), ("HHH", 13));
    assert_eq!(write(&file, b"x", P + 7, 6), Ok(1));
    assert_eq!((layout(&file).as_str(), fs.free().0), ("HDH", 13));
    assert_eq!(read(&file, 3, P + 6), b"\0x\0");
}

#[test]
fn pages_preallocated_twice_are_data() {
    let fs = small();
    let file = fs.root().file("f", 2);
    assert_eq!(fallocate(&file, 0, 0, 2 * P), Ok(()));
    assert_eq!(fallocate_at(&file, 0, P, 3 * P, 5), Ok(()));
    assert_eq!(extent(&file), (4 * P, 4));
    assert_eq!(layout(&file), "HDHH");
    assert_eq!(fallocate(&file, 0, 0, 6 * P), Ok(()));
    assert_eq!(layout(&file), "DDDDHH");
    assert_eq!(fallocate(&file, PUNCH, P, 2 * P), Ok(()));
    assert_eq!(layout(&file), "DHHDHH");
    assert_eq!(fallocate_at(&file, 0, 0, 6 * P, 7), Ok(()));
    assert_eq!(layout(&file), "DHHDDD");
    // The times move even if there is nothing to allocate.
    assert_eq!(fallocate_at(&file, 0, 0, 10, 8), Ok(()));
    assert_eq!(times(&file.attr(), 8), MC);
    assert_eq!(extent(&file), (6 * P, 6));
}

#[test]
fn keep_size_keeps_size() {
    let fs = small();
    let file = fs.root().file("f", 2);
    assert_eq!(fallocate_at(&file, KEEP, 100, 2 * P, 5), Ok(()));
    assert_eq!(extent(&file), (0, 3));
    assert_eq!(times(&file.attr(), 5), MC);
    assert_eq!(write(&file, b"0123456789", 0, 6), Ok(10));
    assert_eq!(extent(&file), (10, 3));
    // Truncation to the same length releases the blocks past it.
    assert_eq!(truncate(&file, 10, 7), Ok(()));
    assert_eq!((extent(&file), fs.free().0), ((10, 1), 15));
}

#[test]
fn only_growth_keeps_blocks_past_end() {
    let fs = small();
    let file = fs.root().file("f", 2);
    assert_eq!(fallocate(&file, KEEP, 0, 8 * P), Ok(()));
    assert_eq!(truncate(&file, 2 * P + 1, 3), Ok(()));
    assert_eq!(extent(&file), (2 * P + 1, 8));
    assert_eq!(truncate(&file, P + 1, 3), Ok(()));
    assert_eq!(extent(&file), (P + 1, 2));
    assert_eq!(fallocate(&file, KEEP, 4 * P, 2 * P), Ok(()));
    assert_eq!(fallocate(&file, KEEP, 4 * P, P), Ok(()));
    let past = file.ops().seek_extent(&file, 0, Extent::Data);
    assert_eq!(past, Err(Errno::ENXIO));
    assert_eq!(truncate(&file, 6 * P, 3), Ok(()));
    assert_eq!((layout(&file).as_str(), extent(&file).1), ("HHHHDH", 4));
    assert_eq!(truncate(&file, 0, 3), Ok(()));
    assert_eq!(extent(&file), (0, 0));
}

#[test]
fn failed_preallocation_leaves_holes() {
    let fs = small();
    let (file, other) = (fs.root().file("f", 2), fs.root().file("g", 2));
    // More than the limit.
    assert_eq!(fallocate(&file, 0, 0, 17 * P), Err(Errno::ENOSPC));
    assert_eq!((extent(&file), times(&file.attr(), 50)), ((0, 0), NONE));
    assert_eq!(fallocate(&file, 0, 0, 2 * P), Ok(()));
    assert_eq!(fallocate(&file, 0, 4 * P, 2 * P), Ok(()));
    assert_eq!(fallocate(&file, 0, 8 * P, P), Ok(()));
    assert_eq!(fallocate(&other, 0, 0, 7 * P), Ok(()));
    assert_eq!((layout(&file).as_str(), fs.free().0), ("HHHHHHHHH", 4));
    // The first four holes would take all free blocks: earlier preallocations stay, and those that
    // the call reached are data now.
    assert_eq!(fallocate_at(&file, 0, 0, 12 * P, 9), Err(Errno::ENOSPC));
    assert_eq!((layout(&file).as_str(), fs.free().0), ("DDHHDDHHD", 4));
    assert_eq!((extent(&file), times(&file.attr(), 9)), ((9 * P, 5), NONE));
    assert_eq!(truncate(&other, 0, 3), Ok(()));
    assert_eq!(fallocate(&file, 0, 0, 16 * P), Ok(()));
    assert_eq!((extent(&file), fs.free().0), ((16 * P, 16), 0));
    assert_eq!(fallocate(&file, 0, 0, 17 * P), Err(Errno::ENOSPC));
}

#[test]
fn writes_use_preallocated_blocks() {
    let fs = small();
    let file = fs.root().file("f", 2);
    assert_eq!(fallocate(&file, KEEP, 0, 16 * P), Ok(()));
    assert_eq!(fs.free().0, 0);
    assert_eq!(write(&file, &pages(1, 17), 0, 5), Ok(16 * P as usize));
    assert_eq!(write(&file, b"q", 16 * P, 6), Err(Errno::ENOSPC));
    assert_eq!(extent(&file), (16 * P, 16));
    assert_eq!(times(&file.attr(), 6), MC);
}

#[test]
fn only_whole_pages_become_holes() {
    let fs = small();
    let file = fs.root().file("f", 2);
    assert_eq!(write(&file, &pages(b'a', 4), 0, 3), Ok(4 * P as usize));
    assert_eq!(fallocate_at(&file, PUNCH, 100, P, 5), Ok(()));
    assert_eq!(
        (layout(&file).as_str(), extent(&file)),
        ("DDDD", (4 * P, 4))
    );
    assert_eq!(times(&file.attr(), 5), MC);
    let got = read(&file, 4 * P as usize, 0);
    let zeroes = got.iter().enumerate().filter(|(_, b)| **b == 0);
    let zeroes: Vec<_> = zeroes.map(|(i, _)| i as u64).collect();
    assert_eq!(zeroes, (100..P + 100).collect::<Vec<_>>());
    assert_eq!(fallocate(&file, PUNCH, P - 1, 2 * P + 2), Ok(()));
    assert_eq!((layout(&file).as_str(), fs.free().0), ("DHHD", 14));
    let got = read(&file, 4 * P as usize, 0);
    assert_eq!(
        got.iter().filter(|b| **b != 0).count(),
        100 + 4095 - 100 + 100
    );
    // There is nothing to punch, but the times move.
    for (offset, now) in [(P, 6), (100 * P, 7)] {
        assert_eq!(fallocate_at(&file, PUNCH, offset, 2 * P, now), Ok(()));
        assert_eq!(times(&file.attr(), now), MC);
        assert_eq!((layout(&file).as_str(), extent(&file).0), ("DHHD", 4 * P));
    }
}

#[test]
fn punch_stops_at_its_end_even_past_file_end() {
    let fs = small();
    let file = fs.root().file("f", 2);
    assert_eq!(write(&file, &[b'a'; 100], 0, 3), Ok(100));
    assert_eq!(fallocate(&file, PUNCH, 0, 100), Ok(()));
    assert_eq!((layout(&file).as_str(), extent(&file)), ("D", (100, 1)));
    assert_eq!(fallocate(&file, PUNCH, 0, P), Ok(()));
    assert_eq!((layout(&file).as_str(), extent(&file)), ("H", (100, 0)));
    // Blocks past the end are punched too, but not a part of a page.
    assert_eq!(fallocate(&file, KEEP, 0, 4 * P), Ok(()));
    assert_eq!(fallocate(&file, PUNCH, 50, 3 * P - 50), Ok(()));
    assert_eq!(extent(&file), (100, 2));
    assert_eq!(fallocate(&file, PUNCH, 3 * P + 10, 100), Ok(()));
    assert_eq!((layout(&file).as_str(), extent(&file)), ("H", (100, 2)));
}

#[test]
fn partial_punch_keeps_preallocated_page() {
    let fs = small();
    let file = fs.root().file("f", 2);
    assert_eq!(fallocate(&file, 0, 0, 2 * P), Ok(()));
    assert_eq!(fallocate(&file, PUNCH, 10, 100), Ok(()));
    assert_eq!((layout(&file).as_str(), extent(&file).1), ("HH", 2));
    assert_eq!(truncate(&file, P + 10, 3), Ok(()));
    assert_eq!((layout(&file).as_str(), extent(&file)), ("HH", (P + 10, 2)));
}

#[test]
fn preallocated_blocks_are_released_with_file() {
    let fs = small();
    let file = fs.root().file("f", 2);
    assert_eq!(fallocate(&file, KEEP, 0, 16 * P), Ok(()));
    fs.root().remove("f", 3).expect("unlink");
    assert_eq!(fs.free().0, 0);
    drop(file);
    assert_eq!(fs.free().0, 16);
}

#[test]
fn unlimited_tree_preallocates_everything() {
    let fs = with(MemOptions::default().size(0));
    let file = fs.root().file("f", 2);
    let most = i64::MAX.cast_unsigned();
    assert_eq!(fallocate(&file, 0, 0, most), Ok(()));
    assert_eq!(extent(&file), (most, most.div_ceil(P)));
    assert_eq!(fallocate(&file, 0, 1, most), Err(Errno::EFBIG));
    assert_eq!(fallocate(&file, PUNCH, P, most - P), Ok(()));
    // The last page is partial: the kernel keeps it too.
    assert_eq!(extent(&file), (most, 2));
}
