// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the running kernel passes the suite on ext4 and on tmpfs. Fails without root.

#![cfg(feature = "kernel")]

use openpath_conformance::kernel::{Kernel, Place};
use openpath_conformance::{Errno, How, run, suite};
use openpath_testkit::sys;

/// openat2(2) with a null pointer.
fn null_open(dirfd: i32, how: How) -> Result<i32, Errno> {
    let fields = [how.flags, how.mode, how.resolve];
    let bytes = fields.map(u64::to_ne_bytes).concat();
    let done = sys::openat2_null(dirfd, &bytes);
    done.map(|_| 0).map_err(|why| Errno(why.raw()))
}

/// Runs on a thread of its own, with a mount namespace that ends with it.
fn ask(place: Place) {
    let asking = std::thread::spawn(move || {
        let mut kernel = Kernel::new(&place)?.with_null_open(null_open);
        Ok::<_, String>(run(&mut kernel, &suite(), ""))
    });
    let report = asking
        .join()
        .expect("a report")
        .expect("the kernel can be asked");
    println!("{}", report.text());
    assert!(report.is_clean(), "{}", report.text());
}

#[test]
#[ignore = "needs root: cargo xtask conformance"]
fn ext4() {
    ask(Place::Ext4);
}

#[test]
#[ignore = "needs root: cargo xtask conformance"]
fn tmpfs() {
    ask(Place::Tmpfs);
}
