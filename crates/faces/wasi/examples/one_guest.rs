// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs one guest with files in memory: `cargo run -p openpath-wasi --example one_guest APP.wasm`.
//! Without a program, it runs the small one below.

use openpath_mem::{MemFs, MemOptions};
use openpath_wasi::{Guest, OpenpathWasi, exit_code, p1};
use wasmtime::{Engine, Linker, Module, Store};

/// Writes a line to its standard output.
const HELLO: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\13\00\00\00")
  (data (i32.const 16) "hello from a guest\n")
  (func (export "_start")
    (drop (call $fd_write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

fn main() -> wasmtime::Result<()> {
    let engine = Engine::default();
    let module = match std::env::args_os().nth(1) {
        Some(file) => Module::from_file(&engine, file)?,
        None => Module::new(&engine, HELLO)?,
    };
    let mut linker = Linker::<Guest>::new(&engine);
    p1::add_to_linker(&mut linker, |guest| guest)?;
    let guest = OpenpathWasi::builder()
        .mount("/", MemFs::new(MemOptions::default()))
        .preopen("/", "/")
        .arg("app")
        .inherit_stdio()
        .build()?;
    let mut store = Store::new(&engine, guest);
    let instance = linker.instantiate(&mut store, &module)?;
    let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
    let code = exit_code(start.call(&mut store, ()))?;
    std::process::exit(code.cast_signed())
}
