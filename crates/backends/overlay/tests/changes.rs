// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that `OverlayFs::changes` reports each change that the upper tree of an overlay holds
//! once, with the number of names that it deletes, and no unchanged file.

mod common;

use common::{Stack, mkdir, put, task_in};
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::{AtFlags, Errno, TimeSet, XattrFlags, mode};
use openpath_overlay::{ChangeKind, OverlayFs};
use openpath_vfs::{SuperBlock, Task};

fn told(tree: &SuperBlock) -> Vec<(String, ChangeKind)> {
    let changes = OverlayFs::changes(tree, 100).expect("changes");
    let told = changes.all().into_iter().map(|change| {
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
        ("/new-again/old", Deleted),
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
    assert_eq!(OverlayFs::changes(&tree, 5).err(), Some(Errno::E2BIG));
    assert_eq!(OverlayFs::changes(&s.upper, 5).err(), Some(Errno::EINVAL));
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
    assert_eq!(told(&tree), []);
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
    task.utimensat(AT_FDCWD, Some(b"/f"), times, AtFlags::empty())
        .expect("set");
    assert_eq!(told(&tree), [("/f".to_owned(), ChangeKind::Modified)]);
}

/// Comparing them byte by byte would take a day.
#[test]
fn holes_of_large_files_are_not_compared() {
    let s = Stack::new(1);
    let (lower, end) = (&s.below[0], 1 << 46);
    for file in ["/f", "/g"] {
        put(lower, file, "data");
        lower.truncate(file.as_bytes(), end).expect("truncate");
    }
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    task.chmod(b"/f", 0o600).expect("chmod");
    let fd = task.open(b"/g", openpath_abi::fcntl::O_RDWR, 0);
    let fd = fd.expect("open");
    task.pwrite(fd, b"x", end - 1).expect("write");
    task.close(fd).expect("close");
    let wanted = [("/f", ChangeKind::Attributes), ("/g", ChangeKind::Modified)];
    assert_eq!(
        told(&tree),
        wanted.map(|(path, kind)| (path.to_owned(), kind))
    );
}

#[test]
fn too_many_bytes_of_names_are_refused() {
    let s = Stack::new(1);
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    let mut path = String::new();
    for _ in 0..4 {
        path += &format!("/{}", "d".repeat(200));
        mkdir(&task, &path);
    }
    // Names of 800 bytes, whatever the 2,010 bytes of their paths.
    assert_eq!(OverlayFs::changes(&tree, 6).err(), Some(Errno::E2BIG));
    let found = OverlayFs::changes(&tree, 7).map(|found| found.all().len());
    assert_eq!(found, Ok(4));
}

/// All changes, with how many names went with each.
fn counted(tree: &SuperBlock) -> Vec<(String, ChangeKind, u64)> {
    let changes = OverlayFs::changes(tree, 100).expect("changes").all();
    let told = changes.into_iter().map(|change| {
        let path = String::from_utf8(change.path).expect("text");
        (path, change.kind, change.below)
    });
    told.collect()
}

fn wants(tree: &SuperBlock, wanted: &[(&str, ChangeKind, u64)]) {
    let wanted = wanted.iter();
    let wanted: Vec<_> = wanted
        .map(|(path, kind, below)| ((*path).to_owned(), kind.clone(), *below))
        .collect();
    assert_eq!(counted(tree), wanted);
}

/// `/src` with `1`, `2`, `3`, `deep/z` and `same/in/y`.
fn source() -> Stack {
    let s = Stack::new(1);
    let below = &s.below[0];
    for dir in ["/src", "/src/deep", "/src/same", "/src/same/in"] {
        mkdir(below, dir);
    }
    for file in [
        "/src/1",
        "/src/2",
        "/src/3",
        "/src/deep/z",
        "/src/same/in/y",
    ] {
        put(below, file, file);
    }
    s
}

fn clear_source(task: &openpath_vfs::Task) {
    for file in [
        "/src/1",
        "/src/2",
        "/src/3",
        "/src/deep/z",
        "/src/same/in/y",
    ] {
        task.unlink(file.as_bytes()).expect("unlink");
    }
    for dir in ["/src/same/in", "/src/same", "/src/deep", "/src"] {
        task.rmdir(dir.as_bytes()).expect("rmdir");
    }
}

#[test]
fn names_that_a_replaced_directory_hides_are_deletions() {
    use ChangeKind::{Added, Attributes, Deleted, Modified};
    let s = source();
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    clear_source(&task);
    mkdir(&task, "/src");
    put(&task, "/src/1", "other");
    put(&task, "/src/3", "/src/3");
    put(&task, "/src/4", "");
    mkdir(&task, "/src/same");
    mkdir(&task, "/src/same/in");
    wants(
        &tree,
        &[
            ("/src", Deleted, 0),
            ("/src", Added, 0),
            ("/src/1", Modified, 0),
            ("/src/2", Deleted, 0),
            // A copy, which a commit brings as well.
            ("/src/3", Attributes, 0),
            ("/src/4", Added, 0),
            ("/src/deep", Deleted, 1),
            ("/src/same/in/y", Deleted, 0),
        ],
    );
}

#[test]
fn names_of_a_deleted_directory_are_counted() {
    use ChangeKind::{Added, Deleted, Renamed};
    let s = source();
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    // Neither goes with the directory.
    task.rename(b"/src/same", b"/same").expect("rename");
    mkdir(&task, "/src/new");
    task.rmdir(b"/src/new").expect("rmdir");
    for file in ["/src/1", "/src/2", "/src/3", "/src/deep/z"] {
        task.unlink(file.as_bytes()).expect("unlink");
    }
    for dir in ["/src/deep", "/src"] {
        task.rmdir(dir.as_bytes()).expect("rmdir");
    }
    let same = ("/same", Renamed(b"/src/same".to_vec()), 0);
    wants(&tree, &[same.clone(), ("/src", Deleted, 5)]);
    // A file in its place.
    put(&task, "/src", "");
    wants(&tree, &[same, ("/src", Deleted, 5), ("/src", Added, 5)]);
}

#[test]
fn names_that_a_renamed_directory_hides_are_deletions() {
    use ChangeKind::{Deleted, Modified, Renamed};
    let s = source();
    mkdir(&s.below[0], "/new");
    mkdir(&s.below[0], "/new/same");
    for file in ["/new/1", "/new/3"] {
        put(&s.below[0], file, file);
    }
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    clear_source(&task);
    task.rename(b"/new", b"/src").expect("rename");
    put(&task, "/src/3", "other");
    wants(
        &tree,
        &[
            ("/src", Deleted, 0),
            ("/src", Renamed(b"/new".to_vec()), 0),
            ("/src/2", Deleted, 0),
            ("/src/3", Modified, 0),
            ("/src/deep", Deleted, 1),
            ("/src/same/in", Deleted, 1),
        ],
    );
}

#[test]
fn directory_of_the_root_that_moves_into_a_new_one_is_renamed() {
    use ChangeKind::{Added, Renamed};
    let s = source();
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    mkdir(&task, "/new");
    task.rename(b"/src", b"/new/src").expect("rename");
    let src = Renamed(b"/src".to_vec());
    wants(&tree, &[("/new", Added, 0), ("/new/src", src, 0)]);
}

#[test]
fn attributes_that_others_changed_beneath_a_copied_directory_are_no_change() {
    let s = Stack::new(1);
    let below = &s.below[0];
    for dir in ["/both", "/theirs", "/ours"] {
        mkdir(below, dir);
        below.chmod(dir.as_bytes(), 0o755).expect("chmod");
    }
    let options = || s.options().records_taken(true);
    let tree = OverlayFs::new(options()).expect("an overlay");
    let (vfs, task) = task_in(&tree);
    for dir in ["/both", "/theirs", "/ours"] {
        put(&task, &format!("{dir}/new"), "");
    }
    for dir in [&b"/both"[..], b"/ours"] {
        task.setxattr(dir, b"user.a", b"ours", XattrFlags::empty())
            .expect("setxattr");
    }
    drop((vfs, task, tree));
    for dir in [&b"/both"[..], b"/theirs"] {
        below.chmod(dir, 0o700).expect("chmod");
    }
    let tree = OverlayFs::new(options()).expect("an overlay");
    let (changes, sides) = OverlayFs::changes_and_sides(&tree, 100, &mut || {}).expect("changes");
    let changes = changes.all();
    let attributes = changes.iter();
    let attributes = attributes.filter(|change| change.kind == ChangeKind::Attributes);
    let attributes: Vec<_> = attributes.map(|change| &change.path[..]).collect();
    assert_eq!(attributes, [&b"/both"[..], b"/ours"]);
    let of = |path: &str| sides.get(path.as_bytes()).map(|s| (s.upper, s.lower));
    let all = ["", "/both", "/theirs", "/ours"].map(of);
    let want = [(false, false), (true, true), (false, true), (true, false)];
    assert_eq!(all, want.map(Some));
}

/// The mark `origin` of the kernel's overlay, with the handle of a file on ext4.
fn origin(inode: u64) -> Vec<u8> {
    let inode = u32::try_from(inode).expect("a small number");
    let handle = [inode.to_ne_bytes(), [0; 4]].concat();
    [&[0, 0xfb, 29, 0, 1][..], &[0; 16], &handle].concat()
}

/// An upper tree as the kernel leaves it after renames of `/old`.
#[test]
fn copy_by_the_kernel_is_a_renamed_file_only_if_no_other_is_possible() {
    use ChangeKind::{Added, Deleted, Renamed};
    let doubt = [("/new", Added), ("/old", Deleted)];
    let cases = [
        ("", vec![("/new", Renamed(b"/old".to_vec()))]),
        ("pure", doubt.to_vec()),
        ("link", doubt.to_vec()),
        ("younger", doubt.to_vec()),
        ("twice", [vec![("/more", Added)], doubt.to_vec()].concat()),
        ("other", doubt.to_vec()),
    ];
    for (case, wanted) in cases {
        let s = Stack::new(1);
        let (_vfs, upper) = task_in(&s.upper);
        mkdir(&upper, "/upper");
        let make = |below: &Task| put(below, "/old", "text");
        let copy_mark = |path: &str, inode| {
            let (path, mark) = (format!("/upper{path}"), b"user.overlay.origin");
            let set = upper.setxattr(path.as_bytes(), mark, &origin(inode), XattrFlags::empty());
            set.expect("setxattr");
        };
        let copy = |path: &str, inode| {
            put(&upper, &format!("/upper{path}"), "text");
            copy_mark(path, inode);
        };
        let below = &s.below[0];
        make(below);
        let mut inode = below.stat(b"/old").expect("stat").ino;
        match case {
            "link" => below.link(b"/old", b"/linked").expect("link"),
            "other" => inode += 1,
            _ => {}
        }
        copy("/new", inode);
        match case {
            "twice" => copy("/more", inode),
            "younger" => {
                // The file of the handle is gone, and another one has its number.
                below.unlink(b"/old").expect("unlink");
                make(below);
                copy_mark("/new", below.stat(b"/old").expect("stat").ino);
            }
            _ => {}
        }
        upper
            .mknod(b"/upper/old", mode::S_IFCHR, 0)
            .expect("a whiteout");
        if case != "pure" {
            let set = upper.setxattr(b"/upper", b"user.overlay.impure", b"y", XattrFlags::empty());
            set.expect("setxattr");
        }
        let tree = OverlayFs::new(s.options()).expect("an overlay");
        let wanted = wanted
            .into_iter()
            .map(|(path, kind)| (path.to_owned(), kind));
        assert_eq!(told(&tree), wanted.collect::<Vec<_>>(), "{case}");
    }
}
