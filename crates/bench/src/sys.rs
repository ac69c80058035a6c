// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds the unsafe code of this crate, apart from the arena of `gate::sys`: the host's system
//! calls, the counting allocator and the tracer.
#![expect(unsafe_code, reason = "raw system calls have no other face")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{CStr, OsStr};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::{fs, io};

use openpath_abi::{Errno, OFlags};

use crate::calls::{Calls, Kernel};
use crate::error::Error;
use crate::gate;

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Processor time of the calling thread.
pub(crate) fn thread_cpu_ns() -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is ours and large enough.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Gives the calling thread its own root and working directory, and its own descriptor table if
/// `files`.
pub(crate) fn unshare_thread(files: bool) -> io::Result<()> {
    let files = if files { libc::CLONE_FILES } else { 0 };
    // SAFETY: no pointer; the thread's own views are exchanged for copies.
    check(unsafe { libc::unshare(libc::CLONE_FS | files) }).map(drop)
}

/// Raises the descriptor limit to `count`, or to the hard limit; returns the limit.
pub(crate) fn allow_descriptors(count: u64) -> u64 {
    let mut limit = libc::rlimit {
        rlim_cur: count,
        rlim_max: count,
    };
    // SAFETY: `limit` is ours and outlives each call.
    unsafe {
        if libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) != 0 {
            libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit);
            limit.rlim_cur = limit.rlim_max.min(count);
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
    limit.rlim_cur
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

/// A lock of the whole file as fcntl(2) takes it.
fn whole(kind: libc::c_int) -> libc::flock {
    // SAFETY: a zeroed lock is a valid one: from the file's start to its end.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock
}

/// fcntl(2) with `command` and a lock of the whole file, exclusive or none; returns whether it
/// succeeded.
#[inline]
pub(crate) fn lock_range(fd: i32, command: u32, alone: bool) -> bool {
    let lock = whole(if alone { libc::F_WRLCK } else { libc::F_UNLCK });
    // SAFETY: the lock outlives the call.
    unsafe { libc::fcntl(fd, command.cast_signed(), &raw const lock) == 0 }
}

/// flock(2); returns whether it succeeded.
#[inline]
pub(crate) fn flock(fd: i32, op: u32) -> bool {
    // SAFETY: no pointer.
    unsafe { libc::flock(fd, op.cast_signed()) == 0 }
}

/// close_range(2).
pub(crate) fn close_range(first: u32, last: u32) {
    // SAFETY: the callers close only what [`dup`] gave them.
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
        let made = fs::create_dir_all(OsStr::from_bytes(path));
        made.map_err(|e| Error::host("create a directory on the host", e))
    }

    fn make_link(&self, target: &[u8], path: &[u8]) -> Result<(), Error> {
        let made = std::os::unix::fs::symlink(OsStr::from_bytes(target), OsStr::from_bytes(path));
        made.map_err(|e| Error::host("create a link on the host", e))
    }

    fn make_file(&self, path: &[u8], content: &[u8]) -> Result<(), Error> {
        let made = fs::write(OsStr::from_bytes(path), content);
        made.map_err(|e| Error::host("create a file on the host", e))
    }
}

/// getppid(2), the cheapest system call; returns whether it succeeded.
pub(crate) fn getppid() -> bool {
    // SAFETY: no argument.
    unsafe { libc::getppid() >= 0 }
}

/// Gives the calling thread its own mount namespace, without propagation to others.
pub(crate) fn private_mounts() -> io::Result<()> {
    let none = std::ptr::null();
    // SAFETY: unshare takes no pointer; mount gets a NUL-ended target and ignores the rest.
    unsafe {
        check(libc::unshare(libc::CLONE_NEWNS))?;
        let flags = libc::MS_REC | libc::MS_PRIVATE;
        check(libc::mount(none, c"/".as_ptr(), none, flags, none.cast()))?;
    }
    Ok(())
}

/// Mounts a fresh tmpfs on `target`.
pub(crate) fn mount_tmpfs(target: &CStr) -> io::Result<()> {
    let (kind, data) = (c"tmpfs", c"size=90%,nr_inodes=0,mode=755");
    // SAFETY: four NUL-ended strings.
    let done = unsafe {
        libc::mount(
            kind.as_ptr(),
            target.as_ptr(),
            kind.as_ptr(),
            0,
            data.as_ptr().cast(),
        )
    };
    check(done).map(drop)
}

/// Unmounts `target` lazily.
pub(crate) fn umount(target: &CStr) {
    // SAFETY: a NUL-ended string. A failure leaves the mount to the namespace's end.
    unsafe { libc::umount2(target.as_ptr(), libc::MNT_DETACH) };
}

/// Makes the open directory the root and the working directory.
pub(crate) fn enter_root(dir: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a live descriptor and a NUL-ended string.
    unsafe {
        check(libc::fchdir(dir.as_raw_fd()))?;
        check(libc::chroot(c".".as_ptr()))?;
    }
    Ok(())
}

/// Drops the clean pages of a file from the host's cache.
pub(crate) fn drop_pages(file: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: a system call without pointers.
    match unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_DONTNEED) } {
        0 => Ok(()),
        errno => Err(io::Error::from_raw_os_error(errno)),
    }
}

/// The processors the calling thread may run on.
pub(crate) fn processors() -> Vec<usize> {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: all zeros is a valid set, and the kernel fills no more than `size` bytes.
    let set = unsafe {
        libc::sched_getaffinity(0, size, set.as_mut_ptr());
        set.assume_init()
    };
    // SAFETY: every index is below the size of the set.
    (0..libc::CPU_SETSIZE as usize)
        .filter(|&i| unsafe { libc::CPU_ISSET(i, &set) })
        .collect()
}

/// Keeps the calling thread on these processors.
pub(crate) fn pin(processors: &[usize]) {
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: all zeros is a valid set; the indices come from `processors` above.
    unsafe {
        for &i in processors {
            libc::CPU_SET(i, &mut *set.as_mut_ptr());
        }
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set.as_ptr());
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

/// Stops for the tracer; the first call requests tracing.
pub(crate) fn trace_mark() {
    let none = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: neither call uses memory of ours. A second request for tracing is refused.
    unsafe {
        libc::ptrace(libc::PTRACE_TRACEME, 0, none, none);
        libc::raise(libc::SIGSTOP);
    }
}

/// Steps a child between its two [`trace_mark`]s; returns how many of its instructions lock their
/// line. Its parent must be the calling thread.
pub(crate) fn locked_between_marks(child: &std::process::Child) -> io::Result<u64> {
    let pid = child.id().cast_signed();
    let rip = std::mem::offset_of!(libc::user_regs_struct, rip);
    let (mut count, mut known) = (0, HashMap::new());
    wait_stop(pid, libc::SIGSTOP)?;
    loop {
        ptrace(libc::PTRACE_SINGLESTEP, pid, 0)?;
        if wait_stop(pid, libc::SIGTRAP)? == libc::SIGSTOP {
            break;
        }
        let at = ptrace(
            libc::PTRACE_PEEKUSER,
            pid,
            std::mem::offset_of!(libc::user, regs) + rip,
        )?;
        let locked = match known.get(&at) {
            Some(&locked) => locked,
            None => *known
                .entry(at)
                .or_insert(is_locked(&code(pid, at as usize))),
        };
        count += u64::from(locked);
    }
    ptrace(libc::PTRACE_CONT, pid, 0)?;
    Ok(count)
}

fn wait_stop(pid: i32, want: i32) -> io::Result<i32> {
    let mut status = 0;
    // SAFETY: `status` is ours.
    check(unsafe { libc::waitpid(pid, &raw mut status, 0) })?;
    if !libc::WIFSTOPPED(status) {
        return Err(io::Error::other("the traced process ended early"));
    }
    let signal = libc::WSTOPSIG(status);
    if signal == want || signal == libc::SIGSTOP {
        return Ok(signal);
    }
    let told = format!("the traced process got signal {signal}");
    Err(io::Error::other(told))
}

/// ptrace(2) without data; the answer of a request that reads is its word.
fn ptrace(request: libc::c_uint, pid: i32, at: usize) -> io::Result<i64> {
    let (at, none) = (
        at as *mut libc::c_void,
        std::ptr::null_mut::<libc::c_void>(),
    );
    // SAFETY: the errno is this thread's own. The kernel checks the address, which is one of the
    // other process; nothing of ours is read or written.
    let (word, errno) = unsafe {
        *libc::__errno_location() = 0;
        (
            libc::ptrace(request, pid, at, none),
            *libc::__errno_location(),
        )
    };
    match (word, errno) {
        (-1, 1..) => Err(io::Error::from_raw_os_error(errno)),
        _ => Ok(word),
    }
}

/// The bytes of an instruction, as far as they can be read.
fn code(pid: i32, at: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    for (i, half) in bytes.chunks_mut(8).enumerate() {
        let word = ptrace(libc::PTRACE_PEEKTEXT, pid, at + 8 * i);
        half.copy_from_slice(&word.unwrap_or(-1).to_le_bytes());
    }
    bytes
}

/// Whether an instruction locks its line: a lock prefix, or an exchange with memory.
fn is_locked(code: &[u8]) -> bool {
    const PREFIXES: [u8; 10] = [0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65];
    for (i, &byte) in code.iter().enumerate() {
        match byte {
            0xf0 => return true,
            0x86 | 0x87 => return code.get(i + 1).is_some_and(|modrm| modrm >> 6 != 3),
            0x40..=0x4f => {}
            _ if PREFIXES.contains(&byte) => {}
            _ => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locked_instructions_are_recognised() {
        assert!(is_locked(&[0xf0, 0x48, 0x0f, 0xc1, 0x07])); // lock xadd [rdi], rax
        assert!(is_locked(&[0x3e, 0xf0, 0xff, 0x07])); // ds lock inc [rdi]
        assert!(is_locked(&[0x48, 0x87, 0x07])); // xchg [rdi], rax
        assert!(!is_locked(&[0x48, 0x87, 0xc7])); // xchg rdi, rax
        assert!(!is_locked(&[0x48, 0x89, 0x07, 0xf0])); // mov [rdi], rax; next is locked
        assert!(!is_locked(&[0x66, 0x90]));
    }

    #[test]
    fn thread_clock_runs_and_processors_exist() {
        let start = thread_cpu_ns();
        std::hint::black_box((0..100_000u64).fold(0, |a, b| a ^ std::hint::black_box(b)));
        assert!(thread_cpu_ns() > start);
        assert!(!processors().is_empty());
    }
}
