// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts plug-ins that are replaced at run time: `cargo run -p openpath-wasi --example plugins`.
//!
//! Plug-ins are files in one of our trees. When a file changes, the host drops the old plug-in and
//! starts the new one, on the same data, which both see as `/data`, and without the old one's
//! descriptors. A plug-in sees nothing but its data.

use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_TRUNC, O_WRONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Task, TenantLimits, Vfs};
use openpath_wasi::{Guest, OpenpathWasi, p1};
use wasmtime::{Engine, Linker, Module, Result, Store, TypedFunc};

/// A plug-in that adds its letter to a log, and returns the length of the log.
fn source(letter: char) -> String {
    format!(
        r#"(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_write"
    (func $fd_write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_filestat_get"
    (func $fd_filestat_get (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "log{letter}")
  (data (i32.const 32) "\13\00\00\00\01\00\00\00")
  (func (export "work") (result i64)
    (local $fd i32)
    (drop (call $path_open (i32.const 3) (i32.const 0) (i32.const 16) (i32.const 3) (i32.const 1)
      (i64.const 0x200040) (i64.const 0) (i32.const 1) (i32.const 0)))
    (local.set $fd (i32.load (i32.const 0)))
    (drop (call $fd_write (local.get $fd) (i32.const 32) (i32.const 1) (i32.const 8)))
    (drop (call $fd_filestat_get (local.get $fd) (i32.const 64)))
    (drop (call $fd_close (local.get $fd)))
    (i64.load (i32.const 96))))"#
    )
}

/// A running plug-in.
struct Plugin {
    store: Store<Guest>,
    work: TypedFunc<(), i64>,
}

struct Host {
    vfs: Vfs,
    /// The host's own task, which sees the whole tree.
    task: Task,
    engine: Engine,
    linker: Linker<Guest>,
}

impl Host {
    fn new() -> Result<Self> {
        let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
        let task = vfs.task(Cred::root())?;
        for dir in [b"/plugins", &b"/data"[..]] {
            task.mkdir(dir, 0o755)?;
        }
        let engine = Engine::default();
        let mut linker = Linker::new(&engine);
        p1::add_to_linker(&mut linker, |guest| guest)?;
        Ok(Self {
            vfs,
            task,
            engine,
            linker,
        })
    }

    fn write(&self, path: &[u8], bytes: &[u8]) -> Result<()> {
        let fd = self.task.open(path, O_WRONLY | O_CREAT | O_TRUNC, 0o644)?;
        self.task.write(fd, bytes)?;
        Ok(self.task.close(fd)?)
    }

    fn read(&self, path: &[u8]) -> Result<Vec<u8>> {
        let fd = self.task.open(path, O_RDONLY, 0)?;
        let mut bytes = vec![0; usize::try_from(self.task.fstat(fd)?.size)?];
        let len = self.task.read(fd, &mut bytes)?;
        bytes.truncate(len);
        self.task.close(fd)?;
        Ok(bytes)
    }

    /// Starts the plug-in that is in the file now. The old one closes everything when it is
    /// dropped.
    fn load(&self, path: &[u8]) -> Result<Plugin> {
        let module = Module::new(&self.engine, self.read(path)?)?;
        let task = self.vfs.task(Cred::root())?;
        task.set_tenant(
            &self
                .vfs
                .tenant(TenantLimits::default().bytes_max(1 << 20).inodes_max(16)),
        )
        .expect("a tenant of this Vfs");
        let guest = OpenpathWasi::builder().task(task).preopen("/data", "/data");
        let mut store = Store::new(&self.engine, guest.build()?);
        let instance = self.linker.instantiate(&mut store, &module)?;
        let work = instance.get_typed_func(&mut store, "work")?;
        Ok(Plugin { store, work })
    }
}

fn main() -> Result<()> {
    let host = Host::new()?;
    for letter in ['a', 'b', 'c'] {
        host.write(b"/plugins/letters", source(letter).as_bytes())?;
        let mut plugin = host.load(b"/plugins/letters")?;
        for _ in 0..3 {
            let len = plugin.work.call(&mut plugin.store, ())?;
            println!("plug-in {letter}: the log has {len} letters");
        }
    }
    let log = host.read(b"/data/log")?;
    println!("{}", String::from_utf8_lossy(&log));
    assert_eq!(log, b"aaabbbccc");
    Ok(())
}
