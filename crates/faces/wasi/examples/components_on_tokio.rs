// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs many components (100, or the given number) on one tokio runtime, all in one tree in memory,
//! where each sees only a home directory of its own.
//!
//! `cargo run -p openpath-wasi --features component --example components_on_tokio -- 200`

use openpath_abi::fcntl::{O_CREAT, O_WRONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Pool, PoolOptions};
use openpath_vfs::{Cred, Vfs};
use openpath_wasi::component::{self, Access, Files, FilesCtx, FilesView};
use std::time::Instant;
use wasmtime::component::{Component, Linker, ResourceTable};
use wasmtime::{Engine, Result, Store};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

struct Guest {
    files: Files,
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for Guest {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

impl FilesView for Guest {
    fn files(&mut self) -> FilesCtx<'_> {
        FilesCtx {
            files: &mut self.files,
            table: &mut self.table,
        }
    }
}

#[tokio::main]
async fn main() -> Result<()> {
    let count = std::env::args().nth(1).and_then(|n| n.parse().ok());
    let count: usize = count.unwrap_or(100);
    let engine = Engine::default();
    let mut linker = Linker::<Guest>::new(&engine);
    component::add_all_to_linker(&mut linker)?;
    let component = Component::new(&engine, include_str!("../tests/guest.wat"))?;
    let program = linker.instantiate_pre(&component)?;

    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
    let pool = Pool::new(PoolOptions::default());
    let begun = Instant::now();
    let mut running = Vec::new();
    for n in 0..count {
        let task = vfs.task(Cred::root())?;
        let home = format!("/home-{n}");
        task.mkdir(home.as_bytes(), 0o755)?;
        let greeting = format!("{home}/greeting");
        let fd = task.open(greeting.as_bytes(), O_CREAT | O_WRONLY, 0o644)?;
        let text = format!("hello {n}");
        task.write(fd, text.as_bytes())?;
        task.close(fd)?;
        let mut files = Files::new(task, &pool)?;
        files.preopen("/", home.as_bytes(), Access::ReadWrite)?;
        let guest = Guest {
            files,
            wasi: WasiCtx::builder().build(),
            table: ResourceTable::new(),
        };
        let (engine, program) = (engine.clone(), program.clone());
        running.push(tokio::spawn(async move {
            let mut store = Store::new(&engine, guest);
            let instance = program.instantiate_async(&mut store).await?;
            let run = instance.get_typed_func::<(), (i32,)>(&mut store, "run")?;
            let (copied,) = run.call_async(&mut store, ()).await?;
            // A negative result says which step failed.
            if usize::try_from(copied) != Ok(text.len()) {
                let why = format!("guest {n} copied {copied} bytes of {}", text.len());
                return Err(wasmtime::Error::msg(why));
            }
            Ok(text.len())
        }));
    }
    let mut copied = 0;
    for guest in running {
        copied += guest.await??;
    }
    println!(
        "{count} components copied {copied} bytes in {:?}",
        begun.elapsed()
    );
    Ok(())
}
