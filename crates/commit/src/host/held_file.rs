// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds files by a descriptor, so that all reads, writes and comparisons belong to one inode,
//! whatever happens to its names.
//!
//! # Rules
//! R1. A commit may work in directories that another user can write. Owner, mode, attributes and
//!     times are set through a descriptor, never by name.
//! R2. A name is trusted if it leads to the recorded inode: number, device and time of birth. Where
//!     a file system has no times of birth, or changes them (overlayfs, at copy-up), number and
//!     device decide.
//! R3. A reboot renumbers devices, so those of a journal from before one do not count.
//! R4. What a file system does with times of birth is asked once for each mount, where the kernel
//!     gives no mount the number of an earlier one. Elsewhere it is asked for each file.

use crate::attributes::acl::{self, is_acl};
use crate::attributes::file_stat::{Attributes, FileStat, InodeId, Time, is_ours};
use crate::attributes::xattrs::{self, Xattrs};
use crate::host::descriptors::path_by_number;
use openpath_abi::mode;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Statx, StatxFlags, Timespec, Timestamps, Uid, XattrFlags,
};
use rustix::io::{Errno, Result};
use std::cell::RefCell;

/// The type of overlayfs, from fstatfs(2).
const OVERLAYFS: i64 = 0x794c_7630;

/// A held file.
pub(crate) struct HeldFile {
    fd: OwnedFd,
    pub(crate) stat: FileStat,
}

impl HeldFile {
    /// Holds the file with this name, even a symbolic link; `None`: there is none.
    pub(crate) fn open(dir: impl AsFd, name: &[u8]) -> Result<Option<HeldFile>> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match rustix::fs::openat(dir, name, flags, Mode::empty()) {
            Err(Errno::NOENT) => Ok(None),
            fd => HeldFile::of(fd?).map(Some),
        }
    }

    /// Holds the file of this descriptor.
    pub(crate) fn of(fd: OwnedFd) -> Result<HeldFile> {
        let stat = stat_of(fd.as_fd())?;
        Ok(HeldFile { fd, stat })
    }

    pub(crate) fn id(&self) -> InodeId {
        self.stat.id()
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.fd
    }

    /// The same file, with its attributes read again.
    pub(crate) fn reread(self) -> Result<HeldFile> {
        HeldFile::of(self.fd)
    }

    /// Whether both hold one inode now: a rename may have copied it up since they were opened.
    pub(crate) fn is_same_inode(&self, other: &HeldFile) -> Result<bool> {
        let (a, b) = (stat_of(self.fd())?, stat_of(other.fd())?);
        Ok((a.device, a.ino) == (b.device, b.ino))
    }

    /// A path that leads to this inode and no other.
    pub(crate) fn path(&self) -> String {
        path_by_number(&self.fd)
    }

    /// Owner, mode, times and extended attributes.
    pub(crate) fn attributes(&self) -> Result<Attributes> {
        Ok(Attributes::of(&self.stat, Xattrs::read(&self.path())?))
    }

    /// Opens a regular file to read it, or a directory to list it.
    pub(crate) fn open_readable(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        rustix::fs::open(self.path(), flags, Mode::empty())
    }

    /// Sets owner, attributes, mode and times; `had`: the extended attributes it has now.
    /// `any_owner`: an owner that cannot be set is left out.
    pub(crate) fn apply_metadata(
        &self,
        to: &Attributes,
        had: Option<&Attributes>,
        any_owner: bool,
    ) -> Result<()> {
        self.apply_to(&stat_of(self.fd())?, (to, had), any_owner)
    }

    /// The same to a file that was made and held just now, and has no attributes yet.
    pub(crate) fn apply_first_metadata(&self, to: &Attributes, any_owner: bool) -> Result<()> {
        self.apply_to(&self.stat, (to, None), any_owner)
    }

    /// `now`: the attributes that it has.
    fn apply_to(
        &self,
        now: &FileStat,
        (to, had): (&Attributes, Option<&Attributes>),
        any_owner: bool,
    ) -> Result<()> {
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
        self.set_xattrs(to, had, now.mode)?;
        acl::apply(&self.path(), &to.xattrs, to.mode)?;
        if !mode::is_lnk(to.mode) {
            self.chmod(to.mode)?;
        }
        self.set_times(to.atime, to.mtime)
    }

    /// Sets permission bits.
    pub(crate) fn chmod(&self, mode: u32) -> Result<()> {
        rustix::fs::chmod(self.path(), Mode::from_raw_mode(mode & 0o7777))
    }

    /// Sets the times.
    pub(crate) fn set_times(&self, atime: Time, mtime: Time) -> Result<()> {
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

    /// Sets extended attributes other than access control lists; `bits`: the mode it has now.
    fn set_xattrs(&self, to: &Attributes, had: Option<&Attributes>, bits: u32) -> Result<()> {
        let none = Xattrs::default();
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
        for (key, value) in to.xattrs.iter().filter(|(key, _)| !is_acl(key)) {
            if had.get(key) == Some(value) {
                continue;
            }
            #[cfg(any(test, feature = "fault-injection"))]
            seam::reached(key)?;
            match rustix::fs::setxattr(&path, key, value, XattrFlags::empty()) {
                // An attribute that this process cannot set is left out.
                Err(Errno::PERM | Errno::OPNOTSUPP) if !is_ours(key) => {}
                done => done?,
            }
        }
        for key in had.keys().filter(|key| is_ours(key) && !is_acl(key)) {
            if !to.xattrs.contains_key(key) {
                xattrs::remove(&path, key)?;
            }
        }
        Ok(())
    }
}

/// The fields that are read of files.
pub(crate) const MASK: StatxFlags = StatxFlags::BASIC_STATS
    .union(StatxFlags::BTIME)
    .union(StatxFlags::MNT_ID)
    .union(MNT_ID_UNIQUE);
/// The number of a mount that no later mount gets: `STATX_MNT_ID_UNIQUE`, from Linux 6.8 on.
const MNT_ID_UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
/// How many mounts are remembered.
const MOUNTS_MAX: usize = 64;

thread_local! {
    /// Whether times of birth stay, by the unique number of the mount (R4).
    static MOUNTS: RefCell<Vec<(u64, bool)>> = const { RefCell::new(Vec::new()) };
}

/// The attributes of an open file.
pub(crate) fn stat_of(fd: BorrowedFd<'_>) -> Result<FileStat> {
    let stat = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, MASK)?;
    let stay = match known_births_stay(&stat) {
        Some(stay) => stay,
        None => births_stay(fd, &stat)?,
    };
    Ok(FileStat::new(&stat, stay))
}

fn unique_mount(stat: &Statx) -> Option<u64> {
    let mask = StatxFlags::from_bits_retain(stat.stx_mask);
    mask.contains(MNT_ID_UNIQUE).then_some(stat.stx_mnt_id)
}

/// Whether the time of birth of a file stays as it is, if its mount is remembered.
pub(crate) fn known_births_stay(stat: &Statx) -> Option<bool> {
    let mount = unique_mount(stat)?;
    MOUNTS.with_borrow(|known| {
        let found = known.iter().rev().find(|(known, _)| *known == mount);
        found.map(|(_, stay)| *stay)
    })
}

/// The same of the file with these attributes, by its file system.
fn births_stay(fd: BorrowedFd<'_>, stat: &Statx) -> Result<bool> {
    let stay = rustix::fs::fstatfs(fd)?.f_type != OVERLAYFS;
    if let Some(mount) = unique_mount(stat) {
        MOUNTS.with_borrow_mut(|known| {
            if known.len() == MOUNTS_MAX {
                known.remove(0);
            }
            known.push((mount, stay));
        });
    }
    Ok(stay)
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
