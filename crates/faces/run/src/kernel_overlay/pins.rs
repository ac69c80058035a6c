// SPDX-License-Identifier: MIT OR Apache-2.0
//! Keeps the directories above the mounts of a view in place: their rename is `EBUSY`.
//!
//! The kernel renames no directory on which the mount namespace of the caller has a mount, by
//! whatever path that is mounted. A mount on the directory itself would make renames between it and
//! its parent `EXDEV`. So each overlay is mounted once more where no path leads, and the mounts are
//! on the directories there: no lookup in the view goes through them.
//!
//! # Rules
//! R1. All directories are opened before the first mount, which may cover others.
//! R2. A command that is root can unmount them, and a process of another mount namespace does not
//!     have them. A commit finds what was moved then (`openpath_commit::Places`).

use crate::detached;
use crate::guard::directory;
use crate::plan::{LayerShown, Plan};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::Path;

/// Keeps them in place, by mounts at a guarded directory, which is to be covered then. Without such
/// a directory nothing keeps them.
///
/// # Errors
/// Those of open_tree(2), openat2(2) and move_mount(2).
pub(crate) fn attach(plan: &Plan) -> rustix::io::Result<()> {
    let of_host = |place: &Path| plan.host_places().any(|top| place.starts_with(top.path()));
    let hidden = plan.masked.iter().map(|place| place.path());
    let mut hidden = hidden.filter(|place| !of_host(place));
    let Some(hidden) = hidden.find(|place| matches!(directory(place), Ok(Some(_)))) else {
        return Ok(());
    };
    let overlays = plan.layers.iter();
    let overlays = overlays.filter(|layer| layer.shown == LayerShown::Overlay);
    for layer in overlays {
        let top = layer.place.path();
        let dirs = dirs_above(plan, top);
        let (Some(at), false) = (directory(top)?, dirs.is_empty()) else {
            continue;
        };
        let copy = detached::copy(at)?;
        if let Some(place) = directory(hidden)? {
            detached::attach(&copy, place)?;
        }
        // R1
        let dirs = dirs.into_iter().map(|dir| below(&copy, dir));
        let dirs = dirs.collect::<rustix::io::Result<Vec<_>>>()?;
        for dir in dirs.into_iter().flatten() {
            detached::attach(detached::copy(&dir)?, &dir)?;
        }
    }
    Ok(())
}

/// The directories of an overlay above the places that a run keeps, as paths from its top.
fn dirs_above<'a>(plan: &'a Plan, top: &Path) -> BTreeSet<&'a Path> {
    let layers = plan.layers.iter().map(|layer| &layer.place);
    let kept = plan.masked.iter().chain(&plan.read_only);
    let kept = kept.chain(layers.clone()).chain(plan.host_places());
    let above = kept.flat_map(|place| place.path().ancestors().skip(1));
    // Of all mounts the innermost one has the directory.
    let is_mount = |dir: &&Path| {
        let mut mounts = layers.clone().chain(plan.host_places());
        mounts.any(|mount| mount.path() == *dir)
    };
    let mount_of = |dir: &'a Path| dir.ancestors().find(is_mount);
    let here = above.filter(|dir| *dir != top && mount_of(dir) == Some(top));
    here.filter_map(|dir| dir.strip_prefix(top).ok()).collect()
}

/// A directory of a mount; `None`: it does not exist.
fn below(top: &OwnedFd, path: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(top, path, flags, Mode::empty(), inside) {
        Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
        dir => dir.map(Some),
    }
}
