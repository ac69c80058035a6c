// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a regular file in memory lends its pages in order and without a copy, and that sparse
//! files take blocks only for data. Tests also that fsync(2) and ioctl(2) answer as tmpfs on Linux
//! 6.18 does.

mod bytes;
mod common;

use bytes::*;
use common::*;
use openpath_abi::{Errno, mode};
use openpath_mem::MemOptions;
use openpath_vfs::{Inode, flag};

/// The lent pieces, and the result of the call.
fn lend(file: &Inode, offset: u64, len: usize) -> (Vec<Vec<u8>>, Result<usize, Errno>) {
    let mut shown = Vec::new();
    let mut show = |piece: &[u8]| shown.push(piece.to_vec());
    let answer = file.ops().with_pages(file, offset, len, &mut show);
    (shown, answer)
}

#[test]
fn pieces_come_in_order_and_end_with_file() {
    let fs = fs();
    let file = fs.root().file("f", 2);
    write(&file, &pages(b'a', 2), 0, 3).expect("data");
    write(&file, b"end", 3 * P + 10, 3).expect("data");
    let (shown, answer) = lend(&file, 4000, 1 << 20);
    assert_eq!(answer, Ok(3 * P as usize + 13 - 4000));
    let page = P as usize;
    assert_eq!(
        shown.iter().map(Vec::len).collect::<Vec<_>>(),
        [96, page, page, 13]
    );
    assert_eq!(shown.concat(), read(&file, 1 << 20, 4000));
    assert_eq!(lend(&file, P, 7), (vec![b"aaaaaaa".to_vec()], Ok(7)));
    for (offset, len) in [(3 * P + 13, 1), (99 * P, 1), (0, 0)] {
        assert_eq!(lend(&file, offset, len), (vec![], Ok(0)));
    }
    assert_eq!(times(&file.attr(), 3), MC);
}

/// They are not copies: the same page is at the same address, and all holes are one page of zeroes.
#[test]
fn pieces_are_not_copies() {
    let fs = fs();
    let file = fs.root().file("f", 2);
    write(&file, b"x", P, 3).expect("data");
    truncate(&file, 200 * P, 3).expect("a hole");
    assert_eq!(fallocate(&file, 0, 3 * P, P), Ok(()));
    let addresses = || {
        let mut all = Vec::new();
        let mut show = |piece: &[u8]| all.push(piece.as_ptr() as usize);
        let len = 200 * P as usize;
        assert_eq!(file.ops().with_pages(&file, 0, len, &mut show), Ok(len));
        all
    };
    let first = addresses();
    assert_eq!(first, addresses());
    assert_ne!(first[0], first[1]);
    assert!(
        first
            .iter()
            .enumerate()
            .all(|(i, page)| i == 1 || *page == first[0])
    );
    // Lending and reading allocate no block.
    assert_eq!(
        (layout(&file)[..5].to_owned(), extent(&file).1),
        ("HDHHH".to_owned(), 2)
    );
}

#[test]
fn only_a_regular_file_lends() {
    let fs = fs();
    let dir = fs.root().dir("d", 2);
    assert_eq!(lend(&dir, 0, 1), (vec![], Err(Errno::EOPNOTSUPP)));
}

#[test]
fn sparse_file_takes_blocks_of_its_data() {
    let fs = fs();
    let file = fs.root().file("f", 2);
    let end = 1 << 62;
    for offset in [0, 1 << 30, end] {
        assert_eq!(write(&file, b"x", offset, 3), Ok(1));
    }
    assert_eq!(extent(&file), (end + 1, 3));
    assert_eq!(read(&file, 9, end - 4), b"\0\0\0\0x");
    assert_eq!(truncate(&file, 1 << 30, 4), Ok(()));
    assert_eq!(extent(&file), (1 << 30, 1));
    assert_eq!(fallocate(&file, PUNCH, 0, P), Ok(()));
    assert_eq!(extent(&file), (1 << 30, 0));
}

#[test]
fn sync_succeeds_without_work() {
    let fs = fs();
    let nodes = [fs.root().file("f", 2), fs.root().dir("d", 2)];
    for node in nodes {
        assert_eq!(node.ops().fsync(&node, false), Ok(()));
        assert_eq!(node.ops().fsync(&node, true), Ok(()));
    }
}

#[test]
fn inode_flags_can_be_read() {
    const GETFLAGS: u32 = 0x8008_6601;
    const SETFLAGS: u32 = 0x4008_6602;
    const FSGETXATTR: u32 = 0x801c_581f;
    const GETVERSION: u32 = 0x8008_7601;
    const TCGETS: u32 = 0x5401;

    let fs = with(MemOptions::default());
    let file = fs.root().file("f", 2);
    let ask = |node: &Inode, request, len: usize| {
        let mut arg = [0xee; 64];
        let answer = node.ops().ioctl(node, request, &mut arg[..len]);
        answer.map(|zero| {
            assert_eq!(zero, 0);
            u32::from_ne_bytes([arg[0], arg[1], arg[2], arg[3]])
        })
    };
    let dir = fs.root().dir("d", 2);
    for node in [&file, &dir] {
        assert_eq!(ask(node, GETFLAGS, 8), Ok(0));
        assert_eq!(ask(node, FSGETXATTR, 28), Ok(0));
        for request in [GETVERSION, TCGETS] {
            assert_eq!(ask(node, request, 64), Err(Errno::ENOTTY));
        }
    }
    file.set_flags(flag::APPEND_ONLY | flag::IMMUTABLE);
    assert_eq!(ask(&file, GETFLAGS, 8), Ok(0x30));
    assert_eq!(ask(&file, FSGETXATTR, 28), Ok(0x18));
    file.clear_flags(flag::IMMUTABLE);
    assert_eq!(ask(&file, GETFLAGS, 4), Ok(0x20));
    assert_eq!(ask(&file, GETFLAGS, 3), Err(Errno::EFAULT));
    let set = |node: &Inode, flags: u32| {
        let mut arg = flags.to_ne_bytes();
        node.ops().ioctl(node, SETFLAGS, &mut arg)
    };
    assert_eq!(set(&dir, 0x30), Ok(0));
    assert_eq!(dir.flags() & flag::IMMUTABLE, flag::IMMUTABLE);
    assert_eq!(ask(&dir, GETFLAGS, 8), Ok(0x30));
    assert_eq!(set(&dir, 0x40), Err(Errno::EOPNOTSUPP));
    assert_eq!(set(&dir, 0), Ok(0));
    assert_eq!(ask(&dir, GETFLAGS, 8), Ok(0));
    assert_eq!(ask(&dir, SETFLAGS, 3), Err(Errno::EFAULT));
    let fifo = fs.root().make("p", mode::S_IFIFO | 0o644, 2);
    assert_eq!(ask(&fifo.expect("a fifo"), GETFLAGS, 8), Err(Errno::ENOTTY));
}
