// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the host kernel's calls on open files and their limits: pipes, signal owners, ioctl, poll,
//! vectored reads and writes, and copies.

use openpath_abi::{Errno, StatFs};

use super::stat::statfs_of;
use super::{Arg, Ret, field, filled, n, path, raw, u};

calls! {
    /// close_range(2).
    close_range = SYS_close_range(first: w, last: w, flags: w);
    /// dup(2).
    dup = SYS_dup(fd: i);
    /// dup2(2).
    dup2 = SYS_dup2(fd: i, new: i);
    /// dup3(2).
    dup3 = SYS_dup3(fd: i, new: i, flags: w);
    /// fallocate(2).
    fallocate = SYS_fallocate(fd: i, mode: w, off: l, len: l);
    /// fsync(2).
    fsync = SYS_fsync(fd: i);
    /// fdatasync(2).
    fdatasync = SYS_fdatasync(fd: i);
    /// syncfs(2).
    syncfs = SYS_syncfs(fd: i);
    /// posix_fadvise(2).
    fadvise = SYS_fadvise64(fd: i, off: l, len: l, advice: w);
    /// inotify_init1(2).
    inotify_init1 = SYS_inotify_init1(flags: w);
    /// inotify_add_watch(2).
    inotify_add_watch = SYS_inotify_add_watch(fd: i, name: p, mask: w);
    /// inotify_rm_watch(2).
    inotify_rm_watch = SYS_inotify_rm_watch(fd: i, wd: i);
    /// pidfd_open(2).
    pidfd_open = SYS_pidfd_open(pid: i, flags: w);
    /// pidfd_getfd(2).
    pidfd_getfd = SYS_pidfd_getfd(pidfd: i, fd: i, flags: w);
}

/// getpid(2).
pub fn getpid() -> Ret {
    raw(libc::SYS_getpid, &mut [])
}

/// getrlimit(2) of the soft limit `RLIMIT_NOFILE`.
///
/// # Errors
/// As the kernel's.
pub fn files_limit() -> Result<u64, Errno> {
    let mut old = [0u8; 16];
    let which = n(libc::RLIMIT_NOFILE);
    raw(
        libc::SYS_prlimit64,
        &mut [n(0), which, Arg::Null, Arg::Out(&mut old)],
    )?;
    Ok(u64::from_ne_bytes(field(&old, 0)))
}

/// setrlimit(2) of the soft limit `RLIMIT_NOFILE`; the hard limit stays.
pub fn limit_files(soft: u64) -> Ret {
    let mut old = [0u8; 16];
    let which = libc::RLIMIT_NOFILE;
    raw(
        libc::SYS_prlimit64,
        &mut [n(0), n(which), Arg::Null, Arg::Out(&mut old)],
    )?;
    old[..8].copy_from_slice(&soft.to_ne_bytes());
    raw(
        libc::SYS_prlimit64,
        &mut [n(0), n(which), Arg::In(&old), Arg::Null],
    )
}

/// pipe2(2): the descriptors of its ends.
///
/// # Errors
/// As the kernel's.
pub fn pipe2(flags: u32) -> Result<[i32; 2], Errno> {
    let mut b = [0u8; 8];
    raw(libc::SYS_pipe2, &mut [Arg::Out(&mut b), n(flags)])?;
    Ok([
        i32::from_le_bytes(field(&b, 0)),
        i32::from_le_bytes(field(&b, 4)),
    ])
}

/// fstatfs(2).
///
/// # Errors
/// As the kernel's.
pub fn fstatfs(fd: i32) -> Result<StatFs, Errno> {
    let mut b = [0u8; 120];
    raw(libc::SYS_fstatfs, &mut [n(fd), Arg::Out(&mut b)])?;
    Ok(statfs_of(&b))
}

/// fcntl(2) `F_GETOWN_EX`: kind and number.
///
/// # Errors
/// As the kernel's.
pub fn getown_ex(fd: i32) -> Result<[i32; 2], Errno> {
    let mut b = [0u8; 8];
    let cmd = n(openpath_abi::fcntl::F_GETOWN_EX);
    raw(libc::SYS_fcntl, &mut [n(fd), cmd, Arg::Out(&mut b)])?;
    Ok([
        i32::from_le_bytes(field(&b, 0)),
        i32::from_le_bytes(field(&b, 4)),
    ])
}

/// fcntl(2) `F_SETOWN_EX`.
pub fn setown_ex(fd: i32, kind: i32, id: i32) -> Ret {
    let b: Vec<u8> = [kind, id].iter().flat_map(|v| v.to_le_bytes()).collect();
    let cmd = n(openpath_abi::fcntl::F_SETOWN_EX);
    raw(libc::SYS_fcntl, &mut [n(fd), cmd, Arg::In(&b)])
}

/// ioctl(2) of a request that reads or writes at most these eight bytes.
///
/// # Errors
/// As the kernel's.
pub fn ioctl(fd: i32, request: u32, arg: i64) -> Result<[u8; 8], Errno> {
    // Far more than any of the requests takes.
    let mut b = [0u8; 128];
    b[..8].copy_from_slice(&arg.to_le_bytes());
    raw(libc::SYS_ioctl, &mut [n(fd), n(request), Arg::Out(&mut b)])?;
    Ok(field(&b, 0))
}

/// poll(2) of one descriptor, without waiting; returns its events.
///
/// # Errors
/// As the kernel's.
pub fn poll(fd: i32, events: u16) -> Result<u16, Errno> {
    let mut b = [0u8; 8];
    b[..4].copy_from_slice(&fd.to_le_bytes());
    b[4..6].copy_from_slice(&events.to_le_bytes());
    raw(libc::SYS_poll, &mut [Arg::Out(&mut b), n(1), n(0)])?;
    Ok(u16::from_le_bytes(field(&b, 6)))
}

/// An array of `struct iovec` for these addresses and lengths.
fn iovecs(parts: impl Iterator<Item = (usize, usize)>) -> Vec<u8> {
    parts
        .flat_map(|(at, len)| [at as u64, len as u64])
        .flat_map(u64::to_ne_bytes)
        .collect()
}

/// readv(2), or preadv2(2) with an offset and flags.
///
/// # Errors
/// As the kernel's.
pub fn readv(fd: i32, lens: &[usize], at: Option<(i64, u32)>) -> Result<Vec<u8>, Errno> {
    filled(lens.iter().sum(), |buffer| {
        let mut from = buffer.as_mut_ptr() as usize;
        let parts = lens.iter().map(|len| {
            from += len;
            (from - len, *len)
        });
        vectored([libc::SYS_readv, libc::SYS_preadv2], fd, &iovecs(parts), at)
    })
}

/// writev(2), or pwritev2(2) with an offset and flags.
pub fn writev(fd: i32, data: &[Vec<u8>], at: Option<(i64, u32)>) -> Ret {
    let parts = data.iter().map(|d| (d.as_ptr() as usize, d.len()));
    vectored(
        [libc::SYS_writev, libc::SYS_pwritev2],
        fd,
        &iovecs(parts),
        at,
    )
}

fn vectored(calls: [libc::c_long; 2], fd: i32, iov: &[u8], at: Option<(i64, u32)>) -> Ret {
    let count = u(iov.len() as u64 / 16);
    match at {
        None => raw(calls[0], &mut [n(fd), Arg::In(iov), count]),
        Some((off, flags)) => raw(
            calls[1],
            &mut [n(fd), Arg::In(iov), count, n(off), n(0), n(flags)],
        ),
    }
}

/// copy_file_range(2); moves the offsets on as the kernel does.
pub fn copy_file_range(
    from: (i32, &mut Option<i64>),
    to: (i32, &mut Option<i64>),
    len: usize,
    flags: u32,
) -> Ret {
    let (mut a, mut b) = (words(*from.1), words(*to.1));
    let r = raw(
        libc::SYS_copy_file_range,
        &mut [
            n(from.0),
            pointer(from.1, &mut a),
            n(to.0),
            pointer(to.1, &mut b),
            u(len as u64),
            n(flags),
        ],
    );
    moved(from.1, a);
    moved(to.1, b);
    r
}

/// sendfile(2); moves the offset on as the kernel does.
pub fn sendfile(to: i32, from: i32, off: &mut Option<i64>, len: usize) -> Ret {
    let mut a = words(*off);
    let r = raw(
        libc::SYS_sendfile,
        &mut [n(to), n(from), pointer(off, &mut a), u(len as u64)],
    );
    moved(off, a);
    r
}

fn words(off: Option<i64>) -> [u8; 8] {
    off.unwrap_or(0).to_ne_bytes()
}

fn pointer<'a>(off: &Option<i64>, b: &'a mut [u8; 8]) -> Arg<'a> {
    match off {
        Some(_) => Arg::Out(b),
        None => Arg::Null,
    }
}

fn moved(off: &mut Option<i64>, b: [u8; 8]) {
    if let Some(off) = off {
        *off = i64::from_ne_bytes(b);
    }
}
