// SPDX-License-Identifier: MIT OR Apache-2.0
//! Code that was compiled before, taken up again: what wasmtime cannot check.

use wasmtime::{Engine, Module};

/// The module of which this is the code; of another version of wasmtime or of another engine it is
/// an error. Whoever calls this has seen that the bytes are what was written (see `cache`, R1).
pub(crate) fn module(engine: &Engine, code: &[u8]) -> wasmtime::Result<Module> {
    // SAFETY: the bytes are unchanged since `Module::serialize` made them: their sum is right, and
    // nobody but this user, who may run any code as himself, can have written them.
    unsafe { Module::deserialize(engine, code) }
}
