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
//!     with the directories of which a commit must know. Those that are as they were made go again
//!     with the work directories: they are no changes.

use crate::detached;
use crate::host_mounts::HostMounts;
use crate::kernel_overlay::mounts::{UpperTree, memory, too_small, upper_path, work_path};
use crate::plan::{Layer, LayerShown, Plan, Upper};
use crate::view::{View, ViewOptions, half_of_memory};
use openpath_abi::mode::S_IALLUGO;
use openpath_commit::{
    CopiedPlacesAt, KERNEL_WORK, PathBytes, Places, Refusal, RefusalKind, ViewLock,
    make_kernel_work, record_copied_places, remove_idle_kernel_work, try_kernel_work,
};
use openpath_overlay::Marks;
use openpath_vfs::Task;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{Dir, DirEntry, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
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
pub(crate) const END_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(2);
/// The most bytes of a list of attributes, and of a value (`XATTR_LIST_MAX`, `XATTR_SIZE_MAX`).
const XATTR_MAX: usize = 65_536;

/// Mode, owner and group of a directory, and its extended attributes but for marks.
type DirAttrs = ([u32; 3], Vec<(Vec<u8>, Vec<u8>)>);

/// The upper tree, while the overlays use it.
pub(crate) struct KernelUpper {
    held: Option<ViewLock>,
    memory: Option<Arc<OwnedFd>>,
    /// The directory with the upper tree.
    upper: OwnedFd,
    /// The prefix of its marks.
    marks: Marks,
    /// The attributes of its root that a command sees.
    root: DirAttrs,
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
            is_compared: true,
            asks_host: true,
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
        let root = root_attrs(&upper, marks).map_err(not_kept)?;
        let made = prepare_places(plan, &view, &upper);
        let prepared = KernelUpper {
            root,
            marks,
            held: view.close(),
            memory: in_memory,
            upper,
        };
        match made.and_then(|()| prepared.make_work_dirs(plan)) {
            Ok(tree) => Ok((prepared, UpperTree { tree, marks })),
            Err(why) => {
                // The next process that locks the view removes what is left.
                let _left = remove_idle_kernel_work(&prepared.upper);
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
        if self.held.is_some() {
            try_kernel_work(&tree).map_err(|why| {
                let text = "the kernel makes no overlay with the changes on their file system";
                let text = format!("{text} ({why}): leave out --engine kernel");
                Refusal::new(RefusalKind::Unsupported, text)
            })?;
        }
        for path in (0..plan.layers.len()).map(work_path) {
            match rustix::fs::mkdirat(&tree, path, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(why) => return Err(not_kept(why)),
            }
        }
        Ok(tree)
    }

    /// Whether the changes are in memory, so that nothing waits for a disk.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.memory.is_some()
    }

    /// As [`wait_until_unused`].
    ///
    /// # Errors
    /// The same.
    pub(crate) fn wait_until_unused(&self) -> Result<Vec<PathBuf>, Refusal> {
        wait_until_unused(&self.upper)
    }

    /// Whether the command changed nothing, as far as the upper tree tells alone: then no look at
    /// the real tree is needed. No overlay uses it any more.
    pub(crate) fn is_unchanged(&self) -> bool {
        // The directory of a kept view may have more to compare.
        if !self.is_in_memory() {
            return false;
        }
        root_attrs(&self.upper, self.marks).is_ok_and(|now| now == self.root)
            && open_below(&self.upper, &upper_path(Path::new("/"))).is_ok_and(is_empty)
    }

    /// Opens the view again, now that no overlay uses the upper tree.
    ///
    /// # Errors
    /// Those of [`View::open_locked`].
    pub(crate) fn open(self, plan: &Plan) -> Result<View, Refusal> {
        let options = ViewOptions {
            memory: self.memory,
            leaves_watches: true,
            ..ViewOptions::default()
        };
        View::open_locked(plan, self.held, &options)
    }
}

/// Waits until no overlay uses the upper tree in `dir`, and removes the work directories. Returns
/// those of the overlays that processes outside the run still use after [`END_TIMEOUT`].
///
/// # Errors
/// Those of [`remove_idle_kernel_work`].
pub(crate) fn wait_until_unused(dir: impl AsFd) -> Result<Vec<PathBuf>, Refusal> {
    let begun = Instant::now();
    loop {
        let used = remove_idle_kernel_work(&dir);
        let used = used.map_err(|why| Refusal::step("the changes", why))?;
        if used.is_empty() || begun.elapsed() >= END_TIMEOUT {
            let used = used.into_iter();
            let paths = used.map(|name| Path::new(KERNEL_WORK).join(OsString::from_vec(name)));
            return Ok(paths.collect());
        }
        std::thread::sleep(PAUSE);
    }
}

/// The changes cannot be kept.
pub(crate) fn not_kept(why: Errno) -> Refusal {
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

/// The attributes of the root of the upper tree that a command sees.
fn root_attrs(upper: &OwnedFd, marks: Marks) -> rustix::io::Result<DirAttrs> {
    let root = open_below(upper, &upper_path(Path::new("/")))?;
    let stat = rustix::fs::fstat(&root)?;
    let mut names = vec![0; XATTR_MAX];
    let length = rustix::fs::flistxattr(&root, &mut names)?;
    let names = names[..length].split(|byte| *byte == 0);
    let names = names.filter(|name| !name.is_empty() && marks.shown_name(name).is_some());
    let attrs = names.map(|name| {
        let mut value = vec![0; XATTR_MAX];
        let length = rustix::fs::fgetxattr(&root, name, &mut value)?;
        value.truncate(length);
        Ok((name.to_vec(), value))
    });
    let attrs = attrs.collect::<rustix::io::Result<_>>()?;
    Ok(([stat.st_mode, stat.st_uid, stat.st_gid], attrs))
}

/// Whether a directory has no names.
fn is_empty(dir: OwnedFd) -> bool {
    let is_name = |entry: DirEntry| !matches!(entry.file_name().to_bytes(), b"." | b"..");
    // What cannot be read counts as a name.
    Dir::new(dir).is_ok_and(|mut names| !names.any(|entry| entry.map_or(true, is_name)))
}

/// Whether a tmpfs has no room for another directory, or for data.
fn is_full(tree: Arc<OwnedFd>) -> bool {
    rustix::fs::fstatvfs(tree).is_ok_and(|room| room.f_bfree == 0 || room.f_ffree < 2)
}

/// The directories at and above these places that the upper tree does not have yet, outer ones
/// first.
fn missing_dirs<'a>(
    places: impl Iterator<Item = &'a PathBytes>,
    upper: &OwnedFd,
) -> rustix::io::Result<Vec<PathBytes>> {
    let mut missing = BTreeSet::new();
    for place in places {
        let path = upper_path(place.path());
        let in_upper = |path: &&Path| path.parent() != Some(Path::new(""));
        for path in path.ancestors().take_while(in_upper) {
            match open_below(upper, path) {
                Ok(_) => {}
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                    _ = missing.insert(Path::new("/").join(path))
                }
                Err(why) => return Err(why),
            }
        }
    }
    Ok(missing
        .iter()
        .map(|path| PathBytes::from(&**path))
        .collect())
}

/// Opens a directory of the tree for the changes, without links.
fn open_below(tree: &OwnedFd, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    rustix::fs::openat2(tree, path, flags, Mode::empty(), inside)
}

/// Copies up what the overlays of a plan need, and records what goes again after the run.
fn prepare_places(plan: &Plan, view: &View, upper: &OwnedFd) -> Result<(), Refusal> {
    let layers = plan.layers.iter().map(|layer| &layer.place);
    let places = layers.chain(&plan.recorded);
    copy_up_for_run((view, upper), places, || copy_up_places(plan, view.task()))
}

/// Copies places up with the directories above them, as `copy_up` does, and records which of these
/// go again after the run (R1).
///
/// # Errors
/// The changes cannot be kept; those of `copy_up`.
pub(crate) fn copy_up_for_run<'a>(
    (view, upper): (&View, &OwnedFd),
    places: impl Iterator<Item = &'a PathBytes>,
    copy_up: impl FnOnce() -> Result<(), Refusal>,
) -> Result<(), Refusal> {
    make_kernel_work(upper).map_err(not_kept)?;
    let missing = missing_dirs(places, upper).map_err(not_kept)?;
    let record = |at| {
        let recorded = record_copied_places(upper, view.marks(), (&missing, at));
        recorded.map_err(|why| not_kept(Errno::from_io_error(&why).unwrap_or(Errno::IO)))
    };
    // What is in memory goes with this process.
    if view.held().is_some() {
        record(CopiedPlacesAt::Begin)?;
    }
    copy_up()?;
    record(CopiedPlacesAt::CopiedUp)
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
