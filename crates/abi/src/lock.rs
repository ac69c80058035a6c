// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the commands, types and structs of file locks, leases and delegations: fcntl(2)
//! `F_SETLK` and its family, F_OFD_SETLK(2const), `F_SETLEASE`, `F_SETDELEG`, and flock(2).

/// Gets a lock that conflicts with the given one of a process.
pub const F_GETLK: u32 = 5;
/// Sets or releases a lock of the process.
pub const F_SETLK: u32 = 6;
/// As `F_SETLK`, and waits.
pub const F_SETLKW: u32 = 7;
/// Gets a lock that conflicts with the given one of the open file.
pub const F_OFD_GETLK: u32 = 36;
/// Sets or releases a lock of the open file.
pub const F_OFD_SETLK: u32 = 37;
/// As `F_OFD_SETLK`, and waits.
pub const F_OFD_SETLKW: u32 = 38;

/// Takes a lease on the file, changes it, or gives it back.
pub const F_SETLEASE: u32 = 1024;
/// The lease of the open file, or the one it is to have during a break.
pub const F_GETLEASE: u32 = 1025;
/// The delegation of the open file, or the one it is to have during a break. Since Linux 6.19.
pub const F_GETDELEG: u32 = 1039;
/// As `F_SETLEASE`, for a delegation. Since Linux 6.19.
pub const F_SETDELEG: u32 = 1040;

/// A shared lock.
pub const F_RDLCK: i16 = 0;
/// An exclusive lock.
pub const F_WRLCK: i16 = 1;
/// No lock.
pub const F_UNLCK: i16 = 2;

/// flock(2): a shared lock.
pub const LOCK_SH: u32 = 1;
/// flock(2): an exclusive lock.
pub const LOCK_EX: u32 = 2;
/// flock(2): do not wait.
pub const LOCK_NB: u32 = 4;
/// flock(2): no lock.
pub const LOCK_UN: u32 = 8;
/// flock(2): an obsolete kind; any request with it succeeds and does nothing.
pub const LOCK_MAND: u32 = 32;

/// A lock of a range as fcntl(2) takes and gives it (`struct flock`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flock {
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i16,
    /// What `start` counts from: `SEEK_SET`, `SEEK_CUR` or `SEEK_END`.
    pub whence: i16,
    /// The first byte.
    pub start: i64,
    /// How many bytes; 0: to the end, however far that moves; negative: those before `start`.
    pub len: i64,
    /// The owning process, or -1 for an open file.
    pub pid: i32,
}

/// A delegation as fcntl(2) takes and gives it (`struct delegation`).
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Delegation {
    /// None is known: 0.
    pub flags: u32,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: u16,
    /// 0.
    pub pad: u16,
}

impl Flock {
    /// A request that counts from the start of the file.
    #[must_use]
    pub const fn new(kind: i16, start: i64, len: i64) -> Self {
        Self {
            kind,
            whence: 0,
            start,
            len,
            pid: 0,
        }
    }
}
