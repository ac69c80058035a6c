// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that trees deeper than a path can be long, and deeper than a recursive walk has stack for,
//! are committed, undone and discarded.

use super::{Scene, StopAfter, put, remove};
use crate::inspect::Inspect;
use openpath_abi::fcntl::{O_CREAT, O_DIRECTORY, O_PATH, O_WRONLY};
use openpath_commit::{Committed, Side, discard, undo};
use openpath_vfs::Task;
use rustix::fd::OwnedFd;
use rustix::fs::{CWD, Mode, OFlags};
use std::ffi::OsStr;
use std::path::Path;

/// Makes `depth` directories of this name, each in the one before, and a file in the last.
fn dig(task: &Task, top: &[u8], name: &[u8], depth: usize) {
    task.mkdir(top, 0o755).unwrap();
    let mut dir = task.open(top, O_PATH | O_DIRECTORY, 0).unwrap();
    for _ in 0..depth {
        task.mkdirat(dir, name, 0o755).unwrap();
        let below = task.openat(dir, name, O_PATH | O_DIRECTORY, 0).unwrap();
        task.close(dir).unwrap();
        dir = below;
    }
    let fd = task
        .openat(dir, b"file", O_CREAT | O_WRONLY, 0o644)
        .unwrap();
    task.write(fd, b"deep").unwrap();
    task.close(fd).unwrap();
    task.close(dir).unwrap();
}

/// The file that `dig` made, if it is there.
fn dug(top: &Path, name: &[u8], depth: usize) -> Option<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW;
    let mut dir = rustix::fs::openat(CWD, top, flags, Mode::empty()).ok()?;
    for _ in 0..depth {
        dir = rustix::fs::openat(&dir, name, flags, Mode::empty()).ok()?;
    }
    rustix::fs::openat(&dir, "file", flags, Mode::empty()).ok()
}

fn committed_and_discarded(name: &[u8], depth: usize) {
    let scene = Scene::new(&format!("deep-{depth}"));
    scene.write("realfile", "base");
    let top = scene.base("top");
    scene.view(|task| {
        dig(task, &scene.at("top"), name, depth);
        put(task, &scene.at("realfile"), "view").unwrap();
    });
    let inspect = Inspect::open(&scene.kept()).unwrap();
    let changes = inspect.changes(&mut StopAfter(u64::MAX)).unwrap();
    assert_eq!(changes.len(), depth + 3);
    let last = changes
        .iter()
        .find(|change| change.path.bytes().ends_with(b"/file"));
    let last = last.unwrap();
    assert_eq!(last.size, 4);
    let data = inspect.data(Side::View, &last.path, 9).unwrap();
    assert_eq!(data.as_deref(), Some(&b"deep"[..]));
    drop(inspect);
    assert_eq!(scene.commit(&["realfile"]), []);
    assert!(dug(&top, name, depth).is_none());
    assert_eq!(scene.commit(&[]), []);
    assert!(dug(&top, name, depth).is_some());
    let undone = undo(&scene.kept(), false, &mut StopAfter(u64::MAX)).unwrap();
    assert_eq!(undone.conflicts, []);
    assert!(!top.exists());
    assert_eq!(scene.kept().committed().unwrap(), Committed::No);
    discard(&scene.kept().name, &mut || {}).unwrap();
    assert!(!scene.view.exists());
}

#[test]
fn deep_view_longer_than_path_max_is_committed_undone_and_discarded() {
    committed_and_discarded(&[b'x'; 200], 30);
}

#[test]
fn deep_view_is_committed_undone_and_discarded() {
    committed_and_discarded(b"d", 300);
}

#[test]
#[ignore = "slow: 4 s"]
fn very_deep_view_is_committed_undone_and_discarded() {
    committed_and_discarded(b"d", 2000);
}

#[test]
#[ignore = "slow: 5 s"]
fn tree_of_ten_thousand_levels_without_permissions_is_removed() {
    let scene = Scene::new("levels");
    let mut dir = rustix::fs::open(scene.base(""), OFlags::PATH, Mode::empty()).unwrap();
    for level in 0..10_000 {
        rustix::fs::mkdirat(&dir, "d", Mode::from_raw_mode(0o700)).unwrap();
        let below = rustix::fs::openat(&dir, "d", OFlags::PATH, Mode::empty()).unwrap();
        if level % 3 == 0 {
            rustix::fs::symlinkat("/", &below, "link").unwrap();
        }
        if level % 1000 == 7 {
            use std::os::fd::AsRawFd as _;
            let path = format!("/proc/self/fd/{}", dir.as_raw_fd());
            rustix::fs::chmod(path, Mode::empty()).unwrap();
        }
        dir = below;
    }
    drop(dir);
    remove(&scene.base(""), OsStr::new("d")).unwrap();
    assert!(!scene.base("d").exists());
    // A missing name is no error.
    remove(&scene.base(""), OsStr::new("d")).unwrap();
}
