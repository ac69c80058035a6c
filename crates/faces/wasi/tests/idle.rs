// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an idle guest takes at most 15 KiB: the growth of this process, divided by thousands
//! of guests.

use openpath_abi::fcntl::{O_CREAT, O_DIRECTORY, O_RDONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_overlay::{OverlayFs, OverlayOptions};
use openpath_vfs::{Cred, SuperBlock, TenantLimits, Vfs};
use openpath_wasi::{Guest, OpenpathWasi};
use std::sync::Arc;

const GUESTS: usize = 4000;
const BUDGET: TenantLimits = TenantLimits::new()
    .positive_max(4096)
    .negative_max(1024)
    .bytes_max(1 << 20)
    .inodes_max(256)
    .locks_max(256);

/// An image with one file and two mount points.
fn image() -> Arc<SuperBlock> {
    let image = MemFs::new(MemOptions::default());
    let vfs = Vfs::builder().build(image.clone()).expect("a Vfs");
    let maker = vfs.task(Cred::root()).expect("a task");
    for dir in [b"/dir".as_slice(), b"/own"] {
        maker.mkdir(dir, 0o755).expect("a directory");
    }
    let fd = maker.open(b"/dir/file", O_CREAT, 0o644).expect("a file");
    maker.close(fd).expect("close");
    image
}

/// A guest with `private` mounted at `/own` and `root` preopened, which has used the file once.
fn guest(vfs: &Vfs, private: Arc<SuperBlock>, root: &str) -> Guest {
    let task = vfs.task(Cred::root()).expect("a task");
    task.set_tenant(&vfs.tenant(BUDGET))
        .expect("a tenant of this Vfs");
    let guest = OpenpathWasi::builder().task(task);
    let guest = guest.mount("/own", private).preopen("/", root);
    let guest = guest.build().expect("a guest");
    let task = guest.task();
    let dir = task.open(root.as_bytes(), O_RDONLY | O_DIRECTORY, 0);
    let dir = dir.expect("its root");
    let fd = task.beneath().openat(dir, b"dir/file", O_RDONLY, 0);
    task.close(fd.expect("the file")).expect("close");
    task.close(dir).expect("close");
    guest
}

fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("statm");
    let pages = text.split(' ').nth(1).and_then(|word| word.parse().ok());
    4096 * pages.unwrap_or(0)
}

/// The bytes that each guest takes, and the guests.
fn each(mut make: impl FnMut() -> Guest) -> (usize, Vec<Guest>) {
    let mut guests: Vec<Guest> = (0..100).map(|_| make()).collect();
    let before = resident();
    guests.extend((0..GUESTS).map(|_| make()));
    ((resident() - before) / GUESTS, guests)
}

#[test]
fn an_idle_guest_takes_at_most_15_kib() {
    let image = image();
    let vfs = Vfs::builder().build(image.clone()).expect("a Vfs");
    let (directory, _live) = each(|| guest(&vfs, MemFs::new(MemOptions::default()), "/"));
    let (overlay, _live_too) = each(|| {
        let options = OverlayOptions::default()
            .lowers(vec![image.clone()])
            .upper(Some(MemFs::new(MemOptions::default())));
        guest(&vfs, OverlayFs::new(options).expect("an overlay"), "/own")
    });
    println!("directory {directory}, overlay {overlay}");
    assert!(directory <= 10 << 10, "with a directory: {directory}");
    assert!(overlay <= 15 << 10, "with an overlay: {overlay}");
}
