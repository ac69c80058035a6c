// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that one guest gets its arguments, environment and streams, creates, writes, reads and
//! lists a file, and ends with its status.

use openpath_mem::{MemFs, MemOptions};
use openpath_wasi::{Guest, Input, OpenpathWasi, Output, exit_code, p1};
use wasmtime::{Engine, Linker, Module, Store};

/// Copies its input to a file, copies the file, its first argument and its environment to its
/// output, and exits with the code of `fd_write`.
const COPY: &str = r#"(module
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $env (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_seek" (func $seek (param i32 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_get" (func $pre (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_prestat_dir_name"
    (func $name (param i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "made")
  (func $ok (param i32) (if (local.get 0) (then (call $exit (local.get 0)))))
  (func $to (param $fd i32) (param $at i32) (param $len i32)
    (i32.store (i32.const 16) (local.get $at))
    (i32.store (i32.const 20) (local.get $len))
    (call $ok (call $write (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 24))))
  (func $from (param $fd i32) (result i32)
    (i32.store (i32.const 16) (i32.const 1024))
    (i32.store (i32.const 20) (i32.const 1024))
    (call $ok (call $read (local.get $fd) (i32.const 16) (i32.const 1) (i32.const 24)))
    (i32.load (i32.const 24)))
  (func (export "_start")
    (local $file i32)
    (call $ok (call $pre (i32.const 3) (i32.const 16)))
    (call $ok (call $name (i32.const 3) (i32.const 512) (i32.load (i32.const 20))))
    (call $to (i32.const 1) (i32.const 512) (i32.load (i32.const 20)))
    (call $ok (call $open (i32.const 3) (i32.const 0) (i32.const 0) (i32.const 4) (i32.const 1)
      (i64.const 0x66) (i64.const 0) (i32.const 0) (i32.const 8)))
    (local.set $file (i32.load (i32.const 8)))
    (call $to (local.get $file) (i32.const 1024) (call $from (i32.const 0)))
    (call $ok (call $seek (local.get $file) (i64.const 0) (i32.const 0) (i32.const 32)))
    (call $to (i32.const 1) (i32.const 1024) (call $from (local.get $file)))
    (call $ok (call $close (local.get $file)))
    (call $ok (call $sizes (i32.const 40) (i32.const 44)))
    (call $ok (call $args (i32.const 2048) (i32.const 3072)))
    (call $to (i32.const 1) (i32.const 3072) (i32.load (i32.const 44)))
    (call $ok (call $env (i32.const 2048) (i32.const 3072)))
    (call $to (i32.const 2) (i32.const 3072) (i32.const 4))
    (call $exit (local.get $file))))"#;

#[test]
fn a_guest_copies_its_input_through_a_file() -> wasmtime::Result<()> {
    let engine = Engine::default();
    let module = Module::new(&engine, COPY)?;
    let mut linker = Linker::<Guest>::new(&engine);
    p1::add_to_linker(&mut linker, |guest| guest)?;
    let (stdout, told) = Output::captured(1 << 16);
    let (stderr, erred) = Output::captured(1 << 16);
    let guest = OpenpathWasi::builder()
        .mount("/", MemFs::new(MemOptions::default()))
        .preopen("/data", "/")
        .args(["copy", "x"])
        .env("A", "b")
        .stdin(Input::bytes("hello"))
        .stdout(stdout)
        .stderr(stderr)
        .build()?;
    let mut store = Store::new(&engine, guest);
    let instance = linker.instantiate(&mut store, &module)?;
    let run = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
    assert_eq!(exit_code(run.call(&mut store, ()))?, 4);
    assert_eq!(told.bytes(), b"/datahellocopy\0x\0");
    assert_eq!(erred.bytes(), b"A=b\0");
    let stat = store.data().task().stat(b"/made")?;
    assert_eq!(stat.size, 5);
    Ok(())
}
