// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up `create-existing`: many mounts under one root, here and on the host, and the opens that
//! each thread makes in its share of them.

use std::ffi::CString;

use openpath_abi::OFlags;
use openpath_abi::fcntl::{O_CREAT, O_EXCL, O_RDWR};
use openpath_vfs::{MountFlags, Task, Vfs};

use crate::calls::{Calls, Kernel};
use crate::error::Error;
use crate::host::{Root, mount_tmpfs};
use crate::ops::Op;
use crate::ours;
use crate::scene::{Scene, Tables};

const FLAGS: OFlags = O_CREAT.union(O_RDWR);
/// The operations, the beginning of their row names, and the file in each mount.
const OPS: [(Op, &str, &str); 2] = [
    (Op::Open(FLAGS), "create-existing", "file"),
    (Op::CreateUnlink(FLAGS.union(O_EXCL)), "create-new", "new"),
];

/// The mount point of mount `number`.
fn point(number: usize) -> String {
    format!("/m{number}")
}

/// Every action in `mounts` mounts divided among `threads`, by absolute and relative paths.
pub(super) fn all(mounts: usize, threads: usize) -> Vec<Scene> {
    let mut scenes = Vec::new();
    for (op, form, file) in OPS {
        for (from, skipped) in [("absolute", 0), ("relative", 1)] {
            let path = |number: usize| {
                let path = format!("{}/{file}", point(number));
                CString::new(&path[skipped..]).unwrap_or_default()
            };
            let share = |thread: usize| (thread..mounts).step_by(threads).map(path).collect();
            scenes.push(Scene {
                name: format!("{form} {mounts} {from}"),
                op,
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
    grow(mounts, &task, |point| {
        let mounted = task.mount(ours::memory(), point.as_bytes(), MountFlags::default());
        mounted.map_err(|e| Error::setup("mount", e))
    })?;
    Ok(task)
}

/// Makes the same on the host; the process stays in that root.
pub(super) fn grow_host(mounts: usize, root: &Root) -> Result<(), Error> {
    root.enter()?;
    grow(mounts, &Kernel, |point| mount_tmpfs(point.as_ref()))
}

fn grow(
    mounts: usize,
    side: &impl Calls,
    mount: impl Fn(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    for point in (0..mounts).map(point) {
        side.make_dir(point.as_bytes())?;
        mount(&point)?;
        side.make_file(format!("{point}/file").as_bytes(), b"")?;
    }
    Ok(())
}
