// SPDX-License-Identifier: MIT OR Apache-2.0
//! Files that are held by a descriptor, so that what is read from them, given to them or compared
//! belongs to one inode, whatever happens to their names meanwhile.
//!
//! # Rules
//! R1. A commit may work in directories that another user can write. Owner, mode, attributes and
//!     times are given through a descriptor, never by name.
//! R2. A name is trusted when it leads to the inode that was recorded: number, device and time of
//!     birth. Where a file system has no births, or changes them (overlayfs, when it copies a file
//!     up), the number and the device decide.
//! R3. Devices are numbered anew by a reboot, so those of a journal from before one do not count.

use crate::facts::{Attributes, Facts, Id, Time, is_ours, xattrs};
use crate::lists::{self, is_list};
use openpath_abi::mode;
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, StatxFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::{Errno, Result};
use std::collections::BTreeMap;

/// What fstatfs(2) says of overlayfs.
const OVERLAYFS: i64 = 0x794c_7630;

/// A file that is held.
pub(crate) struct Held {
    fd: OwnedFd,
    pub(crate) facts: Facts,
}

impl Held {
    /// Holds what has this name, be it a symbolic link; `None`: nothing has it.
    pub(crate) fn open(dir: impl AsFd, name: &[u8]) -> Result<Option<Held>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => Ok(None),
            fd => Held::of(fd?).map(Some),
        }
    }

    /// Holds what this descriptor is of.
    pub(crate) fn of(fd: OwnedFd) -> Result<Held> {
        let facts = facts_of(fd.as_fd())?;
        Ok(Held { fd, facts })
    }

    pub(crate) fn id(&self) -> Id {
        self.facts.id()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// The same file, with what is known of it read again.
    pub(crate) fn again(self) -> Result<Held> {
        Held::of(self.fd)
    }

    /// Whether both hold one inode now: a rename may have copied it up since they were opened.
    pub(crate) fn same(&self, other: &Held) -> Result<bool> {
        let (a, b) = (facts_of(self.fd())?, facts_of(other.fd())?);
        Ok((a.device, a.ino) == (b.device, b.ino))
    }

    /// A path that leads to this inode and no other.
    pub(crate) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }

    /// Owner, mode, times and extended attributes.
    pub(crate) fn attributes(&self) -> Result<Attributes> {
        Ok(Attributes::of(&self.facts, xattrs(&self.path())?))
    }

    /// Opens a regular file to read it, or a directory to list it.
    pub(crate) fn read(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(self.path(), flags, Mode::empty())
    }

    /// Gives it owner, attributes, mode and times; `had`: the extended attributes it has now.
    /// `any_owner`: an owner that cannot be given is left out.
    pub(crate) fn dress(
        &self,
        to: &Attributes,
        had: Option<&Attributes>,
        any_owner: bool,
    ) -> Result<()> {
        let now = facts_of(self.fd())?;
        if mode::file_type(now.mode) != mode::file_type(to.mode) {
            return Err(Errno::STALE);
        }
        // The upper tree of an ordinary user keeps no owner of a link: it has the one that it was
        // made with.
        let unknown = mode::is_lnk(to.mode)
            && !rustix::process::geteuid().is_root()
            && to.gid == rustix::process::getegid().as_raw();
        if (now.uid, now.gid) != (to.uid, to.gid) && !unknown {
            let (uid, gid) = (Some(Uid::from_raw(to.uid)), Some(Gid::from_raw(to.gid)));
            let flags = AtFlags::EMPTY_PATH;
            match rustix::fs::chownat(&self.fd, "", uid, gid, flags) {
                // The owner of a link protects nothing; the group may be one of the user's.
                Err(Errno::PERM) if any_owner || mode::is_lnk(to.mode) => {
                    let _if_it_may = rustix::fs::chownat(&self.fd, "", None, gid, flags);
                }
                done => done?,
            }
        }
        self.give_xattrs(to, had, now.mode)?;
        lists::give(&self.path(), &to.xattrs, to.mode)?;
        if !mode::is_lnk(to.mode) {
            self.chmod(to.mode)?;
        }
        self.times(to.atime, to.mtime)
    }

    /// Sets permission bits.
    pub(crate) fn chmod(&self, mode: u32) -> Result<()> {
        rustix::fs::chmod(self.path(), Mode::from_raw_mode(mode & 0o7777))
    }

    /// Sets the times.
    pub(crate) fn times(&self, atime: Time, mtime: Time) -> Result<()> {
        let time = |(tv_sec, nanoseconds): Time| Timespec {
            tv_sec,
            tv_nsec: nanoseconds.into(),
        };
        let times = Timestamps {
            last_access: time(atime),
            last_modification: time(mtime),
        };
        rustix::fs::utimensat(CWD, self.path(), &times, AtFlags::empty())
    }

    /// All but access control lists; `bits`: the mode it has now.
    fn give_xattrs(&self, to: &Attributes, had: Option<&Attributes>, bits: u32) -> Result<()> {
        let none = BTreeMap::new();
        let had = had.map_or(&none, |had| &had.xattrs);
        if *had == to.xattrs {
            return Ok(());
        }
        let path = self.path();
        let writable = rustix::process::geteuid().is_root() || mode::is_lnk(to.mode);
        if !writable {
            // An owner without write permission may not set attributes.
            self.chmod(bits | 0o600)?;
        }
        for (key, value) in to.xattrs.iter().filter(|(key, _)| !is_list(key)) {
            if had.get(key) == Some(value) {
                continue;
            }
            #[cfg(any(test, feature = "fault-injection"))]
            seam::reached(key)?;
            match rustix::fs::setxattr(&path, &key[..], value, XattrFlags::empty()) {
                // What this process cannot give is left out.
                Err(Errno::PERM | Errno::OPNOTSUPP) if !is_ours(key) => {}
                done => done?,
            }
        }
        for key in had.keys().filter(|key| is_ours(key) && !is_list(key)) {
            if !to.xattrs.contains_key(key) {
                match rustix::fs::removexattr(&path, &key[..]) {
                    Err(Errno::NODATA) => {}
                    done => done?,
                }
            }
        }
        Ok(())
    }
}

/// What is asked of files.
pub(crate) const MASK: StatxFlags = StatxFlags::BASIC_STATS
    .union(StatxFlags::BTIME)
    .union(StatxFlags::MNT_ID);

fn facts_of(fd: BorrowedFd<'_>) -> Result<Facts> {
    let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, MASK)?;
    Ok(Facts::new(&stat, births_stay(fd)?))
}

/// Whether the time of birth of a file stays as it is, on the file system of this descriptor.
pub(crate) fn births_stay(fd: BorrowedFd<'_>) -> Result<bool> {
    Ok(rustix::fs::fstatfs(fd)?.f_type != OVERLAYFS)
}

/// A file system without room for an attribute, for tests.
#[cfg(any(test, feature = "fault-injection"))]
pub(crate) mod seam {
    use rustix::io::{Errno, Result};
    use std::cell::Cell;

    thread_local! {
        static FULL: Cell<Option<&'static [u8]>> = const { Cell::new(None) };
    }

    /// The next setting of this attribute by this thread fails.
    pub fn fail_next_xattr(name: &'static [u8]) {
        FULL.set(Some(name));
    }

    pub(super) fn reached(name: &[u8]) -> Result<()> {
        if FULL.get() == Some(name) {
            FULL.set(None);
            return Err(Errno::NOSPC);
        }
        Ok(())
    }
}
