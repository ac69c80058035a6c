// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names: `path_*`.
//!
//! # Rules
//! R1. A path stays beneath its descriptor. One that leads out is [`Code::Perm`], wherever on the
//!     way that turns out.
//! R2. A link that says an absolute path is not made: none could be followed here, and whoever else
//!     uses the tree may not expect it. One that is there already can be read.

use super::fd::{flags_of, times};
use crate::errno::Code;
use crate::guest::Guest;
use crate::memory::{Memory, Outcome};
use crate::out::{of_two, of_walk};
use crate::table::{Entry, What};
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

/// Whether a link in the last place is followed.
fn follows(flags: u32) -> Result<bool, Code> {
    if flags & !lookupflags::ALL != 0 {
        return Err(Code::Inval);
    }
    Ok(flags & lookupflags::SYMLINK_FOLLOW != 0)
}

/// The flag of the `*at` calls for that.
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
    Ok(made.map_err(of_walk)?)
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
    let stat = Filestat::from(&stat.map_err(of_walk)?);
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
    Ok(set.map_err(of_walk)?)
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
        of_two(
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
    let asked = Asked {
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
    let entry = open(guest, fd, path, &asked)?;
    let number = guest.table.push(entry);
    memory.put_u32(result, number)?;
    Ok(())
}

/// How something is to be opened.
struct Asked {
    follow: bool,
    oflags: u16,
    fdflags: u16,
    base: u64,
    inheriting: u64,
}

impl Asked {
    /// Whether the parent's rights allow it.
    ///
    /// # Errors
    /// [`Code::Badf`] (a stream), [`Code::Notdir`], [`Code::NotCapable`].
    fn allowed(&self, parent: &Entry) -> Result<(), Code> {
        match parent.what {
            What::Directory => {}
            What::File => return Err(Code::Notdir),
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

    /// Reading and writing, as it is opened for: what is made or cut is written, and what is not
    /// to be written is read.
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
        for (asked, flag) in [
            (oflags::CREAT, O_CREAT),
            (oflags::DIRECTORY, O_DIRECTORY),
            (oflags::TRUNC, O_TRUNC),
            (oflags::CREAT | oflags::EXCL, O_EXCL),
        ] {
            if self.oflags & asked == asked {
                flags |= flag;
            }
        }
        for (asked, flag) in [
            (fdflags::APPEND, O_APPEND),
            (fdflags::DSYNC, O_DSYNC),
            (fdflags::NONBLOCK, O_NONBLOCK),
            (fdflags::RSYNC, O_SYNC),
            (fdflags::SYNC, O_SYNC),
        ] {
            if self.fdflags & asked != 0 {
                flags |= flag;
            }
        }
        flags
    }
}

fn open(guest: &Guest, fd: u32, path: &[u8], asked: &Asked) -> Result<Entry, Code> {
    let parent = guest.table.get(fd)?;
    asked.allowed(parent)?;
    let making = oflags::CREAT | oflags::EXCL | oflags::TRUNC;
    if asked.oflags & oflags::DIRECTORY != 0 && asked.oflags & making != 0 {
        return Err(Code::Inval);
    }
    let creates = asked.oflags & oflags::CREAT != 0;
    let mode = if creates { FILE_MODE } else { 0 };
    let opened = guest
        .task
        .beneath()
        .openat(parent.fd, path, asked.flags(), mode);
    let fd = opened.map_err(|errno| Code::from(of_walk(errno)))?;
    let filetype = match guest.task.fstat(fd) {
        Ok(stat) => Filetype::of_mode(stat.mode),
        Err(errno) => {
            // It is closed again, whatever that says: the guest is told why it has none.
            let _closed = guest.task.close(fd);
            return Err(errno.into());
        }
    };
    let (what, meant) = match filetype {
        Filetype::Directory => (What::Directory, rights::DIRECTORY),
        _ => (What::File, rights::FILE),
    };
    let (opened, _) = asked.access();
    Ok(Entry {
        what,
        filetype,
        fd,
        base: asked.base & meant,
        inheriting: asked.inheriting,
        sync: asked.fdflags & (fdflags::DSYNC | fdflags::RSYNC | fdflags::SYNC),
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
    let target = target.map_err(of_walk)?;
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
    Ok(removed.map_err(of_walk)?)
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
        of_two(
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
    Ok(made.map_err(of_walk)?)
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
    Ok(removed.map_err(of_walk)?)
}
