// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removes trees, however deep, whatever the permissions of their directories.
//!
//! # Rules
//! R1. The walk goes by descriptors and follows no symbolic link (`dir_stack`), so nothing outside
//!     the tree is removed when another process swaps names meanwhile.
//! R2. What is mounted in the tree stays: a directory on another mount is an error.

use crate::host::descriptors::{path_by_number, reopen_path};
use crate::host::dir_stack::DirStack;
use crate::host::names::names_in;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::{Errno, Result};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

/// Removes a name of a directory that is held, and of a directory all that is in it, whatever its
/// permissions and however deep; a missing name is no error.
///
/// # Errors
/// `EBUSY`: something is mounted there. What the file system says.
pub fn remove_tree_in(dir: impl AsFd, name: &OsStr) -> io::Result<()> {
    Ok(remove(dir.as_fd(), name.as_bytes(), &mut || true)?)
}

/// Removes a name of a directory, and of a directory all that is in it; a missing name is no error.
/// `keep_going` is asked before each name.
///
/// # Errors
/// `ECANCELED`: `keep_going` said no. `EBUSY`: something is mounted there. What the file system
/// says.
pub(crate) fn remove(
    dir: BorrowedFd<'_>,
    name: &[u8],
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<()> {
    let top = reopen_path(dir)?;
    let mount = stat_at(&top, b".")?.ok_or(Errno::NOENT)?.mount;
    let mut stack = DirStack::new(top)?;
    // The names that are left in each directory, and under which name the walk entered the next.
    let mut left = vec![vec![name.to_vec()]];
    let mut entered: Vec<Vec<u8>> = Vec::new();
    while let Some(names) = left.last_mut() {
        if let Some(name) = names.pop() {
            let Some(found) = stat_at(stack.dir()?, &name)? else {
                continue;
            };
            if found.is_dir {
                if found.mount != mount {
                    return Err(Errno::BUSY);
                }
                let below = open(stack.dir()?, &name)?;
                left.push(names_in(below.as_fd())?);
                entered.push(name);
                stack.enter(below)?;
            } else {
                unlink(&stack, &name, AtFlags::empty(), keep_going)?;
            }
            continue;
        }
        left.pop();
        if let Some(name) = entered.pop() {
            stack.leave()?;
            unlink(&stack, &name, AtFlags::REMOVEDIR, keep_going)?;
        }
    }
    Ok(())
}

fn unlink(
    stack: &DirStack,
    name: &[u8],
    flags: AtFlags,
    keep_going: &mut dyn FnMut() -> bool,
) -> Result<()> {
    if !keep_going() {
        return Err(Errno::CANCELED);
    }
    match rustix::fs::unlinkat(stack.dir()?, name, flags) {
        Err(Errno::NOENT) => Ok(()),
        done => done,
    }
}

struct NameInfo {
    is_dir: bool,
    mount: u64,
}

fn stat_at(dir: impl rustix::fd::AsFd, name: &[u8]) -> Result<Option<NameInfo>> {
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    match rustix::fs::statx(dir, name, flags, StatxFlags::TYPE | StatxFlags::MNT_ID) {
        Err(Errno::NOENT) => Ok(None),
        found => found.map(|stat| {
            let kind = FileType::from_raw_mode(stat.stx_mode.into());
            Some(NameInfo {
                is_dir: kind == FileType::Directory,
                mount: stat.stx_mnt_id,
            })
        }),
    }
}

/// Opens a directory that is to be emptied, after giving its owner all permissions.
fn open(dir: BorrowedFd<'_>, name: &[u8]) -> Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(dir, name, flags, Mode::empty())?;
    let_in(dir.as_fd())?;
    Ok(dir)
}

/// Gives the owner of a directory all permissions.
///
/// # Errors
/// `EBADF`.
pub(crate) fn let_in(dir: BorrowedFd<'_>) -> Result<()> {
    let mode = rustix::fs::fstat(dir)?.st_mode;
    if mode & 0o700 != 0o700 {
        let mode = Mode::from_raw_mode(mode & 0o7777 | 0o700);
        // A directory of another user stays as it is; what follows says whether that matters.
        let _if_it_may = rustix::fs::chmod(path_by_number(dir), mode);
    }
    Ok(())
}
