// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls on the inodes of the layers, with the locks that they ask for.
//!
//! # Rules
//! R1. The core's checks were made on the overlay's inode. What is done beneath is done without
//!     further ones, as Linux does it with the credentials of who mounted.
//! R2. Of two inodes beneath, the one at the lower address is locked first, whatever they are to
//!     each other; while one is locked, nothing of the overlay's own is waited for.

use openpath_abi::{Errno, Timespec};
use openpath_sync::RwLockWriteGuard;
use openpath_vfs::lock_order::Stacked;
use openpath_vfs::{Found, Inode, InodeOps, Listed, NewInode, Patience, Rename, SetAttr};
use std::sync::Arc;

/// An inode beneath, locked alone.
pub(crate) type Locked<'a> = RwLockWriteGuard<'a, (), Stacked>;

/// What `name` is in a directory beneath.
///
/// # Errors
/// What the backend meets; `EAGAIN` if it would have to wait and may not.
pub(crate) fn lookup(
    dir: &Inode,
    name: &[u8],
    patience: Patience,
) -> Result<Option<Arc<Inode>>, Errno> {
    let _held = match patience {
        Patience::Wait => dir.hold_names_beneath(),
        Patience::Cached => dir.try_hold_names_beneath().ok_or(Errno::EAGAIN)?,
    };
    lookup_locked(dir, name, patience)
}

/// As [`look`], with the directory's names held.
pub(crate) fn lookup_locked(
    dir: &Inode,
    name: &[u8],
    patience: Patience,
) -> Result<Option<Arc<Inode>>, Errno> {
    match dir.ops().lookup(dir, name, patience)? {
        Found::Inode(inode) => Ok(Some(inode)),
        Found::Absent => Ok(None),
        Found::WouldBlock => Err(Errno::EAGAIN),
    }
}

/// All entries of a directory beneath, until `each` says no. Its names are held meanwhile.
///
/// # Errors
/// What the backend or `each` meets.
pub(crate) fn list_dir(
    dir: &Inode,
    from: i64,
    each: &mut dyn FnMut(Listed<'_>) -> Result<bool, Errno>,
) -> Result<(), Errno> {
    let _held = dir.hold_names_beneath();
    let mut met = Ok(());
    dir.ops()
        .readdir(dir, from, &mut |entry| match each(entry) {
            Ok(goes_on) => goes_on,
            Err(errno) => {
                met = Err(errno);
                false
            }
        })?;
    met
}

/// Locks one or two inodes beneath (R2).
pub(crate) fn lock_both<'a>(a: &'a Inode, b: &'a Inode) -> (Locked<'a>, Option<Locked<'a>>) {
    if std::ptr::eq(a, b) {
        return (a.lock_names_beneath(), None);
    }
    let (first, second) = if std::ptr::from_ref(a) < std::ptr::from_ref(b) {
        (a, b)
    } else {
        (b, a)
    };
    let first = first.lock_names_beneath();
    (first, Some(second.lock_names_beneath()))
}

/// Runs a change of an inode beneath with that locked.
pub(crate) fn with_lock<R>(inode: &Inode, run: impl FnOnce(&dyn InodeOps) -> R) -> R {
    let _locked = inode.lock_names_beneath();
    run(inode.ops())
}

/// Makes a file beneath.
///
/// # Errors
/// What the backend meets.
pub(crate) fn create(dir: &Inode, name: &[u8], new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
    with_lock(dir, |ops| ops.create(dir, name, new))
}

/// Removes a name beneath; a directory must be empty.
///
/// # Errors
/// What the backend meets.
pub(crate) fn remove(
    dir: &Inode,
    name: &[u8],
    victim: &Arc<Inode>,
    now: Timespec,
) -> Result<(), Errno> {
    let _locked = lock_both(dir, victim);
    if victim.is_dir() {
        dir.ops().rmdir(dir, name, victim, now)
    } else {
        dir.ops().unlink(dir, name, victim, now)
    }
}

/// Carries out a rename beneath.
///
/// # Errors
/// What the backend meets.
pub(crate) fn rename(rename: &Rename<'_>) -> Result<(), Errno> {
    let _locked = lock_both(rename.old_dir, rename.new_dir);
    rename.old_dir.ops().rename(rename)
}

/// Changes attributes beneath.
///
/// # Errors
/// What the backend meets.
pub(crate) fn set_attr(inode: &Inode, to: &SetAttr) -> Result<(), Errno> {
    with_lock(inode, |ops| ops.setattr(inode, to))
}
