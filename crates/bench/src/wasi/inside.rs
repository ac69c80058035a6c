// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a WebAssembly guest that is measured, on one side: makes its instance, puts paths into its
//! memory, and calls its loops.

use wasmtime::{Engine, Linker, Module, Store, TypedFunc};

use super::engine;
use super::tree::Tree;
use crate::common::*;

const TEXT: &str = include_str!("guest.wat");
/// The start of the tables in the guest's memory, and the length of each: 64 times address and
/// length.
const TABLES: usize = 1024;
const TABLE: usize = 512;
/// The range of paths in it.
const PATHS: std::ops::Range<usize> = 8192..65536;

/// A loop: its export in the module, the table of a level that it uses, and how many operations use
/// every path of a level. The tables are 0 for files, 1 for missing names and 2 for the directory.
/// A loop without a table uses no path, and so does not depend on depth.
pub(super) struct Loop(
    pub(super) &'static str,
    pub(super) Option<usize>,
    pub(super) u64,
);

const ALL: u64 = crate::PATHS as u64;
pub(super) const LOOPS: [Loop; 8] = [
    Loop("floor", None, ALL),
    Loop("open-close", Some(0), ALL),
    Loop("failed-open", Some(1), ALL),
    Loop("stat", Some(0), ALL),
    Loop("fstat", None, ALL),
    Loop("read", Some(0), ALL),
    Loop("pread", None, ALL),
    Loop("readdir", Some(2), 1),
];

pub(super) trait Side {
    /// Runs loop `what` at a level `ops` times; returns how many answers were wrong.
    fn burst(&mut self, what: usize, level: usize, ops: u64) -> u64;
}

pub(super) struct Inside<T: 'static> {
    store: Store<T>,
    loops: Vec<TypedFunc<(u32, u32), u32>>,
}

/// The module of all sides.
pub(super) fn module(of: &Engine) -> Result<Module, Error> {
    Module::new(of, TEXT).map_err(engine("compile the guest"))
}

impl<T> Inside<T> {
    /// A guest with the paths of `tree` in its memory, and an open file.
    pub(super) fn new(
        linker: &Linker<T>,
        module: &Module,
        data: T,
        tree: &Tree,
    ) -> Result<Self, Error> {
        const WHAT: &str = "start the guest";
        let failed = engine(WHAT);
        let mut store = Store::new(linker.engine(), data);
        let instance = linker.instantiate(&mut store, module).map_err(&failed)?;
        let memory = instance.get_memory(&mut store, "memory");
        let memory = memory.ok_or("it has no memory").setup(WHAT)?;
        let written = write(memory.data_mut(&mut store), tree);
        written.ok_or("too many paths").setup(WHAT)?;
        let keep = instance.get_typed_func::<u32, u32>(&mut store, "keep");
        let keep = keep.map_err(&failed)?;
        let errno = keep.call(&mut store, TABLES as u32).map_err(&failed)?;
        if errno != 0 {
            return Err(Error::Wrong(format!("the first open: errno {errno}")));
        }
        let loops = LOOPS.map(|Loop(name, ..)| instance.get_typed_func(&mut store, name));
        let loops = loops.into_iter().collect::<Result<_, _>>();
        let loops = loops.map_err(&failed)?;
        Ok(Self { store, loops })
    }
}

impl<T> Side for Inside<T> {
    fn burst(&mut self, what: usize, level: usize, ops: u64) -> u64 {
        let table = 3 * level + LOOPS[what].1.unwrap_or(0);
        let (table, count) = ((TABLES + TABLE * table) as u32, u32::try_from(ops).ok());
        let wrong = count.and_then(|n| self.loops[what].call(&mut self.store, (n, table)).ok());
        wrong.map_or(ops, u64::from)
    }
}

/// Writes tables and paths into the memory of a guest; None if they do not fit.
fn write(memory: &mut [u8], tree: &Tree) -> Option<()> {
    let mut free = PATHS.start;
    let tables = tree.0.iter().flat_map(|level| &level.tables);
    for (n, paths) in tables.enumerate() {
        let mut entries = Vec::new();
        for path in paths {
            let end = free + path.len();
            let place = memory.get_mut(free..end).filter(|_| end <= PATHS.end)?;
            place.copy_from_slice(path.as_bytes());
            entries.push([free as u32, path.len() as u32]);
            free = end;
        }
        let entries = entries.iter().cycle().take(crate::PATHS);
        let table = memory.get_mut(TABLES + TABLE * n..)?.chunks_exact_mut(4);
        for (word, place) in entries.flatten().zip(table) {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    Some(())
}
