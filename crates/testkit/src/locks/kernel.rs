// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a script of file-lock calls on the running kernel, in one process.
//!
//! Each thread of the script is a thread here. Each process of the script is a group of threads
//! that share a descriptor table: its first thread calls unshare(2) with `CLONE_FILES` and then
//! spawns the others. `ours` runs the same script on openpath.
//!
//! # Rules
//! R1. All threads stay on one processor, so that passing the turn wakes no other.
//! R2. A table has nothing but what its [`Layout`] says: all other descriptors of the program are
//!     closed there.

use super::turns::{Caller, ThreadGroup, serve};
use super::{Answer, FILES, Layout, Op, SIZE, Told};
use crate::scratch::Scratch;
use crate::sys;
use openpath_abi::Errno;
use openpath_abi::fcntl::{AT_FDCWD, SEEK_SET};
use openpath_abi::lock::{F_GETLK, F_OFD_GETLK};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle, Thread};

/// `CLONE_FILES`.
const CLONE_FILES: u32 = 0x400;
/// Where shared open files are kept while the numbers below and above are closed.
const ASIDE: i32 = 900;

/// Makes calls of the kernel, in the calling thread's own table.
#[derive(Clone)]
struct Calls {
    paths: Arc<[Vec<u8>]>,
}

impl Caller for Calls {
    fn call(&self, op: &Op) -> Answer {
        let number = match *op {
            Op::Open(file, flags) => {
                let path = usize::try_from(file).ok().and_then(|at| self.paths.get(at));
                sys::openat(AT_FDCWD, path.ok_or(Errno::ENOENT)?, flags, 0)
            }
            Op::Close(fd) => sys::close(fd),
            Op::CloseRange(first, last) => sys::close_range(first, last, 0),
            Op::Dup(fd) => sys::dup(fd),
            Op::Dup2(fd, to) => sys::dup2(fd, to),
            Op::Seek(fd, to) => sys::lseek(fd, to, SEEK_SET),
            Op::Truncate(fd, to) => sys::ftruncate(fd, to),
            Op::Flock(fd, op) => sys::flock(fd, op),
            Op::Fcntl(fd, cmd, ask) => {
                let found = sys::fcntl_lock(fd, cmd, &ask)?;
                return Ok(match cmd {
                    F_GETLK | F_OFD_GETLK => Told::lock(&found),
                    _ => Told::Number(0),
                });
            }
            Op::Look(look) => return Ok(self.look(look)),
        };
        number.map(Told::Number)
    }
}

/// A thread that is ready to serve: its number, its channel, its handle and its tid.
type Ready = (usize, Sender<Arc<super::turns::Batch>>, Thread, i64);

/// The parameters of a process.
struct Process {
    calls: Calls,
    /// Its first thread, and how many threads it has.
    first: usize,
    count: usize,
    cpu: u32,
    common: Vec<i32>,
    ready: Sender<Result<Ready, Errno>>,
}

impl Process {
    /// Runs the first thread, which makes a table of its own and then the other threads.
    fn begin(self) {
        if let Err(errno) = self.empty_table() {
            // The receiver may be gone.
            let _told = self.ready.send(Err(errno));
            return;
        }
        let others: Vec<JoinHandle<()>> = (1..self.count)
            .map(|at| {
                let (calls, ready, cpu) = (self.calls.clone(), self.ready.clone(), self.cpu);
                let thread = self.first + at;
                thread::spawn(move || follow(&calls, thread, cpu, &ready))
            })
            .collect();
        follow(&self.calls, self.first, self.cpu, &self.ready);
        drop(self.ready);
        for other in others {
            let _ended = other.join();
        }
    }

    /// R2
    fn empty_table(&self) -> Result<(), Errno> {
        sys::unshare(CLONE_FILES)?;
        let pairs = (ASIDE..).zip(&self.common);
        let pairs: Vec<(i32, i32)> = pairs.map(|(aside, fd)| (aside, *fd)).collect();
        let end = ASIDE + i32::try_from(pairs.len()).unwrap_or(0);
        for (aside, fd) in &pairs {
            sys::dup3(*fd, *aside, 0)?;
        }
        sys::close_range(0, ASIDE.cast_unsigned() - 1, 0)?;
        sys::close_range(end.cast_unsigned(), u32::MAX, 0)?;
        for (aside, _) in &pairs {
            sys::dup(*aside)?;
        }
        sys::close_range(ASIDE.cast_unsigned(), u32::MAX, 0)?;
        Ok(())
    }
}

/// Runs one thread of a process.
fn follow(calls: &Calls, thread: usize, cpu: u32, ready: &Sender<Result<Ready, Errno>>) {
    // If this is refused, the run is only slower.
    let _pinned = sys::stay_on(cpu);
    let (batches, told) = channel();
    let is_ready = sys::gettid().map(|tid| (thread, batches, thread::current(), tid));
    if ready.send(is_ready).is_ok() {
        serve(thread, &told, calls);
    }
}

/// The kernel's processes.
pub(super) struct Kernel {
    group: ThreadGroup,
    tids: Vec<i64>,
    processes: Vec<JoinHandle<()>>,
    _folder: Scratch,
}

impl Kernel {
    pub(super) fn new(layout: &Layout) -> io::Result<Self> {
        let folder = Scratch::in_memory("oracle-locks")?;
        let path = |file: i32| folder.path().join(file.to_string());
        for file in 0..FILES {
            std::fs::write(path(file), [b'x'; SIZE])?;
        }
        let mut common = Vec::new();
        if layout.common {
            for file in 0..FILES {
                common.push(File::options().read(true).write(true).open(path(file))?);
            }
        }
        let paths = (0..FILES).map(|file| {
            let path = path(file).into_os_string();
            std::os::unix::ffi::OsStringExt::into_vec(path)
        });
        let calls = Calls {
            paths: paths.collect(),
        };
        let raw = |errno: Errno| io::Error::from_raw_os_error(errno.raw());
        let cpu = sys::getcpu().map_err(raw)?;
        let (ready, is_ready) = channel();
        let processes = layout.firsts().zip(layout.threads).map(|(first, count)| {
            let process = Process {
                calls: calls.clone(),
                first,
                count: *count,
                cpu,
                common: common.iter().map(File::as_raw_fd).collect(),
                ready: ready.clone(),
            };
            thread::spawn(move || process.begin())
        });
        let processes = processes.collect();
        drop(ready);
        let all: Result<Vec<Ready>, Errno> = is_ready.iter().take(layout.count()).collect();
        let mut all = all.map_err(raw)?;
        all.sort_by_key(|ready| ready.0);
        let tids = all.iter().map(|ready| ready.3).collect();
        let members = all
            .into_iter()
            .map(|(_, batches, thread, _)| (batches, thread));
        Ok(Self {
            group: ThreadGroup::new(members.collect()),
            tids,
            processes,
            _folder: folder,
        })
    }

    /// The serving threads.
    pub(super) fn group(&self) -> &ThreadGroup {
        &self.group
    }

    /// Whether a thread sleeps.
    pub(super) fn sleeps(&self, thread: usize) -> bool {
        let path = format!("/proc/self/task/{}/stat", self.tids[thread]);
        let stat = std::fs::read_to_string(path).unwrap_or_default();
        let state = stat.rsplit(')').next().map(str::trim_start);
        state.is_some_and(|state| state.starts_with('S'))
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        self.group.close();
        for process in self.processes.drain(..) {
            let _ended = process.join();
        }
    }
}
