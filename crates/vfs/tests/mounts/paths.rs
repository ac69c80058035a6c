// SPDX-License-Identifier: MIT OR Apache-2.0
//! Paths that enter mounts, walked until they are cached, and then walked again after something on
//! their way changed: a cached path must not outlive what it went through.

use crate::tasks::{root, tree, user, vfs};
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR};
use openpath_abi::mount::MNT_DETACH;
use openpath_abi::resolve::RESOLVE_NO_XDEV;
use openpath_abi::{AtFlags, Errno, OpenHow, RenameFlags, UmountFlags};
use openpath_vfs::{MountFlags, Task};

/// More often than any path has to be walked to be cached.
const HEAT: usize = 8;
/// Names that make paths short enough to be walked by component, and long enough for the path
/// cache.
const NAMES: [&str; 3] = ["a", "name-of-a-dir", "a-name-longer-than-sixteen-bytes"];

/// A way that enters mounts: `/N/N` covered by a tree with `N/N/f`, and `/N/N/N/N` covered again by
/// a tree with `N/f`.
struct Way {
    task: Task,
    name: &'static str,
}

impl Way {
    fn new(name: &'static str) -> Self {
        let task = root(&vfs());
        let way = Self { task, name };
        way.grow();
        way.put("f", "below");
        way.mount(2);
        way.grow();
        way.put("f", "one");
        way.mount(4);
        way.put("f", "two");
        way
    }

    /// `/N/N...`, so many times, then `rest`.
    fn path(&self, depth: usize, rest: &str) -> String {
        format!("/{}", self.name).repeat(depth) + "/" + rest
    }

    /// Makes the directories of four steps.
    fn grow(&self) {
        for depth in 1..=4 {
            let _there = self.task.mkdir(self.path(depth, "").as_bytes(), 0o755);
        }
    }

    fn mount(&self, depth: usize) {
        self.mount_at(&self.path(depth, ""));
    }

    fn mount_at(&self, target: &str) {
        let done = self
            .task
            .mount(tree(), target.as_bytes(), MountFlags::default());
        done.expect("mount");
    }

    /// A file after four steps that says where it is.
    fn put(&self, name: &str, text: &str) {
        let fd = self.task.open(
            self.path(4, name).as_bytes(),
            O_CREAT | O_EXCL | O_RDWR,
            0o644,
        );
        let fd = fd.expect("create");
        assert_eq!(self.task.write(fd, text.as_bytes()), Ok(text.len()));
        self.task.close(fd).expect("close");
    }

    /// What the file at `path` says, asked often, from a cold cache to a hot one.
    fn read(&self, task: &Task, path: &str) -> Result<String, Errno> {
        let mut told = None;
        for _ in 0..HEAT {
            let said = self.read_once(task, path);
            assert_eq!(told.get_or_insert_with(|| said.clone()), &said, "{path}");
        }
        told.expect("it was asked")
    }

    fn read_once(&self, task: &Task, path: &str) -> Result<String, Errno> {
        let fd = task.open(path.as_bytes(), O_RDONLY, 0)?;
        let mut text = [0; 16];
        let got = task.read(fd, &mut text)?;
        task.close(fd)?;
        Ok(String::from_utf8_lossy(&text[..got]).into_owned())
    }

    fn f(&self) -> Result<String, Errno> {
        let answer = self.read(&self.task, &self.path(4, "f"));
        // Relative to a directory before the first mount, and to one between the two.
        for depth in [1, 3] {
            let dir = self.path(depth, "");
            let Ok(fd) = self.task.open(dir.as_bytes(), O_DIRECTORY, 0) else {
                continue;
            };
            let rest = self.path(4 - depth, "f");
            for _ in 0..HEAT {
                let open = self.task.openat(fd, &rest.as_bytes()[1..], O_RDONLY, 0);
                assert_eq!(
                    open.map(|f| self.task.close(f)).is_ok(),
                    answer.is_ok(),
                    "{rest}"
                );
            }
            self.task.close(fd).expect("close");
        }
        answer
    }

    fn umount(&self, depth: usize) {
        let target = self.path(depth, "");
        self.task
            .umount(target.as_bytes(), MNT_DETACH)
            .expect("umount");
    }
}

fn each(test: impl Fn(Way)) {
    NAMES.into_iter().for_each(|name| test(Way::new(name)));
}

fn said(text: &str) -> Result<String, Errno> {
    Ok(text.to_owned())
}

#[test]
fn the_topmost_mount_answers_and_what_it_covers_comes_back() {
    each(|way| {
        assert_eq!(way.f(), said("two"));
        way.umount(4);
        assert_eq!(way.f(), said("one"));
        way.umount(2);
        assert_eq!(way.f(), said("below"));
    });
}

#[test]
fn a_mount_on_a_directory_that_is_cached_covers_it() {
    each(|way| {
        assert_eq!(way.f(), said("two"));
        way.mount(3);
        assert_eq!(way.f(), Err(Errno::ENOENT));
        way.umount(3);
        assert_eq!(way.f(), said("two"));
        way.mount(1);
        assert_eq!(way.f(), Err(Errno::ENOENT));
        way.umount(1);
        assert_eq!(way.f(), said("two"));
    });
}

#[test]
fn mounts_stack() {
    each(|way| {
        assert_eq!(way.f(), said("two"));
        way.mount(4);
        assert_eq!(way.f(), Err(Errno::ENOENT));
        way.put("f", "three");
        assert_eq!(way.f(), said("three"));
        way.umount(4);
        assert_eq!(way.f(), said("two"));
    });
}

#[test]
fn another_tree_in_the_same_place_is_another() {
    each(|way| {
        for round in 0..HEAT {
            let text = format!("round {round}");
            way.umount(4);
            assert_eq!(way.f(), said("one"));
            way.mount(4);
            assert_eq!(way.f(), Err(Errno::ENOENT));
            way.put("f", &text);
            assert_eq!(way.f(), said(&text));
        }
    });
}

#[test]
fn what_lies_before_and_between_the_mounts_may_move() {
    each(|way| {
        assert_eq!(way.f(), said("two"));
        let one = way.path(1, "");
        let moved = |from: &str, to: &str| {
            let done = way.task.renameat2(
                AT_FDCWD,
                from.as_bytes(),
                AT_FDCWD,
                to.as_bytes(),
                RenameFlags::empty(),
            );
            done.expect("rename");
        };
        moved(&one, "/elsewhere");
        assert_eq!(way.f(), Err(Errno::ENOENT));
        let n = way.name;
        let there = format!("/elsewhere/{n}/{n}/{n}/f");
        assert_eq!(way.read(&way.task, &there), said("two"));
        moved("/elsewhere", &one);
        assert_eq!(way.f(), said("two"));
        let three = way.path(3, "");
        let aside = way.path(2, "aside");
        moved(&three, &aside);
        assert_eq!(way.f(), Err(Errno::ENOENT));
        assert_eq!(way.read(&way.task, &format!("{aside}/{n}/f")), said("two"));
    });
}

#[test]
fn a_search_that_is_forbidden_behind_a_mount_is_refused() {
    each(|way| {
        let user = user(&way.task, 1000);
        let path = way.path(4, "f");
        let mode = |depth: usize, mode: u32| {
            let dir = way.path(depth, "");
            way.task
                .fchmodat2(AT_FDCWD, dir.as_bytes(), mode, AtFlags::empty())
                .expect("chmod");
        };
        for depth in 1..=4 {
            mode(depth, 0o755);
        }
        assert_eq!(way.read(&user, &path), said("two"));
        for depth in 1..=4 {
            mode(depth, 0o700);
            assert_eq!(way.read(&user, &path), Err(Errno::EACCES), "{depth}");
            assert_eq!(way.read(&way.task, &path), said("two"));
            mode(depth, 0o755);
            assert_eq!(way.read(&user, &path), said("two"));
        }
    });
}

#[test]
fn a_file_may_be_covered_and_the_last_name_is_entered() {
    each(|way| {
        way.put("g", "other");
        let (f, g) = (way.path(4, "f"), way.path(4, "g"));
        assert_eq!(
            (way.f(), way.read(&way.task, &g)),
            (said("two"), said("other"))
        );
        way.task.bind(g.as_bytes(), f.as_bytes()).expect("bind");
        assert_eq!(way.read(&way.task, &f), said("other"));
        let inside = format!("{f}/x");
        assert_eq!(way.read(&way.task, &inside), Err(Errno::ENOTDIR));
        way.task
            .umount(f.as_bytes(), UmountFlags::empty())
            .expect("umount");
        assert_eq!(way.f(), said("two"));
        // The covered directory itself: its mount's root answers.
        let point = way.path(4, "");
        let point = point.trim_end_matches('/');
        let ids: Vec<u64> = (0..HEAT)
            .map(|_| way.task.stat(point.as_bytes()).expect("stat").dev)
            .collect();
        let root = way
            .task
            .stat(way.path(4, ".").as_bytes())
            .expect("stat")
            .dev;
        assert!(ids.iter().all(|&dev| dev == root));
    });
}

#[test]
fn a_walk_that_must_not_leave_its_mount_does_not() {
    each(|way| {
        assert_eq!(way.f(), said("two"));
        let how = OpenHow {
            resolve: RESOLVE_NO_XDEV,
            ..OpenHow::default()
        };
        for _ in 0..HEAT {
            let open = way
                .task
                .openat2(AT_FDCWD, way.path(4, "f").as_bytes(), &how);
            assert_eq!(open.map(drop), Err(Errno::EXDEV));
        }
    });
}

#[test]
fn what_is_made_and_removed_behind_a_mount_is_seen() {
    each(|way| {
        let path = way.path(4, "new");
        for _ in 0..HEAT {
            assert_eq!(way.read(&way.task, &path), Err(Errno::ENOENT));
            way.put("new", "made");
            assert_eq!(way.read(&way.task, &path), said("made"));
            let again = way.task.open(path.as_bytes(), O_CREAT | O_EXCL, 0o644);
            assert_eq!(again.map(drop), Err(Errno::EEXIST));
            let both = way.task.open(path.as_bytes(), O_CREAT | O_RDWR, 0o644);
            way.task.close(both.expect("open")).expect("close");
            way.task
                .unlinkat(AT_FDCWD, path.as_bytes(), AtFlags::empty())
                .expect("unlink");
        }
    });
}
