// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs ten thousand guests on a tokio runtime, over one image that nobody can change: `cargo run
//! --release -p openpath-wasi --example many_guests [GUESTS]`.
//!
//! Each guest sees the image under an overlay of its own, which takes its writes and is dropped
//! with it. It has budgets of bytes, files, descriptors and cached names. All guests live at once.
//! Their calls are served from memory and never wait, so they run on the runtime's own threads;
//! after each step a guest yields to the others.

use std::sync::Arc;
use std::time::Instant;

use openpath_abi::fcntl::{O_CREAT, O_WRONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_overlay::{OverlayFs, OverlayOptions};
use openpath_vfs::{Cred, SuperBlock, TenantLimits, Vfs};
use openpath_wasi::{Guest, OpenpathWasi, p1};
use wasmtime::{Config, Engine, InstancePre, Linker, Module, Result, Store};

/// Its work on one file: opens it for appending, adds 16 bytes, closes it. The first time copies
/// the image's file up into the guest's own tree.
const TEXT: &str = r#"(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get"
    (func $fd_filestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "settings")
  (data (i32.const 32) "\30\00\00\00\10\00\00\00")
  (data (i32.const 48) "one more line..\0a")
  (func (export "step") (result i64)
    (local $fd i32)
    (if (call $path_open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 8) (i32.const 0)
          (i64.const 0x200040) (i64.const 0) (i32.const 1) (i32.const 0))
      (then (return (i64.const -1))))
    (local.set $fd (i32.load (i32.const 0)))
    (if (call $fd_write (local.get $fd) (i32.const 32) (i32.const 1) (i32.const 8))
      (then (return (i64.const -2))))
    (drop (call $fd_filestat_get (local.get $fd) (i32.const 64)))
    (drop (call $fd_close (local.get $fd)))
    (i64.load (i32.const 96))))"#;

const BUDGET: TenantLimits = TenantLimits::new()
    .positive_max(1024)
    .negative_max(256)
    .bytes_max(1 << 20)
    .inodes_max(64)
    .locks_max(64);
const DESCRIPTORS: u64 = 32;
const STEPS: i64 = 3;
/// The content of the image's file.
const SETTINGS: &[u8] = b"common settings\n";

/// The image, and the instance that its guests use.
fn image() -> Result<(Arc<SuperBlock>, Vfs)> {
    let image = MemFs::new(MemOptions::default());
    let maker = Vfs::builder().build(image.clone())?.task(Cred::root())?;
    let fd = maker.open(b"/settings", O_WRONLY | O_CREAT, 0o644)?;
    maker.write(fd, SETTINGS)?;
    drop(maker);
    let root = MemFs::new(MemOptions::default());
    let vfs = Vfs::builder().build(root)?;
    vfs.task(Cred::root())?.mkdir(b"/guest", 0o755)?;
    Ok((image, vfs))
}

fn guest(vfs: &Vfs, image: &Arc<SuperBlock>) -> Result<Guest> {
    let task = vfs.task(Cred::root())?;
    task.set_tenant(&vfs.tenant(BUDGET))
        .expect("a tenant of this Vfs");
    task.set_rlimit_nofile(DESCRIPTORS);
    let own = OverlayFs::new(
        OverlayOptions::default()
            .lowers(vec![image.clone()])
            .upper(Some(MemFs::new(MemOptions::default()))),
    )?;
    let guest = OpenpathWasi::builder().task(task).mount("/guest", own);
    Ok(guest.preopen("/", "/guest").build()?)
}

/// Runs one guest from beginning to end; returns the length of its file.
async fn live(pre: InstancePre<Guest>, guest: Guest) -> Result<i64> {
    let mut store = Store::new(pre.module().engine(), guest);
    let instance = pre.instantiate(&mut store)?;
    let step = instance.get_typed_func::<(), i64>(&mut store, "step")?;
    let mut len = 0;
    for _ in 0..STEPS {
        len = step.call(&mut store, ())?;
        tokio::task::yield_now().await;
    }
    Ok(len)
}

#[tokio::main]
async fn main() -> Result<()> {
    let count = std::env::args()
        .nth(1)
        .map_or(Ok(10_000), |n| n.parse::<usize>())?;
    let mut config = Config::new();
    // Memories that reserve no more address space than they use.
    config
        .memory_reservation(1 << 20)
        .memory_guard_size(1 << 16);
    let engine = Engine::new(&config)?;
    let mut linker = Linker::new(&engine);
    p1::add_to_linker(&mut linker, |guest| guest)?;
    let pre = linker.instantiate_pre(&Module::new(&engine, TEXT)?)?;
    let (image, vfs) = image()?;
    let begun = Instant::now();
    let guests = (0..count).map(|_| guest(&vfs, &image));
    let guests = guests.collect::<Result<Vec<_>>>()?;
    let made = begun.elapsed();
    let tasks: Vec<_> = guests
        .into_iter()
        .map(|guest| tokio::spawn(live(pre.clone(), guest)))
        .collect();
    for task in tasks {
        let len = task.await??;
        assert_eq!(len, SETTINGS.len() as i64 + 16 * STEPS);
    }
    println!(
        "{count} guests: made in {made:?}, all done after {:?}",
        begun.elapsed()
    );
    Ok(())
}
