// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes many mounts under one root, and the work of the threads in them.

use std::ffi::CString;
use std::fs;

use openpath_abi::fcntl::{O_CREAT, O_EXCL, O_RDWR};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{MountFlags, Task, Vfs};

use crate::error::Error;
use crate::host::Root;
use crate::scene::{Action, Scene, Tables};
use crate::{ours, sys};

/// The actions, the beginning of their row names, and the file in each mount.
const ACTIONS: [(Action, &str, &str); 2] = [
    (
        Action::OpenClose(O_CREAT.bits() | O_RDWR.bits()),
        "create-existing",
        "file",
    ),
    (
        Action::CreateUnlink(O_CREAT.bits() | O_EXCL.bits() | O_RDWR.bits()),
        "create-new",
        "new",
    ),
];

/// The mount point of mount `number`.
fn point(number: usize) -> String {
    format!("/m{number}")
}

/// Every action in `mounts` mounts divided among `threads`, by absolute and relative paths.
pub(super) fn all(mounts: usize, threads: usize) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (action, form, file) in ACTIONS {
        for (from, skipped) in [("absolute", 0), ("relative", 1)] {
            let path = |number: usize| {
                let path = format!("{}/{file}", point(number));
                CString::new(&path[skipped..]).unwrap_or_default()
            };
            let share = |thread: usize| (thread..mounts).step_by(threads).map(path).collect();
            scenes.push(Scene {
                name: format!("{form} {mounts} {from}"),
                action,
                tables: Tables::Own,
                paths: (0..threads).map(share).collect(),
            });
        }
    }
    scenes
}

/// Makes mounts and files on our side; returns the task that made them.
pub(super) fn grow_ours(mounts: usize, vfs: &Vfs) -> Result<Task, Error> {
    let task = ours::task(vfs)?;
    for point in (0..mounts).map(point) {
        ours::mkdir(&task, point.as_bytes())?;
        let tree = MemFs::new(MemOptions::default());
        task.mount(tree, point.as_bytes(), MountFlags::default())
            .map_err(|e| Error::setup("mount", e))?;
        ours::touch(&task, format!("{point}/file").as_bytes())?;
    }
    Ok(task)
}

/// Makes the same on the host; the process stays in that root.
pub(super) fn grow_host(mounts: usize, root: &Root) -> Result<(), Error> {
    root.enter()?;
    let host = |e| Error::host("mount in the host's root", e);
    for point in (0..mounts).map(point) {
        fs::create_dir(&point).map_err(host)?;
        let target = CString::new(point.as_str()).unwrap_or_default();
        sys::mount_tmpfs(&target).map_err(host)?;
        fs::write(format!("{point}/file"), "").map_err(host)?;
    }
    Ok(())
}
