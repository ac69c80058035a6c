// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an open breaks a lease on a file of an overlay, and none on the file beneath.

mod common;

use common::Stack;
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_CREAT, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY};
use openpath_abi::lock::{F_RDLCK, F_SETLEASE};

#[test]
fn lease_on_the_overlay_is_broken_and_one_beneath_is_not() {
    let stack = Stack::new(1);
    let below = &stack.below[0];
    let made = below.open(b"/f", O_CREAT | O_RDWR, 0o666).expect("a file");
    below.close(made).expect("closed");
    let fd = below.open(b"/f", O_RDONLY, 0).expect("open");
    below
        .fcntl(fd, F_SETLEASE, F_RDLCK as u64)
        .expect("a lease");
    let (vfs, above) = stack.mount();
    let flags = O_WRONLY | O_NONBLOCK;
    let written = above.open(b"/f", flags, 0).expect("nobody is asked");
    above.close(written).expect("closed");
    let fd = above.open(b"/f", O_RDONLY, 0).expect("open");
    above
        .fcntl(fd, F_SETLEASE, F_RDLCK as u64)
        .expect("a lease");
    assert_eq!(above.open(b"/f", flags, 0), Err(Errno::EAGAIN));
    assert!(vfs.leases().iter().all(|lease| lease.breaking));
}
