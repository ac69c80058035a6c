// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that openpath's overlay and the kernel's overlayfs each show the files and attributes that
//! the other one left in the upper directory. The layers are directories of the host; needs root.

mod common;

use common::{get, mkdir, names, put, task_in};
use openpath_abi::mode;
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_overlay::{Marks, OverlayFs, OverlayOptions};
use openpath_vfs::{SuperBlock, Task, Vfs};
use std::collections::BTreeMap;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Directories of a test: `lower`, `view` with `upper` and `work`, `mount`.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let place = std::env::temp_dir();
        let place = place.join(format!("openpath-overlay-{}-{name}", std::process::id()));
        let _left_over = std::fs::remove_dir_all(&place);
        for dir in ["lower", "view/upper", "view/work", "mount"] {
            std::fs::create_dir_all(place.join(dir)).expect("a directory to play in");
        }
        Self(place)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn tree(&self, name: &str) -> Arc<SuperBlock> {
        let options = HostOptions::default().policy(Policy::Exclusive);
        HostFs::open(self.at(name), options).expect("a tree")
    }

    /// Our overlay of it.
    fn ours(&self, marks: Marks) -> (Vfs, Task) {
        let options = OverlayOptions::default()
            .lowers(vec![self.tree("lower")])
            .upper(Some(self.tree("view")))
            .marks(marks)
            .syncs(true);
        task_in(&OverlayFs::new(options).expect("an overlay"))
    }

    /// Runs `look` with the kernel's overlay of it mounted; `None` where it cannot be.
    fn kernels<R>(&self, marks: Marks, look: impl FnOnce(&Path) -> R) -> Option<R> {
        let (lower, upper) = (self.at("lower"), self.at("view/upper"));
        let (work, mount) = (self.at("view/work"), self.at("mount"));
        let how = match marks {
            Marks::User => "userxattr",
            Marks::Trusted => "redirect_dir=on",
        };
        let options = format!(
            "lowerdir={},upperdir={},workdir={},{how}",
            lower.display(),
            upper.display(),
            work.display()
        );
        let mounted = Command::new("mount")
            .args(["-t", "overlay", "overlay", "-o", &options])
            .arg(&mount)
            .output()
            .is_ok_and(|done| done.status.success());
        if !mounted {
            eprintln!("skipped: no overlay can be mounted here");
            return None;
        }
        let seen = look(&mount);
        let gone = Command::new("umount").arg(&mount).status();
        assert!(gone.is_ok_and(|done| done.success()), "umount");
        Some(seen)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _goes_if_it_can = std::fs::remove_dir_all(&self.0);
    }
}

/// One line for a file: all but inode numbers and times of directories.
fn line(mode: u32, ids: (u32, u32), mtime: (i64, i64), what: &[u8]) -> String {
    let mtime = if mode::is_dir(mode) { (0, 0) } else { mtime };
    format!("{mode:o} {ids:?} {mtime:?} {}", what.escape_ascii())
}

fn seen_by_kernel(dir: &Path, path: &str, all: &mut BTreeMap<String, String>) {
    for entry in std::fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let at = format!("{path}/{}", entry.file_name().display());
        let meta = entry.path().symlink_metadata().expect("metadata");
        let what = if meta.is_file() {
            std::fs::read(entry.path()).expect("data")
        } else if meta.is_symlink() {
            let body = std::fs::read_link(entry.path()).expect("a body");
            body.into_os_string().into_encoded_bytes()
        } else {
            assert!(!meta.file_type().is_char_device() || meta.rdev() != 0);
            Vec::new()
        };
        if meta.is_dir() {
            seen_by_kernel(&entry.path(), &at, all);
        }
        let times = (meta.mtime(), meta.mtime_nsec());
        all.insert(
            at,
            line(meta.mode(), (meta.uid(), meta.gid()), times, &what),
        );
    }
}

fn seen_by_us(task: &Task, path: &str, all: &mut BTreeMap<String, String>) {
    let dir = if path.is_empty() { "/" } else { path };
    for name in names(task, dir) {
        let at = format!("{path}/{name}");
        let st = task.lstat(at.as_bytes()).expect(&at);
        let what = match st.mode & mode::S_IFMT {
            mode::S_IFREG => get(task, &at).expect(&at).into_bytes(),
            mode::S_IFLNK => task.readlink(at.as_bytes()).expect(&at),
            _ => Vec::new(),
        };
        if mode::is_dir(st.mode) {
            seen_by_us(task, &at, all);
        }
        let times = (st.mtime.sec, i64::from(st.mtime.nsec));
        all.insert(at, line(st.mode, (st.uid, st.gid), times, &what));
    }
}

fn ours(s: &Scratch, marks: Marks) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let (_vfs, task) = s.ours(marks);
    seen_by_us(&task, "", &mut all);
    all
}

fn kernels(s: &Scratch, marks: Marks) -> Option<BTreeMap<String, String>> {
    s.kernels(marks, |dir| {
        let mut all = BTreeMap::new();
        seen_by_kernel(dir, "", &mut all);
        all
    })
}

/// Files and directories to change.
fn fill(s: &Scratch) {
    for dir in ["d", "d/in", "e", "gone", "moves", "moves/deep"] {
        std::fs::create_dir(s.at("lower").join(dir)).expect(dir);
    }
    for file in [
        "d/f",
        "d/g",
        "d/in/h",
        "e/f",
        "gone/f",
        "moves/deep/f",
        "top",
        "link",
    ] {
        std::fs::write(s.at("lower").join(file), file).expect(file);
    }
    std::os::unix::fs::symlink("d/f", s.at("lower/sym")).expect("a link");
}

#[test]
fn kernel_shows_our_upper_directory() {
    for marks in [Marks::User, Marks::Trusted] {
        let s = Scratch::new(&format!("ours-{marks:?}"));
        fill(&s);
        let (vfs, task) = s.ours(marks);
        put(&task, "/d/f", "changed");
        put(&task, "/new", "new");
        task.unlink(b"/d/g").expect("unlink");
        task.unlink(b"/gone/f").expect("unlink");
        task.rmdir(b"/gone").expect("rmdir");
        mkdir(&task, "/gone");
        put(&task, "/gone/other", "other");
        task.chmod(b"/top", 0o4711).expect("chmod");
        task.chown(b"/e/f", 5, 6).expect("chown");
        task.link(b"/link", b"/link2").expect("link");
        task.rename(b"/d/in/h", b"/e/h").expect("rename");
        task.symlink(b"to", b"/d/sym").expect("symlink");
        task.truncate(b"/link", 2).expect("truncate");
        if marks == Marks::Trusted {
            // With `userxattr` the kernel follows no redirects.
            task.rename(b"/moves", b"/e/moved").expect("rename");
            task.rename(b"/e/moved/deep", b"/deep").expect("rename");
            put(&task, "/deep/f", "changed");
        }
        drop((vfs, task));
        let first = ours(&s, marks);
        assert_eq!(first.get("/gone/f"), None);
        let Some(kernel) = kernels(&s, marks) else {
            return;
        };
        assert_eq!(kernel, first, "{marks:?}");
        assert_eq!(ours(&s, marks), first);
    }
}

#[test]
fn our_overlay_shows_the_kernels_upper_directory() {
    for marks in [Marks::User, Marks::Trusted] {
        let s = Scratch::new(&format!("kernels-{marks:?}"));
        fill(&s);
        let done = s.kernels(marks, |dir| {
            let at = |name: &str| dir.join(name);
            std::fs::write(at("d/f"), "changed").expect("write");
            std::fs::remove_file(at("d/g")).expect("remove");
            std::fs::remove_dir_all(at("gone")).expect("remove");
            std::fs::create_dir(at("gone")).expect("mkdir");
            std::fs::write(at("gone/other"), "other").expect("write");
            std::fs::hard_link(at("link"), at("link2")).expect("link");
            std::fs::rename(at("d/in/h"), at("e/h")).expect("rename");
            if marks == Marks::Trusted {
                std::fs::rename(at("moves"), at("e/moved")).expect("rename");
                std::fs::rename(at("e/moved/deep"), at("deep")).expect("rename");
                std::fs::rename(at("d/in"), at("d/inner")).expect("rename");
            }
            let mut all = BTreeMap::new();
            seen_by_kernel(dir, "", &mut all);
            all
        });
        let Some(kernel) = done else {
            return;
        };
        assert_eq!(ours(&s, marks), kernel, "{marks:?}");
    }
}
