// SPDX-License-Identifier: MIT OR Apache-2.0
//! Lists the leases of a `Vfs` with the columns of `/proc/locks` (proc_locks(5)), and begins to
//! listen for lease breaks.

use crate::instance::Vfs;
use crate::lease::{LeaseBreaks, LeaseFlavor};
use crate::lock_call::LockKind;
use openpath_abi::stat::{major, minor};
use std::fmt;

/// A lease that is held. Prints as a line of `/proc/locks`, but for its number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct LeaseInfo {
    /// What it is for.
    pub flavor: LeaseFlavor,
    /// What it is.
    pub kind: LockKind,
    /// Whether a break is under way.
    pub breaking: bool,
    /// What it must become; `None`: given back.
    pub becomes: Option<LockKind>,
    /// The process that took it.
    pub pid: i32,
    /// Device of the file.
    pub dev: u64,
    /// Inode number of the file.
    pub ino: u64,
}

impl fmt::Display for LeaseInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.flavor {
            LeaseFlavor::Lease => "LEASE  ",
            LeaseFlavor::Delegation => "DELEG  ",
        })?;
        f.write_str(if self.breaking {
            "BREAKING  "
        } else {
            "ACTIVE    "
        })?;
        f.write_str(match self.becomes {
            Some(LockKind::Read) => "READ ",
            Some(LockKind::Write) => "WRITE",
            None => "UNLCK",
        })?;
        let (major, minor) = (major(self.dev), minor(self.dev));
        let (pid, ino) = (self.pid, self.ino);
        write!(f, " {pid} {major:02x}:{minor:02x}:{ino} 0 EOF")
    }
}

impl Vfs {
    /// Listens for breaks of leases from now on.
    #[must_use]
    pub fn lease_breaks(&self) -> LeaseBreaks {
        self.0.notices.listen()
    }

    /// Every lease that is held, file by file. One that is out of time is there until the next look
    /// at its table. Linux: `/proc/locks`.
    #[must_use]
    pub fn leases(&self) -> Vec<LeaseInfo> {
        let mut all = Vec::new();
        for context in self.0.locks.contexts() {
            let table = context.leases.lock();
            all.extend(table.iter().map(|lease| LeaseInfo {
                flavor: lease.flavor,
                kind: lease.kind,
                breaking: lease.is_breaking(),
                becomes: lease.target(),
                pid: lease.pid,
                dev: context.dev(),
                ino: context.ino(),
            }));
        }
        all
    }
}
