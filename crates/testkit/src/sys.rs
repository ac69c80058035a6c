// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the host kernel's system calls directly, without C library behaviour in between.
//!
//! # Rules
//! * Only this file and that of the kernel's ring have `unsafe` in this crate; every wrapper is
//!   safe for any argument values.
//! * A wrapper passes the kernel exactly its arguments and returns exactly the result.
//! * Numbers and structure layouts are those of x86-64 Linux.
//! * The modules beneath have no `unsafe`. Each holds the calls on one kind of object; `elf` builds
//!   the programs that tests execute.

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};

use openpath_abi::Errno;

/// What a system call returns.
pub type Ret = Result<i64, Errno>;

/// One argument: a number, a string, bytes the kernel reads, or bytes it writes.
enum Arg<'a> {
    Num(i64),
    Path(&'a CString),
    In(&'a [u8]),
    Out(&'a mut [u8]),
    Null,
}

/// Calls `nr`.
///
/// Private, because it is only sound for calls whose pointer arguments are matched by a buffer
/// that is long enough; each wrapper below sees to that.
fn raw(nr: libc::c_long, args: &mut [Arg<'_>]) -> Ret {
    let mut a = [0i64; 6];
    for (slot, arg) in a.iter_mut().zip(args.iter_mut()) {
        *slot = match arg {
            Arg::Num(n) => *n,
            Arg::Path(p) => p.as_ptr() as i64,
            Arg::In(b) => b.as_ptr() as i64,
            Arg::Out(b) => b.as_mut_ptr() as i64,
            Arg::Null => 0,
        };
    }
    // SAFETY: every pointer comes from a borrow in `args` that outlives the call; the wrappers
    // pass the buffer's own length where the call takes one, or a buffer of the structure's size.
    let r = unsafe { libc::syscall(nr, a[0], a[1], a[2], a[3], a[4], a[5]) };
    if r >= 0 {
        return Ok(r);
    }
    // SAFETY: the address of this thread's errno is valid while the thread lives.
    let e = unsafe { *libc::__errno_location() };
    Err(Errno::from_raw(e))
}

/// A path for the kernel: cut at its first NUL, as the kernel would read it.
fn path(bytes: &[u8]) -> CString {
    let end = bytes.iter().position(|&b| b == 0).unwrap_or(bytes.len());
    CString::new(&bytes[..end]).unwrap_or_default()
}

/// A number argument of any width, sign kept.
fn n(v: impl Into<i64>) -> Arg<'static> {
    Arg::Num(v.into())
}

/// An unsigned 64-bit argument.
fn u(v: u64) -> Arg<'static> {
    Arg::Num(v.cast_signed())
}

/// Defines a wrapper: `p` is a path, `n` a number, `u` an unsigned 64-bit number.
macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident = $nr:ident ( $($arg:ident : $kind:ident),* );)*) => {$(
        $(#[$doc])*
        pub fn $name($($arg: calls!(@ty $kind)),*) -> Ret {
            calls!(@go $nr [] $($arg : $kind),*)
        }
    )*};
    (@ty p) => {&[u8]};
    (@ty i) => {i32};
    (@ty w) => {u32};
    (@ty l) => {i64};
    (@ty q) => {u64};
    (@go $nr:ident [$($arg:ident : $kind:ident)*] $($a:ident : $k:ident),*) => {{
        $(let $a = calls!(@keep $k $a);)*
        raw(libc::$nr, &mut [$(calls!(@arg $k $a)),*])
    }};
    (@keep p $a:ident) => {path($a)};
    (@keep $k:ident $a:ident) => {$a};
    (@arg p $a:ident) => {Arg::Path(&$a)};
    (@arg q $a:ident) => {u($a)};
    (@arg $k:ident $a:ident) => {n($a)};
}

mod cpu;
mod elf;
mod files;
mod locks;
mod mounts;
mod stat;
mod xattr;

pub use cpu::*;
pub use files::*;
pub use locks::*;
pub use mounts::*;
pub use stat::*;
pub use xattr::*;

calls! {
    /// openat(2).
    openat = SYS_openat(dir: i, name: p, flags: w, mode: w);
    /// close(2).
    close = SYS_close(fd: i);
    /// fcntl(2), for commands with a number.
    fcntl = SYS_fcntl(fd: i, cmd: w, arg: l);
    /// access(2).
    access = SYS_access(name: p, mode: w);
    /// faccessat2(2).
    faccessat2 = SYS_faccessat2(dir: i, name: p, mode: w, flags: w);
    /// mkdirat(2).
    mkdirat = SYS_mkdirat(dir: i, name: p, mode: w);
    /// mknodat(2).
    mknodat = SYS_mknodat(dir: i, name: p, mode: w, dev: q);
    /// unlinkat(2).
    unlinkat = SYS_unlinkat(dir: i, name: p, flags: w);
    /// renameat2(2).
    renameat2 = SYS_renameat2(dir: i, old: p, dir2: i, new: p, flags: w);
    /// linkat(2).
    linkat = SYS_linkat(dir: i, old: p, dir2: i, new: p, flags: w);
    /// symlinkat(2).
    symlinkat = SYS_symlinkat(target: p, dir: i, name: p);
    /// fchmodat2(2).
    fchmodat2 = SYS_fchmodat2(dir: i, name: p, mode: w, flags: w);
    /// fchmod(2).
    fchmod = SYS_fchmod(fd: i, mode: w);
    /// fchownat(2).
    fchownat = SYS_fchownat(dir: i, name: p, uid: w, gid: w, flags: w);
    /// fchown(2).
    fchown = SYS_fchown(fd: i, uid: w, gid: w);
    /// truncate(2).
    truncate = SYS_truncate(name: p, len: l);
    /// ftruncate(2).
    ftruncate = SYS_ftruncate(fd: i, len: l);
    /// chdir(2).
    chdir = SYS_chdir(name: p);
    /// fchdir(2).
    fchdir = SYS_fchdir(fd: i);
    /// chroot(2).
    chroot = SYS_chroot(name: p);
    /// umask(2).
    umask = SYS_umask(mask: w);
    /// lseek(2).
    lseek = SYS_lseek(fd: i, off: l, whence: w);
    /// pivot_root(2).
    pivot_root = SYS_pivot_root(new: p, put_old: p);
    /// umount2(2).
    umount2 = SYS_umount2(name: p, flags: w);
    /// setresuid(2).
    setresuid = SYS_setresuid(r: w, e: w, s: w);
    /// setresgid(2).
    setresgid = SYS_setresgid(r: w, e: w, s: w);
    /// unshare(2).
    unshare = SYS_unshare(flags: w);
    /// removexattr(2).
    removexattr = SYS_removexattr(name: p, key: p);
    /// lremovexattr(2).
    lremovexattr = SYS_lremovexattr(name: p, key: p);
    /// fremovexattr(2).
    fremovexattr = SYS_fremovexattr(fd: i, key: p);
}

/// openat2(2) with a null pointer for the path, and a whole `struct open_how` of 24 bytes.
pub fn openat2_null(dir: i32, how: &[u8]) -> Ret {
    assert_eq!(how.len(), 24, "the first version of open_how");
    let a = &mut [n(dir), Arg::Null, Arg::In(how), u(24)];
    raw(libc::SYS_openat2, a)
}

/// openat2(2), with the bytes that `how` points to and the size told to the kernel.
///
/// A size above the length of `how` is only allowed where the kernel refuses it unread.
pub fn openat2(dir: i32, name: &[u8], how: &[u8], size: usize) -> Ret {
    assert!(
        size <= how.len() || !(24..=4096).contains(&size),
        "openat2 would read too far"
    );
    let name = path(name);
    let a = &mut [n(dir), Arg::Path(&name), Arg::In(how), u(size as u64)];
    raw(libc::SYS_openat2, a)
}

/// mount(2); no source and no data where empty.
pub fn mount(source: &[u8], target: &[u8], kind: &[u8], flags: u64, data: &[u8]) -> Ret {
    let (source, target, kind, data) = (path(source), path(target), path(kind), path(data));
    let data = if data.is_empty() {
        Arg::Null
    } else {
        Arg::Path(&data)
    };
    let a = &mut [
        Arg::Path(&source),
        Arg::Path(&target),
        Arg::Path(&kind),
        u(flags),
        data,
    ];
    raw(libc::SYS_mount, a)
}

/// setgroups(2).
pub fn setgroups(groups: &[u32]) -> Ret {
    let bytes: Vec<u8> = groups.iter().flat_map(|g| g.to_ne_bytes()).collect();
    raw(
        libc::SYS_setgroups,
        &mut [u(groups.len() as u64), Arg::In(&bytes)],
    )
}

/// utimensat(2); no path where `name` is `None`; times as (seconds, nanoseconds) pairs.
pub fn utimensat(dir: i32, name: Option<&[u8]>, times: [(i64, i64); 2], flags: u32) -> Ret {
    let name = name.map(path);
    let mut b = [0u8; 32];
    for (i, v) in times.iter().flat_map(|t| [t.0, t.1]).enumerate() {
        b[i * 8..i * 8 + 8].copy_from_slice(&v.to_ne_bytes());
    }
    let name = name.as_ref().map_or(Arg::Null, Arg::Path);
    raw(
        libc::SYS_utimensat,
        &mut [n(dir), name, Arg::In(&b), n(flags)],
    )
}

/// Reads a little-endian field of a structure the kernel wrote.
fn field<const N: usize>(b: &[u8], at: usize) -> [u8; N] {
    let mut f = [0; N];
    f.copy_from_slice(&b[at..at + N]);
    f
}

fn f64at(b: &[u8], at: usize) -> i64 {
    i64::from_le_bytes(field(b, at))
}

fn f32at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(field(b, at))
}

/// The bytes that a call wrote into a buffer.
fn filled(len: usize, f: impl FnOnce(&mut [u8]) -> Ret) -> Result<Vec<u8>, Errno> {
    let mut b = vec![0u8; len];
    let got = f(&mut b)?;
    b.truncate(usize::try_from(got).unwrap_or(0));
    Ok(b)
}

/// readlinkat(2), the whole body.
///
/// # Errors
/// As the kernel's.
pub fn readlinkat(dir: i32, name: &[u8]) -> Result<Vec<u8>, Errno> {
    let name = path(name);
    filled(4096, |b| {
        let len = u(b.len() as u64);
        raw(
            libc::SYS_readlinkat,
            &mut [n(dir), Arg::Path(&name), Arg::Out(b), len],
        )
    })
}

/// getcwd(2), without the NUL.
///
/// # Errors
/// As the kernel's.
pub fn getcwd() -> Result<Vec<u8>, Errno> {
    let mut cwd = filled(4096, |b| {
        let len = u(b.len() as u64);
        raw(libc::SYS_getcwd, &mut [Arg::Out(b), len])
    })?;
    cwd.pop();
    Ok(cwd)
}

/// getdents64(2), the raw records.
///
/// # Errors
/// As the kernel's.
pub fn getdents64(fd: i32, max: usize) -> Result<Vec<u8>, Errno> {
    filled(max, |b| {
        let len = u(b.len() as u64);
        raw(libc::SYS_getdents64, &mut [n(fd), Arg::Out(b), len])
    })
}

/// read(2).
///
/// # Errors
/// As the kernel's.
pub fn read(fd: i32, len: usize) -> Result<Vec<u8>, Errno> {
    filled(len, |b| {
        let len = u(b.len() as u64);
        raw(libc::SYS_read, &mut [n(fd), Arg::Out(b), len])
    })
}

/// pread64(2).
///
/// # Errors
/// As the kernel's.
pub fn pread(fd: i32, len: usize, off: i64) -> Result<Vec<u8>, Errno> {
    filled(len, |b| {
        let len = u(b.len() as u64);
        raw(libc::SYS_pread64, &mut [n(fd), Arg::Out(b), len, n(off)])
    })
}

/// write(2).
pub fn write(fd: i32, data: &[u8]) -> Ret {
    raw(
        libc::SYS_write,
        &mut [n(fd), Arg::In(data), u(data.len() as u64)],
    )
}

/// pwrite64(2).
pub fn pwrite(fd: i32, data: &[u8], off: i64) -> Ret {
    raw(
        libc::SYS_pwrite64,
        &mut [n(fd), Arg::In(data), u(data.len() as u64), n(off)],
    )
}

/// memfd_create(2), without flags.
pub fn memfd_create() -> Ret {
    let name = path(b"stamp");
    raw(libc::SYS_memfd_create, &mut [Arg::Path(&name), n(0)])
}

/// gettid(2).
pub fn gettid() -> Ret {
    raw(libc::SYS_gettid, &mut [])
}

/// The signal that stalls a thread.
const HOLD: i32 = libc::SIGUSR2;

/// How long the next thread that gets [`HOLD`] sleeps, in milliseconds.
static HOLD_MS: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);

/// Sleeps wherever the thread happens to be: calls only what a signal handler may.
extern "C" fn hold(_signal: i32) {
    let ms = HOLD_MS.load(std::sync::atomic::Ordering::Acquire);
    let time = [
        (ms / 1000).cast_signed(),
        (ms % 1000 * 1_000_000).cast_signed(),
    ];
    // SAFETY: nanosleep(2) reads the two words of `time`, which outlive the call; errno is saved
    // and restored, so the interrupted code does not see the call.
    unsafe {
        let errno = *libc::__errno_location();
        libc::syscall(libc::SYS_nanosleep, time.as_ptr(), 0);
        *libc::__errno_location() = errno;
    }
}

/// Makes a thread of this process sleep, wherever it happens to be.
///
/// # Errors
/// `ESRCH` if there is no such thread.
pub fn hold_thread(tid: i64, how_long: std::time::Duration) -> Result<(), Errno> {
    let ms = u64::try_from(how_long.as_millis()).unwrap_or(u64::MAX);
    HOLD_MS.store(ms, std::sync::atomic::Ordering::Release);
    // SAFETY: the handler is a function of the right type that only does what a handler may.
    unsafe {
        libc::signal(HOLD, hold as extern "C" fn(i32) as libc::sighandler_t);
    }
    let pid = raw(libc::SYS_getpid, &mut [])?;
    raw(libc::SYS_tgkill, &mut [n(pid), n(tid), n(HOLD)]).map(|_| ())
}

/// Whether a thread of this process still exists.
#[must_use]
pub fn thread_lives(tid: i64) -> bool {
    let pid = raw(libc::SYS_getpid, &mut []).unwrap_or(0);
    raw(libc::SYS_tgkill, &mut [n(pid), n(tid), n(0)]).is_ok()
}

/// Ignores every signal that a descriptor may send, except those of faults and children.
pub fn ignore_signals() {
    let kept = [
        libc::SIGILL,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGCHLD,
    ];
    for signal in (1..=64).filter(|s| !kept.contains(s)) {
        // SAFETY: `SIG_IGN` is a valid disposition; where a signal has to keep its own, nothing
        // happens.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

/// How many descriptors [`survivors`] checks.
pub const SURVIVORS: u8 = 7;

/// Which of the descriptors from `first` on an execve(2) leaves open, a bit each.
///
/// A child with a copy of the caller's table executes a program that checks them.
///
/// # Errors
/// Those of making the child; `ENOEXEC` if it could not execute.
pub fn survivors(first: u8) -> Result<u8, Errno> {
    let program = elf::which_are_open(first, SURVIVORS);
    // SAFETY: without flags but the signal of its end this is fork(2): the child has a copy of
    // everything, and goes on to make system calls only.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        execute(&program);
    }
    let mut status = [0u8; 4];
    let pid = if child < 0 {
        return Err(Errno::EAGAIN);
    } else {
        n(child)
    };
    raw(
        libc::SYS_wait4,
        &mut [pid, Arg::Out(&mut status), n(0), Arg::Null],
    )?;
    match (status[0] & 0x7f, status[1]) {
        (0, open) if open < 1 << SURVIVORS => Ok(open),
        _ => Err(Errno::ENOEXEC),
    }
}

/// Executes the program that is open at `fd` in a child that has nothing else open; returns the
/// child once it runs.
///
/// # Errors
/// Those of execve(2).
pub fn run(fd: i32) -> Ret {
    let flags = libc::SIGCHLD | libc::CLONE_VFORK;
    let failure = shared_word()?;
    // SAFETY: without memory in common, but for that word, this is fork(2), and returns when the
    // child has executed or ended; the child makes system calls only.
    let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if child == 0 {
        // SAFETY: the strings end with a NUL and outlive the call; nothing else is pointed to. The
        // address of this thread's errno is valid.
        unsafe {
            let (below, above) = (i64::from(fd) - 1, i64::from(fd) + 1);
            if below >= 0 {
                libc::syscall(libc::SYS_close_range, 0, below, 0);
            }
            libc::syscall(libc::SYS_close_range, above, u32::MAX, 0);
            libc::syscall(libc::SYS_fcntl, fd, libc::F_SETFD, libc::FD_CLOEXEC);
            let (empty, none) = (c"".as_ptr(), std::ptr::null::<*const i8>());
            let at_empty = libc::AT_EMPTY_PATH;
            libc::syscall(libc::SYS_execveat, fd, empty, none, none, at_empty);
            failure.store(*libc::__errno_location(), Ordering::Release);
            libc::syscall(libc::SYS_exit_group, 1);
        }
        std::process::abort();
    }
    if child < 0 {
        return Err(Errno::EAGAIN);
    }
    match failure.swap(0, Ordering::Acquire) {
        0 => Ok(child),
        errno => {
            halt(child);
            Err(Errno::from_raw(errno))
        }
    }
}

/// A word of memory that this process shares with its children.
fn shared_word() -> Result<&'static AtomicI32, Errno> {
    static WORD: OnceLock<usize> = OnceLock::new();
    let at = WORD.get_or_init(|| {
        let (rights, kind) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
        );
        // SAFETY: a new mapping, wherever there is room.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), 4096, rights, kind, -1, 0) };
        if at == libc::MAP_FAILED {
            0
        } else {
            at as usize
        }
    });
    if *at == 0 {
        return Err(Errno::ENOMEM);
    }
    // SAFETY: the page is mapped for as long as the process lives, aligned, zeroed, and only ever
    // reached through this atomic.
    Ok(unsafe { &*(*at as *const AtomicI32) })
}

/// Kills a child and waits until it is gone.
pub fn halt(child: i64) {
    // A child that is gone needs no kill.
    let _ = raw(libc::SYS_kill, &mut [n(child), n(libc::SIGKILL)]);
    let _ = raw(
        libc::SYS_wait4,
        &mut [n(child), Arg::Null, n(0x4000_0000), Arg::Null],
    );
}

/// A program that waits until it is killed.
#[must_use]
pub fn waiting_program() -> Vec<u8> {
    elf::which_waits()
}

/// Executes a program in the child of a fork(2): allocates nothing.
fn execute(program: &[u8]) -> ! {
    let limit = [1024u64, 1024];
    // SAFETY: every pointer is to memory that outlives the call and is as long as the call reads:
    // two words, a string with its NUL, the program with its length, an empty string.
    unsafe {
        let soft = limit.as_ptr();
        libc::syscall(libc::SYS_prlimit64, 0, libc::RLIMIT_NOFILE, soft, 0);
        let name = c"look".as_ptr();
        let fd = libc::syscall(libc::SYS_memfd_create, name, libc::MFD_CLOEXEC);
        libc::syscall(libc::SYS_write, fd, program.as_ptr(), program.len());
        let empty = c"".as_ptr();
        let none = std::ptr::null::<*const i8>();
        let flags = libc::AT_EMPTY_PATH;
        libc::syscall(libc::SYS_execveat, fd, empty, none, none, flags);
        libc::syscall(libc::SYS_exit_group, 255);
    }
    // Not reached: exit_group(2) does not return.
    std::process::abort()
}
