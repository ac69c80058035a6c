// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that a rename on a file system without the flags of renameat2(2) replaces nothing, and
//! that a name which another process swaps right before a rename goes back.

use super::{checked, exchange, noreplace, seam};
use crate::host::held_file::HeldFile;
use rustix::fd::AsFd as _;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A directory for one test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Scratch {
        let name = format!("openpath-rename-{name}-{}", std::process::id());
        let top = std::env::temp_dir().join(name);
        std::fs::remove_dir_all(&top).ok();
        std::fs::create_dir(&top).unwrap();
        Scratch(top)
    }

    fn base(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    fn write(&self, path: &str, data: &str) {
        std::fs::write(self.base(path), data).unwrap();
    }

    /// Its names, with the data of files.
    fn real(&self) -> BTreeMap<String, Option<String>> {
        let names = std::fs::read_dir(&self.0).unwrap();
        let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let data = |name: &String| std::fs::read_to_string(self.base(name)).ok();
        names.map(|name| (name.clone(), data(&name))).collect()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[test]
fn rename_without_flags_replaces_nothing() {
    let scratch = Scratch::new("noreplace");
    for name in ["file", "other"] {
        scratch.write(name, name);
    }
    for name in ["dir", "empty"] {
        std::fs::create_dir(scratch.base(name)).unwrap();
    }
    let dir = std::fs::File::open(scratch.base("")).unwrap();
    let at = |name: &'static str| (dir.as_fd(), name.as_bytes());
    let before = scratch.real();
    seam::lack_rename_flags(true);
    for (from, to) in [
        ("file", "other"),
        ("file", "dir"),
        ("dir", "empty"),
        ("dir", "file"),
    ] {
        let refused = noreplace(at(from), at(to)).unwrap_err();
        assert_eq!(refused, Errno::EXIST, "{from} to {to}");
    }
    assert_eq!(scratch.real(), before);
    noreplace(at("file"), at("new")).unwrap();
    noreplace(at("dir"), at("newdir")).unwrap();
    seam::lack_rename_flags(false);
    let names: Vec<_> = scratch.real().into_keys().collect();
    assert_eq!(names, ["empty", "new", "newdir", "other"]);
}

#[test]
fn name_swapped_right_before_a_rename_goes_back() {
    let scratch = Scratch::new("right-before");
    for name in ["mine", "hidden", "other"] {
        scratch.write(name, name);
    }
    let dir = std::fs::File::open(scratch.base("")).unwrap();
    let at = |name: &'static str| (dir.as_fd(), name.as_bytes());
    let hold = |name| HeldFile::open(dir.as_fd(), name).unwrap().unwrap();
    let (mine, hidden) = (hold(b"mine"), hold(b"hidden"));
    let swap = |name: &str| {
        let (a, b) = (scratch.base(name), scratch.base("other"));
        move || {
            let aside = a.with_extension("aside");
            std::fs::rename(&a, &aside).unwrap();
            std::fs::rename(&b, &a).unwrap();
            std::fs::rename(&aside, &b).unwrap();
        }
    };
    let read = |name| std::fs::read_to_string(scratch.base(name)).ok();
    let is = |name, text: &str| assert_eq!(read(name).as_deref(), Some(text), "{name}");
    seam::before_next(swap("mine"));
    assert_eq!(checked(at("mine"), at("new"), &mine), Err(Errno::STALE));
    // What was swapped in is where it was put, and nothing is under the new name.
    is("mine", "other");
    assert_eq!(read("new"), None);
    swap("mine")();
    for name in ["mine", "hidden"] {
        seam::before_next(swap(name));
        let done = exchange(at("mine"), at("hidden"), (&mine, &hidden));
        assert_eq!(done, Err(Errno::STALE), "{name}");
        is(name, "other");
        swap(name)();
    }
    for name in ["mine", "hidden", "other"] {
        is(name, name);
    }
}
