// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up our side: a guest over a tree in memory, and one over the directory of wasmtime's side.

use std::path::Path;
use std::sync::Arc;

use openpath_host::{HostFs, HostOptions};
use openpath_vfs::{SuperBlock, Vfs};
use openpath_wasi::{Guest, OpenpathWasi, p1};
use wasmtime::{Engine, Linker, Module};

use super::engine;
use super::inside::Inside;
use super::tree::Tree;
use crate::error::Error;
use crate::ours;

/// All functions of the first preview.
pub(super) fn linker(of: &Engine) -> Result<Linker<Guest>, Error> {
    let mut linker = Linker::new(of);
    p1::add_to_linker(&mut linker, |guest| guest).map_err(engine("link"))?;
    Ok(linker)
}

fn over(root: Arc<SuperBlock>, module: &Module, tree: &Tree) -> Result<Inside<Guest>, Error> {
    let guest = guest(&ours::over(root)?)?;
    Inside::new(&linker(module.engine())?, module, guest, tree)
}

/// A guest whose descriptor 3 is the root.
pub(super) fn guest(vfs: &Vfs) -> Result<Guest, Error> {
    let builder = OpenpathWasi::builder().task(ours::task(vfs)?);
    let guest = builder.preopen("/", "/").build();
    guest.map_err(|errno| Error::setup("make a guest", errno))
}

/// A guest with files in memory.
pub(super) fn in_memory(module: &Module, tree: &Tree) -> Result<Inside<Guest>, Error> {
    let root = ours::memory();
    tree.grow(&ours::task(&ours::over(root.clone())?)?, "/".as_ref())?;
    over(root, module, tree)
}

/// A guest with files of the host.
pub(super) fn on_host(module: &Module, dir: &Path, tree: &Tree) -> Result<Inside<Guest>, Error> {
    let root = HostFs::open(dir, HostOptions::default());
    let root = root.map_err(|errno| Error::setup("open the directory", errno))?;
    over(root, module, tree)
}
