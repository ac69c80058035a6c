// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests that the host can end a guest between calls and in a wait, and that only its fuel ends a
//! loop without calls.

use openpath_mem::{MemFs, MemOptions};
use openpath_wasi::{Ended, Guest, OpenpathWasi, p1};
use wasmtime::{Config, Engine, Linker, Module, Store, Trap};

/// A guest that repeats `again` as long as its fuel lasts.
fn store(again: &str) -> (Store<Guest>, Module) {
    let engine = Engine::new(Config::new().consume_fuel(true)).expect("an engine");
    let text = format!(
        r#"(module
        (import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
        (import "wasi_snapshot_preview1" "poll_oneoff"
          (func $poll (param i32 i32 i32 i32) (result i32)))
        (memory (export "memory") 1)
        (func (export "_start") (loop $again {again} (br $again))))"#
    );
    let module = Module::new(&engine, text).expect("a module");
    let tree = MemFs::new(MemOptions::default());
    let guest = OpenpathWasi::builder().mount("/", tree).build();
    let mut store = Store::new(&engine, guest.expect("a guest"));
    store.set_fuel(2_000_000_000).expect("fuel");
    (store, module)
}

/// Runs the guest, and `meanwhile` beside it.
fn run(again: &str, meanwhile: impl FnOnce(openpath_wasi::Interrupt) + Send) -> wasmtime::Error {
    let (mut store, module) = store(again);
    let mut linker = Linker::new(store.engine());
    p1::add_to_linker(&mut linker, |guest| guest).expect("linked");
    let instance = linker.instantiate(&mut store, &module).expect("instance");
    let start = instance.get_typed_func::<(), ()>(&mut store, "_start");
    let start = start.expect("a function");
    let interrupt = store.data().interrupt();
    std::thread::scope(|scope| {
        scope.spawn(|| meanwhile(interrupt));
        start.call(&mut store, ()).expect_err("the guest returned")
    })
}

#[test]
fn an_ended_guest_makes_no_further_call() {
    let why = run("(drop (call $yield))", |interrupt| interrupt.end());
    assert!(why.is::<Ended>(), "{why:?}");
}

#[test]
fn ending_a_guest_ends_its_wait() {
    // The monotonic clock, in an hour.
    let wait = "(i32.store (i32.const 16) (i32.const 1))
        (i64.store (i32.const 24) (i64.const 3600000000000))
        (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))";
    let why = run(wait, |interrupt| interrupt.end());
    assert!(why.is::<Ended>(), "{why:?}");
}

#[test]
fn a_guest_without_calls_ends_only_by_its_fuel() {
    let why = run("", |interrupt| interrupt.end());
    assert_eq!(why.downcast_ref::<Trap>(), Some(&Trap::OutOfFuel));
}
