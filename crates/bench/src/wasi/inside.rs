// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a WebAssembly guest that is measured, on one side: makes its instance, puts paths into its
//! memory, and calls its loops.

use wasmtime::{Engine, Linker, Module, Store, TypedFunc};

use super::engine;
use super::tree::Tree;
use crate::error::Error;

/// The module, as text.
const TEXT: &str = include_str!("guest.wat");
/// The start of the tables in the guest's memory, and the length of each: 64 times address and
/// length.
const TABLES: usize = 1024;
const TABLE: usize = 512;
/// The range of paths in it.
const PATHS: std::ops::Range<usize> = 8192..65536;

/// Its loops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loop {
    Floor,
    OpenClose,
    FailedOpen,
    Stat,
    Fstat,
    Read,
    Pread,
    Readdir,
}

impl Loop {
    pub(super) const ALL: [Self; 8] = [
        Self::Floor,
        Self::OpenClose,
        Self::FailedOpen,
        Self::Stat,
        Self::Fstat,
        Self::Read,
        Self::Pread,
        Self::Readdir,
    ];

    /// Its export in the module.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Floor => "floor",
            Self::OpenClose => "open-close",
            Self::FailedOpen => "failed-open",
            Self::Stat => "stat",
            Self::Fstat => "fstat",
            Self::Read => "read",
            Self::Pread => "pread",
            Self::Readdir => "readdir",
        }
    }

    /// Whether it uses paths, and so depends on depth.
    pub(super) fn walks(self) -> bool {
        !matches!(self, Self::Floor | Self::Fstat | Self::Pread)
    }

    /// The number of operations that use every path of a level.
    pub(super) fn paths(self) -> u64 {
        match self {
            Self::Readdir => 1,
            _ => crate::PATHS as u64,
        }
    }

    /// The table of a level that it uses: files, missing names, the directory.
    fn table(self) -> usize {
        match self {
            Self::FailedOpen => 1,
            Self::Readdir => 2,
            _ => 0,
        }
    }
}

/// One side, with any host.
pub(super) trait Side {
    /// Runs a loop at a level `ops` times; returns how many answers were wrong.
    fn burst(&mut self, what: Loop, level: usize, ops: u64) -> u64;
}

/// A guest, and its store.
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
        let failed = engine("start the guest");
        let mut store = Store::new(linker.engine(), data);
        let instance = linker.instantiate(&mut store, module).map_err(&failed)?;
        let memory = instance
            .get_memory(&mut store, "memory")
            .ok_or_else(|| Error::setup("start the guest", "it has no memory"))?;
        write(memory.data_mut(&mut store), tree)
            .ok_or_else(|| Error::setup("start the guest", "too many paths"))?;
        let keep = instance.get_typed_func::<u32, u32>(&mut store, "keep");
        let keep = keep.map_err(&failed)?;
        let errno = keep.call(&mut store, TABLES as u32).map_err(&failed)?;
        if errno != 0 {
            return Err(Error::Wrong(format!("the first open: errno {errno}")));
        }
        let loops = Loop::ALL.map(|l| instance.get_typed_func(&mut store, l.name()));
        let loops = loops.into_iter().collect::<Result<_, _>>();
        let loops = loops.map_err(&failed)?;
        Ok(Self { store, loops })
    }
}

impl<T> Side for Inside<T> {
    fn burst(&mut self, what: Loop, level: usize, ops: u64) -> u64 {
        let table = (TABLES + TABLE * (3 * level + what.table())) as u32;
        let wrong = u32::try_from(ops).ok().and_then(|n| {
            self.loops[what as usize]
                .call(&mut self.store, (n, table))
                .ok()
        });
        wrong.map_or(ops, u64::from)
    }
}

/// Writes tables and paths into the memory of a guest; None if they do not fit.
fn write(memory: &mut [u8], tree: &Tree) -> Option<()> {
    let mut free = PATHS.start;
    for (n, level) in tree.0.iter().enumerate() {
        let listed = [level.listed.clone()];
        for (m, paths) in [&level.files[..], &level.missing, &listed]
            .iter()
            .enumerate()
        {
            let table = TABLES + TABLE * (3 * n + m);
            let mut places = Vec::new();
            for path in *paths {
                memory
                    .get_mut(free..free + path.len())
                    .filter(|_| free + path.len() <= PATHS.end)?
                    .copy_from_slice(path.as_bytes());
                places.push((free as u32, path.len() as u32));
                free += path.len();
            }
            for (place, (at, len)) in places.iter().cycle().take(crate::PATHS).enumerate() {
                let entry = memory.get_mut(table + 8 * place..table + 8 * place + 8)?;
                entry[..4].copy_from_slice(&at.to_le_bytes());
                entry[4..].copy_from_slice(&len.to_le_bytes());
            }
        }
    }
    Some(())
}
