// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests `wasi:filesystem` against wasmtime-wasi by random calls: each function answers the same,
//! except for the differences in `meant`, each with its id in docs/WASI-COMPONENTS.md.
#![cfg(feature = "component")]

#[path = "against/ask.rs"]
mod ask;
#[path = "against/meant.rs"]
mod meant;
#[path = "against/op.rs"]
mod op;

use meant::Seen;
use op::{Op, Random};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Pool, PoolOptions};
use openpath_vfs::{Cred, Task, Vfs};
use openpath_wasi::component::{Access, Files, FilesCtx};
use std::collections::BTreeMap;
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

fn tokio() -> tokio::runtime::Runtime {
    let built = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build();
    built.expect("a runtime")
}

/// Unexpected differences: the function and both answers, and the calls that lead there.
type Found = BTreeMap<String, [String; 2]>;

/// Makes [`ASKED`] calls on both, from empty directories.
fn compare(
    task: Task,
    in_place: bool,
    dir: &Path,
    seed: u64,
    (seen, found): (&mut Seen, &mut Found),
) {
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
        let mut random = Random::new(seed);
        let mut history = Vec::new();
        for _ in 0..ASKED {
            let op = Op::any(&mut random);
            let (here, there) = (ours.ask(&op).await, theirs.ask(&op).await);
            history.push(format!("{op:?} -> {there}"));
            if here == there {
                continue;
            }
            if !seen.note(&op, &here, &there) {
                let what = format!("{op:?}");
                let call = what.split(['(', ' ']).next().unwrap_or_default();
                let tail = history.len().saturating_sub(30);
                let text = format!("seed {seed}: here {here}\n{}", history[tail..].join("\n"));
                found
                    .entry(format!("{call}: {here} | {there}"))
                    .or_insert([what, text]);
                return;
            }
            // A call that only one side carried out makes the trees differ.
            let done = !meant::is_code(&here) || !meant::is_code(&there);
            if done && meant::changes_names(&op) {
                return;
            }
        }
    });
}

/// Asserts that no difference was found.
fn nothing(found: &Found) {
    let list = found.iter().map(|(key, [op, _])| format!("{key}, as {op}"));
    let list: Vec<_> = list.collect();
    let pick = found.values().next().map_or("", |[_, text]| text);
    assert!(found.is_empty(), "{}\n{pick}", list.join("\n"));
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

const SEEDS: u64 = 2_400;
const ASKED: usize = 150;

#[test]
fn a_tree_in_memory_answers_as_wasmtime_wasi() {
    let (mut seen, mut found) = (Seen::default(), Found::new());
    for seed in 0..SEEDS {
        let dir = Dir::new(&format!("mem-{seed}"));
        let told = (&mut seen, &mut found);
        compare(memory(), seed % 2 == 0, &dir.0, seed, told);
    }
    nothing(&found);
    // A row of `meant` that no call meets is obsolete.
    assert_eq!(seen.unmet(), [""; 0]);
}

#[test]
fn a_directory_of_the_host_answers_as_wasmtime_wasi() {
    let (mut seen, mut found) = (Seen::default(), Found::new());
    for seed in 0..SEEDS / 3 {
        let (dir, same) = (
            Dir::new(&format!("host-{seed}")),
            Dir::new(&format!("same-{seed}")),
        );
        let told = (&mut seen, &mut found);
        compare(host(&same.0), seed % 2 == 0, &dir.0, 1_000 + seed, told);
    }
    nothing(&found);
}

fn host(path: &Path) -> Task {
    let options = HostOptions::default().policy(Policy::Exclusive);
    let tree = HostFs::open(path, options).expect("a tree");
    let vfs = Vfs::builder().build(tree).expect("a Vfs");
    vfs.task(Cred::root()).expect("a task")
}
