// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that renames of lower files and directories through an overlay show no file twice, keep
//! the content of directories, and look the same in a new overlay of the same trees.

mod common;

use common::{Stack, beneath, get, mkdir, names, put, shown, task_in};
use openpath_abi::Errno;
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::rename::{RENAME_EXCHANGE, RENAME_NOREPLACE, RENAME_WHITEOUT};
use openpath_overlay::OverlayFs;

/// Two directories with files in them, and files beside.
fn stack() -> Stack {
    let s = Stack::new(2);
    let (top, bottom) = (&s.below[0], &s.below[1]);
    for dir in ["/a", "/a/in", "/b"] {
        mkdir(bottom, dir);
    }
    mkdir(top, "/a");
    put(top, "/a/top", "a-top");
    put(bottom, "/a/bottom", "a-bottom");
    put(bottom, "/a/in/deep", "deep");
    put(bottom, "/b/f", "b-f");
    put(bottom, "/f", "f");
    put(bottom, "/g", "g");
    s
}

/// A new overlay of the same trees shows what this one showed.
fn as_before(s: &Stack, task: openpath_vfs::Task, vfs: openpath_vfs::Vfs) {
    let first = shown(&task, "/");
    drop((task, vfs));
    let (_vfs, task) = s.mount();
    assert_eq!(shown(&task, "/"), first);
    assert_eq!(beneath(&s.upper, "/work"), Vec::<String>::new());
}

#[test]
fn directory_moves_with_all_its_layers() {
    let s = stack();
    let (vfs, task) = s.mount();
    let inos = |path: &[u8]| task.stat(path).map(|st| st.ino);
    let (dir, deep) = (inos(b"/a"), inos(b"/a/in/deep"));
    put(&task, "/a/new", "new");
    task.unlink(b"/a/bottom").expect("unlink");
    task.rename(b"/a", b"/b/moved").expect("rename");
    assert_eq!(names(&task, "/b/moved"), ["in", "new", "top"]);
    assert_eq!((inos(b"/b/moved"), inos(b"/b/moved/in/deep")), (dir, deep));
    assert_eq!(task.stat(b"/a").err(), Some(Errno::ENOENT));
    // Into itself, renamed once more, and a new one in its old place.
    assert_eq!(task.rename(b"/b", b"/b/moved/x"), Err(Errno::EINVAL));
    task.rename(b"/b/moved", b"/c").expect("rename");
    mkdir(&task, "/a");
    assert_eq!(names(&task, "/a"), Vec::<String>::new());
    task.rename(b"/c/in", b"/a/in").expect("rename");
    put(&task, "/a/in/deep", "changed");
    assert_eq!(get(&task, "/a/in/deep"), Ok("changed".to_owned()));
    as_before(&s, task, vfs);
}

#[test]
fn renamed_files_replace_and_leave_whiteouts() {
    let s = stack();
    let (vfs, task) = s.mount();
    task.unlink(b"/g").expect("unlink");
    task.rename(b"/f", b"/g").expect("rename");
    assert_eq!(get(&task, "/g"), Ok("f".to_owned()));
    task.rename(b"/g", b"/b/f").expect("rename");
    assert_eq!(get(&task, "/b/f"), Ok("f".to_owned()));
    task.rename(b"/b/f", b"/new").expect("rename");
    assert_eq!(names(&task, "/"), ["a", "b", "new"]);
    // A file that no lower tree has leaves nothing, over a whiteout or not.
    task.rename(b"/new", b"/f").expect("rename");
    assert_eq!(names(&task, "/"), ["a", "b", "f"]);
    assert_eq!(task.rename(b"/f", b"/newer"), Ok(()));
    let all = beneath(&s.upper, "/upper");
    assert_eq!(
        all,
        ["b", "f", "g", "newer"],
        "whiteouts of what is beneath"
    );
    as_before(&s, task, vfs);
}

#[test]
fn exchange_swaps_files_and_directories() {
    let s = stack();
    let (vfs, task) = s.mount();
    let swap = |a: &[u8], b: &[u8]| task.renameat2(AT_FDCWD, a, AT_FDCWD, b, RENAME_EXCHANGE);
    swap(b"/a", b"/f").expect("a directory and a file");
    assert_eq!(names(&task, "/f"), ["bottom", "in", "top"]);
    assert_eq!(get(&task, "/a"), Ok("f".to_owned()));
    swap(b"/f", b"/b").expect("two directories");
    assert_eq!(names(&task, "/b"), ["bottom", "in", "top"]);
    assert_eq!(names(&task, "/f"), ["f"]);
    mkdir(&task, "/new");
    swap(b"/new", b"/b").expect("one of which is new");
    assert_eq!(names(&task, "/b"), Vec::<String>::new());
    as_before(&s, task, vfs);
}

#[test]
fn rename_flags_and_path_limit_hold() {
    let s = stack();
    let (_vfs, task) = s.mount();
    let how = |flags| task.renameat2(AT_FDCWD, b"/f", AT_FDCWD, b"/g", flags);
    assert_eq!(how(RENAME_NOREPLACE), Err(Errno::EEXIST));
    assert_eq!(how(RENAME_WHITEOUT), Err(Errno::EINVAL));
    assert_eq!(
        task.mknod(b"/w", openpath_abi::mode::S_IFCHR, 0),
        Err(Errno::EPERM)
    );
    let options = stack().options().redirects(false);
    let (_vfs, task) = task_in(&OverlayFs::new(options).expect("an overlay"));
    assert_eq!(task.rename(b"/a", b"/c"), Err(Errno::EXDEV));
    mkdir(&task, "/d");
    task.rename(b"/d", b"/c").expect("a new one moves");
}
