// SPDX-License-Identifier: MIT OR Apache-2.0
//! Renames that replace nothing, and exchanges of two names, each checked afterwards.
//!
//! # Rules
//! R1. Where a file system lacks `RENAME_NOREPLACE`, a file is linked to its new name and unlinked
//!     from the old one. A directory is renamed once its new name was found free: rename(2) of a
//!     directory replaces at most an empty directory, so one made in that moment loses nothing. It
//!     is one call, so an interruption leaves no half of it.
//! R2. A rename goes by name, and another user may swap names in a directory of his own. So what
//!     has the name afterwards is compared with what was held before; if it is another inode, the
//!     names are put back, and the error is `ESTALE`.

use crate::held::Held;
use crate::messages::{changed, failed, text};
use crate::refusal::Refusal;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, RenameFlags};
use rustix::io::{Errno, Result};

/// A name in a directory.
pub(crate) type Name<'a> = (BorrowedFd<'a>, &'a [u8]);

/// Renames `from` to `to`, which must not be there.
///
/// # Errors
/// `EEXIST`: it is there. `EOPNOTSUPP`: the file system has no call for this (R1).
pub(crate) fn whole(from: Name<'_>, to: Name<'_>) -> Result<()> {
    match with(from, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {}
        done => return done,
    }
    let held = Held::open(from.0, from.1)?.ok_or(Errno::NOENT)?;
    if held.facts.is_dir() {
        return match Held::open(to.0, to.1)? {
            Some(_) => Err(Errno::EXIST),
            None => match rustix::fs::renameat(from.0, from.1, to.0, to.1) {
                Err(Errno::NOTEMPTY | Errno::NOTDIR) => Err(Errno::EXIST),
                done => done,
            },
        };
    }
    match link(from, to) {
        Err(Errno::EXIST) => match Held::open(to.0, to.1)? {
            // A rename that was interrupted between its two calls.
            Some(there) if there.same(&held)? => {}
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
    if seam::LINKLESS.get() {
        return Err(Errno::PERM);
    }
    rustix::fs::linkat(from.0, from.1, to.0, to.1, AtFlags::empty())
}

/// The same for an inode that is held (R2).
pub(crate) fn held(from: Name<'_>, to: Name<'_>, what: &Held) -> Result<()> {
    whole(from, to)?;
    if is(to, what)? {
        return Ok(());
    }
    // What was moved is not what was checked: it goes back.
    let _if_it_can = whole(to, from);
    Err(Errno::STALE)
}

/// Exchanges two names that are held (R2).
///
/// # Errors
/// `EINVAL`, `EOPNOTSUPP`: the file system cannot.
pub(crate) fn exchange(a: Name<'_>, b: Name<'_>, (at_a, at_b): (&Held, &Held)) -> Result<()> {
    with(a, b, RenameFlags::EXCHANGE)?;
    if is(a, at_b)? && is(b, at_a)? {
        return Ok(());
    }
    let _if_it_can = with(a, b, RenameFlags::EXCHANGE);
    Err(Errno::STALE)
}

fn is(name: Name<'_>, what: &Held) -> Result<bool> {
    match Held::open(name.0, name.1)? {
        Some(there) => there.same(what),
        None => Ok(false),
    }
}

fn with(from: Name<'_>, to: Name<'_>, flags: RenameFlags) -> Result<()> {
    #[cfg(any(test, feature = "fault-injection"))]
    seam::reached();
    #[cfg(any(test, feature = "fault-injection"))]
    if seam::LACKING.with(std::cell::Cell::get) {
        return Err(Errno::INVAL);
    }
    rustix::fs::renameat_with(from.0, from.1, to.0, to.1, flags)
}

/// A rename of a path failed.
pub(crate) fn said(path: &[u8], why: Errno) -> Refusal {
    match why {
        Errno::STALE => changed(path),
        Errno::OPNOTSUPP => Refusal::new(format!(
            "{}: its file system can neither rename without replacing nor make links, so a \
             commit could overwrite what is there: commit other paths",
            text(path)
        )),
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
        pub(super) static LACKING: Cell<bool> = const { Cell::new(false) };
        /// Nor has it links.
        pub(super) static LINKLESS: Cell<bool> = const { Cell::new(false) };
    }

    /// Whether renames of this thread find a file system without flags of renameat2(2).
    pub fn set_lacking(is_so: bool) {
        LACKING.set(is_so);
    }

    /// Whether it has no links either.
    pub fn set_linkless(is_so: bool) {
        LINKLESS.set(is_so);
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
