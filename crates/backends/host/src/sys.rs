// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wraps calls of the host in this crate's types: looks at a file or its mount, opens paths that
//! cannot leave their directory, and converts errors.

use openpath_abi::stat::makedev;
use openpath_abi::{Errno, Timespec, mode};
use openpath_vfs::{Attr, WaitMode};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{
    AtFlags, Mode, OFlags, ResolveFlags, Statx, StatxAttributes, StatxFlags, StatxTimestamp,
};

/// Flags of every open.
pub(crate) const ALWAYS: OFlags = OFlags::CLOEXEC.union(OFlags::NOFOLLOW);
/// A path may lead nowhere but down.
const SCOPE: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_SYMLINKS);

/// The host's error as ours.
pub(crate) fn errno(error: rustix::io::Errno) -> Errno {
    Errno::checked(error.raw_os_error()).unwrap_or(Errno::EIO)
}

/// Permission bits for the host.
pub(crate) fn bits(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & mode::S_IALLUGO)
}

/// The identity of a file: equal for two looks at one file, different for two files, even if the
/// second one reuses the first one's inode number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Id {
    pub(crate) dev: u64,
    pub(crate) ino: u64,
    btime: Timespec,
    kind: u32,
}

impl Id {
    /// The type bits of its mode on the host.
    pub(crate) fn kind(self) -> u32 {
        self.kind
    }
}

/// What statx(2) says of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HostStat {
    pub(crate) id: Id,
    /// The mount that it was reached through; 0: the host does not say.
    pub(crate) mnt: u64,
    pub(crate) attr: Attr,
    pub(crate) rdev: u64,
    pub(crate) immutable: bool,
    pub(crate) append_only: bool,
}

impl HostStat {
    pub(crate) fn btime(&self) -> Timespec {
        self.id.btime
    }

    pub(crate) fn kind(&self) -> u32 {
        self.id.kind
    }

    fn of(x: &Statx) -> Self {
        let has = |bit: StatxFlags| x.stx_mask & bit.bits() != 0;
        let time = |t: &StatxTimestamp| Timespec::new(t.tv_sec, t.tv_nsec);
        let mode = u32::from(x.stx_mode);
        let known = has(StatxFlags::BTIME);
        Self {
            id: Id {
                dev: makedev(x.stx_dev_major, x.stx_dev_minor),
                ino: x.stx_ino,
                btime: if known {
                    time(&x.stx_btime)
                } else {
                    Timespec::EPOCH
                },
                kind: mode::file_type(mode),
            },
            mnt: if has(StatxFlags::MNT_ID) {
                x.stx_mnt_id
            } else {
                0
            },
            attr: Attr {
                mode,
                nlink: x.stx_nlink,
                uid: x.stx_uid,
                gid: x.stx_gid,
                size: x.stx_size,
                blocks: x.stx_blocks,
                atime: time(&x.stx_atime),
                mtime: time(&x.stx_mtime),
                ctime: time(&x.stx_ctime),
            },
            rdev: makedev(x.stx_rdev_major, x.stx_rdev_minor),
            immutable: x.stx_attributes.contains(StatxAttributes::IMMUTABLE),
            append_only: x.stx_attributes.contains(StatxAttributes::APPEND),
        }
    }
}

/// The attributes of `name` in `dir`, of a link itself; with an empty name, of `dir`. Linux:
/// statx(2).
///
/// # Errors
/// Those of the host.
pub(crate) fn stat_at(dir: impl AsFd, name: &[u8], wait_mode: WaitMode) -> Result<HostStat, Errno> {
    #[cfg(test)]
    crate::stall::pass(&dir, name, wait_mode)?;
    let wanted = StatxFlags::BASIC_STATS | StatxFlags::BTIME | StatxFlags::MNT_ID;
    let mut flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    if name.is_empty() {
        flags |= AtFlags::EMPTY_PATH;
    }
    if wait_mode == WaitMode::Cached {
        flags |= AtFlags::STATX_DONT_SYNC;
    }
    let found = rustix::fs::statx(dir, name, flags, wanted).map_err(errno)?;
    Ok(HostStat::of(&found))
}

/// How paths are opened on this host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PathOpener {
    /// With openat2(2).
    pub(crate) openat2: bool,
    /// Mounts are not crossed.
    pub(crate) no_xdev: bool,
}

impl PathOpener {
    /// Opens `path` below `dir`. It follows no link and no `..`, and with `no_xdev` crosses no
    /// mount.
    ///
    /// # Errors
    /// Those of the host; `EAGAIN` if it would have to wait and may not.
    pub(crate) fn open(
        self,
        dir: impl AsFd,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
        wait_mode: WaitMode,
    ) -> Result<OwnedFd, Errno> {
        #[cfg(test)]
        crate::stall::pass(&dir, path, wait_mode)?;
        let flags = flags | ALWAYS;
        if !self.openat2 {
            if wait_mode == WaitMode::Cached {
                return Err(Errno::EAGAIN);
            }
            return self.open_by_steps(dir, path, flags, mode);
        }
        let mut scope = SCOPE;
        if self.no_xdev {
            scope |= ResolveFlags::NO_XDEV;
        }
        if wait_mode == WaitMode::Cached {
            scope |= ResolveFlags::CACHED;
        }
        rustix::fs::openat2(dir, path, flags, mode, scope).map_err(errno)
    }

    /// As [`PathOpener::open`], one component at a time; each must be a directory and no link.
    fn open_by_steps(
        self,
        dir: impl AsFd,
        path: &[u8],
        flags: OFlags,
        mode: Mode,
    ) -> Result<OwnedFd, Errno> {
        let mut names = path.split(|byte| *byte == b'/').peekable();
        let mut at: Option<OwnedFd> = None;
        let top = if self.no_xdev {
            stat_at(&dir, b"", WaitMode::Wait)?.mnt
        } else {
            0
        };
        while let Some(name) = names.next() {
            if name.is_empty() || name == b".." {
                return Err(Errno::EXDEV);
            }
            let step = OFlags::PATH | OFlags::DIRECTORY | ALWAYS;
            let (flags, mode) = match names.peek() {
                Some(_) => (step, Mode::empty()),
                None => (flags, mode),
            };
            let opened = match &at {
                Some(at) => rustix::fs::openat(at, name, flags, mode),
                None => rustix::fs::openat(&dir, name, flags, mode),
            };
            let opened = opened.map_err(errno)?;
            if self.no_xdev && stat_at(&opened, b"", WaitMode::Wait)?.mnt != top {
                return Err(Errno::EXDEV);
            }
            at = Some(opened);
        }
        at.ok_or(Errno::ENOENT)
    }
}

/// Whether a name is a single component, and so stays in its directory.
///
/// # Errors
/// `EINVAL`.
pub(crate) fn check_component(name: &[u8]) -> Result<(), Errno> {
    let leads_on = name.is_empty() || name == b"." || name == b".." || name.contains(&b'/');
    if leads_on { Err(Errno::EINVAL) } else { Ok(()) }
}

/// Types of pseudo file systems, whose files the kernel makes up, by their statfs(2) numbers: proc,
/// sysfs, debugfs, tracefs, securityfs, configfs, bpf, cgroup and cgroup2, pstore, efivarfs,
/// fusectl, selinuxfs, `binfmt_misc`, nsfs.
const PSEUDO_KINDS: &[u64] = &[
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0xcafe_4a11,
    0x0027_e0eb,
    0x6367_7270,
    0x6165_676c,
    0xde5e_81e4,
    0x6573_5543,
    0xf97c_ff8c,
    0x4249_4e4d,
    0x6e73_6673,
];

/// Whether `fd` is in a pseudo file system. Linux: fstatfs(2).
///
/// # Errors
/// Those of the host.
pub(crate) fn is_pseudo(fd: impl AsFd) -> Result<bool, Errno> {
    let kind = rustix::fs::fstatfs(fd).map_err(errno)?.f_type;
    // The field is signed on some machines, and the numbers have 32 bits.
    Ok(
        u64::try_from(i128::from(kind) & 0xffff_ffff)
            .is_ok_and(|kind| PSEUDO_KINDS.contains(&kind)),
    )
}

/// The mount flags of `fd`, as statvfs(3) numbers them. Linux: fstatfs(2).
///
/// # Errors
/// Those of the host.
pub(crate) fn mount_flags(fd: impl AsFd) -> Result<openpath_abi::MountAttrFlags, Errno> {
    let flags = rustix::fs::fstatvfs(fd).map_err(errno)?.f_flag.bits();
    // The flags that are held have the same numbers in both.
    Ok(openpath_abi::MountAttrFlags::from_bits_retain(flags))
}

/// Whether openat2(2) works on the file system of `dir`.
pub(crate) fn has_openat2(dir: impl AsFd) -> bool {
    let flags = OFlags::PATH | ALWAYS;
    rustix::fs::openat2(dir, ".", flags, Mode::empty(), SCOPE).is_ok()
}
