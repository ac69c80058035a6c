// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that an overlay copies a file up completely before its first change, keeps it the same
//! file for tasks that have it open, and leaves nothing of a failed or cancelled copy-up. Tests
//! also that observers see the progress of each copy-up.

mod common;

use common::{Stack, beneath, entries, get, inode, mkdir, names, put, shown, task_in};
use openpath_abi::falloc::RWF_NOAPPEND;
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_FDCWD, O_APPEND, O_CREAT, O_RDONLY, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY,
};
use openpath_abi::statx::STATX_BTIME;
use openpath_abi::{AtFlags, Errno, TimeSet, Timespec, XattrFlags, mode};
use openpath_mem::{MemFs, MemOptions};
use openpath_overlay::OverlayFs;
use openpath_vfs::NewInode;

/// A call that changes the file at a path.
type Change = fn(&openpath_vfs::Task, &[u8]) -> Result<(), Errno>;

/// `SEEK_DATA` and `SEEK_HOLE`.
const SEEK: [u32; 2] = [3, 4];

/// A listener that records directories of which it was told.
#[derive(Default)]
struct Told(std::sync::Mutex<Vec<u64>>);

impl openpath_vfs::InvalidationListener for Told {
    fn name(&self, _dir: &std::sync::Arc<openpath_vfs::Inode>, _name: &[u8]) {}
    fn names_of(&self, _dir: &std::sync::Arc<openpath_vfs::Inode>) {}
    fn all(&self) {}
    fn attributes(&self, inode: &std::sync::Arc<openpath_vfs::Inode>) {
        self.0.lock().unwrap().push(inode.ino());
    }
}

#[test]
fn listeners_are_told_of_the_directories_whose_time_of_change_a_copy_up_moves() {
    let s = Stack::new(1);
    mkdir(&s.below[0], "/d");
    mkdir(&s.below[0], "/d/e");
    put(&s.below[0], "/d/e/f", "words");
    put(&s.below[0], "/d/e/g", "words");
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let told = std::sync::Arc::new(Told::default());
    let listener: std::sync::Arc<dyn openpath_vfs::InvalidationListener> = told.clone();
    tree.add_listener(&listener);
    let (_vfs, task) = task_in(&tree);
    let number = |path: &[u8]| task.stat(path).expect("stat").ino;
    let dirs = [number(b"/d/e"), number(b"/d"), number(b"/")];
    let take = || std::mem::take(&mut *told.0.lock().unwrap());
    take();
    let before = task.stat(b"/d").expect("stat");
    // The clock of files has ticks.
    std::thread::sleep(std::time::Duration::from_millis(20));
    task.open(b"/d/e/f", O_RDWR, 0).expect("open");
    assert_eq!(take(), dirs);
    let after = task.stat(b"/d").expect("stat");
    assert!(after.ctime > before.ctime && after.mtime == before.mtime);
    task.open(b"/d/e/g", O_RDWR, 0).expect("open");
    assert_eq!(take(), dirs[..1]);
    task.open(b"/d/e/g", O_RDWR, 0).expect("open");
    assert_eq!(take(), []);
}

/// Makes a name while a file is copied up.
struct MakesName(std::sync::Mutex<Option<openpath_vfs::Task>>);

impl openpath_overlay::CopyUpObserver for MakesName {
    fn begin(&self, bytes: u64) {
        if let Some(task) = self.0.lock().unwrap().take_if(|_| bytes > 0) {
            // As another thread that holds no locks.
            std::thread::scope(|all| {
                all.spawn(move || put(&task, "/d/new", ""));
            });
        }
    }
    fn moved(&self, _bytes: u64) -> bool {
        true
    }
    fn end(&self, _left: u64) {}
}

#[test]
fn change_during_a_copy_up_moves_the_times_of_the_directory() {
    let s = Stack::new(1);
    mkdir(&s.below[0], "/d");
    put(&s.below[0], "/d/f", "words");
    let observer = std::sync::Arc::new(MakesName(std::sync::Mutex::default()));
    let (_vfs, task) =
        task_in(&OverlayFs::new(s.options().copying(Some(observer.clone()))).unwrap());
    *observer.0.lock().unwrap() = Some(task.fork().unwrap());
    let times = || {
        task.stat(b"/d")
            .map(|stat| (stat.mtime, stat.ctime))
            .unwrap()
    };
    let before = times();
    // The clock of files has ticks.
    std::thread::sleep(std::time::Duration::from_millis(20));
    task.open(b"/d/f", O_RDWR, 0).expect("open");
    assert_eq!(names(&task, "/d"), ["f", "new"]);
    let after = times();
    assert!(
        after.0 > before.0 && after.1 > before.1,
        "{before:?} {after:?}"
    );
}

#[test]
fn copy_has_all_that_the_lower_file_has() {
    let s = Stack::new(1);
    let below = &s.below[0];
    mkdir(below, "/d");
    let fd = below
        .open(b"/d/f", O_WRONLY | O_CREAT, 0o644)
        .expect("open");
    below.pwrite(fd, b"begin", 0).expect("pwrite");
    below.pwrite(fd, b"end", 1 << 20).expect("pwrite");
    below
        .setxattr(b"/d/f", b"user.x", b"1", XattrFlags::empty())
        .expect("setxattr");
    below
        .setxattr(b"/d/f", b"trusted.y", b"2", XattrFlags::empty())
        .expect("setxattr");
    below.chown(b"/d/f", 7, 8).expect("chown");
    below.chmod(b"/d/f", 0o4755).expect("chmod");
    let time = |sec| TimeSet::At(Timespec { sec, nsec: 5 });
    let times = [time(1000), time(2000)];
    for path in [&b"/d/f"[..], b"/d"] {
        below
            .utimensat(AT_FDCWD, Some(path), times, AtFlags::empty())
            .expect("utimensat");
    }
    let (_vfs, task) = s.mount();
    let (was, dir) = (task.stat(b"/d/f").expect("stat"), task.stat(b"/d"));
    assert_eq!((was.uid, was.gid, was.mode & 0o7777), (7, 8, 0o4755));
    // Opened for writing: copied, and nothing else.
    let fd = task.open(b"/d/f", O_RDWR, 0).expect("open");
    assert_eq!(beneath(&s.upper, "/upper/d"), ["f"]);
    let is = task.stat(b"/d/f").expect("stat");
    assert_eq!(
        (is.ino, is.mode, is.nlink, is.size),
        (was.ino, was.mode, 1, was.size)
    );
    assert_eq!(
        (is.uid, is.gid, is.mtime, is.atime),
        (7, 8, was.mtime, was.atime)
    );
    assert_eq!(is.blocks, was.blocks, "holes stay holes");
    let born = |task: &openpath_vfs::Task| {
        let all = task.statx(AT_FDCWD, b"/d/f", AtFlags::empty(), STATX_BTIME);
        all.map(|st| st.btime)
    };
    assert_eq!(born(&task), born(below));
    let ends = SEEK.map(|whence| task.lseek(fd, 4096, whence));
    assert_eq!(ends, [Ok(1 << 20), Ok(4096)]);
    assert_eq!(task.stat(b"/d").map(|st| st.mtime), dir.map(|st| st.mtime));
    let mut list = task.listxattr(b"/d/f").expect("listxattr");
    list.sort_unstable();
    let mut wanted = b"user.x\0trusted.y\0".to_vec();
    wanted.sort_unstable();
    assert_eq!(list, wanted);
    assert_eq!(task.getxattr(b"/d/f", b"trusted.y"), Ok(b"2".to_vec()));
    assert_eq!(beneath(&s.upper, "/work"), Vec::<String>::new());
}

#[test]
fn open_file_reads_later_writes_after_copy_up() {
    let s = Stack::new(1);
    put(&s.below[0], "/f", "below");
    let (_vfs, task) = s.mount();
    let old = task.open(b"/f", O_RDONLY, 0).expect("open");
    let mut buf = [0; 5];
    assert_eq!((task.pread(old, &mut buf, 0), &buf), (Ok(5), b"below"));
    put(&task, "/f", "above");
    assert_eq!((task.pread(old, &mut buf, 0), &buf), (Ok(5), b"above"));
    assert_eq!(get(&s.below[0], "/f"), Ok("below".to_owned()));
}

#[test]
fn no_change_touches_the_lower_tree() {
    let s = Stack::new(1);
    let below = &s.below[0];
    let changes: [(&str, Change); 8] = [
        ("chmod", |t, p| t.chmod(p, 0o600)),
        ("chown", |t, p| t.chown(p, 5, 6)),
        ("utimensat", |t, p| {
            t.utimensat(AT_FDCWD, Some(p), [TimeSet::Now; 2], AtFlags::empty())
        }),
        ("truncate", |t, p| t.truncate(p, 2)),
        ("setxattr", |t, p| {
            t.setxattr(p, b"user.a", b"", XattrFlags::empty())
        }),
        ("link", |t, p| t.link(p, &[p, b"2"].concat())),
        ("rename", |t, p| t.rename(p, &[p, b"3"].concat())),
        ("trunc", |t, p| {
            let fd = t.open(p, O_WRONLY | O_TRUNC, 0)?;
            t.close(fd)
        }),
    ];
    mkdir(below, "/dir");
    for (name, _) in changes {
        put(below, &format!("/dir/{name}"), "four");
    }
    let before = shown(below, "/");
    let (vfs, task) = s.mount();
    for (name, change) in changes {
        let path = format!("/dir/{name}");
        let ino = task.stat(path.as_bytes()).expect("stat").ino;
        change(&task, path.as_bytes()).expect(name);
        let now = if name == "rename" {
            format!("{path}3")
        } else {
            path
        };
        assert_eq!(
            task.stat(now.as_bytes()).map(|st| st.ino),
            Ok(ino),
            "{name}"
        );
    }
    assert_eq!(get(&task, "/dir/truncate"), Ok("fo".to_owned()));
    assert_eq!(get(&task, "/dir/trunc"), Ok(String::new()));
    assert_eq!(get(&task, "/dir/link2"), Ok("four".to_owned()));
    assert_eq!(shown(below, "/"), before);
    let first = shown(&task, "/");
    drop((vfs, task));
    let (_vfs, task) = s.mount();
    assert_eq!(shown(&task, "/"), first, "a later listing is equal");
}

#[test]
fn hard_links_of_the_upper_tree_stay_one_file() {
    let s = Stack::new(1);
    put(&s.below[0], "/a", "below");
    s.below[0].link(b"/a", b"/b").expect("link");
    put(&s.below[0], "/c", "below");
    let (_vfs, task) = s.mount();
    // The two names are one lower file; a change of one leaves the other.
    let was = task.stat(b"/a").expect("stat");
    assert_eq!(was.nlink, 2);
    put(&task, "/a", "above");
    assert_eq!(task.stat(b"/a").map(|st| st.ino), Ok(was.ino));
    assert_eq!(get(&task, "/b"), Ok("below".to_owned()));
    assert_eq!(task.stat(b"/a").map(|st| st.nlink), Ok(1));
    // Two names of the upper tree are one file.
    task.link(b"/c", b"/d").expect("link");
    put(&task, "/d", "above");
    assert_eq!(get(&task, "/c"), Ok("above".to_owned()));
    task.unlink(b"/c").expect("unlink");
    assert_eq!(task.stat(b"/d").map(|st| st.nlink), Ok(1));
    assert_eq!(names(&task, "/"), ["a", "b", "d"]);
}

#[test]
fn empty_read_is_no_access() {
    let s = Stack::new(1);
    let (_vfs, task) = s.mount();
    put(&task, "/f", "above");
    let long_ago = [1, 2].map(|sec| TimeSet::At(Timespec::new(sec, 0)));
    task.utimensat(AT_FDCWD, Some(b"/f"), long_ago, AtFlags::empty())
        .expect("utimensat");
    let atime = || task.stat(b"/f").expect("stat").atime.sec;
    let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
    assert_eq!((task.read(fd, &mut []), atime()), (Ok(0), 1));
    assert_eq!(task.read(fd, &mut [0; 9]), Ok(5));
    assert_ne!(atime(), 1);
}

#[test]
fn unlinked_lower_file_can_still_be_changed() {
    let s = Stack::new(1);
    put(&s.below[0], "/f", "below");
    let (_vfs, task) = s.mount();
    let fd = task.open(b"/f", O_RDONLY, 0).expect("open");
    task.unlink(b"/f").expect("unlink");
    assert_eq!(task.fstat(fd).map(|st| st.nlink), Ok(0));
    put(&task, "/f", "another");
    task.fchmod(fd, 0o700).expect("fchmod");
    let st = task.fstat(fd).expect("fstat");
    assert_eq!((st.mode & 0o777, st.nlink), (0o700, 0));
    let mut buf = [0; 5];
    assert_eq!((task.pread(fd, &mut buf, 0), &buf), (Ok(5), b"below"));
    assert_eq!(get(&task, "/f"), Ok("another".to_owned()));
}

#[test]
fn fifo_is_copied_up_for_its_times() {
    let s = Stack::new(1);
    let made = s.below[0].mknod(b"/p", mode::S_IFIFO | 0o600, 0);
    made.expect("mknod");
    let (_vfs, task) = s.mount();
    let was = task.stat(b"/p").expect("stat");
    let fd = task.open(b"/p", O_RDWR, 0).expect("open");
    assert_eq!(beneath(&s.upper, "/upper"), Vec::<String>::new());
    task.write(fd, b"x").expect("write");
    assert_eq!(beneath(&s.upper, "/upper"), ["p"]);
    assert!(task.stat(b"/p").expect("stat").mtime > was.mtime);
    let mut buf = [0; 1];
    assert_eq!((task.read(fd, &mut buf), &buf), (Ok(1), b"x"));
}

#[test]
fn positioned_write_does_not_append() {
    let s = Stack::new(1);
    put(&s.below[0], "/f", "below");
    let (_vfs, task) = s.mount();
    let fd = task.open(b"/f", O_WRONLY | O_APPEND, 0).expect("open");
    let data = [std::io::IoSlice::new(b"X")];
    assert_eq!(task.pwritev2(fd, &data, 1, RWF_NOAPPEND), Ok(1));
    assert_eq!(get(&task, "/f"), Ok("bXlow".to_owned()));
}

#[test]
fn file_without_a_name_can_be_linked() {
    let s = Stack::new(1);
    mkdir(&s.below[0], "/d");
    let (_vfs, task) = s.mount();
    let fd = task.open(b"/d", O_TMPFILE | O_RDWR, 0o644).expect("open");
    task.write(fd, b"x").expect("write");
    assert_eq!(names(&task, "/d"), Vec::<String>::new());
    task.linkat(fd, b"", AT_FDCWD, b"/d/f", AT_EMPTY_PATH)
        .expect("linkat");
    assert_eq!(get(&task, "/d/f"), Ok("x".to_owned()));
    shown(&task, "/");
}

#[test]
fn marks_are_hidden_and_guests_may_use_their_names() {
    let s = Stack::new(1);
    put(&s.below[0], "/f", "");
    let (_vfs, task) = s.mount();
    task.chmod(b"/f", 0o600).expect("chmod");
    let mark = b"user.overlay.ino";
    assert_eq!(task.getxattr(b"/f", mark), Err(Errno::ENODATA));
    assert_eq!(task.listxattr(b"/f"), Ok(Vec::new()));
    task.setxattr(b"/f", mark, b"mine", XattrFlags::empty())
        .expect("setxattr");
    assert_eq!(task.getxattr(b"/f", mark), Ok(b"mine".to_vec()));
    assert_eq!(task.listxattr(b"/f"), Ok(b"user.overlay.ino\0".to_vec()));
    let upper = inode(&s.upper, "/upper/f");
    let kept = upper.ops().getxattr(&upper, b"user.overlay.overlay.ino");
    assert_eq!(kept, Ok(b"mine".to_vec()));
    task.removexattr(b"/f", mark).expect("removexattr");
    assert_eq!(task.listxattr(b"/f"), Ok(Vec::new()));
}

#[test]
fn overlays_of_one_lower_tree_are_independent() {
    let s = Stack::new(1);
    mkdir(&s.below[0], "/d");
    put(&s.below[0], "/d/f", "base");
    let stacks: Vec<_> = (0..50)
        .map(|_| {
            let mut other = Stack::new(0);
            other.lowers.clone_from(&s.lowers);
            let mounted = other.mount();
            (other, mounted)
        })
        .collect();
    for (n, (_, (_, task))) in stacks.iter().enumerate() {
        put(task, "/d/f", &n.to_string());
        put(task, &format!("/d/{n}"), "");
    }
    for (n, (_, (_, task))) in stacks.iter().enumerate() {
        assert_eq!(get(task, "/d/f"), Ok(n.to_string()));
        assert_eq!(entries(task, "/d").len(), 2);
    }
    assert_eq!(get(&s.below[0], "/d/f"), Ok("base".to_owned()));
}

#[test]
fn overlay_can_be_a_lower_tree() {
    let s = Stack::new(1);
    mkdir(&s.below[0], "/d");
    put(&s.below[0], "/d/f", "one");
    put(&s.below[0], "/d/g", "one");
    let inner = OverlayFs::new(s.options()).expect("an overlay");
    let (_inner_vfs, middle) = task_in(&inner);
    put(&middle, "/d/g", "two");
    middle.unlink(b"/d/f").expect("unlink");
    put(&middle, "/d/f", "two");
    let mut outer = Stack::new(0);
    outer.lowers.push(inner);
    let (_vfs, task) = outer.mount();
    assert_eq!(get(&task, "/d/g"), Ok("two".to_owned()));
    put(&task, "/d/g", "three");
    task.rename(b"/d", b"/e").expect("rename");
    assert_eq!(names(&task, "/e"), ["f", "g"]);
    assert_eq!(get(&middle, "/d/g"), Ok("two".to_owned()));
    shown(&task, "/");
}

#[test]
fn leftovers_of_a_crash_are_removed() {
    let s = Stack::new(1);
    drop(s.mount());
    let work = inode(&s.upper, "/work");
    let file = mode::S_IFREG | 0o600;
    let dir = mode::S_IFDIR | 0o700;
    for (name, mode) in [("#12", file), ("#13", dir), ("not-ours", file)] {
        let new = NewInode {
            mode,
            uid: 0,
            gid: 0,
            rdev: 0,
            body: &[],
            now: Timespec::default(),
            tenant: None,
            acls: None,
        };
        let made = work.ops().create(&work, name.as_bytes(), &new);
        made.expect(name);
    }
    drop(s.mount());
    assert_eq!(beneath(&s.upper, "/work"), ["not-ours"]);
}

#[test]
fn concurrent_changes_copy_a_file_up_once() {
    let s = Stack::new(1);
    mkdir(&s.below[0], "/d");
    for n in 0..100 {
        put(&s.below[0], &format!("/d/{n}"), "below");
    }
    let (vfs, _task) = s.mount();
    std::thread::scope(|scope| {
        for me in 0..4u8 {
            let task = vfs.task(openpath_vfs::Cred::root()).expect("a task");
            scope.spawn(move || {
                for n in 0..100 {
                    let names = [format!("/d/{n}"), format!("/d/x{n}")];
                    let [here, there] = [names[0].as_bytes(), names[1].as_bytes()];
                    // Other threads move it to and fro: it has one name or the other.
                    let mut tries = (0..1_000_000).map(|n| [here, there][n % 2]);
                    let fd = tries.find_map(|name| task.open(name, O_RDWR, 0).ok());
                    let fd = fd.expect("open");
                    task.pwrite(fd, &[me], i64::from(me) + 5).expect("pwrite");
                    task.close(fd).expect("close");
                    let _either = task.rename(here, there);
                    let _back = task.rename(there, here);
                }
            });
        }
    });
    let (_vfs, task) = s.mount();
    for n in 0..100 {
        let held = get(&task, &format!("/d/{n}")).expect("a file");
        assert_eq!(held.as_bytes(), b"below\x00\x01\x02\x03", "{n}");
    }
}

#[test]
fn copy_ups_are_counted() {
    let s = Stack::new(1);
    mkdir(&s.below[0], "/d");
    put(&s.below[0], "/d/f", "eleven byte");
    put(&s.below[0], "/d/g", "more");
    let tree = OverlayFs::new(s.options()).expect("an overlay");
    let (_vfs, task) = task_in(&tree);
    let copied = || {
        let copied = OverlayFs::copied(&tree).expect("an overlay");
        (copied.files, copied.bytes)
    };
    let above = |path: &str| OverlayFs::is_in_upper(&tree, path.as_bytes()).expect("an overlay");
    assert_eq!((get(&task, "/d/f").is_ok(), copied()), (true, (0, 0)));
    assert!(above("/") && !above("/d") && !above("/d/f"));
    task.chmod(b"/d/f", 0o600).expect("chmod");
    assert_eq!(copied(), (2, 11));
    assert!(above("/d/f") && !above("/d/g") && !above("/d/f/x"));
    task.chmod(b"/d/f", 0o644).expect("chmod");
    assert_eq!(copied(), (2, 11));
    // Truncated to zero, none of its data is copied. A new file is no copy, and a removed one is
    // not in the upper tree.
    put(&task, "/d/g", "x");
    put(&task, "/d/h", "new");
    assert_eq!(copied(), (3, 11));
    task.unlink(b"/d/f").expect("unlink");
    assert!(above("/d/h") && !above("/d/f"));
    assert_eq!(OverlayFs::copied(&s.upper), Err(Errno::EINVAL));
}

/// An observer that records the sizes that began, the bytes copied, and what was left at each end.
#[derive(Default)]
struct Ear(std::sync::Mutex<(Vec<u64>, u64, Vec<u64>)>, Option<u64>);

impl openpath_overlay::CopyUpObserver for Ear {
    fn begin(&self, bytes: u64) {
        self.0.lock().unwrap().0.push(bytes);
    }
    fn moved(&self, bytes: u64) -> bool {
        let mut heard = self.0.lock().unwrap();
        heard.1 += bytes;
        self.1.is_none_or(|enough| heard.1 < enough)
    }
    fn end(&self, left: u64) {
        self.0.lock().unwrap().2.push(left);
    }
}

#[test]
fn copy_up_reports_its_progress() {
    let s = Stack::new(1);
    let large = "x".repeat(1 << 20);
    put(&s.below[0], "/large", &large);
    let fd = s.below[0].open(b"/holes", O_RDWR | O_CREAT, 0o644);
    let fd = fd.expect("open");
    s.below[0].pwrite(fd, b"end", 5 << 20).expect("pwrite");
    s.below[0].ftruncate(fd, 7 << 20).expect("ftruncate");
    s.below[0].close(fd).expect("close");
    let ear = std::sync::Arc::new(Ear::default());
    let mut options = s.options();
    options.copying = Some(ear.clone());
    let (_vfs, task) = task_in(&OverlayFs::new(options).expect("an overlay"));
    task.chmod(b"/large", 0o600).expect("chmod");
    task.chmod(b"/holes", 0o600).expect("chmod");
    task.truncate(b"/large", 0).expect("truncate");
    let heard = std::mem::take(&mut *ear.0.lock().unwrap());
    let (begun, moved, left) = heard;
    assert_eq!((begun, moved), (vec![1 << 20, 7 << 20], 8 << 20));
    assert_eq!(left, [0, 0], "holes are on the way too");
}

#[test]
fn failed_copy_up_is_reported_as_ended() {
    let small = MemOptions::default().size(1 << 20);
    let s = Stack::of(vec![MemFs::new(MemOptions::default())], MemFs::new(small));
    put(&s.below[0], "/large", &"x".repeat(2 << 20));
    let ear = std::sync::Arc::new(Ear::default());
    let mut options = s.options();
    options.copying = Some(ear.clone());
    let (_vfs, task) = task_in(&OverlayFs::new(options).expect("an overlay"));
    assert_eq!(task.chmod(b"/large", 0o600), Err(Errno::ENOSPC));
    let (begun, moved, left) = std::mem::take(&mut *ear.0.lock().unwrap());
    assert_eq!(begun, [2 << 20]);
    assert!(
        moved < 2 << 20 && left == [(2 << 20) - moved],
        "{moved} {left:?}"
    );
}

#[test]
fn cancelled_copy_up_leaves_nothing() {
    let s = Stack::new(1);
    put(&s.below[0], "/large", &"x".repeat(2 << 20));
    let ear = std::sync::Arc::new(Ear(std::sync::Mutex::default(), Some(1 << 20)));
    let mut options = s.options();
    options.copying = Some(ear.clone());
    let (_vfs, task) = task_in(&OverlayFs::new(options).expect("an overlay"));
    assert_eq!(task.open(b"/large", O_RDWR, 0), Err(Errno::EINTR));
    assert_eq!(ear.0.lock().unwrap().2, [1 << 20]);
    assert_eq!(beneath(&s.upper, "/upper"), [""; 0]);
    assert_eq!(beneath(&s.upper, "/work"), [""; 0]);
    assert_eq!(task.stat(b"/large").expect("as it was").size, 2 << 20);
    // The next copy-up is not cancelled, and succeeds.
    let (_vfs, task) = s.mount();
    task.chmod(b"/large", 0o600).expect("chmod");
}
