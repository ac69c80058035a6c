// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests changes of names while other threads walk: an existing name is always found, no thread
//! waits for ever, and nothing is lost.

use crate::tasks::{Short, root, tree, vfs};
use openpath_abi::fcntl::{AT_FDCWD, AT_SYMLINK_NOFOLLOW, O_CREAT, O_DIRECTORY, O_RDWR};
use openpath_abi::mount::MNT_DETACH;
use openpath_abi::rename::{RENAME_EXCHANGE, RENAME_NOREPLACE};
use openpath_abi::resolve::RESOLVE_IN_ROOT;
use openpath_abi::{AtFlags, Errno, OpenHow, RenameFlags, UmountFlags, mode};
use openpath_vfs::{DirEntry, Fd, Limits, MountFlags, Task, Vfs};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long each race runs.
const RUN: Duration = Duration::from_millis(700);

/// Random numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}

type Job<'a> = Box<dyn Fn(&Task, &mut Random) + Send + Sync + 'a>;

/// Runs each job again and again, in a thread and a task of its own.
fn run(vfs: &Vfs, jobs: &[Job<'_>]) {
    let until = Instant::now() + RUN;
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (n, job) in (1u64..).zip(jobs) {
            let task = root(vfs);
            let stop = &stop;
            scope.spawn(move || {
                let mut random = Random(n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
                while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                    let round = std::panic::AssertUnwindSafe(|| {
                        for _ in 0..64 {
                            job(&task, &mut random);
                        }
                    });
                    if let Err(panic) = std::panic::catch_unwind(round) {
                        stop.store(true, Ordering::Relaxed);
                        std::panic::resume_unwind(panic);
                    }
                }
            });
        }
    });
}

fn ok_or(result: Result<(), Errno>, allowed: &[Errno]) {
    if let Err(errno) = result {
        assert!(allowed.contains(&errno), "{errno}");
    }
}

/// Checks the tree below `path` at any depth: link counts, parents and inode numbers agree. Returns
/// the number of entries.
fn check(t: &Task, path: &str) -> usize {
    t.set_rlimit_nofile(u64::MAX);
    let top = t.open(path.as_bytes(), O_DIRECTORY, 0).expect(path);
    let mut pending = vec![top];
    let mut all = 1;
    while let Some(dir) = pending.pop() {
        let here = t.fstat(dir).expect("stat");
        let mut dirs = 0;
        for entry in list(t, dir) {
            let s = t.fstatat(dir, &entry.name, AT_SYMLINK_NOFOLLOW);
            let s = s.expect("a listed name");
            assert_eq!(s.ino, entry.ino);
            all += 1;
            if s.mode & mode::S_IFMT != mode::S_IFDIR {
                continue;
            }
            dirs += 1;
            let child = t.openat(dir, &entry.name, O_DIRECTORY, 0).expect("open");
            let up = t.fstatat(child, b"..", AtFlags::empty()).expect("up");
            assert_eq!(up.ino, here.ino);
            pending.push(child);
        }
        assert_eq!(here.nlink, dirs + 2);
        t.close(dir).expect("close");
    }
    all
}

fn list(t: &Task, dir: Fd) -> Vec<DirEntry> {
    let mut all = Vec::new();
    loop {
        let some = t.getdents64(dir, 4096).expect("getdents64");
        if some.is_empty() {
            all.retain(|e: &DirEntry| e.name != b"." && e.name != b"..");
            return all;
        }
        all.extend(some);
    }
}

/// Checks that only the remaining tasks hold pins, and that no unlinked file is kept.
fn settled(vfs: &Vfs, pins: usize) {
    // A removed directory is freed after what was unlinked in it.
    for _ in 0..8 {
        vfs.collect();
    }
    let usage = vfs.usage();
    assert_eq!((usage.pending_free, usage.pins), (0, pins));
}

/// Creates a directory so deep that paths below it use the path cache; returns such paths.
fn far_down(t: &Task) -> impl Fn(&str) -> String + Copy + Send + Sync + 'static {
    const FAR: &str = "/a-directory/with-a-long-name/for-the-path-cache";
    let mut path = String::new();
    for name in FAR.split('/').skip(1) {
        path = format!("{path}/{name}");
        t.dir(&path);
    }
    |below: &str| format!("{FAR}/{below}")
}

#[test]
fn exchanged_or_replaced_names_always_exist() {
    let vfs = vfs();
    let t = root(&vfs);
    let at = far_down(&t);
    t.dir(&at("x"));
    t.dir(&at("y"));
    t.put(&at("x/in"), b"x");
    t.put(&at("y/in"), b"y");
    t.put(&at("target"), b"body");
    let pins = vfs.usage().pins;
    let swap: Job<'_> = Box::new(move |t, _| {
        let (x, y) = (at("x"), at("y"));
        t.renameat2(
            AT_FDCWD,
            x.as_bytes(),
            AT_FDCWD,
            y.as_bytes(),
            RENAME_EXCHANGE,
        )
        .expect("exchange");
    });
    let replace: Job<'_> = Box::new(move |t, _| {
        t.put(&at("new"), b"body");
        t.rename(at("new").as_bytes(), at("target").as_bytes())
            .expect("rename");
    });
    let look: Job<'_> = Box::new(move |t, random| {
        let path = at(random.pick(&["x/in", "y/in", "target", "x/../x", "y/.."]));
        t.stat(path.as_bytes()).expect(&path);
    });
    let read: Job<'_> = Box::new(move |t, random| {
        let path = at(random.pick(&["x/in", "y/in", "target"]));
        assert!(matches!(&t.body(&path)[..], b"x" | b"y" | b"body"));
    });
    run(&vfs, &[swap, replace, look, read]);
    assert_eq!(t.names(&at("")), ["target", "x", "y"]);
    settled(&vfs, pins);
}

#[test]
fn a_task_finds_its_own_renames() {
    let vfs = vfs();
    let t = root(&vfs);
    let at = far_down(&t);
    for dir in ["a", "a/1", "a/1/deep", "b", "c", "c/2", "c/2/deep"] {
        t.dir(&at(dir));
    }
    t.put(&at("a/1/deep/in"), b"1");
    t.put(&at("c/2/deep/in"), b"2");
    let pins = vfs.usage().pins;
    let mover = |old: &'static str, new: &'static str, body: u8| -> Job<'_> {
        Box::new(move |t, _| {
            let (old, new) = (at(old), at(new));
            for (old, new) in [(&old, &new), (&new, &old)] {
                t.rename(old.as_bytes(), new.as_bytes()).expect("rename");
                let (gone, there) = (format!("{old}/deep/in"), format!("{new}/deep/in"));
                assert_eq!(t.stat(gone.as_bytes()).err(), Some(Errno::ENOENT));
                assert_eq!(t.body(&there), [body]);
                assert_eq!(t.stat(gone.as_bytes()).err(), Some(Errno::ENOENT));
            }
        })
    };
    let look: Job<'_> = Box::new(move |t, random| {
        let path = at(random.pick(&["a/1/deep/in", "b/1/deep/in", "c/2/deep/in", "c/3/deep/in"]));
        ok_or(t.stat(path.as_bytes()).map(|_| ()), &[Errno::ENOENT]);
    });
    let guard: Job<'_> = Box::new(move |t, random| {
        let path = at(random.pick(&["b", "c"]));
        let mode = [0o755, 0o700][random.below(2)];
        t.fchmodat2(AT_FDCWD, path.as_bytes(), mode, AtFlags::empty())
            .expect("chmod");
    });
    run(
        &vfs,
        &[
            mover("a/1", "b/1", b'1'),
            mover("c/2", "c/3", b'2'),
            look,
            guard,
        ],
    );
    settled(&vfs, pins);
}

#[test]
fn concurrent_moves_of_directories_make_no_loop_and_lose_nothing() {
    const DIRS: &[&str] = &[
        "a", "b", "c", "a/p", "b/p", "c/p", "a/p/q", "b/p/q", "c/p/q",
    ];
    let vfs = vfs();
    let t = root(&vfs);
    t.dir("/t");
    for dir in DIRS {
        t.dir(&format!("/t/{dir}"));
    }
    let pins = vfs.usage().pins;
    let all = check(&t, "/t");
    let paths = |random: &mut Random| {
        let (old, new) = (random.pick(DIRS), random.pick(DIRS));
        (format!("/t/{old}"), format!("/t/{new}"))
    };
    let shuffle = |flags: u32| -> Job<'_> {
        Box::new(move |t, random| {
            let (old, new) = paths(random);
            let moved = t.renameat2(
                AT_FDCWD,
                old.as_bytes(),
                AT_FDCWD,
                new.as_bytes(),
                RenameFlags::from_bits_retain(flags),
            );
            let allowed = [
                Errno::ENOENT,
                Errno::EINVAL,
                Errno::EEXIST,
                Errno::ENOTEMPTY,
            ];
            ok_or(moved, &allowed);
        })
    };
    let look: Job<'_> = Box::new(|t, random| {
        let (old, new) = paths(random);
        for path in [old, format!("{new}/../.."), format!("{new}/..")] {
            ok_or(t.stat(path.as_bytes()).map(|_| ()), &[Errno::ENOENT]);
        }
    });
    run(
        &vfs,
        &[
            shuffle(RENAME_NOREPLACE.bits()),
            shuffle(RENAME_EXCHANGE.bits()),
            shuffle(RENAME_NOREPLACE.bits()),
            look,
        ],
    );
    assert_eq!(check(&t, "/t"), all);
    settled(&vfs, pins);
}

/// Creates, moves and removes files of all kinds in `/t`; with `nests`, a directory may move with
/// its content.
fn churn(t: &Task, random: &mut Random, nests: bool) {
    const DIRS: &[&str] = &["/t", "/t/a", "/t/b", "/t/a/c", "/t/b/c", "/t/a/c/d"];
    const NAMES: &[&str] = &["a", "b", "c", "d", "a-name-of-more-than-sixteen-bytes"];
    let allowed = [
        Errno::ENOENT,
        Errno::EEXIST,
        Errno::ENOTDIR,
        Errno::EISDIR,
        Errno::ENOTEMPTY,
        Errno::EINVAL,
        Errno::EPERM,
    ];
    let (dir, other) = (random.pick(DIRS), random.pick(DIRS));
    let other = if nests { other } else { dir };
    let old = format!("{dir}/{}", random.pick(NAMES));
    let new = format!("{other}/{}", random.pick(NAMES));
    let (old, new) = (old.as_bytes(), new.as_bytes());
    let done = match random.below(9) {
        0 | 1 => t.mkdir(old, 0o755),
        2 => t.shut(t.open(old, O_CREAT | O_RDWR, 0o644)),
        3 => t.unlink(old),
        4 => t.rmdir(old),
        5 => t.rename(old, new),
        6 => t.renameat2(AT_FDCWD, old, AT_FDCWD, new, RENAME_EXCHANGE),
        7 => t.link(old, new),
        _ => t.stat(old).and_then(|_| t.stat(new)).map(drop),
    };
    ok_or(done, &allowed);
}

#[test]
fn concurrent_changes_of_all_kinds_leave_a_consistent_tree() {
    let vfs = vfs();
    let t = root(&vfs);
    t.dir("/t");
    let pins = vfs.usage().pins;
    let jobs: Vec<Job<'_>> = (0..4)
        .map(|_| Box::new(|t: &Task, random: &mut Random| churn(t, random, true)) as Job<'_>)
        .collect();
    run(&vfs, &jobs);
    check(&t, "/t");
    settled(&vfs, pins);
}

#[test]
fn changes_succeed_during_eviction() {
    let limits = Limits::default().dentries_max(64);
    let vfs = Vfs::builder().limits(limits).build(tree()).expect("a Vfs");
    let t = root(&vfs);
    t.dir("/t");
    let pins = vfs.usage().pins;
    let evict: Job<'_> = Box::new({
        let vfs = vfs.clone();
        move |t, _| {
            vfs.shrink(4);
            ok_or(t.stat(b"/t").map(|_| ()), &[]);
        }
    });
    let churn = || Box::new(|t: &Task, random: &mut Random| churn(t, random, false)) as Job<'_>;
    run(&vfs, &[churn(), churn(), evict]);
    check(&t, "/t");
    settled(&vfs, pins);
}

#[test]
fn removed_directories_stay_empty() {
    let vfs = vfs();
    let pins = vfs.usage().pins;
    let remove: Job<'_> = Box::new(|t, _| {
        ok_or(t.mkdir(b"/d", 0o755), &[Errno::EEXIST]);
        ok_or(t.rmdir(b"/d"), &[Errno::ENOENT, Errno::ENOTEMPTY]);
    });
    let fill: Job<'_> = Box::new(|t, _| {
        let Ok(dir) = t.open(b"/d", O_DIRECTORY, 0) else {
            return;
        };
        let made = t.openat(dir, b"f", O_CREAT, 0o644);
        if let Ok(file) = made {
            // A directory with a name in it cannot have been removed.
            assert_eq!(
                t.fstatat(dir, b".", AtFlags::empty()).map(|s| s.nlink),
                Ok(2)
            );
            t.unlinkat(dir, b"f", AtFlags::empty()).expect("unlink");
            t.close(file).expect("close");
        } else {
            assert_eq!(made.err(), Some(Errno::ENOENT));
        }
        t.close(dir).expect("close");
    });
    let look: Job<'_> = Box::new(|t, _| {
        let found = t.stat(b"/d/f").map(|s| s.nlink);
        assert!(matches!(found, Ok(0 | 1) | Err(Errno::ENOENT)), "{found:?}");
    });
    run(&vfs, &[remove, fill, look]);
    settled(&vfs, pins);
}

#[test]
fn mounts_come_and_go_under_walks() {
    let vfs = vfs();
    let t = root(&vfs);
    for dir in ["/m", "/src", "/src/in", "/other"] {
        t.dir(dir);
    }
    t.put("/m/below", b"below");
    t.put("/src/above", b"above");
    t.put("/src/in/deep", b"deep");
    let usage = vfs.usage();
    let cover: Job<'_> = Box::new(|t, _| {
        t.bind(b"/src", b"/m").expect("bind");
        ok_or(t.umount(b"/m", UmountFlags::empty()), &[Errno::EBUSY]);
        ok_or(t.umount(b"/m", MNT_DETACH), &[Errno::EINVAL]);
    });
    let look: Job<'_> = Box::new(|t, _| {
        let seen = (t.stat(b"/m/below").is_ok(), t.stat(b"/m/above").is_ok());
        assert!(
            matches!(t.stat(b"/m/in/.."), Ok(_) | Err(Errno::ENOENT)),
            "{seen:?}"
        );
        // A mount that is detached while a task is in it has no parent.
        let up = t.stat(b"/m/..").map(|s| s.ino);
        assert!(up == Ok(t.ino("/")) || up == Ok(t.ino("/src")), "{up:?}");
        t.stat(b"/src/in/deep").expect("stat");
    });
    let flip: Job<'_> = Box::new(|t, random| {
        let flags = [MountFlags::READ_ONLY, MountFlags::NONE][random.below(2)];
        ok_or(t.remount_bind(b"/m", flags), &[Errno::EINVAL, Errno::EBUSY]);
    });
    let steal: Job<'_> = Box::new(|t, _| {
        let allowed = [Errno::EBUSY, Errno::ENOTEMPTY, Errno::ENOENT, Errno::EXDEV];
        ok_or(t.rename(b"/other", b"/m"), &allowed);
        ok_or(t.rmdir(b"/m"), &allowed);
    });
    run(&vfs, &[cover, look, flip, steal]);
    t.sync();
    assert_eq!(t.names("/m"), ["below"]);
    t.dir("/last");
    t.bind(b"/src", b"/last").expect("bind");
    t.umount(b"/last", UmountFlags::empty()).expect("umount");
    vfs.collect();
    let after = vfs.usage();
    assert_eq!((after.mounts, after.pins), (usage.mounts, usage.pins));
}

#[test]
fn no_write_passes_a_mount_after_it_became_read_only() {
    let vfs = vfs();
    let t = root(&vfs);
    t.dir("/m");
    t.mount(tree(), b"/m", MountFlags::default())
        .expect("mount");
    t.dir("/m/d");
    let write: Job<'_> = Box::new(|t, _| {
        let allowed = [Errno::EROFS, Errno::EEXIST, Errno::ENOENT];
        ok_or(t.mkdir(b"/m/d/x", 0o755), &allowed);
        ok_or(t.rmdir(b"/m/d/x"), &allowed);
    });
    let freeze: Job<'_> = Box::new(|t, random| {
        let by_tree = random.below(2) == 0;
        let freeze = |on: bool| {
            if by_tree {
                return t.remount_sb(b"/m", on);
            }
            let flags = [MountFlags::NONE, MountFlags::READ_ONLY][usize::from(on)];
            t.remount_bind(b"/m", flags)
        };
        match freeze(true) {
            Ok(()) => {
                let before = t.stat(b"/m/d").map(|s| (s.ctime, s.nlink));
                std::thread::yield_now();
                assert_eq!(t.stat(b"/m/d").map(|s| (s.ctime, s.nlink)), before);
                freeze(false).expect("remount");
            }
            Err(errno) => assert_eq!(errno, Errno::EBUSY),
        }
    });
    run(&vfs, &[write, freeze]);
}

#[test]
fn a_scoped_walk_up_restarts_for_moved_directories_and_not_for_files() {
    let vfs = vfs();
    let t = root(&vfs);
    t.mkdir(b"/r", 0o755).expect("mkdir");
    t.mkdir(b"/r/d", 0o755).expect("mkdir");
    t.shut(t.creat(b"/r/f", 0o644)).expect("creat");
    let how = OpenHow {
        flags: 0,
        mode: 0,
        resolve: RESOLVE_IN_ROOT,
    };
    let rename: Job<'_> = Box::new(|t, _| {
        ok_or(t.rename(b"/r/f", b"/r/g"), &[]);
        ok_or(t.rename(b"/r/g", b"/r/f"), &[]);
    });
    let walk: Job<'_> = Box::new(|t, _| {
        let base = t.open(b"/r", O_DIRECTORY, 0).expect("open");
        ok_or(t.shut(t.openat2(base, b"d/../d/..", &how)), &[]);
        t.close(base).expect("close");
    });
    run(&vfs, &[rename, walk]);
}
