// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up both hosts of WebAssembly guests: ours over a tree in memory or over a directory of the
//! host, and wasmtime's own WASI over that directory.

use std::path::Path;
use std::sync::Arc;

use openpath_host::{HostFs, HostOptions};
use openpath_vfs::SuperBlock;
use openpath_wasi::{Guest, OpenpathWasi, p1};
use wasmtime::{Engine, Linker, Module};
use wasmtime_wasi::p1::{WasiP1Ctx, add_to_linker_sync};
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use super::inside::Inside;
use super::tree::Tree;
use super::{Options, engine, inside, scratch};
use crate::common::*;

/// The files of wasmtime's side, and the module that all sides run.
pub(super) struct World {
    pub(super) tree: Tree,
    pub(super) scratch: Scratch,
    pub(super) module: Module,
}

impl World {
    pub(super) fn new(options: &Options) -> Result<Self, Error> {
        let (tree, scratch) = (Tree::new(), scratch(&options.folder)?);
        tree.grow(&Kernel, scratch.path())?;
        Ok(Self {
            tree,
            scratch,
            module: inside::module(&Engine::default())?,
        })
    }

    /// A guest of ours with files in memory.
    pub(super) fn in_memory(&self) -> Result<Inside<Guest>, Error> {
        let root = ours::memory();
        let task = ours::task(&ours::over(root.clone())?)?;
        self.tree.grow(&task, "/".as_ref())?;
        drop(task);
        self.over(root)
    }

    /// A guest of ours with the files of wasmtime's side.
    pub(super) fn on_host(&self) -> Result<Inside<Guest>, Error> {
        let root = HostFs::open(self.scratch.path(), HostOptions::default());
        self.over(root.setup("open the directory")?)
    }

    fn over(&self, root: Arc<SuperBlock>) -> Result<Inside<Guest>, Error> {
        let guest = guest(&ours::over(root)?)?;
        let linker = linker(self.module.engine())?;
        Inside::new(&linker, &self.module, guest, &self.tree)
    }

    /// A guest of wasmtime's own WASI.
    pub(super) fn peer(&self, way: Blocking) -> Result<Inside<WasiP1Ctx>, Error> {
        let linker = peer_linker(self.module.engine())?;
        let context = context(way, self.scratch.path())?;
        Inside::new(&linker, &self.module, context, &self.tree)
    }
}

/// All functions of the first preview, by us.
pub(super) fn linker(of: &Engine) -> Result<Linker<Guest>, Error> {
    let mut linker = Linker::new(of);
    p1::add_to_linker(&mut linker, |guest| guest).map_err(engine("link"))?;
    Ok(linker)
}

/// The same by wasmtime's own WASI.
pub(super) fn peer_linker(of: &Engine) -> Result<Linker<WasiP1Ctx>, Error> {
    let mut linker = Linker::new(of);
    add_to_linker_sync(&mut linker, |context| context).map_err(engine("link"))?;
    Ok(linker)
}

/// A guest whose descriptor 3 is the root.
pub(super) fn guest(vfs: &Vfs) -> Result<Guest, Error> {
    let builder = OpenpathWasi::builder().task(ours::task(vfs)?);
    builder.preopen("/", "/").build().setup("make a guest")
}

/// How wasmtime's own WASI handles a call that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    Pool,
    /// The guest's own thread does it (`allow_blocking_current_thread`).
    InPlace,
}

impl Blocking {
    pub(super) const ALL: [Self; 2] = [Self::Pool, Self::InPlace];

    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Pool => "default",
            Self::InPlace => "blocking",
        }
    }
}

/// The parts of a guest with `dir` as its directory, by these names from descriptor 3 on.
pub(super) fn builder(way: Blocking, dir: &Path, names: &[&str]) -> Result<WasiCtxBuilder, Error> {
    let mut builder = WasiCtxBuilder::new();
    // Directories that are opened before this call keep the old setting.
    builder.allow_blocking_current_thread(way == Blocking::InPlace);
    for name in names {
        let opened = builder.preopened_dir(dir, name, FsPerms::ReadWrite);
        opened.map_err(engine("open the directory"))?;
    }
    Ok(builder)
}

/// The context of a guest with `dir` as descriptor 3.
pub(super) fn context(way: Blocking, dir: &Path) -> Result<WasiP1Ctx, Error> {
    builder(way, dir, &["/"]).map(|mut builder| builder.build_p1())
}
