// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parses FUSE requests: a header and a body become an operation with its arguments.

use super::Header;
use super::fields::{Fields, Malformed};
use super::init::Negotiated;
use super::numbers::{ACL_KILL_SGID, FSYNC_FDATASYNC, LK_FLOCK, fattr, op};
use openpath_abi::{Flock, OFlags, RenameFlags, TimeSet, Timespec, XattrFlags};

/// A request. `handle` is the handle of an opening, or 0 with [`crate::Opens::Never`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum Request<'a> {
    Lookup(&'a [u8]),
    /// Gives back this many lookups of the node.
    Forget(u64),
    /// The same for several nodes.
    Forgets(Forgets<'a>),
    Getattr,
    Statx,
    Setattr(Setattr),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        rdev: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink(&'a [u8]),
    Rmdir(&'a [u8]),
    Rename {
        name: &'a [u8],
        to: u64,
        new: &'a [u8],
        flags: RenameFlags,
    },
    /// Gives the node a name in the directory of the header.
    Link {
        node: u64,
        name: &'a [u8],
    },
    Open {
        flags: OFlags,
    },
    Opendir,
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        flags: OFlags,
    },
    Tmpfile {
        mode: u32,
        umask: u32,
        flags: OFlags,
    },
    Read(Span),
    Readdir(Span),
    ReaddirPlus(Span),
    Write {
        handle: u64,
        offset: u64,
        flags: u32,
        /// The flags of the open file.
        status: OFlags,
        data: &'a [u8],
    },
    Statfs,
    /// A close, with the owner of its locks.
    Flush {
        handle: u64,
        owner: u64,
    },
    Release {
        handle: u64,
    },
    Releasedir,
    Fsync {
        handle: u64,
        data_only: bool,
    },
    Fsyncdir {
        data_only: bool,
    },
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: XattrFlags,
        /// It sets an access control list that strips the set-group-ID bit.
        strips: bool,
    },
    Getxattr {
        name: &'a [u8],
        room: u32,
    },
    Listxattr {
        room: u32,
    },
    Removexattr(&'a [u8]),
    /// The caller no longer waits for that request.
    Interrupt(u64),
    Destroy,
    Ioctl {
        handle: u64,
        request: u32,
        /// The caller's argument.
        given: &'a [u8],
        /// The most bytes of the result.
        room: u32,
    },
    Fallocate {
        handle: u64,
        offset: u64,
        len: u64,
        mode: u32,
    },
    Lseek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    CopyRange(CopyRange),
    Lock(Lock),
    /// One that the kernel does without.
    Unknown,
}

/// A part of a file or a listing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) size: u32,
    /// The flags of the open file.
    pub(crate) status: OFlags,
}

/// A change of attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setattr {
    pub(crate) handle: Option<u64>,
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) times: [TimeSet; 2],
    /// It strips set-id bits.
    pub(crate) strips: bool,
}

/// A copy between files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyRange {
    pub(crate) handle: u64,
    pub(crate) offset: u64,
    pub(crate) to: u64,
    pub(crate) to_handle: u64,
    pub(crate) to_offset: u64,
    pub(crate) len: u64,
    /// The reply has 64 bits.
    pub(crate) wide: bool,
}

/// The command of a request for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LockCommand {
    /// `F_GETLK`: is there a conflict?
    Test,
    /// `F_SETLK`: sets or frees, at once or not at all.
    Set,
    /// `F_SETLKW`: sets when there is no conflict.
    Wait,
}

/// A record lock, or (`is_flock`) one of flock(2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lock {
    pub(crate) command: LockCommand,
    pub(crate) handle: u64,
    /// A file table or an open file of the kernel's, by a number that only the kernel can
    /// interpret.
    pub(crate) owner: u64,
    pub(crate) range: Flock,
    pub(crate) is_flock: bool,
}

/// Nodes, and how many lookups of each are given back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Forgets<'a>(&'a [u8]);

impl Iterator for Forgets<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let mut fields = Fields::new(self.0);
        let pair = (fields.u64().ok()?, fields.u64().ok()?);
        self.0 = &self.0[16..];
        Some(pair)
    }
}

fn setxattr<'a>(f: &mut Fields<'a>, terms: Negotiated) -> Result<Request<'a>, Malformed> {
    let (len, flags) = (f.u32()?, f.u32()?);
    let more = if terms.has_setxattr_ext() {
        let more = f.u32()?;
        f.skip(4)?;
        more
    } else {
        0
    };
    let (name, value) = (f.name()?, f.bytes(len as usize)?);
    Ok(Request::Setxattr {
        name,
        value,
        flags: XattrFlags::from_bits_retain(flags),
        strips: more & ACL_KILL_SGID != 0,
    })
}

impl<'a> Request<'a> {
    /// Parses a body, in the form that was negotiated.
    ///
    /// # Errors
    /// It is too short, or its lengths are wrong.
    pub(crate) fn of(
        header: &Header,
        body: &'a [u8],
        terms: Negotiated,
    ) -> Result<Self, Malformed> {
        let mut fields = Fields::new(body);
        let f = &mut fields;
        Ok(match header.opcode {
            op::LOOKUP => Self::Lookup(f.name()?),
            op::FORGET => Self::Forget(f.u64()?),
            op::BATCH_FORGET => Self::Forgets(forgets(f)?),
            op::GETATTR => Self::Getattr,
            op::STATX => Self::Statx,
            op::SETATTR => Self::Setattr(setattr(f)?),
            op::READLINK => Self::Readlink,
            op::SYMLINK => Self::Symlink {
                name: f.name()?,
                target: f.name()?,
            },
            op::MKNOD => {
                let (mode, rdev, umask) = (f.u32()?, f.u32()?, f.u32()?);
                f.skip(4)?;
                Self::Mknod {
                    name: f.name()?,
                    mode,
                    umask,
                    rdev,
                }
            }
            op::MKDIR => {
                let (mode, umask) = (f.u32()?, f.u32()?);
                let name = f.name()?;
                Self::Mkdir { name, mode, umask }
            }
            op::UNLINK => Self::Unlink(f.name()?),
            op::RMDIR => Self::Rmdir(f.name()?),
            op::RENAME | op::RENAME2 => rename(f, header.opcode == op::RENAME2)?,
            op::LINK => Self::Link {
                node: f.u64()?,
                name: f.name()?,
            },
            op::OPEN => Self::Open { flags: o_flags(f)? },
            op::OPENDIR => Self::Opendir,
            op::CREATE => {
                let (flags, mode, umask) = (o_flags(f)?, f.u32()?, f.u32()?);
                f.skip(4)?;
                Self::Create {
                    name: f.name()?,
                    mode,
                    umask,
                    flags,
                }
            }
            op::TMPFILE => {
                let (flags, mode, umask) = (o_flags(f)?, f.u32()?, f.u32()?);
                Self::Tmpfile { mode, umask, flags }
            }
            op::STATFS => Self::Statfs,
            op::SETXATTR => setxattr(f, terms)?,
            op::GETXATTR => {
                let room = f.u32()?;
                f.skip(4)?;
                let name = f.name()?;
                Self::Getxattr { name, room }
            }
            op::LISTXATTR => Self::Listxattr { room: f.u32()? },
            op::REMOVEXATTR => Self::Removexattr(f.name()?),
            op::INTERRUPT => Self::Interrupt(f.u64()?),
            op::DESTROY => Self::Destroy,
            op::RELEASEDIR => Self::Releasedir,
            _ => Self::of_open_file(header.opcode, f)?,
        })
    }

    /// Requests about an open file, which begin with its handle.
    fn of_open_file(opcode: u32, f: &mut Fields<'a>) -> Result<Self, Malformed> {
        Ok(match opcode {
            op::READ => Self::Read(read(f)?),
            op::READDIR => Self::Readdir(read(f)?),
            op::READDIRPLUS => Self::ReaddirPlus(read(f)?),
            op::WRITE => write(f)?,
            op::FLUSH => {
                let handle = f.u64()?;
                f.skip(8)?;
                let owner = f.u64()?;
                Self::Flush { handle, owner }
            }
            op::GETLK => Self::Lock(lock(f, LockCommand::Test)?),
            op::SETLK => Self::Lock(lock(f, LockCommand::Set)?),
            op::SETLKW => Self::Lock(lock(f, LockCommand::Wait)?),
            op::RELEASE => Self::Release { handle: f.u64()? },
            op::FSYNC | op::FSYNCDIR => {
                let handle = f.u64()?;
                let data_only = f.u32()? & FSYNC_FDATASYNC != 0;
                match opcode {
                    op::FSYNC => Self::Fsync { handle, data_only },
                    _ => Self::Fsyncdir { data_only },
                }
            }
            op::IOCTL => ioctl(f)?,
            op::FALLOCATE => Self::Fallocate {
                handle: f.u64()?,
                offset: f.u64()?,
                len: f.u64()?,
                mode: f.u32()?,
            },
            op::LSEEK => Self::Lseek {
                handle: f.u64()?,
                offset: f.u64()?,
                whence: f.u32()?,
            },
            op::COPY_FILE_RANGE | op::COPY_FILE_RANGE_64 => Self::CopyRange(CopyRange {
                handle: f.u64()?,
                offset: f.u64()?,
                to: f.u64()?,
                to_handle: f.u64()?,
                to_offset: f.u64()?,
                len: f.u64()?,
                wide: opcode == op::COPY_FILE_RANGE_64,
            }),
            _ => Self::Unknown,
        })
    }
}

fn forgets<'a>(f: &mut Fields<'a>) -> Result<Forgets<'a>, Malformed> {
    let count = f.u32()? as usize;
    f.skip(4)?;
    let len = count.checked_mul(16).ok_or(Malformed("too many"))?;
    Ok(Forgets(f.bytes(len)?))
}

/// `O_*` as the kernel sends them, with bits that are not known here.
fn o_flags(f: &mut Fields<'_>) -> Result<OFlags, Malformed> {
    f.u32().map(OFlags::from_bits_retain)
}

fn rename<'a>(f: &mut Fields<'a>, has_flags: bool) -> Result<Request<'a>, Malformed> {
    let to = f.u64()?;
    let mut flags = RenameFlags::empty();
    if has_flags {
        flags = RenameFlags::from_bits_retain(f.u32()?);
        f.skip(4)?;
    }
    let (name, new) = (f.name()?, f.name()?);
    Ok(Request::Rename {
        name,
        to,
        new,
        flags,
    })
}

/// `fuse_read_in`.
fn read(f: &mut Fields<'_>) -> Result<Span, Malformed> {
    let (handle, offset, size) = (f.u64()?, f.u64()?, f.u32()?);
    // Flags of the request, and the lock owner.
    f.skip(12)?;
    Ok(Span {
        handle,
        offset,
        size,
        status: o_flags(f)?,
    })
}

fn write<'a>(f: &mut Fields<'a>) -> Result<Request<'a>, Malformed> {
    let (handle, offset, size) = (f.u64()?, f.u64()?, f.u32()?);
    let flags = f.u32()?;
    // The lock owner.
    f.skip(8)?;
    let status = o_flags(f)?;
    f.skip(4)?;
    let data = f.bytes(size as usize)?;
    Ok(Request::Write {
        handle,
        offset,
        flags,
        status,
        data,
    })
}

/// `fuse_ioctl_in`.
fn ioctl<'a>(f: &mut Fields<'a>) -> Result<Request<'a>, Malformed> {
    let handle = f.u64()?;
    // Flags of the request, none of which matters here.
    f.skip(4)?;
    let request = f.u32()?;
    // The address of the caller's argument.
    f.skip(8)?;
    let (len, room) = (f.u32()?, f.u32()?);
    let given = f.bytes(len as usize)?;
    Ok(Request::Ioctl {
        handle,
        request,
        given,
        room,
    })
}

fn lock(f: &mut Fields<'_>, command: LockCommand) -> Result<Lock, Malformed> {
    let (handle, owner) = (f.u64()?, f.u64()?);
    let (start, end) = (f.u64()?.cast_signed(), f.u64()?.cast_signed());
    let (kind, pid) = (f.u32()?, f.u32()?);
    let is_flock = f.u32()? & LK_FLOCK != 0;
    if start < 0 || end < start {
        return Err(Malformed("no range"));
    }
    let kind = i16::try_from(kind).map_err(|_| Malformed("no kind of lock"))?;
    // The largest end means the end of the file.
    let len = match end {
        i64::MAX => 0,
        end => (end - start).saturating_add(1),
    };
    let range = Flock {
        pid: pid.cast_signed(),
        ..Flock::new(kind, start, len)
    };
    Ok(Lock {
        command,
        handle,
        owner,
        range,
        is_flock,
    })
}

fn setattr(f: &mut Fields<'_>) -> Result<Setattr, Malformed> {
    let valid = f.u32()?;
    f.skip(4)?;
    let (handle, size) = (f.u64()?, f.u64()?);
    // The lock owner.
    f.skip(8)?;
    let seconds = [f.u64()?, f.u64()?];
    // The kernel does not set the change time.
    f.skip(8)?;
    let nanoseconds = [f.u32()?, f.u32()?];
    f.skip(4)?;
    let mode = f.u32()?;
    f.skip(4)?;
    let (uid, gid) = (f.u32()?, f.u32()?);
    let has = |bit| valid & bit != 0;
    let time = |at: usize, set, now| match (has(set), has(now)) {
        (false, _) => TimeSet::Omit,
        (true, true) => TimeSet::Now,
        (true, false) => TimeSet::At(Timespec::new(seconds[at].cast_signed(), nanoseconds[at])),
    };
    Ok(Setattr {
        handle: has(fattr::FH).then_some(handle),
        mode: has(fattr::MODE).then_some(mode),
        uid: has(fattr::UID).then_some(uid),
        gid: has(fattr::GID).then_some(gid),
        size: has(fattr::SIZE).then_some(size),
        times: [
            time(0, fattr::ATIME, fattr::ATIME_NOW),
            time(1, fattr::MTIME, fattr::MTIME_NOW),
        ],
        strips: has(fattr::KILL_SUIDGID),
    })
}
