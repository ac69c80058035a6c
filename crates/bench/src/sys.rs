// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the unsafe code of this crate, apart from the arena of `gate::sys`: the host's system
//! calls and the counting allocator.
#![expect(unsafe_code, reason = "raw system calls have no other face")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CpuSet, UnshareFlags, unshare_unsafe};
use rustix::time::{ClockId, clock_gettime};

use crate::common::*;

/// Processor time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Gives the calling thread its own root and working directory, and its own descriptor table if
/// `files`.
pub(crate) fn unshare_thread(files: bool) -> io::Result<()> {
    let mut flags = UnshareFlags::FS;
    flags.set(UnshareFlags::FILES, files);
    // SAFETY: the thread keeps copies of all descriptors, and closes only what it opens itself.
    Ok(unsafe { unshare_unsafe(flags) }?)
}

/// Gives the calling thread its own mount namespace.
pub(crate) fn unshare_mounts() -> io::Result<()> {
    // SAFETY: the descriptor table stays shared.
    Ok(unsafe { unshare_unsafe(UnshareFlags::NEWNS) }?)
}

/// Raises the descriptor limit to `count`, or to the hard limit; returns the limit.
pub(crate) fn allow_descriptors(count: u64) -> u64 {
    let set = |current: u64, maximum| {
        let current = Some(current);
        setrlimit(Resource::Nofile, Rlimit { current, maximum })
    };
    if set(count, Some(count)).is_ok() {
        return count;
    }
    let maximum = getrlimit(Resource::Nofile).maximum;
    let most = maximum.unwrap_or(count).min(count);
    let _ = set(most, maximum);
    most
}

/// The processors the calling thread may run on.
pub(crate) fn processors() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    (0..CpuSet::MAX_CPU).filter(|&i| set.is_set(i)).collect()
}

/// Keeps the calling thread on these processors.
pub(crate) fn pin(processors: &[usize]) {
    let mut set = CpuSet::new();
    processors.iter().for_each(|&i| set.set(i));
    let _ = rustix::thread::sched_setaffinity(None, &set);
}

/// Reads the processor's clock after all earlier instructions and before all later ones. Its unit
/// must be measured.
#[inline(always)]
pub(crate) fn ticks() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: every x86-64 processor has both.
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// fcntl(2) with `command` and a lock of the whole file, exclusive or none; returns whether it
/// succeeded.
#[inline]
pub(crate) fn lock_range(fd: i32, command: u32, alone: bool) -> bool {
    let kind = if alone { libc::F_WRLCK } else { libc::F_UNLCK };
    // SAFETY: a zeroed lock is a valid one: from the file's start to its end. It outlives the call.
    unsafe {
        let mut lock: libc::flock = std::mem::zeroed();
        lock.l_type = kind as libc::c_short;
        libc::fcntl(fd, command.cast_signed(), &raw const lock) == 0
    }
}

/// flock(2); returns whether it succeeded.
#[inline]
pub(crate) fn flock(fd: i32, op: u32) -> bool {
    // SAFETY: no pointer.
    unsafe { libc::flock(fd, op.cast_signed()) == 0 }
}

/// close_range(2).
pub(crate) fn close_range(first: u32, last: u32) {
    // SAFETY: the callers close only what `dup` gave them.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// A call's result: a number, or the errno.
#[inline(always)]
fn answer(result: i32) -> Result<i32, Errno> {
    if result < 0 {
        // SAFETY: the location is this thread's own.
        return Err(Errno::from_raw(unsafe { *libc::__errno_location() }));
    }
    Ok(result)
}

impl Calls for Kernel {
    #[inline]
    fn open(&self, path: &CStr, flags: OFlags, mode: u32) -> Result<i32, Errno> {
        // SAFETY: `path` ends in NUL.
        answer(unsafe { libc::open(path.as_ptr(), flags.bits().cast_signed(), mode) })
    }

    #[inline]
    fn close(&self, fd: i32) -> bool {
        // SAFETY: the callers close only what the calls of this side gave them.
        unsafe { libc::close(fd) == 0 }
    }

    #[inline]
    fn dup(&self, fd: i32) -> Result<i32, Errno> {
        // SAFETY: no pointer.
        answer(unsafe { libc::dup(fd) })
    }

    #[inline]
    fn dup_from(&self, fd: i32, start: u32) -> Result<i32, Errno> {
        // SAFETY: no pointer.
        answer(unsafe { libc::fcntl(fd, libc::F_DUPFD, start) })
    }

    #[inline]
    fn stat(&self, path: &CStr) -> Result<(), Errno> {
        let mut out = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: `path` ends in NUL, and `out` is as large as the kernel expects.
        answer(unsafe { libc::stat(path.as_ptr(), out.as_mut_ptr()) }).map(drop)
    }

    #[inline]
    fn lstat(&self, path: &CStr) -> Result<(), Errno> {
        let mut out = MaybeUninit::<libc::stat>::uninit();
        // SAFETY: as above.
        answer(unsafe { libc::lstat(path.as_ptr(), out.as_mut_ptr()) }).map(drop)
    }

    #[inline]
    fn statx(&self, path: &CStr) -> Result<(), Errno> {
        let mut out = MaybeUninit::<libc::statx>::uninit();
        let (path, mask) = (path.as_ptr(), libc::STATX_BASIC_STATS);
        // SAFETY: as above.
        answer(unsafe { libc::statx(libc::AT_FDCWD, path, 0, mask, out.as_mut_ptr()) }).map(drop)
    }

    #[inline]
    fn unlink(&self, path: &CStr) -> bool {
        // SAFETY: `path` ends in NUL.
        unsafe { libc::unlink(path.as_ptr()) == 0 }
    }

    fn make_dir(&self, path: &[u8]) -> Result<(), Error> {
        fs::create_dir_all(OsStr::from_bytes(path)).host("create a directory on the host")
    }

    fn make_link(&self, target: &[u8], path: &[u8]) -> Result<(), Error> {
        let made = std::os::unix::fs::symlink(OsStr::from_bytes(target), OsStr::from_bytes(path));
        made.host("create a link on the host")
    }

    fn make_file(&self, path: &[u8], content: &[u8]) -> Result<(), Error> {
        fs::write(OsStr::from_bytes(path), content).host("create a file on the host")
    }
}

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Allocates from the system and counts per thread, or from an arena if `gate::sys::in_arena`
/// requests it. A binary makes it its global allocator.
pub struct CountingAlloc;

// SAFETY: a block is either the system's, to which it returns, or a part of an arena that overlaps
// no other and is never released.
unsafe impl GlobalAlloc for CountingAlloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        match gate::sys::arena_alloc(layout) {
            Some(at) => at,
            // SAFETY: as the caller promised.
            None => unsafe { System.alloc(layout) },
        }
    }

    // Zeroed pages of the system are not written: they stay unmapped until they are used.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count_allocation();
        match gate::sys::arena_alloc(layout) {
            Some(at) => {
                if !at.is_null() {
                    // SAFETY: the block is new and as long as asked for.
                    unsafe { at.write_bytes(0, layout.size()) };
                }
                at
            }
            // SAFETY: as the caller promised.
            None => unsafe { System.alloc_zeroed(layout) },
        }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        if !gate::sys::arena_holds(at) {
            // SAFETY: as the caller promised, and it is the system's.
            unsafe { System.dealloc(at, layout) }
        }
    }
}

fn count_allocation() {
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

/// How often the calling thread has allocated, if [`CountingAlloc`] is the global allocator.
pub fn allocations() -> u64 {
    ALLOCATIONS.with(Cell::get)
}
