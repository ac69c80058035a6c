// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that seals of a file in memory can be added until sealed, and refuse writes, growth,
//! shrinking and execution. Each answer is that of a file of memfd_create(2) with
//! `MFD_ALLOW_SEALING` on Linux 6.18; in the first test, of a file of tmpfs.

mod bytes;
mod common;

use bytes::*;
use common::*;
use openpath_abi::fcntl::*;
use openpath_abi::{Errno, mode};
use openpath_mem::MemOptions;
use openpath_vfs::{Inode, SetAttr};
use std::sync::Arc;

const PERM: Result<(), Errno> = Err(Errno::EPERM);

fn sealable() -> Fs {
    with(MemOptions::default().sealable(true))
}

/// A file of 6000 bytes with these seals.
fn sealed(seals: u32) -> (Fs, Arc<Inode>) {
    let fs = sealable();
    let file = fs.root().file("f", 2);
    assert_eq!(write(&file, &[b'a'; 6000], 0, 3), Ok(6000));
    assert_eq!(add(&file, seals), Ok(()));
    (fs, file)
}

fn add(file: &Inode, seals: u32) -> Result<(), Errno> {
    file.ops().add_seals(file, seals)
}

fn get(file: &Inode) -> Result<u32, Errno> {
    file.ops().seals(file)
}

fn chmod(file: &Inode, mode: u32) -> Result<(), Errno> {
    let change = SetAttr {
        mode: Some(mode),
        ..SetAttr::default()
    };
    file.ops().setattr(file, &change)
}

#[test]
fn files_of_open_are_sealed_against_seals() {
    let fs = fs();
    let file = fs.root().file("f", 2);
    assert_eq!(get(&file), Ok(F_SEAL_SEAL));
    assert_eq!(add(&file, F_SEAL_SHRINK), PERM);
    assert_eq!(add(&file, 0), PERM);
    assert_eq!(add(&file, 0x40), Err(Errno::EINVAL));
    for kind in [mode::S_IFDIR, mode::S_IFIFO, mode::S_IFSOCK] {
        let node = fs.root().make(&kind.to_string(), kind | 0o644, 2);
        let node = node.expect("a node");
        assert_eq!(get(&node), Err(Errno::EINVAL));
        assert_eq!(add(&node, 0), Err(Errno::EINVAL));
    }
}

#[test]
fn seals_can_be_added_until_sealed() {
    let fs = sealable();
    let file = fs.root().file("f", 2);
    assert_eq!((get(&file), add(&file, 0)), (Ok(0), Ok(())));
    assert_eq!(add(&file, 0x42), Err(Errno::EINVAL));
    assert_eq!(get(&file), Ok(0));
    assert_eq!(add(&file, F_SEAL_SHRINK), Ok(()));
    assert_eq!(add(&file, F_SEAL_SEAL), Ok(()));
    assert_eq!(get(&file), Ok(F_SEAL_SEAL | F_SEAL_SHRINK));
    assert_eq!((add(&file, 0), add(&file, F_SEAL_GROW)), (PERM, PERM));
    assert_eq!(add(&file, 0x40), Err(Errno::EINVAL));
    // No time moves.
    assert_eq!(times(&file.attr(), 2), ALL);
}

#[test]
fn sealed_against_writing() {
    for seals in [F_SEAL_WRITE, F_SEAL_FUTURE_WRITE] {
        let (_fs, file) = sealed(seals);
        assert_eq!(get(&file), Ok(seals));
        // The times move even so.
        assert_eq!(write(&file, b"b", 0, 5), Err(Errno::EPERM));
        assert_eq!(times(&file.attr(), 5), MC);
        assert_eq!(write(&file, b"", 0, 6), Ok(0));
        assert_eq!(fallocate_at(&file, PUNCH, 0, P, 6), PERM);
        assert_eq!(times(&file.attr(), 5), MC);
        // Its length and blocks are not sealed.
        assert_eq!(truncate(&file, 7000, 6), Ok(()));
        assert_eq!(truncate(&file, 10, 6), Ok(()));
        assert_eq!(fallocate(&file, 0, 0, 100), Ok(()));
        assert_eq!(fallocate(&file, KEEP, 0, 8 * P), Ok(()));
        assert_eq!(extent(&file), (100, 8));
    }
}

#[test]
fn sealed_against_growing() {
    let (_fs, file) = sealed(F_SEAL_GROW);
    // A write is checked page by page: the pages before the growing one are written.
    assert_eq!(write(&file, &[b'b'; 6000], 0, 5), Ok(6000));
    assert_eq!(write(&file, &[b'c'; 6001], 0, 5), Ok(4096));
    assert_eq!(read(&file, 2, 4095), b"cb");
    for offset in [5950, 6000, 9000] {
        assert_eq!(write(&file, &[b'd'; 100], offset, 6), Err(Errno::EPERM));
    }
    assert_eq!((file.size(), times(&file.attr(), 6)), (6000, MC));
    assert_eq!(truncate(&file, 6000, 7), Ok(()));
    assert_eq!(truncate(&file, 6001, 8), PERM);
    assert_eq!(times(&file.attr(), 7), MC);
    assert_eq!(truncate(&file, 5000, 8), Ok(()));
    assert_eq!(fallocate(&file, 0, 0, 5000), Ok(()));
    assert_eq!(fallocate(&file, 0, 0, 5001), PERM);
    assert_eq!(fallocate(&file, KEEP, 0, 2 * P), PERM);
    assert_eq!(fallocate(&file, PUNCH, 0, P), Ok(()));
    assert_eq!(fallocate(&file, PUNCH, 9 * P, P), Ok(()));
}

#[test]
fn sealed_against_shrinking() {
    let (_fs, file) = sealed(F_SEAL_SHRINK);
    assert_eq!(write(&file, &[b'b'; 9000], 0, 5), Ok(9000));
    assert_eq!(truncate(&file, 100, 6), PERM);
    assert_eq!(times(&file.attr(), 5), MC);
    assert_eq!(truncate(&file, 9000, 6), Ok(()));
    assert_eq!(truncate(&file, 10_000, 6), Ok(()));
    assert_eq!(fallocate(&file, PUNCH, 0, P), Ok(()));
    assert_eq!(extent(&file), (10_000, 2));
    assert_eq!(truncate(&file, u64::MAX, 6), Err(Errno::EFBIG));
}

#[test]
fn sealed_against_execution() {
    let (_fs, file) = sealed(F_SEAL_EXEC);
    assert_eq!(get(&file), Ok(F_SEAL_EXEC));
    assert_eq!(
        (chmod(&file, 0o600), chmod(&file, 0o4644)),
        (Ok(()), Ok(()))
    );
    assert_eq!(chmod(&file, 0o755), PERM);
    assert_eq!(file.mode(), mode::S_IFREG | 0o4644);
    assert_eq!(write(&file, b"b", 0, 5), Ok(1));
}

#[test]
fn exec_seal_on_program_adds_write_seals() {
    let fs = sealable();
    let file = fs.root().make("f", mode::S_IFREG | 0o755, 2);
    let file = file.expect("a file");
    assert_eq!(add(&file, F_SEAL_EXEC), Ok(()));
    let all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
    assert_eq!(get(&file), Ok(all | F_SEAL_EXEC));
    assert_eq!((chmod(&file, 0o700), chmod(&file, 0o644)), (PERM, PERM));
    assert_eq!(chmod(&file, 0o4755), Ok(()));
    assert_eq!(write(&file, b"b", 0, 5), Err(Errno::EPERM));
}

#[test]
fn copy_is_refused_like_write() {
    let (fs, file) = sealed(F_SEAL_WRITE);
    let from = fs.root().file("from", 2);
    assert_eq!(write(&from, &[b'z'; 50], 0, 3), Ok(50));
    assert_eq!(copy((&from, 0), (&file, 0), 50), Err(Errno::EPERM));
    assert_eq!(times(&file.attr(), 60), MC);
    assert_eq!(copy((&file, 0), (&from, 0), 50), Ok(50));

    let (fs, file) = sealed(F_SEAL_GROW);
    let from = fs.root().file("from", 2);
    assert_eq!(write(&from, &[b'z'; 9000], 0, 3), Ok(9000));
    assert_eq!(copy((&from, 0), (&file, 5990), 20), Err(Errno::EPERM));
    assert_eq!(copy((&from, 0), (&file, 5990), 10), Ok(10));
    assert_eq!(copy((&from, 0), (&file, 10), 9000), Ok(4086));
    assert_eq!(file.size(), 6000);
}

/// The copy goes through a pipe of 16 pages: the first batch arrives whole, even if it ends inside
/// a page.
#[test]
fn growing_copy_under_a_seal_ends_at_batch_or_page() {
    let fs = sealable();
    let (file, from) = (fs.root().file("f", 2), fs.root().file("from", 2));
    truncate(&file, 69_640, 3).expect("a hole");
    truncate(&from, 40 * P, 3).expect("a hole");
    assert_eq!(add(&file, F_SEAL_GROW), Ok(()));
    assert_eq!(copy((&from, 0), (&file, 4098), 20 * P), Ok(65_536));
}
