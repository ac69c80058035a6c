// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many mounts under one root, and what the threads do in them.

use std::ffi::CString;
use std::fs;

use openpath_abi::fcntl::{O_CREAT, O_EXCL, O_RDWR};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{MountFlags, Task, Vfs};

use crate::error::Error;
use crate::host::Root;
use crate::scene::{Action, Scene, Tables};
use crate::{ours, sys};

/// What is done, what its rows begin with, and the file in each mount.
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

/// The directory that mount `number` is on.
fn point(number: usize) -> String {
    format!("/m{number}")
}

/// Every action in `mounts` mounts divided among `threads`, by paths from the root and relative to
/// it.
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

/// Mounts and files on our side; the task that made them.
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

/// The same on the host, which is left in that root.
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
