// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of calls a tree in memory with a clock that ticks, tasks of root and of other users,
//! short forms of calls, and a check of a call's answer, mode, owner and changed times.

#![allow(dead_code, reason = "each test uses a part")]

use openpath_abi::fcntl::*;
use openpath_abi::{Errno, OFlags, Stat, Timespec, mode};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Clock, Cred, Fd, Profile, Task, Tuning, Vfs};
use std::sync::atomic::{AtomicI64, Ordering};

/// A descriptor that is not open.
pub(crate) const BAD: Fd = 9999;

/// A clock that advances a second at each reading.
struct Ticks(AtomicI64);

impl Clock for Ticks {
    fn now(&self) -> Timespec {
        Timespec::new(self.0.fetch_add(1, Ordering::Relaxed), 5)
    }
}

/// An instance over an empty tree in memory; its root belongs to root, with mode 0755.
pub(crate) fn world() -> Vfs {
    world_of(MemOptions::default())
}

/// Like [`world`], with other options.
pub(crate) fn world_of(options: MemOptions) -> Vfs {
    build(options, Profile::default())
}

/// Like [`world`], with the profile of another kernel.
pub(crate) fn world_like(profile: Profile) -> Vfs {
    build(MemOptions::default(), profile)
}

/// Tuning that gives each absent name an entry of its own.
pub(crate) fn negatives() -> Tuning {
    let mut tuning = Tuning::default();
    tuning.complete_directories = false;
    tuning
}

/// Like [`world`], where each absent name has an entry of its own.
pub(crate) fn world_with_negatives() -> Vfs {
    build_tuned(MemOptions::default(), Profile::default(), negatives())
}

fn build(options: MemOptions, profile: Profile) -> Vfs {
    build_tuned(options, profile, Tuning::default())
}

fn build_tuned(options: MemOptions, profile: Profile, tuning: Tuning) -> Vfs {
    let options = options.mode(0o755).now(Some(Timespec::new(1, 0)));
    let clock = Box::new(Ticks(AtomicI64::new(1000)));
    let vfs = Vfs::builder().clock(clock).profile(profile).tuning(tuning);
    vfs.build(MemFs::new(options)).expect("a world")
}

pub(crate) fn root(vfs: &Vfs) -> Task {
    let task = vfs.task(Cred::root()).expect("a task");
    task.umask(0);
    task
}

/// A task of user and group `id`, with these supplementary groups and capabilities.
pub(crate) fn user(vfs: &Vfs, id: u32, groups: &[u32], caps: &[u32]) -> Task {
    let cred = Cred {
        caps: caps.iter().fold(0, |all, cap| all | 1 << cap),
        ..Cred::user(id, id, groups)
    };
    let task = vfs.task(cred).expect("a task");
    task.umask(0);
    task
}

/// `OK`, or the name of the error.
pub(crate) fn say<T>(result: Result<T, Errno>) -> String {
    match result {
        Ok(_) => "OK".to_owned(),
        Err(errno) => errno.to_string(),
    }
}

/// Flags from their names without `O_`.
pub(crate) fn flags(names: &str) -> OFlags {
    let one = |name: &str| match name {
        "RD" => O_RDONLY,
        "WR" => O_WRONLY,
        "RW" => O_RDWR,
        "A3" => O_ACCMODE,
        "CREAT" => O_CREAT,
        "EXCL" => O_EXCL,
        "NOCTTY" => O_NOCTTY,
        "TRUNC" => O_TRUNC,
        "APPEND" => O_APPEND,
        "NONBLOCK" => O_NONBLOCK,
        "DSYNC" => O_DSYNC,
        "ASYNC" => O_ASYNC,
        "DIRECT" => O_DIRECT,
        "LARGE" => O_LARGEFILE,
        "DIR" => O_DIRECTORY,
        "NOFOLLOW" => O_NOFOLLOW,
        "NOATIME" => O_NOATIME,
        "CLOEXEC" => O_CLOEXEC,
        "SYNC" => O_SYNC,
        "PATH" => O_PATH,
        "TMP1" => O_TMPFILE_ONLY,
        "TMPFILE" => O_TMPFILE,
        other => panic!("no flag {other}"),
    };
    names
        .split('|')
        .map(one)
        .fold(O_RDONLY, |all, flag| all | flag)
}

/// A time before the first tick of the clock.
pub(crate) const OLD: Timespec = Timespec::new(77, 7);

/// The times that differ, as letters: access, modification, change.
pub(crate) fn moved(before: &Stat, after: &Stat) -> String {
    let mut all = String::new();
    for (letter, old, new) in [
        ('a', before.atime, after.atime),
        ('m', before.mtime, after.mtime),
        ('c', before.ctime, after.ctime),
    ] {
        if old != new {
            all.push(letter);
        }
    }
    all
}

/// Short forms of calls that must succeed.
pub(crate) trait Make {
    fn touch(&self, path: &str, mode: u32, owner: (u32, u32));
    fn dir(&self, path: &str, mode: u32, owner: (u32, u32));
    fn link_to(&self, path: &str, body: &str);
    fn node(&self, path: &str, mode: u32, dev: u64);
    fn data(&self, path: &str, data: &[u8]);
    /// Opens a file for the rest of the test.
    fn get(&self, path: &str, names: &str) -> Fd;
    /// Opens a file for one call.
    fn with<T>(&self, path: &str, names: &str, call: impl FnOnce(Fd) -> T) -> T;
    /// Closes a descriptor that may have been opened; returns the error of its open.
    fn shut(&self, opened: Result<Fd, Errno>) -> Result<(), Errno>;
    /// The flags from `F_GETFL`.
    fn kept(&self, fd: Fd) -> u64;
    fn gone(&self, path: &str);
    fn bits(&self, path: &str) -> u32;
}

impl Make for Task {
    fn touch(&self, path: &str, mode: u32, owner: (u32, u32)) {
        self.shut(self.creat(path.as_bytes(), 0o600)).expect(path);
        self.chown(path.as_bytes(), owner.0, owner.1).expect(path);
        self.chmod(path.as_bytes(), mode).expect(path);
    }
    fn dir(&self, path: &str, mode: u32, owner: (u32, u32)) {
        self.mkdir(path.as_bytes(), 0o700).expect(path);
        self.chown(path.as_bytes(), owner.0, owner.1).expect(path);
        self.chmod(path.as_bytes(), mode).expect(path);
    }
    fn link_to(&self, path: &str, body: &str) {
        self.symlink(body.as_bytes(), path.as_bytes()).expect(path);
    }
    fn node(&self, path: &str, mode: u32, dev: u64) {
        self.mknod(path.as_bytes(), mode, dev).expect(path);
    }
    fn data(&self, path: &str, data: &[u8]) {
        let file = self.creat(path.as_bytes(), 0o644).expect(path);
        assert_eq!(self.write(file, data), Ok(data.len()));
        self.close(file).expect(path);
    }
    fn get(&self, path: &str, names: &str) -> Fd {
        self.open(path.as_bytes(), flags(names), 0o644).expect(path)
    }
    fn with<T>(&self, path: &str, names: &str, call: impl FnOnce(Fd) -> T) -> T {
        let fd = self.get(path, names);
        let answer = call(fd);
        self.close(fd).expect(path);
        answer
    }
    fn shut(&self, opened: Result<Fd, Errno>) -> Result<(), Errno> {
        self.close(opened?)
    }
    fn kept(&self, fd: Fd) -> u64 {
        self.fcntl(fd, F_GETFL, 0).expect("F_GETFL")
    }
    fn gone(&self, path: &str) {
        self.unlink(path.as_bytes()).expect(path);
    }
    fn bits(&self, path: &str) -> u32 {
        let stat = self.lstat(path.as_bytes()).expect(path);
        mode::permissions(stat.mode)
    }
}

/// Makes a call and compares its answer, the mode, owner and group it leaves, and the times it
/// moves.
pub(crate) fn check(
    root: &Task,
    path: &str,
    label: &str,
    call: impl FnOnce() -> Result<(), Errno>,
    expected: (&str, u32, (u32, u32), &str),
) {
    let before = root.lstat(path.as_bytes()).expect(path);
    let answer = say(call());
    let after = root.lstat(path.as_bytes()).expect(path);
    let got = (
        answer.as_str(),
        mode::permissions(after.mode),
        (after.uid, after.gid),
        &*moved(&before, &after),
    );
    assert_eq!(got, expected, "{label}");
}

/// A user: its number, supplementary groups, capabilities.
pub(crate) type UserSpec<'a> = (u32, &'a [u32], &'a [u32]);
