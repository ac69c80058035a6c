// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renames without replacing anything, and exchanges two names, and checks the result of each.
//!
//! # Rules
//! R1. Where a file system lacks `RENAME_NOREPLACE`, a file is linked to its new name and unlinked
//!     from the old one. A directory is renamed once its new name was found free: rename(2) of a
//!     directory replaces at most an empty directory, so one made in that moment loses nothing. It
//!     is one call, so an interruption leaves no half of it.
//! R2. A rename works by name, and another user may swap names in a directory of their own. So the
//!     file with the name afterwards is compared with the one held before. If it is another inode,
//!     the names are restored, and the error is `ESTALE`.

use crate::host::held_file::HeldFile;
use crate::report::messages::{changed_meanwhile, failed, shown};
use crate::report::refusal::{Refusal, RefusalKind};
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, RenameFlags, Statx, StatxFlags};
use rustix::io::{Errno, Result};

/// A name in a directory.
pub(crate) type Name<'a> = (BorrowedFd<'a>, &'a [u8]);

/// Renames `from` to `to`, which must not be there.
///
/// # Errors
/// `EEXIST`: it is there. `EOPNOTSUPP`: the file system has no call for this (R1).
pub(crate) fn noreplace(from: Name<'_>, to: Name<'_>) -> Result<()> {
    match with(from, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        done => return done,
    }
    let held = HeldFile::open(from.0, from.1)?.ok_or(Errno::NOENT)?;
    if held.stat.is_dir() {
        return match HeldFile::open(to.0, to.1)? {
            Some(_) => Err(Errno::EXIST),
            None => match rustix::fs::renameat(from.0, from.1, to.0, to.1) {
                Err(Errno::NOTEMPTY | Errno::NOTDIR) => Err(Errno::EXIST),
                done => done,
            },
        };
    }
    match link(from, to) {
        Err(Errno::EXIST) => match HeldFile::open(to.0, to.1)? {
            // A rename that was interrupted between its two calls.
            Some(there) if there.is_same_inode(&held)? => {}
            _ => return Err(Errno::EXIST),
        },
        Err(Errno::PERM | Errno::OPNOTSUPP | Errno::NOSYS | Errno::MLINK) => {
            return Err(Errno::OPNOTSUPP);
        }
        done => done?,
    }
    rustix::fs::unlinkat(from.0, from.1, AtFlags::empty())
}

fn link(from: Name<'_>, to: Name<'_>) -> Result<()> {
    #[cfg(any(test, feature = "fault-injection"))]
    if seam::NO_HARD_LINKS.get() {
        return Err(Errno::PERM);
    }
    rustix::fs::linkat(from.0, from.1, to.0, to.1, AtFlags::empty())
}

/// The same for a held file (R2).
pub(crate) fn checked(from: Name<'_>, to: Name<'_>, what: &HeldFile) -> Result<()> {
    noreplace(from, to)?;
    if names_inode(to, what)? {
        return Ok(());
    }
    // Another file was moved than the one that was checked: it is moved back.
    let _if_it_can = noreplace(to, from);
    Err(Errno::STALE)
}

/// Exchanges the names of two held files (R2).
///
/// # Errors
/// `EINVAL`, `EOPNOTSUPP`: the file system cannot.
pub(crate) fn exchange(
    a: Name<'_>,
    b: Name<'_>,
    (at_a, at_b): (&HeldFile, &HeldFile),
) -> Result<()> {
    with(a, b, RenameFlags::EXCHANGE)?;
    if names_inode(a, at_b)? && names_inode(b, at_a)? {
        return Ok(());
    }
    let _if_it_can = with(a, b, RenameFlags::EXCHANGE);
    Err(Errno::STALE)
}

fn names_inode(name: Name<'_>, what: &HeldFile) -> Result<bool> {
    // The held file keeps its number, so a file with another name cannot have it.
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let there = match rustix::fs::statx(name.0, name.1, flags, StatxFlags::INO) {
        Err(Errno::NOENT) => return Ok(false),
        there => there?,
    };
    // A rename may have copied it up since it was opened.
    let held = rustix::fs::statx(what.fd(), "", AtFlags::EMPTY_PATH, StatxFlags::INO)?;
    let inode = |stat: Statx| (stat.stx_dev_major, stat.stx_dev_minor, stat.stx_ino);
    Ok(inode(there) == inode(held))
}

fn with(from: Name<'_>, to: Name<'_>, flags: RenameFlags) -> Result<()> {
    #[cfg(any(test, feature = "fault-injection"))]
    seam::reached();
    #[cfg(any(test, feature = "fault-injection"))]
    if seam::NO_RENAME_FLAGS.with(std::cell::Cell::get) {
        return Err(Errno::INVAL);
    }
    rustix::fs::renameat_with(from.0, from.1, to.0, to.1, flags)
}

/// A rename of a path failed.
pub(crate) fn rename_failed(path: &[u8], why: Errno) -> Refusal {
    match why {
        Errno::STALE => changed_meanwhile(path),
        Errno::OPNOTSUPP => Refusal::new(
            RefusalKind::Unsupported,
            format!(
                "{}: its file system can neither rename without replacing nor make links, so a \
             commit could overwrite what is there: commit other paths",
                shown(path)
            ),
        ),
        why => failed(path, why),
    }
}

/// A file system without flags for renames, for tests.
#[cfg(any(test, feature = "fault-injection"))]
pub(crate) mod seam {
    use std::cell::{Cell, RefCell};

    thread_local! {
        static HOOK: RefCell<Option<Box<dyn FnOnce()>>> = const { RefCell::new(None) };
        /// The file system has no flags of renameat2(2).
        pub(super) static NO_RENAME_FLAGS: Cell<bool> = const { Cell::new(false) };
        /// Nor has it links.
        pub(super) static NO_HARD_LINKS: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether renames of this thread find a file system without flags of renameat2(2).
    pub fn lack_rename_flags(is_so: bool) {
        NO_RENAME_FLAGS.set(is_so);
    }

    /// Whether it has no links either.
    pub fn lack_hard_links(is_so: bool) {
        NO_HARD_LINKS.set(is_so);
    }

    /// Calls this right before the next rename of this thread.
    #[cfg(test)]
    pub(crate) fn before_next(hook: impl FnOnce() + 'static) {
        HOOK.set(Some(Box::new(hook)));
    }

    pub(super) fn reached() {
        if let Some(hook) = HOOK.take() {
            hook();
        }
    }
}

#[cfg(test)]
mod tests;
