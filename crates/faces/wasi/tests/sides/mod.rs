// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of preview1 a guest that exports every function it imports, so that a test makes
//! single calls and compares openpath with wasmtime-wasi ([`Side`]).

#![allow(dead_code, reason = "each test uses a part")]

use openpath_vfs::SuperBlock;
use openpath_wasi::{Guest, OpenpathWasi};
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use wasmtime::{Engine, Instance, Linker, Memory, Module, Store, Val};
use wasmtime_wasi::p1::WasiP1Ctx;
use wasmtime_wasi::{FsPerms, WasiCtxBuilder};

/// The functions, and the types of their arguments.
const FUNCTIONS: &[(&str, &str)] = &[
    ("clock_time_get", "ili"),
    ("fd_advise", "illi"),
    ("fd_allocate", "ill"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "ill"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "il"),
    ("fd_filestat_set_times", "illi"),
    ("fd_pread", "iiili"),
    ("fd_prestat_get", "ii"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_pwrite", "iiili"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiili"),
    ("fd_renumber", "ii"),
    ("fd_seek", "ilii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiilli"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiillii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("sock_shutdown", "ii"),
];

/// The text of that guest, which has two pages of memory.
pub(crate) fn text() -> String {
    let mut text = String::from("(module\n");
    for (name, kinds) in FUNCTIONS {
        let params: String = kinds.chars().map(kind).collect();
        let _infallible = writeln!(
            text,
            "(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param {params}) \
             (result i32)))"
        );
    }
    text.push_str("(memory (export \"memory\") 2)\n");
    for (name, kinds) in FUNCTIONS {
        let params: String = kinds.chars().map(kind).collect();
        let gets: String = (0..kinds.len())
            .map(|n| format!("local.get {n} "))
            .collect();
        let _infallible = writeln!(
            text,
            "(func (export \"{name}\") (param {params}) (result i32) {gets} call ${name})"
        );
    }
    text.push(')');
    text
}

fn kind(kind: char) -> &'static str {
    if kind == 'i' { "i32 " } else { "i64 " }
}

/// One guest over either host.
pub(crate) trait Side {
    /// Calls a function; returns its code, or `None` if the guest ended.
    fn call(&mut self, name: &str, args: &[u64]) -> Option<u16>;
    /// Writes bytes to its memory.
    fn put(&mut self, at: u32, bytes: &[u8]);
    /// Reads bytes of its memory.
    fn get(&self, at: u32, len: usize) -> Vec<u8>;
}

struct Hosted<T: 'static> {
    store: Store<T>,
    instance: Instance,
    memory: Memory,
}

impl<T> Side for Hosted<T> {
    fn call(&mut self, name: &str, args: &[u64]) -> Option<u16> {
        let (_, kinds) = FUNCTIONS
            .iter()
            .find(|(known, _)| *known == name)
            .expect("a function");
        let args: Vec<Val> = kinds
            .chars()
            .zip(args)
            .map(|(kind, &arg)| match kind {
                'i' => Val::I32((arg as u32).cast_signed()),
                _ => Val::I64(arg.cast_signed()),
            })
            .collect();
        assert_eq!(args.len(), kinds.len(), "{name}");
        let function = self.instance.get_func(&mut self.store, name);
        let mut result = [Val::I32(0)];
        function
            .expect("no such export")
            .call(&mut self.store, &args, &mut result)
            .ok()?;
        Some(result[0].unwrap_i32() as u16)
    }

    fn put(&mut self, at: u32, bytes: &[u8]) {
        let put = self.memory.write(&mut self.store, at as usize, bytes);
        put.expect("outside the memory");
    }

    fn get(&self, at: u32, len: usize) -> Vec<u8> {
        self.memory.data(&self.store)[at as usize..][..len].to_vec()
    }
}

/// Creates guests over both hosts.
pub(crate) struct Makers {
    engine: Engine,
    module: Module,
    ours: Linker<Guest>,
    theirs: Linker<WasiP1Ctx>,
}

impl Makers {
    pub(crate) fn new() -> Self {
        let engine = Engine::default();
        let module = Module::new(&engine, text()).expect("a module");
        let mut ours = Linker::new(&engine);
        openpath_wasi::p1::add_to_linker(&mut ours, |guest| guest).expect("links");
        let mut theirs = Linker::new(&engine);
        wasmtime_wasi::p1::add_to_linker_sync(&mut theirs, |ctx| ctx).expect("links");
        Self {
            engine,
            module,
            ours,
            theirs,
        }
    }

    fn hosted<T>(&self, linker: &Linker<T>, data: T) -> Hosted<T> {
        let mut store = Store::new(&self.engine, data);
        let instance = linker
            .instantiate(&mut store, &self.module)
            .expect("cannot instantiate");
        let memory = instance
            .get_memory(&mut store, "memory")
            .expect("no memory");
        Hosted {
            store,
            instance,
            memory,
        }
    }

    /// A guest over openpath, with the directory `path` of this tree preopened as 3.
    pub(crate) fn ours(&self, tree: Arc<SuperBlock>, path: &str) -> Box<dyn Side> {
        let guest = OpenpathWasi::builder().mount("/", tree).build();
        let task = guest.expect("a guest");
        if path != "/" {
            task.task()
                .mkdir(path.as_bytes(), 0o755)
                .expect("a directory");
        }
        let task = task.task().fork().expect("a task");
        self.guest(
            OpenpathWasi::builder()
                .task(task)
                .preopen("/p", path)
                .build()
                .expect("a guest"),
        )
    }

    /// Hosts this guest.
    pub(crate) fn guest(&self, guest: Guest) -> Box<dyn Side> {
        Box::new(self.hosted(&self.ours, guest))
    }

    /// A guest over wasmtime-wasi, with this directory preopened as 3.
    pub(crate) fn theirs(&self, dir: &Path) -> Box<dyn Side> {
        let mut builder = WasiCtxBuilder::new();
        builder.allow_blocking_current_thread(true);
        builder
            .preopened_dir(dir, "/p", FsPerms::ReadWrite)
            .expect("a directory");
        Box::new(self.hosted(&self.theirs, builder.build_p1()))
    }
}
