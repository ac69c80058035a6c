// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prepares the upper tree of a view that the kernel's overlays serve, waits until they no longer
//! use it, and opens it again to find the changes. This runs in the server.
//!
//! # States
//! Prepared (the overlays use it, [`KernelUpper::prepare`]) -> unused
//! ([`KernelUpper::wait_until_unused`]) -> opened again, for the changes ([`KernelUpper::open`]).
//!
//! # Rules
//! R1. Each overlay needs a directory in the upper tree, so the places of mounts are copied up,
//!     with the directories of which a commit must know. After the run those that are as they were
//!     made go again: they are no changes.

use crate::detached;
use crate::host_mounts::HostMounts;
use crate::kernel_overlay::mounts::{UpperTree, memory, too_small, upper_path, work_path};
use crate::plan::{Layer, LayerShown, Plan, Upper};
use crate::view::{View, ViewOptions, half_of_memory};
use openpath_abi::mode::S_IALLUGO;
use openpath_commit::{
    PathBytes, Places, Refusal, RefusalKind, ViewLock, make_kernel_work, remove_idle_kernel_work,
};
use openpath_overlay::Marks;
use openpath_vfs::Task;
use rustix::fd::OwnedFd;
use rustix::fs::{AtFlags, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Errors of a mount that has gone, or whose server has.
const GONE: [openpath_abi::Errno; 5] = [
    openpath_abi::Errno::ENOENT,
    openpath_abi::Errno::ENOTDIR,
    openpath_abi::Errno::ENOTCONN,
    openpath_abi::Errno::ECONNABORTED,
    openpath_abi::Errno::ESTALE,
];

/// How long the kernel may take to end overlays that no process uses any more.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// The most bytes of a list of attributes (`XATTR_LIST_MAX`).
const XATTR_LIST_MAX: usize = 65_536;
/// The most bytes of an attribute's value (`XATTR_SIZE_MAX`).
const XATTR_SIZE_MAX: usize = 65_536;

/// The upper tree, while the overlays use it.
pub(crate) struct KernelUpper {
    held: Option<ViewLock>,
    memory: Option<Arc<OwnedFd>>,
    /// The directory with the upper tree.
    upper: OwnedFd,
    /// The prefix of its marks.
    marks: Marks,
    /// What was copied up for them (R1), outer ones first.
    made: Vec<CopiedDir>,
}

/// A directory of the upper tree that was copied up for an overlay, by its path from the tree.
struct CopiedDir {
    path: PathBuf,
    stat: Stat,
    /// Its extended attributes but for marks.
    attrs: Vec<(Vec<u8>, Vec<u8>)>,
}

impl KernelUpper {
    /// Prepares the upper tree of a plan. Returns it, and a tree to make the overlays from: one
    /// that is attached nowhere, with the upper tree and the work directories.
    ///
    /// # Errors
    /// Those of [`View::build`]; the view has something that the kernel's overlay cannot show.
    pub(crate) fn prepare(plan: &Plan) -> Result<(KernelUpper, UpperTree), Refusal> {
        let in_memory = match &plan.upper {
            Upper::Directory(_) => None,
            Upper::Memory { size } => {
                let size = size.unwrap_or_else(half_of_memory);
                Some(Arc::new(memory(size).map_err(not_kept)?))
            }
        };
        let prepared = Self::prepare_in(plan, in_memory.clone());
        prepared.map_err(|why| {
            let is_full = why.kind() == RefusalKind::NoSpace || in_memory.is_some_and(is_full);
            // What a view needs depends on the mounts of the host.
            let small = too_small(plan).filter(|_| is_full);
            small.unwrap_or(why)
        })
    }

    /// The same with the tree for changes in memory.
    fn prepare_in(
        plan: &Plan,
        in_memory: Option<Arc<OwnedFd>>,
    ) -> Result<(KernelUpper, UpperTree), Refusal> {
        let options = ViewOptions {
            memory: in_memory.clone(),
            ..ViewOptions::default()
        };
        let view = View::build(plan, &options)?;
        if let Some(held) = view.held() {
            let layers = plan.layers.iter().map(|layer| &layer.place);
            let places = layers.chain(&plan.masked).cloned().collect::<Vec<_>>();
            openpath_commit::check_kernel_upper(held.dir(), &places, &mounts()?)?;
        }
        let upper = match (view.held(), &in_memory) {
            (Some(held), _) => held.descriptor(),
            (None, Some(tree)) => tree.try_clone(),
            (None, None) => return Err(Refusal::system("the view has no upper tree")),
        };
        let upper = upper.map_err(|why| Refusal::step("the changes cannot be kept", why))?;
        // Before anything is copied up, of which a part goes again (R1).
        if let Some(held) = view.held() {
            let layers = plan.layers.iter().map(|layer| &layer.place);
            let kept = layers.chain(&plan.read_only).chain(plan.host_places());
            let kept = kept.cloned().collect::<Vec<_>>();
            let places = Places::new(&plan.masked, &kept).read_only(&plan.read_only);
            openpath_commit::record_kernel_run(held.dir(), places, &[])?;
        }
        let marks = view.marks();
        let missing = missing_dirs(plan, &upper).map_err(not_kept)?;
        let copied = copy_up_places(plan, view.task());
        let made = missing.into_iter();
        let made = made.filter_map(|path| CopiedDir::new(&upper, path, marks).ok());
        let prepared = KernelUpper {
            made: made.collect(),
            held: view.close(),
            memory: in_memory,
            upper,
            marks,
        };
        let tree = copied.and_then(|()| prepared.make_work_dirs(plan));
        match tree {
            Ok(tree) => Ok((prepared, UpperTree { tree, marks })),
            Err(why) => {
                prepared.remove_unchanged();
                Err(why)
            }
        }
    }

    /// Makes the work directories; returns the tree for the helper, whose mount namespace is
    /// another one.
    fn make_work_dirs(&self, plan: &Plan) -> Result<OwnedFd, Refusal> {
        let tree = match &self.held {
            Some(_) => detached::copy(&self.upper).map_err(not_kept)?,
            None => {
                let tree = self.upper.try_clone();
                tree.map_err(|why| Refusal::step("the changes cannot be kept", why))?
            }
        };
        make_kernel_work(&tree).map_err(|why| {
            let text = "the kernel makes no overlay with the changes on their file system";
            let text = format!("{text} ({why}): leave out --engine kernel");
            Refusal::new(RefusalKind::Unsupported, text)
        })?;
        for path in (0..plan.layers.len()).map(work_path) {
            match rustix::fs::mkdirat(&tree, path, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(why) => return Err(not_kept(why)),
            }
        }
        Ok(tree)
    }

    /// Waits until no overlay uses the upper tree. Returns false if processes outside the run still
    /// do after [`END_TIMEOUT`].
    ///
    /// # Errors
    /// Those of [`remove_idle_kernel_work`].
    pub(crate) fn wait_until_unused(&self) -> Result<bool, Refusal> {
        let begun = Instant::now();
        loop {
            let is_idle = remove_idle_kernel_work(&self.upper);
            let is_idle = is_idle.map_err(|why| Refusal::step("the changes", why))?;
            if is_idle || begun.elapsed() >= END_TIMEOUT {
                return Ok(is_idle);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Opens the view again, now that no overlay uses the upper tree.
    ///
    /// # Errors
    /// Those of [`View::open_locked`].
    pub(crate) fn open(self, plan: &Plan) -> Result<View, Refusal> {
        self.remove_unchanged();
        let options = ViewOptions {
            memory: self.memory,
            ..ViewOptions::default()
        };
        View::open_locked(plan, self.held, &options)
    }

    /// Removes what was copied up for the overlays alone (R1).
    pub(crate) fn remove_unchanged(&self) {
        let unchanged = self
            .made
            .iter()
            .filter(|dir| dir.is_unchanged(&self.upper, self.marks));
        // Before any of them is removed, which changes the one above it.
        let unchanged: Vec<_> = unchanged.collect();
        for dir in unchanged.iter().rev() {
            if let (Some(parent), Some(name)) = (dir.path.parent(), dir.path.file_name())
                && let Ok(parent) = open_below(&self.upper, parent)
            {
                // One with changes in it stays.
                let _stays = rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR);
            }
        }
    }
}

impl CopiedDir {
    fn new(upper: &OwnedFd, path: PathBuf, marks: Marks) -> rustix::io::Result<CopiedDir> {
        let dir = open_below(upper, &path)?;
        let stat = rustix::fs::fstat(&dir)?;
        let attrs = shown_attrs(&dir, marks)?;
        Ok(CopiedDir { path, stat, attrs })
    }

    /// Whether it is as it was made. The kernel adds marks of its own, so the time of change does
    /// not tell.
    fn is_unchanged(&self, upper: &OwnedFd, marks: Marks) -> bool {
        let of = |stat: &Stat| {
            let owner = (stat.st_mode, stat.st_uid, stat.st_gid);
            (stat.st_ino, owner, stat.st_mtime, stat.st_mtime_nsec)
        };
        // What cannot be looked at stays.
        CopiedDir::new(upper, self.path.clone(), marks)
            .is_ok_and(|now| of(&now.stat) == of(&self.stat) && now.attrs == self.attrs)
    }
}

/// The changes cannot be kept.
fn not_kept(why: Errno) -> Refusal {
    if why != Errno::PERM {
        let kind = match why {
            Errno::NOSPC => RefusalKind::NoSpace,
            _ => RefusalKind::System,
        };
        return Refusal::new(kind, format!("the changes cannot be kept: {why}"));
    }
    let text = "--engine kernel needs CAP_SYS_ADMIN in the user namespace of the mounts, which is \
                the first one outside of containers: leave out --engine kernel";
    Refusal::new(RefusalKind::Unsupported, text)
}

/// Whether a tmpfs has no room for another directory, or for data.
fn is_full(tree: Arc<OwnedFd>) -> bool {
    rustix::fs::fstatvfs(tree).is_ok_and(|room| room.f_bfree == 0 || room.f_ffree < 2)
}

/// The extended attributes that a command sees.
fn shown_attrs(dir: &OwnedFd, marks: Marks) -> rustix::io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut names = vec![0; XATTR_LIST_MAX];
    let length = rustix::fs::flistxattr(dir, &mut names)?;
    names.truncate(length);
    let names = names.split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty() && marks.shown_name(name).is_some());
    let attrs = names.map(|name| {
        let mut value = vec![0; XATTR_SIZE_MAX];
        let length = rustix::fs::fgetxattr(dir, name, &mut value)?;
        value.truncate(length);
        Ok((name.to_vec(), value))
    });
    attrs.collect()
}

/// The directories that the overlays of a plan need and the upper tree does not have yet, outer
/// ones first.
fn missing_dirs(plan: &Plan, upper: &OwnedFd) -> rustix::io::Result<Vec<PathBuf>> {
    let layers = plan.layers.iter().map(|layer| &layer.place);
    let places = layers.chain(&plan.recorded);
    let mut missing = BTreeSet::new();
    for place in places {
        let path = upper_path(place.path());
        let in_upper = |path: &&Path| path.parent() != Some(Path::new(""));
        for path in path.ancestors().take_while(in_upper) {
            match open_below(upper, path) {
                Ok(_) => {}
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                    _ = missing.insert(path.to_owned())
                }
                Err(why) => return Err(why),
            }
        }
    }
    Ok(missing.into_iter().collect())
}

/// Opens a directory of the tree for the changes, without links.
fn open_below(tree: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(tree, path, flags, Mode::empty(), inside)
}

/// Copies up what the overlays of a plan need.
fn copy_up_places(plan: &Plan, task: &Task) -> Result<(), Refusal> {
    let overlays = plan
        .layers
        .iter()
        .filter(|layer| layer.shown == LayerShown::Overlay);
    for Layer { place, .. } in overlays {
        match copy_up(task, place) {
            // It was unmounted meanwhile: there will be no overlay.
            Err(why) if GONE.contains(&why) => {}
            copied => copied.map_err(|why| {
                let kind = match why {
                    openpath_abi::Errno::ENOSPC => RefusalKind::NoSpace,
                    _ => RefusalKind::System,
                };
                Refusal::new(kind, format!("{}: {why}", place.path().display()))
            })?,
        }
    }
    for dir in &plan.recorded {
        // One that the view does not have, or that is no part of it, needs no record.
        let _copied = copy_up(task, dir);
    }
    Ok(())
}

/// The mounts of the host but for its root.
fn mounts() -> Result<Vec<PathBytes>, Refusal> {
    let mounts = HostMounts::read()?;
    let paths = mounts.iter().map(|(path, _)| PathBytes::from(path));
    Ok(paths.filter(|path| *path != PathBytes::root()).collect())
}

/// Copies a directory up, with those above it and with all that a commit has to know of them.
fn copy_up(task: &Task, dir: &PathBytes) -> Result<(), openpath_abi::Errno> {
    let stat = task.stat(dir.bytes())?;
    task.chmod(dir.bytes(), stat.mode & S_IALLUGO)
}
