// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives attacks a guest that makes the calls it is told to: the guest exports each function of
//! preview1 under its own name and passes the call on.

use std::fmt::Write as _;

use openpath_wasi::{Guest, p1};
use wasmtime::{Engine, Linker, Memory, Module, Store, Val};

use super::setting::Failed;

/// The functions and their parameters: `i` is 32 bits, `I` is 64. All but `proc_exit` return an
/// error code.
pub(super) const CALLS: [(&str, &str); 46] = [
    ("args_get", "ii"),
    ("args_sizes_get", "ii"),
    ("environ_get", "ii"),
    ("environ_sizes_get", "ii"),
    ("clock_res_get", "ii"),
    ("clock_time_get", "iIi"),
    ("fd_advise", "iIIi"),
    ("fd_allocate", "iII"),
    ("fd_close", "i"),
    ("fd_datasync", "i"),
    ("fd_fdstat_get", "ii"),
    ("fd_fdstat_set_flags", "ii"),
    ("fd_fdstat_set_rights", "iII"),
    ("fd_filestat_get", "ii"),
    ("fd_filestat_set_size", "iI"),
    ("fd_filestat_set_times", "iIIi"),
    ("fd_pread", "iiiIi"),
    ("fd_prestat_get", "ii"),
    ("fd_prestat_dir_name", "iii"),
    ("fd_pwrite", "iiiIi"),
    ("fd_read", "iiii"),
    ("fd_readdir", "iiiIi"),
    ("fd_renumber", "ii"),
    ("fd_seek", "iIii"),
    ("fd_sync", "i"),
    ("fd_tell", "ii"),
    ("fd_write", "iiii"),
    ("path_create_directory", "iii"),
    ("path_filestat_get", "iiiii"),
    ("path_filestat_set_times", "iiiiIIi"),
    ("path_link", "iiiiiii"),
    ("path_open", "iiiiiIIii"),
    ("path_readlink", "iiiiii"),
    ("path_remove_directory", "iii"),
    ("path_rename", "iiiiii"),
    ("path_symlink", "iiiii"),
    ("path_unlink_file", "iii"),
    ("poll_oneoff", "iiii"),
    ("proc_exit", "i"),
    ("proc_raise", "i"),
    ("random_get", "ii"),
    ("sched_yield", ""),
    ("sock_accept", "iii"),
    ("sock_recv", "iiiiii"),
    ("sock_send", "iiiii"),
    ("sock_shutdown", "ii"),
];

/// Pages of its memory.
const PAGES: u32 = 4;
/// Bytes of its memory.
pub(super) const MEMORY: u32 = PAGES << 16;
/// The address of results.
pub(super) const OUT: u32 = 0;
/// The addresses of a path, and of a second one.
pub(super) const PATH: u32 = 1 << 12;
pub(super) const PATH2: u32 = 1 << 14;
/// The addresses of a vector of buffers, and of the buffer.
pub(super) const VECTOR: u32 = 1 << 15;
pub(super) const BUFFER: u32 = 1 << 16;

/// The preopened directory.
pub(super) const DIR: u32 = 3;

/// The flags of `path_open`.
pub(super) mod oflags {
    pub(crate) const CREAT: u32 = 1;
    pub(crate) const DIRECTORY: u32 = 2;
    pub(crate) const TRUNC: u32 = 8;
}

/// `fd_read`, `fd_seek`, `fd_filestat_get`.
pub(super) const READ: u64 = 1 << 1 | 1 << 2 | 1 << 21;
/// `fd_write`, and the rights to change a file.
pub(super) const WRITE: u64 = 1 << 6 | 1 << 8 | 1 << 22 | 1 << 23;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Got {
    /// An error code; 0 is success.
    Errno(u32),
    /// The guest ended.
    Trap,
}

impl Got {
    pub(super) fn is_ok(self) -> bool {
        self == Got::Errno(0)
    }
}

/// The error codes that these tests use.
pub(super) mod errno {
    use super::Got;

    pub(crate) const BADF: Got = Got::Errno(8);
    pub(crate) const DQUOT: Got = Got::Errno(19);
    pub(crate) const MFILE: Got = Got::Errno(33);
    pub(crate) const NOENT: Got = Got::Errno(44);
}

/// The engine and the compiled module, shared by all guests.
pub(super) struct Compiled {
    linker: Linker<Guest>,
    module: Module,
}

fn text() -> String {
    let (mut imports, mut exports) = (String::new(), String::new());
    for (name, takes) in CALLS {
        let kind = |c| if c == 'i' { " i32" } else { " i64" };
        let params: String = takes.chars().map(kind).collect();
        let answer = if name == "proc_exit" {
            ""
        } else {
            "(result i32)"
        };
        let gets: String = (0..takes.len()).fold(String::new(), |mut gets, n| {
            let _ = write!(gets, "(local.get {n})");
            gets
        });
        let _ = write!(
            imports,
            "(import \"wasi_snapshot_preview1\" \"{name}\" (func ${name} (param{params}) {answer}))"
        );
        let _ = write!(
            exports,
            "(func (export \"{name}\") (param{params}) {answer} (call ${name} {gets}))"
        );
    }
    format!("(module {imports} (memory (export \"memory\") {PAGES} {PAGES}) {exports})")
}

impl Compiled {
    pub(super) fn new() -> Result<Self, Failed> {
        let engine = Engine::default();
        let module = Module::new(&engine, text()).map_err(Failed::engine)?;
        let mut linker = Linker::new(&engine);
        p1::add_to_linker(&mut linker, |guest: &mut Guest| guest).map_err(Failed::engine)?;
        Ok(Self { linker, module })
    }

    /// Instantiates the module for a guest.
    pub(super) fn instantiate(&self, guest: Guest) -> Result<ScriptedGuest, Failed> {
        let mut store = Store::new(self.linker.engine(), guest);
        let instance = self
            .linker
            .instantiate(&mut store, &self.module)
            .map_err(Failed::engine)?;
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| Failed::new("no memory"))?;
        let funcs = CALLS
            .iter()
            .filter_map(|(name, _)| instance.get_func(&mut store, name))
            .collect();
        Ok(ScriptedGuest {
            store,
            memory,
            funcs,
        })
    }
}

/// A guest in its instance.
pub(super) struct ScriptedGuest {
    store: Store<Guest>,
    memory: Memory,
    funcs: Vec<wasmtime::Func>,
}

impl ScriptedGuest {
    /// Calls a function of [`CALLS`]; missing arguments are 0.
    pub(super) fn call(&mut self, name: &str, args: &[u64]) -> Got {
        let at = CALLS.iter().position(|(n, _)| *n == name);
        at.map_or(Got::Trap, |at| self.call_at(at, args))
    }

    /// Calls a function by its index.
    pub(super) fn call_at(&mut self, at: usize, args: &[u64]) -> Got {
        let (name, takes) = CALLS[at];
        let arg = |n: usize| args.get(n).copied().unwrap_or(0);
        let value = |(n, kind)| match kind {
            'i' => Val::I32(arg(n) as u32 as i32),
            _ => Val::I64(arg(n) as i64),
        };
        let args: Vec<Val> = takes.chars().enumerate().map(value).collect();
        let mut out = [Val::I32(0)];
        let answers = usize::from(name != "proc_exit");
        let func = self.funcs[at];
        match func.call(&mut self.store, &args, &mut out[..answers]) {
            Ok(()) => Got::Errno(out[0].i32().unwrap_or(0) as u32),
            Err(_) => Got::Trap,
        }
    }

    /// Writes bytes to its memory.
    pub(super) fn put(&mut self, at: u32, bytes: &[u8]) {
        let memory = self.memory.data_mut(&mut self.store);
        if let Some(place) = memory.get_mut(at as usize..at as usize + bytes.len()) {
            place.copy_from_slice(bytes);
        }
    }

    /// Reads bytes of its memory.
    pub(super) fn get(&self, at: u32, len: u32) -> &[u8] {
        let memory = self.memory.data(&self.store);
        memory
            .get(at as usize..(at + len) as usize)
            .unwrap_or_default()
    }

    pub(super) fn word(&self, at: u32) -> u32 {
        self.get(at, 4).try_into().map_or(0, u32::from_le_bytes)
    }

    pub(super) fn long(&self, at: u32) -> u64 {
        self.get(at, 8).try_into().map_or(0, u64::from_le_bytes)
    }

    /// Writes words to its memory, one after the other.
    pub(super) fn put_words(&mut self, at: u32, words: &[u32]) {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.put(at, &bytes);
    }

    /// `path_open` in its directory, following links; returns the descriptor.
    pub(super) fn open(&mut self, path: &[u8], oflags: u32, rights: u64) -> Result<u32, Got> {
        self.put(PATH, path);
        let (path, len) = (u64::from(PATH), path.len() as u64);
        let got = self.call(
            "path_open",
            &[
                DIR.into(),
                1,
                path,
                len,
                oflags.into(),
                rights,
                0,
                0,
                OUT.into(),
            ],
        );
        if got.is_ok() {
            Ok(self.word(OUT))
        } else {
            Err(got)
        }
    }

    pub(super) fn close(&mut self, fd: u32) -> Got {
        self.call("fd_close", &[fd.into()])
    }

    /// Makes a call that takes the directory and a path.
    pub(super) fn path(&mut self, name: &str, path: &[u8]) -> Got {
        self.put(PATH, path);
        self.call(name, &[DIR.into(), PATH.into(), path.len() as u64])
    }

    /// `fd_read` or `fd_write` of this many bytes; returns how many it moved.
    pub(super) fn transfer(&mut self, name: &str, fd: u32, len: u32) -> Result<u32, Got> {
        self.put_words(VECTOR, &[BUFFER, len]);
        let got = self.call(name, &[fd.into(), VECTOR.into(), 1, OUT.into()]);
        if got.is_ok() {
            Ok(self.word(OUT))
        } else {
            Err(got)
        }
    }

    /// The guest's state, which outlives its instance.
    pub(super) fn guest(&self) -> &Guest {
        self.store.data()
    }
}
