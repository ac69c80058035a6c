// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests a scratch directory of the host, a tree and a `Vfs` over it with given options,
//! short forms to read and write a file, and the lists of policies for changes by others.

#![allow(dead_code, reason = "each test uses a part")]

use openpath_abi::Errno;
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_vfs::{Cred, SuperBlock, Task, Vfs};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A directory that is removed with its owner.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// An empty one; `name` is the test's own.
    pub(crate) fn new(name: &str) -> Self {
        let place = std::env::temp_dir();
        let place = place.join(format!("openpath-host-{}-{name}", std::process::id()));
        let _left_over = std::fs::remove_dir_all(&place);
        std::fs::create_dir_all(&place).expect("a directory to play in");
        Self(place)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The path of a name in it.
    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn put(&self, name: &str, data: &str) {
        std::fs::write(self.at(name), data).expect("a file");
    }

    pub(crate) fn get(&self, name: &str) -> String {
        std::fs::read_to_string(self.at(name)).expect("a file")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _goes_if_it_can = std::fs::remove_dir_all(&self.0);
    }
}

/// Options with this policy.
pub(crate) fn policy(policy: Policy) -> HostOptions {
    HostOptions::default().policy(policy)
}

/// A tree over it.
pub(crate) fn tree(scratch: &Scratch, options: HostOptions) -> Arc<SuperBlock> {
    HostFs::open(scratch.path(), options).expect("a tree")
}

/// A `Vfs` over it, and root in it.
pub(crate) fn world(scratch: &Scratch, options: HostOptions) -> (Vfs, Task) {
    let vfs = Vfs::builder().build(tree(scratch, options)).expect("a Vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    (vfs, task)
}

/// What a file holds.
pub(crate) fn read(task: &Task, path: &str) -> Result<String, Errno> {
    let fd = task.open(path.as_bytes(), openpath_abi::fcntl::O_RDONLY, 0)?;
    let mut buf = vec![0; 4096];
    let done = task.read(fd, &mut buf);
    task.close(fd)?;
    buf.truncate(done?);
    Ok(String::from_utf8(buf).expect("text"))
}

/// Makes a file or replaces what it holds.
pub(crate) fn write(task: &Task, path: &str, data: &str) -> Result<(), Errno> {
    use openpath_abi::fcntl::{O_CREAT, O_TRUNC, O_WRONLY};
    let fd = task.open(path.as_bytes(), O_WRONLY | O_CREAT | O_TRUNC, 0o644)?;
    let done = task.write(fd, data.as_bytes());
    task.close(fd)?;
    done.map(|_| ())
}

/// The policies under which changes by others are seen.
pub(crate) const SEEING: [Policy; 3] = [Policy::Notify, Policy::Revalidate, Policy::None];

/// All policies.
pub(crate) const POLICIES: [Policy; 4] = [
    Policy::Exclusive,
    Policy::Notify,
    Policy::Revalidate,
    Policy::None,
];
