// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the `path_*` functions of preview1: opens, attributes, links, renames and removals by
//! path.
//!
//! # Rules
//! R1. A path stays beneath its descriptor. A path that leads out is [`Code::Perm`], at whatever
//!     component it does so.
//! R2. A link to an absolute path is not created: no guest could follow it, and other users of the
//!     tree may not expect it. An existing one can be read.

use super::fd::{flags_of, times};
use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};
use crate::out::{two_paths_errno, walk_errno};
use crate::table::{Entry, Object};
use crate::types::{Filestat, Filetype, fdflags, lookupflags, oflags, rights};
use openpath_abi::fcntl::{
    AT_REMOVEDIR, AT_SYMLINK_FOLLOW, AT_SYMLINK_NOFOLLOW, O_APPEND, O_CREAT, O_DIRECTORY, O_DSYNC,
    O_EXCL, O_NOFOLLOW, O_NONBLOCK, O_RDONLY, O_RDWR, O_SYNC, O_TRUNC, O_WRONLY,
};
use openpath_abi::{AtFlags, OFlags, RenameFlags};

/// The mode of new directories, before umask.
const DIRECTORY_MODE: u32 = 0o777;
/// The mode of new files, before umask.
const FILE_MODE: u32 = 0o666;

/// Whether a link at the end of the path is followed.
fn follows(flags: u32) -> Result<bool, Code> {
    if flags & !lookupflags::ALL != 0 {
        return Err(Code::Inval);
    }
    Ok(flags & lookupflags::SYMLINK_FOLLOW != 0)
}

/// The same as a flag of the `*at` calls.
fn at_flags(flags: u32) -> Result<AtFlags, Code> {
    follows(flags).map(|follows| AT_SYMLINK_NOFOLLOW.only_if(!follows))
}

pub(super) fn path_create_directory(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    path: u32,
    len: u32,
) -> Outcome {
    let dir = guest.table.directory(fd, rights::PATH_CREATE_DIRECTORY)?;
    let path = memory.path(path, len)?;
    let made = guest.task.beneath().mkdirat(dir, path, DIRECTORY_MODE);
    Ok(made.map_err(walk_errno)?)
}

pub(super) fn path_filestat_get(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    flags: u32,
    path: u32,
    len: u32,
    result: u32,
) -> Outcome {
    memory.check(result, Filestat::SIZE as u32, 8)?;
    let flags = at_flags(flags)?;
    let dir = guest.table.directory(fd, rights::PATH_FILESTAT_GET)?;
    let path = memory.path(path, len)?;
    let stat = guest.task.beneath().fstatat(dir, path, flags);
    let stat = Filestat::from(&stat.map_err(walk_errno)?);
    memory.put(result, &stat.bytes(), 8)?;
    Ok(())
}

pub(super) fn path_filestat_set_times(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    flags: u32,
    path: u32,
    len: u32,
    atim: u64,
    mtim: u64,
    how: u32,
) -> Outcome {
    let flags = at_flags(flags)?;
    let times = times(atim, mtim, how)?;
    let dir = guest.table.directory(fd, rights::PATH_FILESTAT_SET_TIMES)?;
    let path = memory.path(path, len)?;
    let set = guest.task.beneath().utimensat(dir, path, times, flags);
    Ok(set.map_err(walk_errno)?)
}

pub(super) fn path_link(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    flags: u32,
    path: u32,
    len: u32,
    new_fd: u32,
    new_path: u32,
    new_len: u32,
) -> Outcome {
    let (flags, at_flags) = if follows(flags)? {
        (AT_SYMLINK_FOLLOW, AtFlags::empty())
    } else {
        (AtFlags::empty(), AT_SYMLINK_NOFOLLOW)
    };
    let dir = guest.table.directory(fd, rights::PATH_LINK_SOURCE)?;
    let new_dir = guest.table.directory(new_fd, rights::PATH_LINK_TARGET)?;
    let path = memory.path(path, len)?;
    let new_path = memory.path(new_path, new_len)?;
    let linked = guest
        .task
        .beneath()
        .linkat(dir, path, new_dir, new_path, flags);
    Ok(linked.map_err(|errno| {
        two_paths_errno(
            guest.task.beneath(),
            errno,
            [(dir, path), (new_dir, new_path)],
            at_flags,
        )
    })?)
}

pub(super) fn path_open(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    flags: u32,
    path: u32,
    len: u32,
    oflags: u32,
    base: u64,
    inheriting: u64,
    fdflags: u32,
    result: u32,
) -> Outcome {
    memory.check(result, 4, 4)?;
    let request = OpenRequest {
        follow: follows(flags)?,
        oflags: flags_of(oflags, oflags::ALL)?,
        fdflags: flags_of(fdflags, fdflags::ALL)?,
        base,
        inheriting,
    };
    if (base | inheriting) & !rights::ALL != 0 {
        return Err(Code::Inval.into());
    }
    let path = memory.path(path, len)?;
    let entry = open(guest, fd, path, &request)?;
    let number = guest.table.push(entry);
    memory.put_u32(result, number)?;
    Ok(())
}

/// The arguments of an open.
struct OpenRequest {
    follow: bool,
    oflags: u16,
    fdflags: u16,
    base: u64,
    inheriting: u64,
}

impl OpenRequest {
    /// Checks that the parent's rights allow it.
    ///
    /// # Errors
    /// [`Code::Badf`] (a stream), [`Code::Notdir`], [`Code::NotCapable`].
    fn allowed(&self, parent: &Entry) -> Result<(), Code> {
        match parent.object {
            Object::Directory => {}
            Object::File => return Err(Code::Notdir),
            _ => return Err(Code::Badf),
        }
        let mut wanted = rights::PATH_OPEN;
        if self.oflags & oflags::CREAT != 0 {
            wanted |= rights::PATH_CREATE_FILE;
        }
        if self.oflags & oflags::TRUNC != 0 {
            wanted |= rights::PATH_FILESTAT_SET_SIZE;
        }
        parent.need(wanted)?;
        if (self.base | self.inheriting) & !parent.inheriting != 0 {
            return Err(Code::NotCapable);
        }
        Ok(())
    }

    /// The access of the open: created or truncated files are opened for writing, and files that
    /// are not written are opened for reading.
    fn access(&self) -> (u64, OFlags) {
        let creates = self.oflags & (oflags::CREAT | oflags::TRUNC) != 0;
        let writes = creates || self.base & rights::FD_WRITE != 0;
        let reads = self.base & (rights::FD_READ | rights::FD_WRITE) != rights::FD_WRITE;
        match (reads, writes) {
            (true, true) => (rights::FD_READ | rights::FD_WRITE, O_RDWR),
            (false, true) => (rights::FD_WRITE, O_WRONLY),
            _ => (rights::FD_READ, O_RDONLY),
        }
    }

    /// The flags of openat(2).
    fn flags(&self) -> OFlags {
        let (_, mut flags) = self.access();
        if !self.follow {
            flags |= O_NOFOLLOW;
        }
        for (bits, flag) in [
            (oflags::CREAT, O_CREAT),
            (oflags::DIRECTORY, O_DIRECTORY),
            (oflags::TRUNC, O_TRUNC),
            (oflags::CREAT | oflags::EXCL, O_EXCL),
        ] {
            if self.oflags & bits == bits {
                flags |= flag;
            }
        }
        for (bits, flag) in [
            (fdflags::APPEND, O_APPEND),
            (fdflags::DSYNC, O_DSYNC),
            (fdflags::NONBLOCK, O_NONBLOCK),
            (fdflags::RSYNC, O_SYNC),
            (fdflags::SYNC, O_SYNC),
        ] {
            if self.fdflags & bits != 0 {
                flags |= flag;
            }
        }
        flags
    }
}

fn open(guest: &Guest, fd: u32, path: &[u8], request: &OpenRequest) -> Result<Entry, Code> {
    let parent = guest.table.get(fd)?;
    request.allowed(parent)?;
    let making = oflags::CREAT | oflags::EXCL | oflags::TRUNC;
    if request.oflags & oflags::DIRECTORY != 0 && request.oflags & making != 0 {
        return Err(Code::Inval);
    }
    let creates = request.oflags & oflags::CREAT != 0;
    let mode = if creates { FILE_MODE } else { 0 };
    let opened = guest
        .task
        .beneath()
        .openat(parent.fd, path, request.flags(), mode);
    let fd = opened.map_err(|errno| Code::from(walk_errno(errno)))?;
    let filetype = match guest.task.fstat(fd) {
        Ok(stat) => Filetype::of_mode(stat.mode),
        Err(errno) => {
            // An error of this close is ignored: the guest gets the error of the stat.
            let _closed = guest.task.close(fd);
            return Err(errno.into());
        }
    };
    let (object, meant) = match filetype {
        Filetype::Directory => (Object::Directory, rights::DIRECTORY),
        _ => (Object::File, rights::FILE),
    };
    let (opened, _) = request.access();
    Ok(Entry {
        object,
        filetype,
        fd,
        base: request.base & meant,
        inheriting: request.inheriting,
        sync: request.fdflags & (fdflags::DSYNC | fdflags::RSYNC | fdflags::SYNC),
        opened,
    })
}

pub(super) fn path_readlink(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    path: u32,
    len: u32,
    buf: u32,
    room: u32,
    result: u32,
) -> Outcome {
    memory.check(result, 4, 4)?;
    memory.bytes(buf, room)?;
    let dir = guest.table.directory(fd, rights::PATH_READLINK)?;
    let path = memory.path(path, len)?;
    let target = guest.task.beneath().readlinkat(dir, path);
    let target = target.map_err(walk_errno)?;
    let fits = target.len().min(room as usize);
    memory.put(buf, &target[..fits], 1)?;
    memory.put_u32(result, fits as u32)?;
    Ok(())
}

pub(super) fn path_remove_directory(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    path: u32,
    len: u32,
) -> Outcome {
    let dir = guest.table.directory(fd, rights::PATH_REMOVE_DIRECTORY)?;
    let path = memory.path(path, len)?;
    let removed = guest.task.beneath().unlinkat(dir, path, AT_REMOVEDIR);
    Ok(removed.map_err(walk_errno)?)
}

pub(super) fn path_rename(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    path: u32,
    len: u32,
    new_fd: u32,
    new_path: u32,
    new_len: u32,
) -> Outcome {
    let dir = guest.table.directory(fd, rights::PATH_RENAME_SOURCE)?;
    let new_dir = guest.table.directory(new_fd, rights::PATH_RENAME_TARGET)?;
    let path = memory.path(path, len)?;
    let new_path = memory.path(new_path, new_len)?;
    let moved = guest
        .task
        .beneath()
        .renameat2(dir, path, new_dir, new_path, RenameFlags::empty());
    Ok(moved.map_err(|errno| {
        two_paths_errno(
            guest.task.beneath(),
            errno,
            [(dir, path), (new_dir, new_path)],
            AT_SYMLINK_NOFOLLOW,
        )
    })?)
}

pub(super) fn path_symlink(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    target: u32,
    target_len: u32,
    fd: u32,
    path: u32,
    len: u32,
) -> Outcome {
    let dir = guest.table.directory(fd, rights::PATH_SYMLINK)?;
    let target = memory.path(target, target_len)?;
    let path = memory.path(path, len)?;
    if target.first() == Some(&b'/') {
        return Err(Code::Perm.into());
    }
    let made = guest.task.beneath().symlinkat(target, dir, path);
    Ok(made.map_err(walk_errno)?)
}

pub(super) fn path_unlink_file(
    guest: &mut Guest,
    memory: &mut Memory<'_>,
    fd: u32,
    path: u32,
    len: u32,
) -> Outcome {
    let dir = guest.table.directory(fd, rights::PATH_UNLINK_FILE)?;
    let path = memory.path(path, len)?;
    let removed = guest.task.beneath().unlinkat(dir, path, AtFlags::empty());
    Ok(removed.map_err(walk_errno)?)
}
