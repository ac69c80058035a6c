// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of commits a real tree with a view beside it ([`Scene`]), whose contents they
//! compare as text, and observers that stop a commit or act at one of its steps.

mod attack;
mod attributes;
mod concurrent_changes;
mod deep;
mod foreign_names;
mod interruption;
mod kinds;
mod out_of_reach;
mod random;
mod records;
mod replaced_dirs;
mod sync_failure;

use crate::commit::Commit;
use crate::plan::Plan;
use crate::view::View;
use openpath_abi::fcntl::{O_CREAT, O_DIRECTORY, O_NONBLOCK, O_RDONLY, O_TRUNC, O_WRONLY};
use openpath_abi::{Stat, mode};
use openpath_commit::{CommitObserver, Conflict, KeptView, PathBytes, Phase, Refusal};
use openpath_vfs::Task;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// What a name is, in words that can be compared.
pub(super) type Shown = BTreeMap<String, String>;

/// A base tree and a view beside it; gone with the value.
pub(super) struct Scene {
    top: PathBuf,
    /// The view's directory.
    view: PathBuf,
}

impl Scene {
    pub(super) fn new(name: &str) -> Scene {
        let top = std::env::temp_dir().canonicalize().unwrap();
        let top = top.join(format!("openpath-commit-{name}-{}", std::process::id()));
        std::fs::remove_dir_all(&top).ok();
        std::fs::create_dir_all(top.join("base")).unwrap();
        let view = top.join("view");
        Scene { top, view }
    }

    /// The same with the view on another file system, where there is one.
    pub(super) fn across(name: &str) -> Scene {
        let mut scene = Scene::new(&format!("{name}-across"));
        let shared = Path::new("/dev/shm");
        if shared.is_dir() {
            scene.view = shared.join(scene.top.file_name().unwrap());
            std::fs::remove_dir_all(&scene.view).ok();
        }
        scene
    }

    /// Leaves no file with two names if the view is on another file system, where an undo keeps
    /// each name as a file of its own.
    pub(super) fn keep_apart(&self) {
        if !self.view.starts_with(&self.top) {
            std::fs::remove_file(self.base("dir/linked")).unwrap();
        }
    }

    pub(super) fn base(&self, path: &str) -> PathBuf {
        self.top.join("base").join(path)
    }

    /// A path in the view, as the engine takes it.
    pub(super) fn at(&self, path: &str) -> Vec<u8> {
        self.base(path).as_os_str().as_bytes().to_vec()
    }

    pub(super) fn path(&self, path: &str) -> PathBytes {
        self.base(path).as_path().into()
    }

    pub(super) fn write(&self, path: &str, data: &str) {
        std::fs::write(self.base(path), data).unwrap();
    }

    pub(super) fn kept(&self) -> KeptView {
        KeptView::make(&self.view.display().to_string(), &[]).unwrap()
    }

    /// Does something in the view.
    pub(super) fn view<R>(&self, run: impl FnOnce(&Task) -> R) -> R {
        let mut plan = Plan::default();
        plan.keep_changes_in(&self.kept());
        let view = View::build(&plan, &crate::view::ViewOptions::default()).unwrap();
        run(view.task())
    }

    pub(super) fn plan(&self, only: &[&str]) -> Result<Commit, Refusal> {
        let only: Vec<_> = only.iter().map(|path| self.path(path)).collect();
        Commit::plan(&self.kept(), &only, false)
    }

    /// Commits if there is no conflict; returns the conflicts.
    pub(super) fn commit(&self, only: &[&str]) -> Vec<Conflict> {
        let commit = self.plan(only).unwrap();
        let conflicts = commit.conflicts().to_vec();
        if conflicts.is_empty() {
            commit.carry_out(&mut StopAfter(u64::MAX)).unwrap();
        }
        conflicts
    }

    /// How many changes the view holds.
    pub(super) fn left(&self) -> usize {
        let commit = self.plan(&[]).unwrap();
        commit.changes().len()
    }

    /// The base tree as it is.
    pub(super) fn real(&self) -> Shown {
        let mut all = Vec::new();
        self.real_below(&self.base(""), &mut all);
        named(all)
    }

    fn real_below(&self, dir: &Path, all: &mut Vec<(String, Stat, String)>) {
        let mut names: Vec<_> = std::fs::read_dir(dir)
            .unwrap()
            .map(|e| e.unwrap())
            .collect();
        names.sort_by_key(std::fs::DirEntry::file_name);
        for entry in names {
            let path = entry.path();
            let found = std::fs::symlink_metadata(&path).unwrap();
            let body = match found.mode() & mode::S_IFMT {
                mode::S_IFREG => std::fs::read(&path).unwrap(),
                mode::S_IFLNK => std::fs::read_link(&path)
                    .unwrap()
                    .as_os_str()
                    .as_bytes()
                    .to_vec(),
                _ => Vec::new(),
            };
            let mut value = [0; 64];
            let length = rustix::fs::lgetxattr(&path, "user.test", &mut value[..]).unwrap_or(0);
            let stat = Stat {
                mode: found.mode(),
                uid: found.uid(),
                gid: found.gid(),
                ino: found.ino(),
                nlink: found.nlink(),
                mtime: openpath_abi::Timespec {
                    sec: found.mtime(),
                    nsec: u32::try_from(found.mtime_nsec()).unwrap(),
                },
                ..Stat::default()
            };
            all.push((self.short(&path), stat, body_of(&body, &value[..length])));
            if found.is_dir() {
                self.real_below(&path, all);
            }
        }
    }

    /// The base tree as the view shows it.
    pub(super) fn shown(&self) -> Shown {
        self.view(|task| {
            let mut all = Vec::new();
            self.shown_below(task, &self.base(""), &mut all);
            named(all)
        })
    }

    fn shown_below(&self, task: &Task, dir: &Path, all: &mut Vec<(String, Stat, String)>) {
        for name in names(task, dir.as_os_str().as_bytes()) {
            let path = dir.join(OsStr::from_bytes(&name));
            let bytes = path.as_os_str().as_bytes();
            let stat = task.lstat(bytes).unwrap();
            let body = match stat.mode & mode::S_IFMT {
                mode::S_IFREG => read(task, bytes),
                mode::S_IFLNK => task.readlink(bytes).unwrap(),
                _ => Vec::new(),
            };
            let value = task.lgetxattr(bytes, b"user.test").unwrap_or_default();
            all.push((self.short(&path), stat, body_of(&body, &value)));
            if mode::is_dir(stat.mode) {
                self.shown_below(task, &path, all);
            }
        }
    }

    fn short(&self, path: &Path) -> String {
        let path = path.strip_prefix(self.top.join("base")).unwrap();
        path.display().to_string()
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for dir in [&self.view, &self.top] {
            if let (Some(parent), Some(name)) = (dir.parent(), dir.file_name()) {
                remove(parent, name).ok();
            }
        }
    }
}

/// Removes a name of a directory, and all that is in it.
pub(super) fn remove(dir: &Path, name: &OsStr) -> std::io::Result<()> {
    openpath_commit::remove_tree_in(std::fs::File::open(dir)?, name)
}

fn body_of(body: &[u8], value: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    format!(
        "{text:.40} {} {}",
        body.len(),
        String::from_utf8_lossy(value)
    )
}

/// Names of one file are listed with the first of them. A further one may be in a backup.
fn named(all: Vec<(String, Stat, String)>) -> Shown {
    let mut first: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for (path, stat, _) in all.iter().filter(|(_, stat, _)| !mode::is_dir(stat.mode)) {
        first.entry(stat.ino).or_default().push(path.clone());
    }
    let mut shown = Shown::new();
    for (path, stat, body) in all {
        let names = first.get(&stat.ino).filter(|names| names.len() > 1);
        let one = names.and_then(|names| names.iter().min()).cloned();
        let one = one.unwrap_or_default();
        let Stat { mode, uid, gid, .. } = stat;
        let (sec, nsec) = (stat.mtime.sec, stat.mtime.nsec);
        let text = format!("{mode:o} {uid} {gid} {sec}.{nsec} {one} {body}");
        shown.insert(path, text);
    }
    shown
}

/// The names in a directory of a view.
pub(super) fn names(task: &Task, dir: &[u8]) -> Vec<Vec<u8>> {
    let fd = task.open(dir, O_RDONLY | O_DIRECTORY, 0).unwrap();
    let mut names = Vec::new();
    loop {
        let some = task.getdents64(fd, 4096).unwrap();
        if some.is_empty() {
            break;
        }
        names.extend(some.into_iter().map(|entry| entry.name));
    }
    task.close(fd).unwrap();
    names.retain(|name| name != b"." && name != b"..");
    names.sort();
    names
}

pub(super) fn read(task: &Task, path: &[u8]) -> Vec<u8> {
    let fd = task.open(path, O_RDONLY, 0).unwrap();
    let mut data = vec![0; 1 << 20];
    let length = task.read(fd, &mut data).unwrap();
    task.close(fd).unwrap();
    data.truncate(length);
    data
}

/// Replaces the data of a file, which is made if there is none. It waits for no reader of a FIFO.
pub(super) fn put(task: &Task, path: &[u8], data: &str) -> Result<(), openpath_abi::Errno> {
    let fd = task.open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK, 0o644)?;
    task.write(fd, data.as_bytes())?;
    task.close(fd)
}

/// Whether root runs the tests. Otherwise a line says which test was skipped, past the capture of
/// output.
pub(super) fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        let test = std::thread::current();
        let name = test.name().unwrap_or("a test").to_owned();
        let line = format!("{name}: SKIPPED, it needs root\n");
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).ok();
    }
    is_root
}

/// Stops after so many steps.
pub(super) struct StopAfter(pub(super) u64);

impl CommitObserver for StopAfter {
    fn step(&mut self, _phase: Phase, done: u64, of: u64) -> bool {
        assert!(done <= of, "{done} of {of}");
        let continues = self.0 > 0;
        self.0 = self.0.saturating_sub(1);
        continues
    }
}

/// Does something once, at the first step of a phase, and goes on.
pub(super) struct ActAt<F: FnOnce()>(pub(super) Phase, pub(super) Option<F>);

impl<F: FnOnce()> CommitObserver for ActAt<F> {
    fn step(&mut self, phase: Phase, _done: u64, _of: u64) -> bool {
        if let Some(something) = self.1.take_if(|_| phase == self.0) {
            something();
        }
        true
    }
}

/// Stops at the first step of a phase.
pub(super) struct StopBefore(pub(super) Phase);

impl CommitObserver for StopBefore {
    fn step(&mut self, phase: Phase, _done: u64, _of: u64) -> bool {
        phase != self.0
    }
}
