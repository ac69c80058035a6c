// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that in an overlay with the option `null_devices` the character devices 0:0 that guests
//! make, by mknod(2) or `RENAME_WHITEOUT`, are files like others. So guests can mount an overlay
//! inside it.

mod common;

use common::{Stack, beneath, get, inode, mkdir, names, put, shown};
use openpath_abi::fcntl::AT_FDCWD;
use openpath_abi::mode::{S_IFCHR, S_ISVTX};
use openpath_abi::rename::RENAME_WHITEOUT;
use openpath_abi::{Errno, mode};
use openpath_overlay::{ChangeKind, OverlayFs};
use openpath_vfs::{Task, Vfs};

/// A lower tree with two files and a directory.
fn stack() -> Stack {
    let s = Stack::new(1);
    put(&s.below[0], "/f", "f");
    put(&s.below[0], "/g", "g");
    mkdir(&s.below[0], "/d");
    put(&s.below[0], "/d/in", "in");
    s
}

/// The overlay of `stack`, in which devices 0:0 are files.
fn mount(s: &Stack) -> (Vfs, Task) {
    let options = s.options().null_devices(true);
    common::task_in(&OverlayFs::new(options).expect("an overlay"))
}

/// Mode and device number of a file.
fn look(task: &Task, path: &[u8]) -> Result<(u32, u64), Errno> {
    task.lstat(path).map(|stat| (stat.mode, stat.rdev))
}

fn leave_whiteout(task: &Task, old: &[u8], new: &[u8]) {
    let done = task.renameat2(AT_FDCWD, old, AT_FDCWD, new, RENAME_WHITEOUT);
    assert_eq!(done, Ok(()), "{}", old.escape_ascii());
}

const DEVICE: Result<(u32, u64), Errno> = Ok((S_IFCHR, 0));

#[test]
fn rename_whiteout_is_a_visible_device() {
    let s = stack();
    let (vfs, task) = mount(&s);
    put(&task, "/new", "new");
    put(&task, "/newer", "newer");
    task.unlink(b"/g").expect("unlink");
    leave_whiteout(&task, b"/new", b"/absent");
    leave_whiteout(&task, b"/newer", b"/absent");
    leave_whiteout(&task, b"/absent", b"/f");
    leave_whiteout(&task, b"/f", b"/g");
    leave_whiteout(&task, b"/d", b"/moved");
    assert_eq!(get(&task, "/g"), Ok("newer".to_owned()));
    assert_eq!(get(&task, "/moved/in"), Ok("in".to_owned()));
    let before = shown(&task, "/");
    drop((task, vfs));
    let (_vfs, task) = mount(&s);
    assert_eq!(shown(&task, "/"), before);
    assert_eq!(beneath(&s.upper, "/work"), Vec::<String>::new());
    for name in ["/new", "/newer", "/absent", "/f", "/d"] {
        assert_eq!(look(&task, name.as_bytes()), DEVICE, "{name}");
        task.unlink(name.as_bytes()).expect("unlink");
    }
    assert_eq!(names(&task, "/"), ["g", "moved"]);
    // They hide lower files as any file would, and so do whiteouts in their place.
    assert_eq!(beneath(&s.upper, "/upper"), ["d", "f", "g", "moved"]);
}

#[test]
fn device_is_a_file_with_a_mode_and_an_owner_and_without_a_sticky_bit() {
    let s = stack();
    let (vfs, task) = mount(&s);
    assert_eq!(task.mknod(b"/w", S_IFCHR | 0o640, 0), Ok(()));
    assert_eq!(look(&task, b"/w"), Ok((S_IFCHR | 0o640, 0)));
    task.unlink(b"/f").expect("unlink");
    task.mknod(b"/f", S_IFCHR, 0)
        .expect("where a file was hidden");
    task.chmod(b"/w", 0o600 | S_ISVTX).expect("chmod");
    assert_eq!(look(&task, b"/w"), Ok((S_IFCHR | 0o600, 0)));
    task.chown(b"/w", 7, 8).expect("chown");
    task.link(b"/w", b"/second").expect("link");
    task.rename(b"/w", b"/d/w").expect("rename");
    drop((task, vfs));
    let (_vfs, task) = mount(&s);
    assert_eq!(names(&task, "/"), ["d", "f", "g", "second"]);
    assert_eq!(names(&task, "/d"), ["in", "w"]);
    assert_eq!(look(&task, b"/d/w"), Ok((S_IFCHR | 0o600, 0)));
    let stat = task.stat(b"/second").expect("stat");
    assert_eq!((stat.uid, stat.gid, stat.nlink), (7, 8, 2));
    assert_eq!(task.rmdir(b"/d"), Err(Errno::ENOTEMPTY));
    let stored = inode(&s.upper, "/upper/d/w").mode();
    assert_eq!(stored & mode::S_ISVTX, S_ISVTX);
}

#[test]
fn device_of_a_lower_tree_is_a_file_or_a_whiteout() {
    let s = stack();
    for dir in ["", "/d"] {
        let name = format!("{dir}/w");
        let made = s.below[0].mknod(name.as_bytes(), S_IFCHR | 0o600, 0);
        assert_eq!(made, Ok(()));
    }
    let (vfs, task) = s.mount();
    assert_eq!(look(&task, b"/w"), Err(Errno::ENOENT));
    assert_eq!(names(&task, "/d"), ["in"]);
    drop((task, vfs));
    let mut options = s.options();
    options.null_devices = true;
    let tree = OverlayFs::new(options.clone()).expect("an overlay");
    let (vfs, task) = common::task_in(&tree);
    assert_eq!(names(&task, "/"), ["d", "f", "g", "w"]);
    assert_eq!(names(&task, "/d"), ["in", "w"]);
    assert_eq!(look(&task, b"/d/w"), Ok((S_IFCHR | 0o600, 0)));
    // Copied up it stays a file, and is no change.
    task.chmod(b"/d/w", 0o640).expect("chmod");
    task.chmod(b"/d/w", 0o600).expect("chmod");
    task.unlink(b"/w").expect("unlink");
    let changes = OverlayFs::changes(&tree, 10).expect("changes").all();
    let changes: Vec<_> = changes.iter().map(|c| (&c.path[..], &c.kind)).collect();
    assert_eq!(changes, [(&b"/w"[..], &ChangeKind::Deleted)]);
    task.unlink(b"/d/in").expect("unlink");
    task.rename(b"/d", b"/e").expect("rename");
    drop((task, vfs, tree));
    let (_vfs, task) = common::task_in(&OverlayFs::new(options).expect("an overlay"));
    assert_eq!(names(&task, "/"), ["e", "f", "g"]);
    assert_eq!(names(&task, "/e"), ["w"]);
    assert_eq!(task.rmdir(b"/e"), Err(Errno::ENOTEMPTY));
}

#[test]
fn whiteout_made_in_its_place_hides_as_a_staged_one() {
    for direct in [false, true] {
        let s = stack();
        let options = s.options().null_devices(true).direct_whiteouts(direct);
        let mounted = || common::task_in(&OverlayFs::new(options.clone()).expect("an overlay"));
        let (vfs, task) = mounted();
        for name in ["/f", "/d/in"] {
            task.unlink(name.as_bytes()).expect("unlink");
            assert_eq!(get(&task, name), Err(Errno::ENOENT), "{name}");
            assert_eq!(beneath(&s.upper, "/work"), Vec::<String>::new());
        }
        task.rmdir(b"/d").expect("rmdir");
        put(&task, "/f", "again");
        // One that was changed first is replaced by a staged one.
        put(&task, "/g", "changed");
        task.unlink(b"/g").expect("unlink");
        drop((task, vfs));
        let (_vfs, task) = mounted();
        assert_eq!(names(&task, "/"), ["f"]);
        assert_eq!(get(&task, "/f"), Ok("again".to_owned()));
        assert_eq!(beneath(&s.upper, "/upper"), ["d", "f", "g"]);
        assert_eq!(beneath(&s.upper, "/work"), Vec::<String>::new());
    }
}
