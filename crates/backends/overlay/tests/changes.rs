// SPDX-License-Identifier: MIT OR Apache-2.0
//! The changes that the upper tree holds.

mod common;

use common::{Stack, mkdir, put, task_in};
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::{Errno, TimeSet, mode};
use openpath_overlay::{ChangeKind, OverlayFs, OverlayOptions};
use openpath_vfs::SuperBlock;

fn told(tree: &SuperBlock) -> Vec<(String, ChangeKind)> {
    let changes = OverlayFs::changes(tree, 100).expect("changes");
    let told = changes.into_iter().map(|change| {
        let path = String::from_utf8(change.path).expect("text");
        (path, change.kind)
    });
    told.collect()
}

/// The changes of the first test.
fn wanted() -> Vec<(String, ChangeKind)> {
    use ChangeKind::{Added, Attributes, Deleted, Modified, Renamed};
    [
        ("/d/a", Modified),
        ("/d/b", Attributes),
        ("/d/c", Deleted),
        ("/d/moved", Renamed(b"/moves".to_vec())),
        ("/d/moved/in/more", Added),
        ("/d/over", Modified),
        ("/d/same", Attributes),
        ("/d/twin", Attributes),
        ("/deep", Renamed(b"/moves/deep".to_vec())),
        ("/fifo", Added),
        ("/g", Renamed(b"/moves/g".to_vec())),
        ("/gone", Deleted),
        ("/h2", Renamed(b"/h".to_vec())),
        ("/h2", Modified),
        ("/new-again", Deleted),
        ("/new-again", Added),
        ("/new-again/x", Added),
    ]
    .map(|(path, kind)| (path.to_owned(), kind))
    .to_vec()
}

#[test]
fn each_change_is_reported_once() {
    let s = Stack::new(1);
    let below = &s.below[0];
    for dir in [
        "/d",
        "/moves",
        "/moves/in",
        "/moves/deep",
        "/gone",
        "/new-again",
    ] {
        mkdir(below, dir);
    }
    for file in [
        "/d/a",
        "/d/b",
        "/d/c",
        "/d/over",
        "/d/same",
        "/d/twin",
        "/moves/in/f",
        "/gone/f",
        "/moves/g",
        "/h",
    ] {
        put(below, file, file);
    }
    put(below, "/new-again/old", "");
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (vfs, task) = task_in(&tree);
    put(&task, "/d/a", "changed");
    task.chmod(b"/d/b", 0o600).expect("chmod");
    task.unlink(b"/d/c").expect("unlink");
    // As editors write: a new file is renamed over the old one.
    put(&task, "/d/new", "changed");
    task.rename(b"/d/new", b"/d/over").expect("rename");
    put(&task, "/d/new", "/d/twin");
    task.rename(b"/d/new", b"/d/twin").expect("rename");
    // Copied up and written with equal content.
    put(&task, "/d/same", "/d/same");
    let fd = task.open(b"/moves/in/f", openpath_abi::fcntl::O_RDWR, 0);
    task.close(fd.expect("open")).expect("close");
    task.rename(b"/moves", b"/d/moved").expect("rename");
    task.rename(b"/d/moved/g", b"/g").expect("rename");
    put(&task, "/d/moved/in/more", "");
    task.rename(b"/d/moved/deep", b"/deep").expect("rename");
    task.rename(b"/h", b"/h2").expect("rename");
    put(&task, "/h2", "changed");
    task.unlink(b"/gone/f").expect("unlink");
    task.rmdir(b"/gone").expect("rmdir");
    task.unlink(b"/new-again/old").expect("unlink");
    task.rmdir(b"/new-again").expect("rmdir");
    mkdir(&task, "/new-again");
    put(&task, "/new-again/x", "");
    task.mknod(b"/fifo", mode::S_IFIFO | 0o600, 0)
        .expect("mknod");
    assert_eq!(told(&tree), wanted());
    drop((vfs, task, tree));
    // A later overlay reports the same.
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    assert_eq!(told(&tree), wanted());
    assert_eq!(OverlayFs::changes(&tree, 5), Err(Errno::E2BIG));
    assert_eq!(OverlayFs::changes(&s.upper, 5), Err(Errno::EINVAL));
}

#[test]
fn unchanged_files_are_not_reported() {
    let s = Stack::new(1);
    mkdir(&s.below[0], "/d");
    put(&s.below[0], "/d/f", "");
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    put(&task, "/d/new", "");
    task.unlink(b"/d/new").expect("unlink");
    let fd = task.open(b"/d/f", openpath_abi::fcntl::O_RDWR, 0);
    task.close(fd.expect("open")).expect("close");
    assert_eq!(OverlayFs::changes(&tree, 10), Ok(Vec::new()));
}

#[test]
fn written_file_is_reported_although_its_time_was_set_back() {
    let s = Stack::new(1);
    put(&s.below[0], "/f", "before");
    let time = s.below[0].stat(b"/f").expect("stat").mtime;
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    put(&task, "/f", "behind");
    let times = [TimeSet::Omit, TimeSet::At(time)];
    task.utimensat(AT_FDCWD, Some(b"/f"), times, 0)
        .expect("set");
    assert_eq!(told(&tree), [("/f".to_owned(), ChangeKind::Modified)]);
}

#[test]
fn too_many_bytes_of_paths_are_refused() {
    let s = Stack::new(1);
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    let mut path = String::new();
    for _ in 0..4 {
        path += &format!("/{}", "d".repeat(200));
        mkdir(&task, &path);
    }
    // 2,010 bytes.
    assert_eq!(OverlayFs::changes(&tree, 15), Err(Errno::E2BIG));
    assert_eq!(OverlayFs::changes(&tree, 16).map(|all| all.len()), Ok(4));
}

#[test]
fn attributes_that_others_changed_beneath_a_copied_directory_are_no_change() {
    let s = Stack::new(1);
    let below = &s.below[0];
    for dir in ["/both", "/theirs", "/ours"] {
        mkdir(below, dir);
        below.chmod(dir.as_bytes(), 0o755).expect("chmod");
    }
    let options = || OverlayOptions {
        notes_taken: true,
        ..s.options()
    };
    let tree = OverlayFs::new(options()).expect("an overlay");
    let (vfs, task) = task_in(&tree);
    for dir in ["/both", "/theirs", "/ours"] {
        put(&task, &format!("{dir}/new"), "");
    }
    for dir in [&b"/both"[..], b"/ours"] {
        task.setxattr(dir, b"user.a", b"ours", 0).expect("setxattr");
    }
    drop((vfs, task, tree));
    for dir in [&b"/both"[..], b"/theirs"] {
        below.chmod(dir, 0o700).expect("chmod");
    }
    let tree = OverlayFs::new(options()).expect("an overlay");
    let (changes, sides) = OverlayFs::changes_and_sides(&tree, 100).expect("changes");
    let attributes = changes.iter();
    let attributes = attributes.filter(|change| change.kind == ChangeKind::Attributes);
    let attributes: Vec<_> = attributes.map(|change| &change.path[..]).collect();
    assert_eq!(attributes, [&b"/both"[..], b"/ours"]);
    let of = |path: &str| sides.get(path.as_bytes()).map(|s| (s.upper, s.lower));
    let all = ["", "/both", "/theirs", "/ours"].map(of);
    let want = [(false, false), (true, true), (false, true), (true, false)];
    assert_eq!(all, want.map(Some));
}
