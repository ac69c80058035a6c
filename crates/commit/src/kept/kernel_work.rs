// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removes the work directories of the kernel's overlays over a tree of changes, if no such overlay
//! exists any more.
//!
//! A process of a run can outlive it with a descriptor in an overlay, and so can one of another
//! user that opened `/proc/PID/root`. Until it has closed that, it can go on changing the upper
//! tree.
//!
//! # Shape
//! `kernel-work/N` is the work directory of the overlay over layer N, `kernel-work/probe-upper` and
//! `probe-lower` are empty directories.
//!
//! # Rules
//! R1. overlayfs marks the inode of each work directory as used, until the overlay has gone with
//!     its last file. An overlay with `index=on` is refused with `EBUSY` over such a directory. So
//!     each work directory is tried. The answer needs no record of ours, and holds after kill -9.
//! R2. `ESTALE` comes after that check: an earlier try was interrupted, and left an index of other
//!     layers. So do `ENOSPC` and `EDQUOT`, when the overlay makes its own directories. Any other
//!     error proves nothing, and counts as no answer.
//! R3. Where no overlay is left the directory is removed, so there is nothing to try the next time.
//!     The layers of the tries go last: the indexes in the others name them.
//! R4. A full file system must not keep a view from being read or discarded. So the directories for
//!     a try are made with the work directories, before a run can fill it.
//! R5. Where no overlay is possible, as with an upper tree on another overlay or on FUSE, a try has
//!     no answer. So one is made before the first work directory, and if the kernel refuses it
//!     nothing is left here.

use crate::host::descriptors::path_by_number;
use crate::host::names::names_in;
use crate::host::remove::remove_tree_in;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::FsOpenFlags;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt as _;

/// The directory with the work directories, beside the upper tree. The overlay of this program has
/// its own, `work`.
pub const KERNEL_WORK: &str = "kernel-work";

/// Empty directories for the layers of an overlay that is tried.
const LOWER: &str = "probe-lower";
const UPPER: &str = "probe-upper";
/// The work directory of the first try (R5).
const FIRST: &str = "probe-work";

/// Makes the directory for work directories in `dir`, with what a later try needs (R4). There is
/// none yet.
///
/// # Errors
/// What mkdir(2) and the kernel's overlay say (R5).
pub fn make_kernel_work(dir: impl AsFd) -> io::Result<()> {
    make(dir).map(drop)
}

/// The same; returns the directory.
pub(super) fn make(dir: impl AsFd) -> io::Result<OwnedFd> {
    let work = made(&dir, KERNEL_WORK)?;
    let attempt = || {
        let layers = (made(&work, LOWER)?, made(&work, UPPER)?);
        try_overlay(&layers, &made(&work, FIRST)?)?;
        remove_tree_in(&work, OsStr::new(FIRST))
    };
    let made = attempt().inspect_err(|_| {
        // It is empty but for directories of no overlay.
        let _left = remove_tree_in(&dir, OsStr::new(KERNEL_WORK));
    });
    made.map(|()| work)
}

/// Removes the work directories beside the upper tree in `dir`, unless an overlay still uses one:
/// then returns false.
///
/// # Errors
/// `EPERM`: this process may not mount. What the file system and the kernel's overlay say.
pub fn remove_idle_kernel_work(dir: impl AsFd) -> io::Result<bool> {
    let Some(work) = open(&dir, KERNEL_WORK)? else {
        return Ok(true);
    };
    if !is_unused(&work, &[])? {
        return Ok(false);
    }
    remove(dir, &work)?;
    Ok(true)
}

/// Whether no overlay uses one of the work directories in `work`. `others` are names of files there
/// that are none.
pub(super) fn is_unused(work: &OwnedFd, others: &[&str]) -> io::Result<bool> {
    for name in work_dirs(work)? {
        if others.iter().any(|other| other.as_bytes() == name) {
            continue;
        }
        let Some(tried) = open(work, OsStr::from_bytes(&name))? else {
            continue;
        };
        let layers = (made(work, LOWER)?, made(work, UPPER)?);
        match try_overlay(&layers, &tried) {
            Err(Errno::BUSY) => return Ok(false),
            // R2
            Err(Errno::STALE | Errno::NOSPC | Errno::DQUOT) => {}
            tried => tried?,
        }
    }
    Ok(true)
}

/// Removes the work directories, which no overlay uses (R3).
pub(super) fn remove(dir: impl AsFd, work: &OwnedFd) -> io::Result<()> {
    for name in work_dirs(work)? {
        remove_tree_in(work, OsStr::from_bytes(&name))?;
    }
    remove_tree_in(dir, OsStr::new(KERNEL_WORK))
}

/// All names but those of the layers of tries.
fn work_dirs(work: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let is_probe = |name: &Vec<u8>| *name == LOWER.as_bytes() || *name == UPPER.as_bytes();
    let mut names = names_in(work.as_fd())?;
    names.retain(|name| !is_probe(name));
    Ok(names)
}

/// Makes an overlay with this work directory, and drops it (R1).
fn try_overlay((lower, upper): &(OwnedFd, OwnedFd), tried: &OwnedFd) -> rustix::io::Result<()> {
    let context = rustix::mount::fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, dir) in [("lowerdir", lower), ("upperdir", upper), ("workdir", tried)] {
        rustix::mount::fsconfig_set_string(&context, key, path_by_number(dir))?;
    }
    rustix::mount::fsconfig_set_string(&context, "index", "on")?;
    if !rustix::process::geteuid().is_root() {
        rustix::mount::fsconfig_set_flag(&context, "userxattr")?;
    }
    rustix::mount::fsconfig_create(&context)
}

fn made(dir: impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    if let Some(known) = open(&dir, name)? {
        return Ok(known);
    }
    rustix::fs::mkdirat(&dir, name, Mode::RWXU)?;
    open(dir, name)?.ok_or(Errno::NOENT)
}

/// Opens a directory; `None` if it does not exist.
fn open(dir: impl AsFd, name: impl rustix::path::Arg) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        dir => dir.map(Some),
    }
}
