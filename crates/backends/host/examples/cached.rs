// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows the use of `RESOLVE_CACHED` in one session: a file that was never looked up cannot be
//! opened without waiting, however often it is tried; after a stat(2), which may wait, it can.
//!
//! The session runs on the kernel and on openpath over the same directory, side by side. Each has a
//! file of its own, because the first lookup caches a name for both. Files that are not cached are
//! found by listing directories, below the given one or `/usr`: neither a listing nor a try brings
//! a name into the kernel's cache.

use openpath_abi::OpenHow;
use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_abi::resolve::RESOLVE_CACHED;
use openpath_host::{HostFs, HostOptions};
use openpath_vfs::{Cred, Task, Vfs};
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags};
use std::error::Error;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Directories that are listed before the search is given up.
const DIRECTORIES_MAX: usize = 10_000;
/// How often the last open is tried: Linux also answers `EAGAIN` while anything anywhere is renamed
/// or mounted.
const TRIES_MAX: u32 = 100;

type Done<T> = Result<T, Box<dyn Error>>;

/// One side: whether the file opened, and its size.
trait Side {
    /// openat2(2) with `RESOLVE_CACHED`: "opened", or the error.
    fn try_open(&self) -> String;
    /// stat(2): the size, or the error.
    fn stat(&self) -> String;
}

struct Kernel(OwnedFd, PathBuf);

struct Openpath(Task, Vec<u8>);

impl Side for Kernel {
    fn try_open(&self) -> String {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let tried =
            rustix::fs::openat2(&self.0, &self.1, flags, Mode::empty(), ResolveFlags::CACHED);
        match tried {
            Ok(_) => "opened".to_owned(),
            Err(rustix::io::Errno::AGAIN) => "EAGAIN".to_owned(),
            Err(why) => why.to_string(),
        }
    }

    fn stat(&self) -> String {
        match rustix::fs::statat(&self.0, &self.1, AtFlags::empty()) {
            Ok(stat) => format!("{} bytes", stat.st_size),
            Err(why) => why.to_string(),
        }
    }
}

impl Side for Openpath {
    fn try_open(&self) -> String {
        let how = OpenHow {
            flags: u64::from(O_RDONLY),
            mode: 0,
            resolve: RESOLVE_CACHED,
        };
        let tried = self.0.openat2(AT_FDCWD, &self.1, &how);
        match tried.and_then(|fd| self.0.close(fd)) {
            Ok(()) => "opened".to_owned(),
            Err(why) => why.to_string(),
        }
    }

    fn stat(&self) -> String {
        match self.0.stat(&self.1) {
            Ok(stat) => format!("{} bytes", stat.size),
            Err(why) => why.to_string(),
        }
    }
}

fn session(side: &dyn Side) -> [String; 4] {
    let before = [side.try_open(), side.try_open()];
    let stat = side.stat();
    let mut after = (0..TRIES_MAX).map(|_| side.try_open());
    let after = after.find(|answer| answer != "EAGAIN");
    let [first, second] = before;
    [
        first,
        second,
        stat,
        after.unwrap_or_else(|| "EAGAIN".to_owned()),
    ]
}

/// Is the name there, and not in the kernel's cache?
fn is_cold(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let tried = || rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::CACHED);
    // Three times, because one `EAGAIN` may have another cause.
    (0..3).all(|_| tried().is_err_and(|why| why == rustix::io::Errno::AGAIN))
}

/// A directory below `top`, and two files in it with names that are not cached.
fn cold_files(top: &Path) -> Option<(PathBuf, [PathBuf; 2])> {
    let mut waiting = vec![top.to_owned()];
    for _ in 0..DIRECTORIES_MAX {
        let dir = waiting.pop()?;
        let mut cold = Vec::new();
        // A directory that cannot be listed is passed over.
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => waiting.push(entry.path()),
                Ok(kind) if kind.is_file() && cold.len() < 2 && is_cold(&entry.path()) => {
                    cold.push(PathBuf::from(entry.file_name()));
                }
                _ => {}
            }
        }
        if let Ok(files) = cold.try_into() {
            return Some((dir, files));
        }
    }
    None
}

/// As [`cold_files`]; if nothing is cold and the process may, the kernel's cache is dropped first.
fn find(top: &Path) -> Done<(PathBuf, [PathBuf; 2])> {
    if let Some(found) = cold_files(top) {
        return Ok(found);
    }
    let name = top.display();
    std::fs::write("/proc/sys/vm/drop_caches", "2").map_err(|why| {
        format!("no directory below {name} has two files that are not cached; drop_caches: {why}")
    })?;
    println!("everything below {name} was cached; the kernel was told to forget it");
    let found = cold_files(top);
    found.ok_or_else(|| format!("nothing below {name} can be made cold").into())
}

fn main() -> Done<()> {
    let top = std::env::args_os().nth(1).unwrap_or_else(|| "/usr".into());
    let (dir, [ours, kernels]) = find(Path::new(&top))?;

    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let kernel = Kernel(
        rustix::fs::open(&dir, flags, Mode::empty())?,
        kernels.clone(),
    );

    let options = HostOptions::default().read_only(true);
    let vfs = Vfs::builder().build(HostFs::open(&dir, options)?)?;
    let path = [b"/", ours.as_os_str().as_bytes()].concat();
    let openpath = Openpath(vfs.task(Cred::root())?, path);

    println!("in {}", dir.display());
    println!("  the kernel's file: {}", kernels.display());
    println!("  openpath's file:   {}\n", ours.display());
    println!("{:32}{:16}openpath", "", "kernel");
    let calls = [
        "openat2(.., RESOLVE_CACHED)",
        "openat2(.., RESOLVE_CACHED)",
        "stat(..)",
        "openat2(.., RESOLVE_CACHED)",
    ];
    let (left, right) = (session(&kernel), session(&openpath));
    for (at, call) in calls.iter().enumerate() {
        println!("{call:32}{:16}{}", left[at], right[at]);
    }
    Ok(())
}
