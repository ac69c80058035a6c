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
//! `probe-lower` are empty directories. `copied-places` is what was copied up for the overlays
//! ([`copied_places`]).
//!
//! # Rules
//! R1. overlayfs marks the inode of each work directory as used, until the overlay has gone with
//!     its last file. An overlay with `index=on` is refused with `EBUSY` over such a directory. So
//!     each work directory is tried. The answer needs no record of ours, and holds after kill -9.
//! R2. `ESTALE` comes after that check: an earlier try was interrupted, and left an index of other
//!     layers. So do `ENOSPC` and `EDQUOT`, when the overlay makes its own directories. Any other
//!     error proves nothing, and counts as no answer.
//! R3. Where no overlay is left the directory is removed, so there is nothing to try the next time,
//!     and with it what was copied up for the overlays alone. The layers of the tries go last: the
//!     indexes in the others name them.
//! R4. A full file system must not keep a view from being read or discarded. So the directories for
//!     a try are made with the work directories, before a run can fill it.
//! R5. Where no overlay is possible, as with an upper tree on another overlay or on FUSE, a try has
//!     no answer. So one is made before the first work directory, and if the kernel refuses it
//!     nothing is left here.

use super::copied_places::{self, CopiedPlacesAt};
use crate::host::descriptors::path_by_number;
use crate::host::names::names_in;
use crate::host::remove::remove_tree_in;
use crate::report::path_bytes::PathBytes;
use openpath_overlay::Marks;
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
/// What mkdir(2) says.
pub fn make_kernel_work(dir: impl AsFd) -> rustix::io::Result<()> {
    layers_of_try(&made(dir, KERNEL_WORK)?).map(drop)
}

/// Records `dirs` of the upper tree in `dir`, which are copied up for overlays alone, outer ones
/// first: those that no run changes are removed with the work directories. Their paths begin with
/// `/upper`.
///
/// # Errors
/// `ENOENT`: [`make_kernel_work`] was not called. What the file system says.
pub fn record_copied_places(
    dir: impl AsFd,
    marks: Marks,
    dirs: (&[PathBytes], CopiedPlacesAt),
) -> io::Result<()> {
    let work = open(&dir, KERNEL_WORK)?.ok_or(Errno::NOENT)?;
    copied_places::record((dir, work), marks, dirs)
}

/// Tries whether an overlay is possible with an upper tree in `dir` (R5). If not, what
/// [`make_kernel_work`] made is removed.
///
/// # Errors
/// What the file system and the kernel's overlay say.
pub fn try_kernel_work(dir: impl AsFd) -> io::Result<()> {
    let work = made(&dir, KERNEL_WORK)?;
    let attempt = || {
        try_overlay(&layers_of_try(&work)?, &made(&work, FIRST)?)?;
        remove_tree_in(&work, OsStr::new(FIRST))
    };
    attempt().inspect_err(|_| {
        // It is empty but for directories of no overlay.
        let _left = remove_tree_in(&dir, OsStr::new(KERNEL_WORK));
    })
}

/// Makes the directory for work directories and tries whether an overlay is possible; returns it.
pub(super) fn make(dir: impl AsFd) -> io::Result<OwnedFd> {
    try_kernel_work(&dir)?;
    Ok(open(dir, KERNEL_WORK)?.ok_or(Errno::NOENT)?)
}

/// Removes the work directories beside the upper tree in `dir`, unless overlays still use some of
/// them: then returns the names of those.
///
/// # Errors
/// `EPERM`: this process may not mount. What the file system and the kernel's overlay say.
pub fn remove_idle_kernel_work(dir: impl AsFd) -> io::Result<Vec<Vec<u8>>> {
    let Some(work) = open(&dir, KERNEL_WORK)? else {
        return Ok(Vec::new());
    };
    let names = used(&work, &[])?;
    if names.is_empty() {
        // R3
        copied_places::remove_unchanged(&dir, &work)?;
        remove(dir, &work)?;
    }
    Ok(names)
}

/// The work directories in `work` that overlays use. `others` are names of files there that are
/// none.
pub(super) fn used(work: &OwnedFd, others: &[&str]) -> io::Result<Vec<Vec<u8>>> {
    let mut used = Vec::new();
    let layers = layers_of_try(work)?;
    for name in work_dirs(work)? {
        if others.iter().any(|other| other.as_bytes() == name) {
            continue;
        }
        let Some(tried) = open(work, OsStr::from_bytes(&name))? else {
            continue;
        };
        match try_overlay(&layers, &tried) {
            Err(Errno::BUSY) => used.push(name),
            // R2
            Err(Errno::STALE | Errno::NOSPC | Errno::DQUOT) => {}
            tried => tried?,
        }
    }
    Ok(used)
}

/// Removes the work directories, which no overlay uses (R3).
pub(super) fn remove(dir: impl AsFd, work: &OwnedFd) -> io::Result<()> {
    for name in work_dirs(work)? {
        remove_tree_in(work, OsStr::from_bytes(&name))?;
    }
    remove_tree_in(dir, OsStr::new(KERNEL_WORK))
}

/// All names but those of the layers of tries and of records.
fn work_dirs(work: &OwnedFd) -> io::Result<Vec<Vec<u8>>> {
    let others = [
        LOWER,
        UPPER,
        copied_places::RECORD,
        copied_places::NEW_RECORD,
    ];
    let mut names = names_in(work.as_fd())?;
    names.retain(|name| others.iter().all(|other| other.as_bytes() != *name));
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

/// The empty layers of a try.
fn layers_of_try(work: &OwnedFd) -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    Ok((made(work, LOWER)?, made(work, UPPER)?))
}

fn made(dir: impl AsFd, name: &str) -> rustix::io::Result<OwnedFd> {
    if let Some(known) = open(&dir, name)? {
        return Ok(known);
    }
    rustix::fs::mkdirat(&dir, name, Mode::RWXU)?;
    open(dir, name)?.ok_or(Errno::NOENT)
}

/// Opens a directory; `None` if it does not exist.
pub(super) fn open(
    dir: impl AsFd,
    name: impl rustix::path::Arg,
) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(dir, name, flags, Mode::empty()) {
        Err(Errno::NOENT) => Ok(None),
        dir => dir.map(Some),
    }
}
