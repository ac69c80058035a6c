// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the host kernel's calls that read attributes of files and file systems (stat, statx,
//! statfs).

use openpath_abi::{Errno, Stat, StatFs, Timespec};

use super::{Arg, f32at, f64at, field, n, path, raw};

fn stat_of(b: &[u8; 144]) -> Stat {
    let time = |at| Timespec::new(f64at(b, at), f32at(b, at + 8));
    Stat {
        dev: f64at(b, 0).cast_unsigned(),
        ino: f64at(b, 8).cast_unsigned(),
        nlink: f64at(b, 16).cast_unsigned(),
        mode: f32at(b, 24),
        uid: f32at(b, 28),
        gid: f32at(b, 32),
        rdev: f64at(b, 40).cast_unsigned(),
        size: f64at(b, 48),
        blksize: f64at(b, 56),
        blocks: f64at(b, 64),
        atime: time(72),
        mtime: time(88),
        ctime: time(104),
    }
}

/// newfstatat(2).
///
/// # Errors
/// As the kernel's.
pub fn fstatat(dir: i32, name: &[u8], flags: u32) -> Result<Stat, Errno> {
    let mut b = [0u8; 144];
    let name = path(name);
    let a = &mut [n(dir), Arg::Path(&name), Arg::Out(&mut b), n(flags)];
    raw(libc::SYS_newfstatat, a)?;
    Ok(stat_of(&b))
}

/// stat(2).
///
/// # Errors
/// As the kernel's.
pub fn stat(name: &[u8]) -> Result<Stat, Errno> {
    let mut b = [0u8; 144];
    raw(
        libc::SYS_stat,
        &mut [Arg::Path(&path(name)), Arg::Out(&mut b)],
    )?;
    Ok(stat_of(&b))
}

/// lstat(2).
///
/// # Errors
/// As the kernel's.
pub fn lstat(name: &[u8]) -> Result<Stat, Errno> {
    let mut b = [0u8; 144];
    raw(
        libc::SYS_lstat,
        &mut [Arg::Path(&path(name)), Arg::Out(&mut b)],
    )?;
    Ok(stat_of(&b))
}

/// fstat(2).
///
/// # Errors
/// As the kernel's.
pub fn fstat(fd: i32) -> Result<Stat, Errno> {
    let mut b = [0u8; 144];
    raw(libc::SYS_fstat, &mut [n(fd), Arg::Out(&mut b)])?;
    Ok(stat_of(&b))
}

/// The fields of statx(2) beyond stat(2).
#[derive(Clone, Copy, Debug, Default)]
pub struct RawStatx {
    /// The fields that were filled in.
    pub mask: u32,
    /// `STATX_ATTR_*`.
    pub attributes: u64,
    /// Which of those the file system supports.
    pub attributes_mask: u64,
    /// Birth time.
    pub btime: Timespec,
    /// Mount.
    pub mnt_id: u64,
    /// The fields of stat(2).
    pub stat: Stat,
}

/// statx(2).
///
/// # Errors
/// As the kernel's.
pub fn statx(dir: i32, name: &[u8], flags: u32, mask: u32) -> Result<RawStatx, Errno> {
    let mut b = [0u8; 256];
    let name = path(name);
    let a = &mut [
        n(dir),
        Arg::Path(&name),
        n(flags),
        n(mask),
        Arg::Out(&mut b),
    ];
    raw(libc::SYS_statx, a)?;
    let time = |at| Timespec::new(f64at(&b, at), f32at(&b, at + 8));
    let dev = |at| openpath_abi::stat::makedev(f32at(&b, at), f32at(&b, at + 4));
    Ok(RawStatx {
        mask: f32at(&b, 0),
        attributes: f64at(&b, 8).cast_unsigned(),
        attributes_mask: f64at(&b, 56).cast_unsigned(),
        btime: time(80),
        mnt_id: f64at(&b, 144).cast_unsigned(),
        stat: Stat {
            dev: dev(136),
            ino: f64at(&b, 32).cast_unsigned(),
            mode: u32::from(u16::from_le_bytes(field(&b, 28))),
            nlink: u64::from(f32at(&b, 16)),
            uid: f32at(&b, 20),
            gid: f32at(&b, 24),
            rdev: dev(128),
            size: f64at(&b, 40),
            blksize: i64::from(f32at(&b, 4)),
            blocks: f64at(&b, 48),
            atime: time(64),
            mtime: time(112),
            ctime: time(96),
        },
    })
}

/// statfs(2).
///
/// # Errors
/// As the kernel's.
pub fn statfs(name: &[u8]) -> Result<StatFs, Errno> {
    let mut b = [0u8; 120];
    raw(
        libc::SYS_statfs,
        &mut [Arg::Path(&path(name)), Arg::Out(&mut b)],
    )?;
    Ok(statfs_of(&b))
}

pub(super) fn statfs_of(b: &[u8; 120]) -> StatFs {
    let uns = |at| f64at(b, at).cast_unsigned();
    StatFs {
        kind: f64at(b, 0),
        bsize: f64at(b, 8),
        blocks: uns(16),
        bfree: uns(24),
        bavail: uns(32),
        files: uns(40),
        ffree: uns(48),
        fsid: [f32at(b, 56).cast_signed(), f32at(b, 60).cast_signed()],
        namelen: f64at(b, 64),
        frsize: f64at(b, 72),
        flags: uns(80),
    }
}
