// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements `wasi:filesystem` 0.2 for components, beside wasmtime-wasi's other interfaces.
//!
//! A component's calls are futures. A cached answer comes at the first poll, in the thread that
//! runs the guest, by the same walk as a plain call. A call that would wait goes to a worker of the
//! ring's pool, and the guest's future waits, in any runtime. By contrast, wasmtime-wasi itself
//! sends every call to a thread.
//!
//! | module | what it is |
//! |---|---|
//! | [`Files`] | the files of one guest: its task and its preopened directories |
//! | `host`, `methods`, `listing` | the functions, by the calls behind them |
//! | `calls` | those calls, beneath the directory that a path is relative to |
//! | `stream_ring`, `input`, `output` | streams, and the ring that they share |
//! | `error`, `convert` | error codes, attributes and times of a guest |
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
mod stream_ring;

pub use descriptor::{Access, Descriptor, Listing};
pub use error::Error;
pub use files::Files;
pub use link::{FilesCtx, FilesView, add_all_to_linker, add_to_linker};
