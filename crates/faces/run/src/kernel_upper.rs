// SPDX-License-Identifier: MIT OR Apache-2.0
//! The upper tree of a view that the kernel's overlays serve, in the server.
//!
//! # States
//! Prepared (the overlays use it, [`KernelUpper::prepare`]) -> opened again, for the changes
//! ([`KernelUpper::open`]).

use crate::detached;
use crate::host_mounts::HostMounts;
use crate::kernel_overlay::mounts::{UpperTree, WORK, memory, work_path};
use crate::plan::{LayerShown, Plan, Upper};
use crate::view::{View, ViewOptions, half_of_memory};
use openpath_abi::mode::S_IALLUGO;
use openpath_commit::{PathBytes, Places, Refusal, ViewLock};
use openpath_vfs::Task;
use rustix::fd::OwnedFd;
use rustix::fs::Mode;
use rustix::io::Errno;
use std::sync::Arc;

/// Errors of a mount that has gone, or whose server has.
const GONE: [openpath_abi::Errno; 5] = [
    openpath_abi::Errno::ENOENT,
    openpath_abi::Errno::ENOTDIR,
    openpath_abi::Errno::ENOTCONN,
    openpath_abi::Errno::ECONNABORTED,
    openpath_abi::Errno::ESTALE,
];

/// The upper tree, while the overlays use it.
pub(crate) struct KernelUpper {
    held: Option<ViewLock>,
    memory: Option<Arc<OwnedFd>>,
}

impl KernelUpper {
    /// Prepares the upper tree of a plan. Returns it, and a tree to make the overlays from: one
    /// that is attached nowhere, with the upper tree and the work directories.
    ///
    /// # Errors
    /// Those of [`View::build`]; the view has something that the kernel's overlay cannot show.
    pub(crate) fn prepare(plan: &Plan) -> Result<(KernelUpper, UpperTree), Refusal> {
        let failed = |why: Errno| Refusal::step("the changes cannot be kept", why);
        let in_memory = match &plan.upper {
            Upper::Directory(_) => None,
            Upper::Memory { size } => {
                let size = size.unwrap_or_else(half_of_memory);
                Some(Arc::new(memory(size).map_err(failed)?))
            }
        };
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
        let overlays = plan
            .layers
            .iter()
            .filter(|layer| layer.shown == LayerShown::Overlay);
        for layer in overlays {
            match copy_up(view.task(), &layer.place) {
                // It was unmounted meanwhile: there will be no overlay.
                Err(why) if GONE.contains(&why) => {}
                copied => copied
                    .map_err(|why| Refusal::step(&layer.place.path().display().to_string(), why))?,
            }
        }
        for dir in &plan.recorded {
            // One that the view does not have, or that is no part of it, needs no record.
            let _copied = copy_up(view.task(), dir);
        }
        let marks = view.marks();
        let held = view.close();
        let tree = match (&held, &in_memory) {
            (Some(held), _) => {
                let dir = held.dir().descriptor();
                let dir = dir.map_err(|why| Refusal::step("the view", why))?;
                detached::copy(dir).map_err(failed)?
            }
            (None, Some(tree)) => tree
                .try_clone()
                .map_err(|why| Refusal::step("the changes cannot be kept", why))?,
            (None, None) => return Err(Refusal::system("the view has no upper tree")),
        };
        let works = (0..plan.layers.len()).map(work_path);
        for path in std::iter::once(WORK.into()).chain(works) {
            match rustix::fs::mkdirat(&tree, path, Mode::from_raw_mode(0o700)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(why) => return Err(failed(why)),
            }
        }
        if let Some(held) = &held {
            let layers = plan.layers.iter().map(|layer| &layer.place);
            let kept = layers.chain(&plan.read_only).chain(plan.host_places());
            let kept = kept.cloned().collect::<Vec<_>>();
            let places = Places::new(&plan.masked, &kept);
            openpath_commit::record_kernel_run(held.dir(), places)?;
        }
        let memory = in_memory;
        Ok((KernelUpper { held, memory }, UpperTree { tree, marks }))
    }

    /// Opens the view again, now that no overlay uses the upper tree.
    ///
    /// # Errors
    /// Those of [`View::open_locked`].
    pub(crate) fn open(self, plan: &Plan) -> Result<View, Refusal> {
        let options = ViewOptions {
            memory: self.memory,
            ..ViewOptions::default()
        };
        View::open_locked(plan, self.held, &options)
    }
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
