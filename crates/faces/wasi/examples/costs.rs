// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures how many nanoseconds an open, a failed open and a `filestat` of preview1 take, in a
//! loop of the guest's own, beside a host function that does nothing.

use openpath_abi::fcntl::{O_CREAT, O_WRONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_wasi::{Guest, OpenpathWasi, p1};
use std::time::Instant;
use wasmtime::{Engine, Linker, Module, Store};

/// One loop for each call.
const LOOPS: &str = r#"(module
  (import "host" "nothing" (func $nothing (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $close (param i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_tell" (func $tell (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_filestat_get"
    (func $stat (param i32 i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "path_open"
    (func $open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "usr/lib/here")
  (data (i32.const 32) "usr/lib/gone")
  (func (export "nothing") (param $n i32)
    (loop $again
      (drop (call $nothing (i32.const 3)))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "open and close") (param $n i32)
    (loop $again
      (if (call $open (i32.const 3) (i32.const 1) (i32.const 0) (i32.const 12) (i32.const 0)
        (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)) (then unreachable))
      (if (call $close (i32.load (i32.const 64))) (then unreachable))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "failed open") (param $n i32)
    (loop $again
      (if (i32.ne (i32.const 44) (call $open (i32.const 3) (i32.const 1) (i32.const 32)
        (i32.const 12) (i32.const 0) (i64.const 2) (i64.const 0) (i32.const 0) (i32.const 64)))
        (then unreachable))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1))))))
  (func (export "filestat") (param $n i32)
    (loop $again
      (if (call $stat (i32.const 3) (i32.const 1) (i32.const 0) (i32.const 12) (i32.const 64))
        (then unreachable))
      (br_if $again (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))))"#;

fn main() -> wasmtime::Result<()> {
    let engine = Engine::default();
    let module = Module::new(&engine, LOOPS)?;
    let mut linker = Linker::<Guest>::new(&engine);
    p1::add_to_linker(&mut linker, |guest| guest)?;
    linker.func_wrap("host", "nothing", |fd: u32| fd)?;
    let tree = MemFs::new(MemOptions::default());
    let guest = OpenpathWasi::builder().mount("/", tree).preopen("/", "/");
    let guest = guest.build()?;
    let task = guest.task();
    task.mkdir(b"/usr", 0o755)?;
    task.mkdir(b"/usr/lib", 0o755)?;
    task.close(task.open(b"/usr/lib/here", O_CREAT | O_WRONLY, 0o644)?)?;
    let mut store = Store::new(&engine, guest);
    let instance = linker.instantiate(&mut store, &module)?;
    for name in ["nothing", "open and close", "failed open", "filestat"] {
        let run = instance.get_typed_func::<u32, ()>(&mut store, name)?;
        let mut best = f64::MAX;
        for _ in 0..20 {
            let (began, calls) = (Instant::now(), 20_000);
            run.call(&mut store, calls)?;
            best = best.min(began.elapsed().as_nanos() as f64 / f64::from(calls));
        }
        println!("{name:>16} {best:8.1} ns");
    }
    Ok(())
}
