// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that readlink, statfs, sync, getcwd, chdir and chroot answer as Linux 6.18 does on a
//! tmpfs, and that open files have their current path.

use crate::world::*;
use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_abi::mount as m;
use openpath_abi::{Errno, StatFs};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Fd, MountFlags, SuperBlock, SuperBlockOps, SuperBlockOptions, Task, Vfs};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

fn text(bytes: Result<Vec<u8>, Errno>) -> String {
    match bytes {
        Ok(bytes) => String::from_utf8(bytes).expect("text"),
        Err(errno) => errno.to_string(),
    }
}

#[test]
fn readlink_needs_a_link() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"");
    task.dir("/d", 0o755, (0, 0));
    task.link_to("/ls", "f");
    task.link_to("/long", &"a/".repeat(2000));
    let (file, place) = (task.get("/f", "RD"), task.get("/f", "PATH"));
    let (dir, link) = (task.get("/d", "RD"), task.get("/ls", "PATH|NOFOLLOW"));
    for (at, path, answer) in [
        (AT_FDCWD, "", "ENOENT"),
        (file, "", "ENOENT"),
        (place, "", "ENOENT"),
        (dir, "", "ENOENT"),
        (link, "", "f"),
        (BAD, "", "EBADF"),
        (BAD, "ls", "EBADF"),
        (AT_FDCWD, "f", "EINVAL"),
        (AT_FDCWD, "d", "EINVAL"),
        (AT_FDCWD, "ls", "f"),
        (dir, "../ls", "f"),
        (AT_FDCWD, "ls/", "ENOTDIR"),
        (AT_FDCWD, "nope", "ENOENT"),
        (link, "x", "ENOTDIR"),
    ] {
        for _ in 0..2 {
            assert_eq!(text(task.readlinkat(at, path.as_bytes())), answer, "{path}");
        }
    }
    assert_eq!(text(task.readlink(b"/long")), "a/".repeat(2000));
}

#[test]
fn statfs_reports_the_space_of_a_tree() {
    let vfs = world_of(MemOptions::default().size(1 << 20).inodes(100));
    let task = root(&vfs);
    task.data("/f", &[1; 8192]);
    let figures = task.statfs(b"/f").expect("statfs");
    let expected = StatFs {
        kind: m::TMPFS_MAGIC,
        bsize: 4096,
        blocks: 256,
        bfree: 254,
        bavail: 254,
        files: 100,
        ffree: 98,
        namelen: 255,
        frsize: 4096,
        flags: m::ST_VALID | m::ST_RELATIME,
        ..StatFs::default()
    };
    assert_eq!(figures, expected);
    let place = task.get("/f", "PATH");
    assert_eq!(task.fstatfs(place), Ok(expected));
    task.gone("/f");
    assert_eq!(
        task.statfs(b"/").map(|s| (s.bfree, s.ffree)),
        Ok((254, 98)),
        "still open"
    );
    task.close(place).expect("close");
    let left = task.statfs(b"/").map(|s| (s.bfree, s.ffree));
    assert_eq!(
        left,
        Ok((256, 99)),
        "an unlinked file frees its space at once"
    );
    assert_eq!(task.statfs(b"/nope"), Err(Errno::ENOENT));
    assert_eq!(task.statfs(b""), Err(Errno::ENOENT));
}

#[test]
fn statfs_reports_mount_flags() {
    let vfs = world();
    let task = root(&vfs);
    task.dir("/m", 0o755, (0, 0));
    let tree = MemFs::new(MemOptions::default());
    task.mount(tree, b"/m", MountFlags::NONE).expect("mount");
    let shown = || task.statfs(b"/m").map(|s| s.flags);
    assert_eq!(shown(), Ok(m::ST_VALID));
    for (flag, st) in [
        (MountFlags::READ_ONLY, m::ST_RDONLY),
        (MountFlags::NO_SUID, m::ST_NOSUID),
        (MountFlags::NO_DEV, m::ST_NODEV),
        (MountFlags::NO_EXEC, m::ST_NOEXEC),
        (MountFlags::NO_ATIME, m::ST_NOATIME),
        (MountFlags::NO_DIR_ATIME, m::ST_NODIRATIME),
        (MountFlags::REL_ATIME, m::ST_RELATIME),
        (MountFlags::NO_SYM_FOLLOW, m::ST_NOSYMFOLLOW),
    ] {
        task.remount_bind(b"/m", flag).expect("remount");
        assert_eq!(shown(), Ok(m::ST_VALID | st));
    }
    task.remount_bind(b"/m", MountFlags::NONE).expect("remount");
    task.remount_sb(b"/m", true).expect("remount");
    assert_eq!(shown(), Ok(m::ST_VALID | m::ST_RDONLY));
}

/// A tree that counts its syncs, and fails on request.
struct Counted {
    syncs: Arc<AtomicU32>,
    fails: bool,
}

impl SuperBlockOps for Counted {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Err(Errno::ENOSYS)
    }
    fn sync(&self) -> Result<(), Errno> {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        if self.fails { Err(Errno::EIO) } else { Ok(()) }
    }
}

fn counted(fails: bool) -> (Arc<SuperBlock>, Arc<AtomicU32>) {
    let syncs = Arc::new(AtomicU32::new(0));
    let ops = Box::new(Counted {
        syncs: Arc::clone(&syncs),
        fails,
    });
    let root = MemFs::new(MemOptions::default()).root().clone();
    (
        SuperBlock::new(root, ops, SuperBlockOptions::default()),
        syncs,
    )
}

#[test]
fn sync_reaches_every_tree_once() {
    let vfs = world();
    let task = root(&vfs);
    let (good, good_syncs) = counted(false);
    let (bad, bad_syncs) = counted(true);
    for (tree, at) in [(good, "/good"), (bad, "/bad")] {
        task.dir(at, 0o755, (0, 0));
        task.mount(tree, at.as_bytes(), MountFlags::default())
            .expect("mount");
    }
    task.dir("/again", 0o755, (0, 0));
    task.bind(b"/good", b"/again").expect("bind");
    task.sync();
    let count = |syncs: &AtomicU32| syncs.load(Ordering::Relaxed);
    assert_eq!((count(&good_syncs), count(&bad_syncs)), (1, 1));
    let (good, bad) = (task.get("/good", "RD"), task.get("/bad", "RD"));
    assert_eq!(
        (task.syncfs(good), task.syncfs(bad)),
        (Ok(()), Err(Errno::EIO))
    );
    assert_eq!(task.statfs(b"/good"), Err(Errno::ENOSYS));
    task.remount_sb(b"/bad", true).expect("remount");
    assert_eq!(task.syncfs(bad), Ok(()), "a read-only tree was synced");
    task.sync();
    assert_eq!((count(&good_syncs), count(&bad_syncs)), (3, 2));
}

#[test]
fn chdir_and_chroot_check_the_directory() {
    let vfs = world();
    let task = root(&vfs);
    task.data("/f", b"");
    task.link_to("/ls", "f");
    task.link_to("/ld", "d");
    task.dir("/d", 0o755, (0, 0));
    task.dir("/nox", 0o600, (0, 0));
    task.dir("/nox/in", 0o755, (0, 0));
    for (path, chdir, chroot) in [
        ("/f", "ENOTDIR", "ENOTDIR"),
        ("/nope", "ENOENT", "ENOENT"),
        ("/ls", "ENOTDIR", "ENOTDIR"),
        ("", "ENOENT", "ENOENT"),
        ("/d/", "OK", "EPERM"),
        ("/ld", "OK", "EPERM"),
        ("/nox", "EACCES", "EACCES"),
        ("/nox/in", "EACCES", "EACCES"),
    ] {
        let other = user(&vfs, 1000, &[], &[]);
        let path = path.as_bytes();
        assert_eq!(
            (say(other.chdir(path)), say(other.chroot(path))),
            (chdir.into(), chroot.into())
        );
    }
    let other = user(&vfs, 1000, &[], &[]);
    let passed = |path, names| {
        let file = task.with(path, names, |fd| task.file(fd).expect(path));
        other.install(&file, O_RDONLY).expect(path)
    };
    assert_eq!(say(other.fchdir(passed("/nox", "PATH"))), "EACCES");
    assert_eq!(say(other.fchdir(passed("/f", "RD"))), "ENOTDIR");
    assert_eq!(say(other.fchdir(passed("/d", "RD"))), "OK");
    assert_eq!(text(other.getcwd()), "/d");
    assert_eq!(say(task.chdir(b"/nox/in")), "OK");
    assert_eq!(text(task.getcwd()), "/nox/in");
    assert_eq!(say(task.stat(b"../../f")), "OK");
    let child = task.fork().expect("fork");
    child.chdir(b"..").expect("chdir");
    assert_eq!(
        (text(child.getcwd()), text(task.getcwd())),
        ("/nox".into(), "/nox/in".into())
    );
}

/// The current directory of a task.
fn here(task: &Task) -> String {
    text(task.getcwd())
}

fn dirs(task: &Task, paths: &[&str]) {
    for path in paths {
        task.dir(path, 0o755, (0, 0));
    }
}

#[test]
fn getcwd_follows_renames_and_removals() {
    let vfs = world();
    let task = root(&vfs);
    dirs(&task, &["/a", "/a/b", "/a/b/c", "/d", "/gone"]);
    assert_eq!(here(&task), "/");
    let child = task.fork().expect("fork");
    let go = |path: &str| child.chdir(path.as_bytes()).expect("chdir");
    go("/a/b");
    assert_eq!(here(&child), "/a/b");
    child.chroot(b"/a").expect("chroot");
    assert_eq!(here(&child), "/b");
    go("/b/c");
    assert_eq!(here(&child), "/b/c");
    go("/");
    assert_eq!(here(&child), "/");
    child.chroot(b"/b").expect("chroot");
    assert_eq!(here(&child), "(unreachable)/a");
    go("b/c");
    assert_eq!(here(&child), "/c");
    task.rename(b"/a/b", b"/d/e").expect("rename");
    assert_eq!(here(&child), "/c");
    task.chdir(b"/gone").expect("chdir");
    task.rmdir(b"/gone").expect("rmdir");
    assert_eq!(here(&task), "ENOENT");
    task.chdir(b"..").expect("chdir");
    assert_eq!(here(&task), "/");
}

#[test]
fn getcwd_has_a_longest_path() {
    let vfs = world();
    let task = root(&vfs);
    let step = |name: &str| {
        task.mkdir(name.as_bytes(), 0o755).expect("mkdir");
        task.chdir(name.as_bytes()).expect("chdir");
    };
    for _ in 0..16 {
        step(&"n".repeat(250));
    }
    let left = 4095 - 16 * 251 - 1;
    step(&"q".repeat(left));
    assert_eq!(here(&task).len(), 4095);
    task.chdir(b"..").expect("chdir");
    step(&"q".repeat(left + 1));
    assert_eq!(here(&task), "ENAMETOOLONG");
    let name = task.path_name(task.get(".", "RD"));
    assert_eq!(text(name), "ENAMETOOLONG");
}

#[test]
fn open_files_have_paths() {
    let vfs = world();
    let task = root(&vfs);
    dirs(&task, &["/a", "/a/b", "/x"]);
    task.data("/a/b/f", b"");
    task.link_to("/ls", "a");
    let name = |file: Fd| text(task.path_name(file));
    let file = task.get("/ls/b/f", "RD");
    assert_eq!(name(task.get("/", "RD")), "/");
    assert_eq!(name(task.get("/ls", "PATH|NOFOLLOW")), "/ls");
    assert_eq!(name(file), "/a/b/f");
    task.rename(b"/a/b", b"/x/y").expect("rename");
    task.rename(b"/x/y/f", b"/g").expect("rename");
    assert_eq!(name(file), "/g");
    task.gone("/g");
    assert_eq!(name(file), "/g (deleted)");
    let dir = task.get("/x/y", "RD");
    task.rmdir(b"/x/y").expect("rmdir");
    assert_eq!(name(dir), "/x/y (deleted)");
    let nameless = task.get("/a", "TMPFILE|RW");
    let ino = task.fstat(nameless).expect("stat").ino;
    assert_eq!(name(nameless), format!("/a/#{ino} (deleted)"));
    task.data("/a/f", b"");
    let file = task.get("/a/f", "RD");
    task.chroot(b"/a").expect("chroot");
    assert_eq!(name(file), "/f");
    assert_eq!(name(dir), "/x/y (deleted)");
}

/// A tree with a mount at `/m` and a bind of `/e/s` at `/bb`.
fn mounted() -> (Vfs, Task) {
    let vfs = world();
    let task = root(&vfs);
    dirs(&task, &["/m", "/e", "/e/s", "/e/s/t", "/bb"]);
    let tree = MemFs::new(MemOptions::default());
    task.mount(tree, b"/m", MountFlags::default())
        .expect("mount");
    dirs(&task, &["/m/x", "/m/x/y"]);
    task.bind(b"/e/s", b"/bb").expect("bind");
    (vfs, task)
}

#[test]
fn paths_of_open_files_cross_mounts() {
    let (_vfs, task) = mounted();
    let go = |path: &str| task.chdir(path.as_bytes()).expect(path);
    go("/m/x/y");
    assert_eq!(here(&task), "/m/x/y");
    task.data("file", b"");
    let (dir, file) = (task.get(".", "RD"), task.get("file", "RD"));
    assert_eq!(text(task.path_name(file)), "/m/x/y/file");
    task.umount(b"/m", m::MNT_DETACH).expect("umount");
    assert_eq!(here(&task), "(unreachable)/x/y");
    assert_eq!(text(task.path_name(dir)), "/x/y");
    assert_eq!(text(task.path_name(file)), "/x/y/file");
    go("../..");
    assert_eq!(here(&task), "(unreachable)/");
    assert_eq!(text(task.path_name(task.get(".", "RD"))), "/");
    go("/bb/t");
    assert_eq!(here(&task), "/bb/t");
    task.rename(b"/e/s/t", b"/e/t2").expect("rename");
    assert_eq!(
        here(&task),
        "(unreachable)/",
        "the directory moved out of its bind"
    );
    assert_eq!(say(task.stat(b"..")), "ENOENT");
    assert_eq!(say(task.stat(b".")), "OK");
}

#[test]
fn getcwd_returns_a_path_of_one_moment() {
    let vfs = world();
    let task = root(&vfs);
    dirs(&task, &["/a", "/a/x", "/a/x/in", "/b"]);
    let done = AtomicU32::new(0);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mover = root(&vfs);
            for _ in 0..3000 {
                mover.rename(b"/a/x", b"/b/y").expect("rename");
                mover.rename(b"/b/y", b"/a/x").expect("rename");
            }
            done.store(1, Ordering::Relaxed);
        });
        let here = root(&vfs);
        here.chdir(b"/a/x/in").expect("chdir");
        let file = here.get(".", "RD");
        while done.load(Ordering::Relaxed) == 0 {
            for path in [text(here.getcwd()), text(here.path_name(file))] {
                assert!(path == "/a/x/in" || path == "/b/y/in", "{path}");
            }
        }
    });
}
