// SPDX-License-Identifier: MIT OR Apache-2.0
//! Loads a compiled module from its bytes: the crate's one `unsafe` call, because wasmtime cannot
//! check them.

use wasmtime::{Engine, Module};

/// Loads a module from its code; code of another version of wasmtime or of another engine is an
/// error. The caller has checked that the bytes are unchanged (see `cache`, R1).
pub(crate) fn module(engine: &Engine, code: &[u8]) -> wasmtime::Result<Module> {
    // SAFETY: the bytes are unchanged since `Module::serialize` made them: their checksum is right,
    // and only this user, who may run any code anyway, can have written them.
    unsafe { Module::deserialize(engine, code) }
}
