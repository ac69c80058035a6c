// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs WASI guests in this process: gives wasmtime the functions of preview1, and those of
//! `wasi:filesystem` for components, with openpath as the file system.
//!
//! A guest's store holds a [`Guest`]: its task, with a namespace and limits of its own, and its
//! descriptors. [`p1::add_to_linker`] gives it the functions of preview1.
//!
//! ```no_run
//! # fn example(image: std::sync::Arc<openpath_vfs::SuperBlock>) -> wasmtime::Result<()> {
//! use openpath_wasi::{Guest, OpenpathWasi, p1};
//! use wasmtime::{Engine, Linker, Module, Store};
//!
//! let engine = Engine::default();
//! let module = Module::from_file(&engine, "app.wasm")?;
//! let mut linker = Linker::<Guest>::new(&engine);
//! p1::add_to_linker(&mut linker, |guest| guest)?;
//! let wasi = OpenpathWasi::builder().mount("/", image).preopen("/", "/").arg("app");
//! let mut store = Store::new(&engine, wasi.inherit_stdio().build()?);
//! let instance = linker.instantiate(&mut store, &module)?;
//! let run = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
//! let code = openpath_wasi::exit_code(run.call(&mut store, ()))?;
//! # let _ = code;
//! # Ok(())
//! # }
//! ```

#![deny(unsafe_code)]
#![deny(missing_debug_implementations)]

mod builder;
pub mod cache;
mod clocks;
#[cfg(feature = "component")]
pub mod component;
mod errno;
mod exit;
mod guest;
mod memory;
mod out;
pub mod p1;
mod streams;
#[expect(
    unsafe_code,
    reason = "wasmtime cannot check code that was compiled before"
)]
mod sys;
mod table;
pub mod types;

pub use builder::{Builder, OpenpathWasi};
pub use clocks::{Clocks, SystemClocks};
pub use errno::Code;
pub use exit::{Ended, Exit, exit_code};
pub use guest::{Guest, GuestLimits, Interrupt};
pub use memory::Trap;
pub use streams::{Captured, Input, Output};
