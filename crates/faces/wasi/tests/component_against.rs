// SPDX-License-Identifier: MIT OR Apache-2.0
//! `wasi:filesystem` here and in wasmtime-wasi, asked the same at random: each function answers the
//! same, but for what docs/WASI-COMPONENTS.md lists.
#![cfg(feature = "component")]

#[path = "against/ask.rs"]
mod ask;
#[path = "against/op.rs"]
mod op;

use op::{Dice, Op, Time};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Pool, PoolOptions};
use openpath_vfs::{Cred, Task, Vfs};
use openpath_wasi::component::{Access, Files, FilesCtx};
use std::path::Path;
use wasmtime::component::ResourceTable;
use wasmtime_wasi::filesystem::{WasiFilesystemCtxView, WasiFilesystemView};
use wasmtime_wasi::{FsPerms, WasiCtx, WasiCtxView, WasiView};

struct Ours {
    files: Files,
    table: ResourceTable,
}

struct Theirs {
    wasi: WasiCtx,
    table: ResourceTable,
}

impl WasiView for Theirs {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView {
            ctx: &mut self.wasi,
            table: &mut self.table,
        }
    }
}

ask::asking!(
    ours,
    super::Ours,
    [openpath_wasi::component::bindings::wasi::filesystem],
    |guest| super::FilesCtx {
        files: &mut guest.files,
        table: &mut guest.table
    }
);
ask::asking!(
    theirs,
    super::Theirs,
    [wasmtime_wasi::p2::bindings::filesystem],
    |guest| super::view(guest)
);

fn view(guest: &mut Theirs) -> WasiFilesystemCtxView<'_> {
    guest.filesystem()
}

/// A difference that is meant (docs/WASI-COMPONENTS.md).
enum Meant {
    /// Both trees are as they were, or alike.
    AndOn,
    /// From here on they are not alike.
    AndOver,
}

fn meant(op: &Op, here: &str, there: &str) -> Option<Meant> {
    let on = match op {
        Op::SetTimes(..) => (here, there) == ("()", "bad-descriptor"),
        Op::Flags(_) => (here, there) == ("(READ|MUTATE_DIRECTORY)", "(READ)"),
        Op::StreamIn(_, _, 0) => here == "0 None, 0 None, 0 None",
        Op::SetTimesAt(_, _, _, Time::Keep, Time::Keep) => there == "()",
        Op::Open {
            follow: false, how, ..
        } if how & 2 != 0 => (here, there) == ("not-directory", "loop"),
        _ => here == "invalid" && op.paths().any(|path| path.contains('\0')),
    };
    let ends = |path: &str| path.ends_with('/') || path.ends_with("/.") || path.ends_with("..");
    if on {
        Some(Meant::AndOn)
    } else if !matches!(op, Op::Open { .. }) && op.paths().any(ends) {
        Some(Meant::AndOver)
    } else {
        None
    }
}

fn tokio() -> tokio::runtime::Runtime {
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    built.expect("a runtime")
}

/// Asks both `count` times in a row, beginning with empty directories.
fn compare(task: Task, in_place: bool, dir: &Path, seed: u64, count: usize) {
    let pool = Pool::new(PoolOptions::default());
    let mut files = Files::new(task, &pool).expect("files");
    files.set_in_place(in_place);
    files
        .preopen("/", b"/", Access::ReadWrite)
        .expect("a directory");
    let ours = Ours {
        files,
        table: ResourceTable::new(),
    };
    let mut builder = WasiCtx::builder();
    builder.allow_blocking_current_thread(true);
    builder
        .preopened_dir(dir, "/", FsPerms::ReadWrite)
        .expect("a directory");
    let theirs = Theirs {
        wasi: builder.build(),
        table: ResourceTable::new(),
    };
    tokio().block_on(async {
        let (mut ours, mut theirs) = (
            ours::Guest::new(ours).await,
            theirs::Guest::new(theirs).await,
        );
        let mut dice = Dice::new(seed);
        let mut history = Vec::new();
        for _ in 0..count {
            let op = Op::any(&mut dice);
            let (here, there) = (ours.ask(&op).await, theirs.ask(&op).await);
            history.push(format!("{op:?} -> {there}"));
            if here == there {
                continue;
            }
            match meant(&op, &here, &there) {
                Some(Meant::AndOn) => {}
                Some(Meant::AndOver) => return,
                None => {
                    let tail = history.len().saturating_sub(30);
                    panic!("seed {seed}: here {here}\n{}", history[tail..].join("\n"));
                }
            }
        }
    });
}

struct Dir(std::path::PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let shm = Path::new("/dev/shm");
        let base = if shm.is_dir() {
            shm.to_owned()
        } else {
            std::env::temp_dir()
        };
        let path = base.join(format!("openpath-wasi-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).expect("a directory");
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _gone = std::fs::remove_dir_all(&self.0);
    }
}

fn memory() -> Task {
    let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()));
    vfs.expect("a tree").task(Cred::root()).expect("a task")
}

const SEEDS: u64 = 900;
const ASKED: usize = 150;

#[test]
fn a_tree_in_memory_answers_as_wasmtime_wasi() {
    for seed in 0..SEEDS {
        let dir = Dir::new(&format!("mem-{seed}"));
        compare(memory(), seed % 2 == 0, &dir.0, seed, ASKED);
    }
}

#[test]
fn a_directory_of_the_host_answers_as_wasmtime_wasi() {
    for seed in 0..SEEDS / 3 {
        let (dir, same) = (
            Dir::new(&format!("host-{seed}")),
            Dir::new(&format!("same-{seed}")),
        );
        compare(host(&same.0), seed % 2 == 0, &dir.0, 1_000 + seed, ASKED);
    }
}

fn host(path: &Path) -> Task {
    let options = HostOptions {
        policy: Policy::Exclusive,
        ..HostOptions::default()
    };
    let tree = HostFs::open(path, options).expect("a tree");
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    vfs.task(Cred::root()).expect("a task")
}
