// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes calls on the inodes of the layers, with the locks that they need.
//!
//! # Rules
//! R1. The core's checks were made on the overlay's inode. Calls on layers make no further checks,
//!     as Linux makes them with the mounter's credentials.
//! R2. Of two layer inodes the one at the lower address is locked first, whatever their relation.
//!     While one is locked, no lock of the overlay is waited for.

use openpath_abi::{Errno, Timespec};
use openpath_sync::RwLockWriteGuard;
use openpath_vfs::lock_order::Stacked;
use openpath_vfs::{
    Inode, InodeOps, ListedEntry, LookupResult, NewInode, Rename, SetAttr, WaitMode,
};
use std::sync::Arc;

/// A layer inode, locked alone.
pub(crate) type Locked<'a> = RwLockWriteGuard<'a, (), Stacked>;

/// The inode of `name` in a directory of a layer.
///
/// # Errors
/// Those of the backend; `EAGAIN` if it would have to wait and may not.
pub(crate) fn lookup(
    dir: &Inode,
    name: &[u8],
    wait_mode: WaitMode,
) -> Result<Option<Arc<Inode>>, Errno> {
    let _held = match wait_mode {
        WaitMode::Wait => dir.hold_names_beneath(),
        WaitMode::Cached => dir.try_hold_names_beneath().ok_or(Errno::EAGAIN)?,
    };
    lookup_locked(dir, name, wait_mode)
}

/// As [`lookup`], with the directory's names locked.
pub(crate) fn lookup_locked(
    dir: &Inode,
    name: &[u8],
    wait_mode: WaitMode,
) -> Result<Option<Arc<Inode>>, Errno> {
    match dir.ops().lookup(dir, name, wait_mode)? {
        LookupResult::Inode(inode) => Ok(Some(inode)),
        LookupResult::Absent => Ok(None),
        LookupResult::WouldBlock => Err(Errno::EAGAIN),
    }
}

/// All entries of a directory of a layer, until `each` returns false. Its names are locked
/// meanwhile.
///
/// # Errors
/// Those of the backend or of `each`.
pub(crate) fn list_dir(
    dir: &Inode,
    from: i64,
    each: &mut dyn FnMut(ListedEntry<'_>) -> Result<bool, Errno>,
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

/// Locks one or two layer inodes (R2).
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

/// Runs a change of a layer inode with it locked.
pub(crate) fn with_lock<R>(inode: &Inode, run: impl FnOnce(&dyn InodeOps) -> R) -> R {
    let _locked = inode.lock_names_beneath();
    run(inode.ops())
}

/// Makes a file in a layer.
///
/// # Errors
/// Those of the backend.
pub(crate) fn create(dir: &Inode, name: &[u8], new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
    with_lock(dir, |ops| ops.create(dir, name, new))
}

/// Removes a name in a layer; a directory must be empty.
///
/// # Errors
/// Those of the backend.
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

/// Renames in a layer.
///
/// # Errors
/// Those of the backend.
pub(crate) fn rename(rename: &Rename<'_>) -> Result<(), Errno> {
    let _locked = lock_both(rename.old_dir, rename.new_dir);
    rename.old_dir.ops().rename(rename)
}

/// Changes attributes in a layer.
///
/// # Errors
/// Those of the backend.
pub(crate) fn set_attr(inode: &Inode, to: &SetAttr) -> Result<(), Errno> {
    with_lock(inode, |ops| ops.setattr(inode, to))
}
