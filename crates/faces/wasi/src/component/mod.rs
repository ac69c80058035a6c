// SPDX-License-Identifier: MIT OR Apache-2.0
//! `wasi:filesystem` 0.2 for components, beside wasmtime-wasi's other interfaces.
//!
//! A component's calls are futures. What is cached is answered at the first poll, by the same walk
//! as a plain call, in the thread that runs the guest; what would wait awaits a worker of the
//! ring's pool, and the guest's future with it, in any runtime. wasmtime-wasi sends every call to
//! a thread.
//!
//! | module | what it is |
//! |---|---|
//! | [`Files`] | what one guest has: its task, and the directories it is given |
//! | `host`, `methods`, `listing` | the functions, as the calls they are made of |
//! | `calls` | those calls, beneath the directory that a path is relative to |
//! | `side`, `input`, `output` | streams, and the ring that serves them |
//! | `error`, `convert` | errnos, attributes and times as a guest calls them |
//!
//! ```
//! use openpath_wasi::component::{self, Files, FilesCtx, FilesView};
//! use wasmtime::component::{Linker, ResourceTable};
//! use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};
//!
//! struct Guest {
//!     files: Files,
//!     wasi: WasiCtx,
//!     table: ResourceTable,
//! }
//!
//! impl WasiView for Guest {
//!     fn ctx(&mut self) -> WasiCtxView<'_> {
//!         WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
//!     }
//! }
//!
//! impl FilesView for Guest {
//!     fn files(&mut self) -> FilesCtx<'_> {
//!         FilesCtx { files: &mut self.files, table: &mut self.table }
//!     }
//! }
//!
//! # fn main() -> wasmtime::Result<()> {
//! let engine = wasmtime::Engine::default();
//! let mut linker = Linker::<Guest>::new(&engine);
//! component::add_all_to_linker(&mut linker)?;
//! # Ok(())
//! # }
//! ```

pub mod bindings;
mod calls;
mod convert;
mod descriptor;
mod error;
mod files;
mod host;
mod input;
mod link;
mod listing;
mod methods;
mod output;
mod side;

pub use descriptor::{Access, Descriptor, Listing};
pub use error::Error;
pub use files::Files;
pub use link::{FilesCtx, FilesView, add_all_to_linker, add_to_linker};
