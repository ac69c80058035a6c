// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a cached path through mounts does not outlive what it led through: each is walked
//! until it is cached, then something on its way changes, and it is walked again.

use crate::tasks::{root, tree, user, vfs};
use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_DIRECTORY, O_EXCL, O_RDONLY, O_RDWR};
use openpath_abi::mount::MNT_DETACH;
use openpath_abi::resolve::RESOLVE_NO_XDEV;
use openpath_abi::{AtFlags, Errno, OpenHow, RenameFlags, UmountFlags};
use openpath_vfs::{MountFlags, Task};

/// More walks than any path needs to be cached.
const WALKS: usize = 8;
/// Names for paths that are short enough to be walked by component, and for paths long enough for
/// the path cache.
const NAMES: [&str; 3] = ["a", "name-of-a-dir", "a-name-longer-than-sixteen-bytes"];

/// A path through two mounts: `/N/N` is covered by a tree with `N/N/f`, and `/N/N/N/N` again by a
/// tree with `N/f`.
struct Route {
    task: Task,
    name: &'static str,
}

impl Route {
    fn new(name: &'static str) -> Self {
        let task = root(&vfs());
        let route = Self { task, name };
        route.grow();
        route.put("f", "below");
        route.mount(2);
        route.grow();
        route.put("f", "one");
        route.mount(4);
        route.put("f", "two");
        route
    }

    /// `/N/N...` with this many components, then `rest`.
    fn path(&self, depth: usize, rest: &str) -> String {
        format!("/{}", self.name).repeat(depth) + "/" + rest
    }

    /// Creates the directories of four components.
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

    /// Creates a file at depth four, with a text that says where it is.
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

    /// The text of the file at `path`, read often, from a cold cache to a hot one.
    fn read(&self, task: &Task, path: &str) -> Result<String, Errno> {
        let mut told = None;
        for _ in 0..WALKS {
            let said = self.read_once(task, path);
            assert_eq!(told.get_or_insert_with(|| said.clone()), &said, "{path}");
        }
        told.expect("at least one read")
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
            for _ in 0..WALKS {
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

fn each(test: impl Fn(Route)) {
    NAMES.into_iter().for_each(|name| test(Route::new(name)));
}

fn said(text: &str) -> Result<String, Errno> {
    Ok(text.to_owned())
}

#[test]
fn the_topmost_mount_answers_and_the_covered_tree_returns() {
    each(|route| {
        assert_eq!(route.f(), said("two"));
        route.umount(4);
        assert_eq!(route.f(), said("one"));
        route.umount(2);
        assert_eq!(route.f(), said("below"));
    });
}

#[test]
fn a_mount_covers_a_cached_directory() {
    each(|route| {
        assert_eq!(route.f(), said("two"));
        route.mount(3);
        assert_eq!(route.f(), Err(Errno::ENOENT));
        route.umount(3);
        assert_eq!(route.f(), said("two"));
        route.mount(1);
        assert_eq!(route.f(), Err(Errno::ENOENT));
        route.umount(1);
        assert_eq!(route.f(), said("two"));
    });
}

#[test]
fn stacked_mounts_answer_from_the_top() {
    each(|route| {
        assert_eq!(route.f(), said("two"));
        route.mount(4);
        assert_eq!(route.f(), Err(Errno::ENOENT));
        route.put("f", "three");
        assert_eq!(route.f(), said("three"));
        route.umount(4);
        assert_eq!(route.f(), said("two"));
    });
}

#[test]
fn a_path_finds_the_tree_that_replaced_another() {
    each(|route| {
        for round in 0..WALKS {
            let text = format!("round {round}");
            route.umount(4);
            assert_eq!(route.f(), said("one"));
            route.mount(4);
            assert_eq!(route.f(), Err(Errno::ENOENT));
            route.put("f", &text);
            assert_eq!(route.f(), said(&text));
        }
    });
}

#[test]
fn directories_before_and_between_the_mounts_may_move() {
    each(|route| {
        assert_eq!(route.f(), said("two"));
        let one = route.path(1, "");
        let moved = |from: &str, to: &str| {
            let done = route.task.renameat2(
                AT_FDCWD,
                from.as_bytes(),
                AT_FDCWD,
                to.as_bytes(),
                RenameFlags::empty(),
            );
            done.expect("rename");
        };
        moved(&one, "/elsewhere");
        assert_eq!(route.f(), Err(Errno::ENOENT));
        let n = route.name;
        let there = format!("/elsewhere/{n}/{n}/{n}/f");
        assert_eq!(route.read(&route.task, &there), said("two"));
        moved("/elsewhere", &one);
        assert_eq!(route.f(), said("two"));
        let three = route.path(3, "");
        let aside = route.path(2, "aside");
        moved(&three, &aside);
        assert_eq!(route.f(), Err(Errno::ENOENT));
        assert_eq!(
            route.read(&route.task, &format!("{aside}/{n}/f")),
            said("two")
        );
    });
}

#[test]
fn a_directory_closed_behind_a_mount_fails_with_eacces() {
    each(|route| {
        let user = user(&route.task, 1000);
        let path = route.path(4, "f");
        let mode = |depth: usize, mode: u32| {
            let dir = route.path(depth, "");
            route
                .task
                .fchmodat2(AT_FDCWD, dir.as_bytes(), mode, AtFlags::empty())
                .expect("chmod");
        };
        for depth in 1..=4 {
            mode(depth, 0o755);
        }
        assert_eq!(route.read(&user, &path), said("two"));
        for depth in 1..=4 {
            mode(depth, 0o700);
            assert_eq!(route.read(&user, &path), Err(Errno::EACCES), "{depth}");
            assert_eq!(route.read(&route.task, &path), said("two"));
            mode(depth, 0o755);
            assert_eq!(route.read(&user, &path), said("two"));
        }
    });
}

#[test]
fn a_mount_on_a_file_or_on_the_last_name_is_entered() {
    each(|route| {
        route.put("g", "other");
        let (f, g) = (route.path(4, "f"), route.path(4, "g"));
        assert_eq!(
            (route.f(), route.read(&route.task, &g)),
            (said("two"), said("other"))
        );
        route.task.bind(g.as_bytes(), f.as_bytes()).expect("bind");
        assert_eq!(route.read(&route.task, &f), said("other"));
        let inside = format!("{f}/x");
        assert_eq!(route.read(&route.task, &inside), Err(Errno::ENOTDIR));
        route
            .task
            .umount(f.as_bytes(), UmountFlags::empty())
            .expect("umount");
        assert_eq!(route.f(), said("two"));
        // The covered directory itself: the root of its mount answers.
        let point = route.path(4, "");
        let point = point.trim_end_matches('/');
        let ids: Vec<u64> = (0..WALKS)
            .map(|_| route.task.stat(point.as_bytes()).expect("stat").dev)
            .collect();
        let root = route
            .task
            .stat(route.path(4, ".").as_bytes())
            .expect("stat")
            .dev;
        assert!(ids.iter().all(|&dev| dev == root));
    });
}

#[test]
fn resolve_no_xdev_refuses_a_path_into_a_mount() {
    each(|route| {
        assert_eq!(route.f(), said("two"));
        let how = OpenHow {
            resolve: RESOLVE_NO_XDEV,
            ..OpenHow::default()
        };
        for _ in 0..WALKS {
            let open = route
                .task
                .openat2(AT_FDCWD, route.path(4, "f").as_bytes(), &how);
            assert_eq!(open.map(drop), Err(Errno::EXDEV));
        }
    });
}

#[test]
fn changes_behind_a_mount_are_seen() {
    each(|route| {
        let path = route.path(4, "new");
        for _ in 0..WALKS {
            assert_eq!(route.read(&route.task, &path), Err(Errno::ENOENT));
            route.put("new", "made");
            assert_eq!(route.read(&route.task, &path), said("made"));
            let again = route.task.open(path.as_bytes(), O_CREAT | O_EXCL, 0o644);
            assert_eq!(again.map(drop), Err(Errno::EEXIST));
            let both = route.task.open(path.as_bytes(), O_CREAT | O_RDWR, 0o644);
            route.task.close(both.expect("open")).expect("close");
            route
                .task
                .unlinkat(AT_FDCWD, path.as_bytes(), AtFlags::empty())
                .expect("unlink");
        }
    });
}
