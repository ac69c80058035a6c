// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up the other side: wasmtime's own WASI over a directory of the host.

use std::path::Path;

use wasmtime::{Linker, Module};
use wasmtime_wasi::p1::{WasiP1Ctx, add_to_linker_sync};
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

use super::engine;
use super::inside::Inside;
use super::tree::Tree;
use crate::error::Error;

/// How it handles a call that may wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blocking {
    /// A thread of a pool does it.
    Pool,
    /// The guest's own thread does it (`allow_blocking_current_thread`).
    InPlace,
}

impl Blocking {
    pub(super) const ALL: [Self; 2] = [Self::Pool, Self::InPlace];

    /// Its label in rows.
    pub(super) fn label(self) -> &'static str {
        match self {
            Self::Pool => "default",
            Self::InPlace => "blocking",
        }
    }
}

/// The context of a guest with `dir` as descriptor 3.
pub(super) fn context(way: Blocking, dir: &Path) -> Result<WasiP1Ctx, Error> {
    let mut builder = WasiCtxBuilder::new();
    // Directories that are opened before this call keep the old setting.
    builder.allow_blocking_current_thread(way == Blocking::InPlace);
    builder
        .preopened_dir(dir, "/", FsPerms::ReadWrite)
        .map_err(engine("open the directory"))?;
    Ok(builder.build_p1())
}

/// All functions of the first preview.
pub(super) fn linker(of: &wasmtime::Engine) -> Result<Linker<WasiP1Ctx>, Error> {
    let mut linker = Linker::new(of);
    add_to_linker_sync(&mut linker, |context| context).map_err(engine("link"))?;
    Ok(linker)
}

/// A guest of it.
pub(super) fn inside(
    way: Blocking,
    module: &Module,
    dir: &Path,
    tree: &Tree,
) -> Result<Inside<WasiP1Ctx>, Error> {
    let linker = linker(module.engine())?;
    Inside::new(&linker, module, context(way, dir)?, tree)
}
