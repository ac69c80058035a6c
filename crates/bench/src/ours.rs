// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up our side: an instance over the memory backend, with the same tree as the host.

use std::sync::Arc;

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_RDWR};
use openpath_abi::{Errno, OFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, SuperBlock, Task, Tuning, Vfs};

use crate::error::Error;
use crate::paths::Chain;

/// The hash tables' key: counts are the same in every run.
const SECRET: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];

/// An instance with an empty tree.
pub(crate) fn instance() -> Result<Vfs, Error> {
    over(MemFs::new(MemOptions::default()))
}

/// An instance over a file system that may hold a tree already.
pub(crate) fn over(root: Arc<SuperBlock>) -> Result<Vfs, Error> {
    keyed(root, SECRET)
}

/// The same with another key of the hash tables.
pub(crate) fn keyed(root: Arc<SuperBlock>, secret: [u64; 2]) -> Result<Vfs, Error> {
    Vfs::builder()
        .secret(secret)
        .build(root)
        .map_err(|e| Error::setup("build an instance", e))
}

/// An instance with an empty tree and the switches that `switch` sets.
pub(crate) fn tuned(switch: impl FnOnce(&mut Tuning)) -> Result<Vfs, Error> {
    let mut tuning = Tuning::default();
    switch(&mut tuning);
    Vfs::builder()
        .secret(SECRET)
        .tuning(tuning)
        .build(MemFs::new(MemOptions::default()))
        .map_err(|e| Error::setup("build an instance", e))
}

/// A task with the host side's identity.
pub(crate) fn task(vfs: &Vfs) -> Result<Task, Error> {
    vfs.task(Cred::root())
        .map_err(|e| Error::setup("make a task", e))
}

/// Creates the directories and files of `chains`.
pub(crate) fn grow(task: &Task, chains: &[Chain]) -> Result<(), Error> {
    for chain in chains {
        for dir in chain.dirs() {
            mkdir(task, dir)?;
        }
        touch(task, chain.file.to_bytes())?;
    }
    Ok(())
}

/// Creates a directory unless it exists.
pub(crate) fn mkdir(task: &Task, path: &[u8]) -> Result<(), Error> {
    match task.mkdirat(AT_FDCWD, path, 0o755) {
        Ok(()) | Err(Errno::EEXIST) => Ok(()),
        Err(errno) => Err(Error::setup("create a directory", errno)),
    }
}

/// Creates an empty file unless it exists.
pub(crate) fn touch(task: &Task, path: &[u8]) -> Result<(), Error> {
    task.open(path, O_RDWR | O_CREAT, 0o644)
        .and_then(|fd| task.close(fd))
        .map_err(|errno| Error::setup("create a file", errno))
}

/// Opens with mode 644 and closes; returns whether both succeeded.
#[inline(always)]
pub(crate) fn open_close(task: &Task, path: &[u8], flags: OFlags) -> bool {
    task.open(path, flags, 0o644)
        .is_ok_and(|fd| task.close(fd).is_ok())
}
