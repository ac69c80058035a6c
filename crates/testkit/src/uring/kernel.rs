// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs batches of ring entries (a scene) on the kernel's ring, in a thread with its own table and
//! working directory.

use super::sys::{KernelRing, SHIFT};
use super::{Act, DIRS, Desc, ENTRIES, Entry, FDS, Leaf, SLOTS, Scene, Step, Trace, flag, paths};
use crate::scratch::Scratch;
use crate::sys;
use openpath_abi::Errno;
use openpath_abi::fcntl::{F_GETFD, F_GETFL, O_RDWR, SEEK_CUR};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

const CLONE_FS: u32 = 0x200;
const CLONE_FILES: u32 = 0x400;
const S_IFIFO: u32 = 0o010_000;
const CWD: i32 = -100;

/// Turns the error of a host call that must succeed into a message.
fn must<T>(what: &str, done: Result<T, Errno>) -> Result<T, String> {
    done.map_err(|errno| format!("{what} on the host: {errno}"))
}

/// Runs a scene that should give this many completions, with so long for each.
pub(super) fn run(scene: &Scene, expected: usize, patience: Duration) -> Result<Trace, String> {
    let place = Scratch::new("uring").map_err(|e| e.to_string())?;
    let inside = || inside(place.path(), scene, expected, patience);
    let mut trace = std::thread::scope(|scope| {
        let thread = scope.spawn(inside);
        thread
            .join()
            .map_err(|_| "the kernel's side panicked".to_owned())?
    })?;
    for path in paths() {
        if let Some(leaf) = leaf(&place.path().join(&path)) {
            trace.files.insert(path, leaf);
        }
    }
    Ok(trace)
}

/// The state of a file.
fn leaf(path: &Path) -> Option<Leaf> {
    let meta = std::fs::symlink_metadata(path).ok()?;
    if meta.is_dir() {
        return Some((meta.mode(), 0, 0, Vec::new()));
    }
    let bytes = if meta.is_symlink() {
        std::fs::read_link(path)
            .ok()?
            .as_os_str()
            .as_bytes()
            .to_vec()
    } else {
        std::fs::read(path).unwrap_or_default()
    };
    Some((meta.mode(), meta.nlink(), meta.size().cast_signed(), bytes))
}

/// Makes and opens the first files of a scene.
fn set_up() -> Result<(), String> {
    must("mknod", sys::mknodat(CWD, b"fifo", S_IFIFO | 0o644, 0))?;
    let fifo = must("open", sys::openat(CWD, b"fifo", O_RDWR.bits(), 0))?;
    if fifo != i64::from(SHIFT) {
        return Err(format!("the FIFO has descriptor {fifo}"));
    }
    for k in 0..DIRS {
        let (dir, file) = (format!("k{k}"), format!("k{k}/f"));
        must("mkdir", sys::mkdirat(CWD, dir.as_bytes(), 0o755))?;
        let flags = O_RDWR | openpath_abi::fcntl::O_CREAT;
        let fd = must(
            "open",
            sys::openat(CWD, file.as_bytes(), flags.bits(), 0o644),
        )?;
        // A descriptor.
        must("write", sys::pwrite(fd as i32, b"0123456789", 0))?;
    }
    Ok(())
}

fn inside(dir: &Path, scene: &Scene, expected: usize, patience: Duration) -> Result<Trace, String> {
    must("unshare", sys::unshare(CLONE_FS | CLONE_FILES))?;
    must("chdir", sys::chdir(dir.as_os_str().as_bytes()))?;
    must("umask", sys::umask(0o022))?;
    must("close_range", sys::close_range(0, u32::MAX, 0))?;
    let ring = KernelRing::new(ENTRIES, SLOTS);
    let ring = ring.map_err(|e| format!("no ring: {e}"))?;
    set_up()?;
    let mut side = Side {
        ring,
        trace: Trace::default(),
        patience,
    };
    for step in &scene.0 {
        side.step(step)?;
    }
    side.until(expected)?;
    side.end(scene)?;
    for fd in 0..FDS {
        if let Some(desc) = descriptor(fd + SHIFT) {
            side.trace.table.insert(fd, desc);
        }
    }
    Ok(side.trace)
}

fn descriptor(fd: i32) -> Option<Desc> {
    let own = sys::fcntl(fd, F_GETFD, 0).ok()?;
    let flags = sys::fcntl(fd, F_GETFL, 0).unwrap_or(-1);
    let stat = sys::fstat(fd).ok()?;
    let is_file = stat.mode & 0o170_000 == 0o100_000;
    let size = if is_file { stat.size } else { 0 };
    Some((own, flags, sys::lseek(fd, 0, SEEK_CUR), stat.mode, size))
}

struct Side {
    ring: KernelRing,
    trace: Trace,
    /// The time for a completion to come.
    patience: Duration,
}

impl Side {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Submit(entries) => match self.ring.submit(entries) {
                Ok(n) if n == entries.len() => Ok(()),
                other => Err(format!(
                    "the kernel took {other:?} of {} entries",
                    entries.len()
                )),
            },
            Step::Feed(n) => must("write", sys::write(SHIFT, &vec![b'x'; *n])).map(drop),
            Step::Await(n) => self.until(*n),
        }
    }

    /// Waits for this many completions.
    fn until(&mut self, count: usize) -> Result<(), String> {
        let begun = Instant::now();
        while self.trace.answers.len() < count {
            let came = self
                .ring
                .take(100)
                .map_err(|e| format!("io_uring_enter: {e}"))?;
            self.trace.answers.extend(came);
            if begun.elapsed() > self.patience {
                let answers = &self.trace.answers;
                return Err(format!(
                    "the kernel gave {} of {count} completions: {answers:?}; under way: {:?}",
                    answers.len(),
                    self.ring.under_way(),
                ));
            }
        }
        Ok(())
    }

    /// Checks that no further completion comes.
    fn end(&mut self, scene: &Scene) -> Result<(), String> {
        let came = self.trace.answers.len();
        if scene.entries().any(|entry| entry.flags & flag::SKIP != 0) {
            // A ring with silent entries no longer drains, so no completion marks the end.
            let late = self.ring.take(20).map_err(|e| e.to_string())?;
            self.trace.answers.extend(late);
            return Ok(());
        }
        let marker = Entry {
            act: Act::Nop,
            data: 0,
            flags: flag::DRAIN,
        };
        self.step(&Step::Submit(vec![marker]))?;
        self.until(came + 1)?;
        while self.trace.answers.iter().all(|answer| answer.data != 0) {
            self.until(self.trace.answers.len() + 1)?;
        }
        self.trace.answers.retain(|answer| answer.data != 0);
        Ok(())
    }
}
