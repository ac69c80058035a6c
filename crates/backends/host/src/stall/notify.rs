// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that under [`Policy::Notify`] a change by another program is not seen before its event is
//! processed, and is seen afterwards, even if the host lost events. The gate stops the thread of
//! the watches at its first look.

use super::{Gate, QUICK_FILES, TestDir, opens};
use crate::options::{HostOptions, Policy};
use crate::superblock::HostFs;
use openpath_abi::Errno;
use openpath_abi::fcntl::O_RDONLY;
use openpath_vfs::{Cred, SuperBlock, Task, Vfs};
use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

fn world(dir: &TestDir) -> (Arc<SuperBlock>, Vfs, Task) {
    let options = HostOptions {
        policy: Policy::Notify,
        ..HostOptions::default()
    };
    let tree = HostFs::open(&dir.0, options).expect("a tree");
    let vfs = Vfs::builder().build(Arc::clone(&tree)).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    (tree, vfs, task)
}

fn size(task: &Task, path: &str) -> Result<i64, Errno> {
    task.stat(path.as_bytes()).map(|stat| stat.size)
}

#[test]
fn change_by_others_is_seen_once_its_event_is_processed() {
    let dir = TestDir::new("window");
    let (tree, _vfs, task) = world(&dir);
    assert_eq!(size(&task, "/slow/f0"), Ok(1));
    assert_eq!(size(&task, "/slow/f1"), Ok(1));
    assert_eq!(size(&task, "/slow/new"), Err(Errno::ENOENT));
    HostFs::catch_up(&tree);
    let gate = Gate::shut(dir.at("slow"));
    std::fs::write(dir.at("slow/new"), "new").expect("a file");
    std::fs::write(dir.at("slow/f0"), "longer").expect("a file");
    std::fs::remove_file(dir.at("slow/f1")).expect("removed");
    // The host has queued the event, and the thread is about to look.
    gate.await_waiting(1);
    for _ in 0..3 {
        assert_eq!(size(&task, "/slow/f0"), Ok(1));
        assert_eq!(size(&task, "/slow/f1"), Ok(1));
        assert_eq!(size(&task, "/slow/new"), Err(Errno::ENOENT));
    }
    drop(gate);
    HostFs::catch_up(&tree);
    assert_eq!(size(&task, "/slow/f0"), Ok(6));
    assert_eq!(size(&task, "/slow/f1"), Err(Errno::ENOENT));
    assert_eq!(size(&task, "/slow/new"), Ok(3));
}

#[test]
fn lost_events_drop_the_whole_cache() {
    let dir = TestDir::new("overflow");
    let (tree, vfs, task) = world(&dir);
    let mode = |name: &str, bits| set_permissions(dir.at(name), Permissions::from_mode(bits));
    mode("", 0o755).expect("chmod");
    mode("quick", 0o755).expect("chmod");
    mode("quick/f0", 0o644).expect("chmod");
    let user = vfs.task(Cred::user(1000, 1000, &[])).expect("a task");
    for n in 0..QUICK_FILES {
        assert_eq!(size(&task, &format!("/quick/f{n}")), Ok(1));
        assert_eq!(size(&task, &format!("/quick/new{n}")), Err(Errno::ENOENT));
    }
    assert_eq!(size(&task, "/slow/f0"), Ok(1));
    HostFs::catch_up(&tree);
    opens(&user, "/quick/f0", O_RDONLY).expect("allowed");

    let gate = Gate::shut(dir.at("slow"));
    mode("slow/f0", 0o600).expect("chmod");
    gate.await_waiting(1);
    // Events that are not alike, until the host's queue is full.
    let most = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events");
    let most: usize = most.expect("a bound").trim().parse().expect("a number");
    for n in 0..=most {
        mode(&format!("slow/f{}", n % 2), 0o600).expect("chmod");
    }
    // From here on changes raise no event.
    for n in 0..QUICK_FILES {
        std::fs::write(dir.at(&format!("quick/new{n}")), "new").expect("a file");
        if n % 2 == 0 {
            std::fs::write(dir.at(&format!("quick/f{n}")), "longer").expect("a file");
        } else {
            std::fs::remove_file(dir.at(&format!("quick/f{n}"))).expect("removed");
        }
    }
    mode("quick", 0o700).expect("chmod");
    assert_eq!(size(&task, "/quick/new0"), Err(Errno::ENOENT));
    opens(&user, "/quick/f0", O_RDONLY).expect("not told of");
    drop(gate);
    HostFs::catch_up(&tree);
    assert_eq!(opens(&user, "/quick/f0", O_RDONLY), Err(Errno::EACCES));
    for n in 0..QUICK_FILES {
        assert_eq!(size(&task, &format!("/quick/new{n}")), Ok(3));
        let changed = if n % 2 == 0 {
            Ok(6)
        } else {
            Err(Errno::ENOENT)
        };
        assert_eq!(size(&task, &format!("/quick/f{n}")), changed);
    }
}
