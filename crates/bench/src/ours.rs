// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up openpath for a comparison: an instance over the memory backend, with the same tree as
//! the host.

use std::sync::Arc;

use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, SuperBlock, Tuning, VfsBuilder};

use crate::common::*;

/// The hash tables' key: counts are the same in every run.
const SECRET: [u64; 2] = [0x243f_6a88_85a3_08d3, 0x1319_8a2e_0370_7344];

pub(crate) fn memory() -> Arc<SuperBlock> {
    MemFs::new(MemOptions::default())
}

/// An instance with an empty tree.
pub(crate) fn instance() -> Result<Vfs, Error> {
    over(memory())
}

/// An instance over a file system that may hold a tree already.
pub(crate) fn over(root: Arc<SuperBlock>) -> Result<Vfs, Error> {
    build(Vfs::builder().secret(SECRET), root)
}

pub(crate) fn build(builder: VfsBuilder, root: Arc<SuperBlock>) -> Result<Vfs, Error> {
    builder.build(root).setup("build an instance")
}

/// An instance with an empty tree and the switches that `switch` sets.
pub(crate) fn tuned(switch: impl FnOnce(&mut Tuning)) -> Result<Vfs, Error> {
    let mut tuning = Tuning::default();
    switch(&mut tuning);
    build(Vfs::builder().secret(SECRET).tuning(tuning), memory())
}

/// A task with the host side's identity.
pub(crate) fn task(vfs: &Vfs) -> Result<Task, Error> {
    vfs.task(Cred::root()).setup("make a task")
}
