// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a dropped ring leaves no thread and no descriptor behind. It is alone in its process,
//! since it counts descriptors.

use openpath_uring::KernelRing;
use std::fs::File;
use std::sync::Arc;

#[test]
fn dropped_ring_leaves_no_thread_or_descriptor() {
    let count = |what: &str| std::fs::read_dir(what).map(Iterator::count).ok();
    let file = Arc::new(File::open("/proc/self/exe").expect("a file"));
    let before = ["/proc/self/fd", "/proc/self/task"].map(count);
    for _ in 0..20 {
        let Ok(ring) = KernelRing::new(8, "test-uring") else {
            return eprintln!("skipped: no io_uring here");
        };
        let unused = ring.reserve(Arc::clone(&file));
        assert!(unused.is_some());
        drop(unused);
        drop(ring);
        assert_eq!(count("/proc/self/fd"), before[0]);
    }
    // A joined thread may be listed for a moment longer.
    while count("/proc/self/task") != before[1] {
        std::thread::yield_now();
    }
}
