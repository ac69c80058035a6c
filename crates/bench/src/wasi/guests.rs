// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures very many guests over one image: the memory of each, their start time, and the lines
//! that two of them share.
//!
//! Every guest has a tenant, a mount namespace and a private tree to write to: a directory of its
//! own beside the image, or an overlay over it. It has used a file of the image once. Memory is the
//! growth of the resident set, before any guest has an instance.

use std::sync::Arc;
use std::time::Instant;

use openpath_abi::fcntl::{AT_FDCWD, O_CREAT, O_DIRECTORY, O_RDONLY, O_WRONLY};
use openpath_mem::{MemFs, MemOptions};
use openpath_overlay::{OverlayFs, OverlayOptions};
use openpath_vfs::{Cred, SuperBlock, TenantLimits, Vfs};
use openpath_wasi::{Guest, OpenpathWasi};
use wasmtime::{Config, Engine, Linker, Module, Store};

use super::peer::{self, Blocking};
use super::{Options, engine, meeting, ours, scratch};
use crate::cmd::tell;
use crate::error::Error;
use crate::memory::Resident;
use crate::row::{Peer, Row};

/// The tree that a guest writes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// A directory of its own.
    Directory,
    /// An overlay over the image.
    Overlay,
}

impl Shape {
    pub(super) const ALL: [Self; 2] = [Self::Directory, Self::Overlay];

    /// The beginning of its row names.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Directory => "wasi guests, directory each",
            Self::Overlay => "wasi guests, overlay each",
        }
    }
}

/// Directories of the image, and files in each.
const DIRS: usize = 10;
const FILES: usize = 100;
/// The file that every guest uses.
pub(super) const FILE: &[u8] = b"dir-3/file-14";
/// The limits of a guest.
const BUDGET: TenantLimits = TenantLimits::new()
    .positive_max(4096)
    .negative_max(1024)
    .bytes_max(1 << 20)
    .inodes_max(256)
    .locks_max(256);
const DESCRIPTORS: u64 = 64;

/// A guest that opens its file once.
const TEXT: &str = r#"(module
  (import "wasi_snapshot_preview1" "path_open"
    (func $path_open (param i32 i32 i32 i32 i32 i64 i64 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_close" (func $fd_close (param i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 16) "dir-3/file-14")
  (func (export "run") (result i32)
    (if (call $path_open (i32.const 3) (i32.const 1) (i32.const 16) (i32.const 13) (i32.const 0)
          (i64.const 0x200006) (i64.const 0) (i32.const 0) (i32.const 0))
      (then (return (i32.const 1))))
    (call $fd_close (i32.load (i32.const 0)))))"#;

/// The image, and the instance that it is mounted in.
pub(super) struct Image {
    pub(super) vfs: Vfs,
    image: Arc<SuperBlock>,
}

fn failed(errno: openpath_abi::Errno) -> Error {
    Error::setup("make a guest", errno)
}

impl Image {
    pub(super) fn new() -> Result<Self, Error> {
        let image = MemFs::new(MemOptions::default());
        {
            let task = crate::ours::task(&crate::ours::over(image.clone())?)?;
            for dir in ["/private", "/overlay"] {
                crate::ours::mkdir(&task, dir.as_bytes())?;
            }
            for d in 0..DIRS {
                crate::ours::mkdir(&task, format!("/dir-{d}").as_bytes())?;
                for n in 0..FILES {
                    let path = format!("/dir-{d}/file-{n}");
                    let flags = O_WRONLY | O_CREAT;
                    let fd = task.openat(AT_FDCWD, path.as_bytes(), flags, 0o644);
                    let fd = fd.map_err(failed)?;
                    task.write(fd, path.as_bytes()).map_err(failed)?;
                    task.close(fd).map_err(failed)?;
                }
            }
        }
        let vfs = crate::ours::over(image.clone())?;
        Ok(Self { vfs, image })
    }

    /// A guest that has used its file.
    pub(super) fn guest(&self, shape: Shape) -> Result<Guest, Error> {
        let task = self.vfs.task(Cred::root()).map_err(failed)?;
        task.set_tenant(&self.vfs.tenant(BUDGET))
            .expect("a tenant of this Vfs");
        task.set_rlimit_nofile(DESCRIPTORS);
        let private = MemFs::new(MemOptions::default());
        let builder = OpenpathWasi::builder().task(task);
        let builder = match shape {
            Shape::Directory => builder.mount("/private", private).preopen("/", "/"),
            Shape::Overlay => {
                let options = OverlayOptions::default()
                    .lowers(vec![self.image.clone()])
                    .upper(Some(private));
                let overlay = OverlayFs::new(options).map_err(failed)?;
                builder.mount("/overlay", overlay).preopen("/", "/overlay")
            }
        };
        let guest = builder.build().map_err(failed)?;
        use_file(&guest, shape)?;
        Ok(guest)
    }
}

/// Opens and closes the file as the guest's calls do.
pub(super) fn use_file(guest: &Guest, shape: Shape) -> Result<(), Error> {
    let task = guest.task();
    let root: &[u8] = match shape {
        Shape::Directory => b"/",
        Shape::Overlay => b"/overlay",
    };
    let dir = task.open(root, O_RDONLY | O_DIRECTORY, 0).map_err(failed)?;
    let fd = task.beneath().openat(dir, FILE, O_RDONLY, 0);
    task.close(fd.map_err(failed)?).map_err(failed)?;
    task.close(dir).map_err(failed)
}

/// The end of the rows' names: stores, and what takes a one.
const STORES: &str = "common stores";
const OF_MANY: [&str; 3] = ["bytes", "bytes of an instance", "started a second"];

/// Guests of one shape, and their memory.
struct Made {
    shape: Shape,
    guests: Vec<Guest>,
    bytes: f64,
    seconds: f64,
}

/// The start times of some guests' instances.
struct Started {
    bytes: f64,
    seconds: f64,
}

fn make(image: &Image, shape: Shape, count: usize, memory: &Resident) -> Result<Made, Error> {
    let mut guests = Vec::with_capacity(count);
    let (before, begun) = (memory.bytes()?, Instant::now());
    for _ in 0..count {
        guests.push(image.guest(shape)?);
    }
    let seconds = begun.elapsed().as_secs_f64();
    let bytes = memory.bytes()?.saturating_sub(before) as f64 / count as f64;
    Ok(Made {
        shape,
        guests,
        bytes,
        seconds,
    })
}

/// Gives each guest its instance and runs it; all live until the last one has run.
fn start<T: 'static>(
    linker: &Linker<T>,
    module: &Module,
    make: impl Iterator<Item = Result<T, Error>>,
    memory: &Resident,
) -> Result<Started, Error> {
    let failed = engine("start a guest");
    let (before, begun) = (memory.bytes()?, Instant::now());
    let ready = linker.instantiate_pre(module).map_err(&failed)?;
    let mut stores = Vec::new();
    for data in make {
        let mut store = Store::new(module.engine(), data?);
        let instance = ready.instantiate(&mut store).map_err(&failed)?;
        let run = instance.get_typed_func::<(), u32>(&mut store, "run");
        let answer = run
            .and_then(|run| run.call(&mut store, ()))
            .map_err(&failed)?;
        if answer != 0 {
            return Err(Error::Wrong(format!("a guest: {answer}")));
        }
        stores.push(store);
    }
    let count = stores.len().max(1) as f64;
    Ok(Started {
        bytes: memory.bytes()?.saturating_sub(before) as f64 / count,
        seconds: begun.elapsed().as_secs_f64() / count,
    })
}

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    let count = options.guests;
    let mut shapes = Shape::ALL.to_vec();
    let wants = |shape: &Shape, end: &str| options.ask.wants(&format!("{}, {end}", shape.name()));
    let mut rows = Vec::new();
    for &shape in shapes.iter().filter(|shape| wants(shape, STORES)) {
        tell(&format!("{}, {STORES}", shape.name()));
        rows.push(meeting::row(shape)?);
    }
    shapes.retain(|shape| OF_MANY.iter().any(|end| wants(shape, end)));
    if shapes.is_empty() {
        return Ok(rows);
    }
    tell(&format!("wasi guests, {count} of each kind"));
    let image = Image::new()?;
    let memory = Resident::open()?;
    let made = shapes
        .iter()
        .map(|&shape| make(&image, shape, count, &memory));
    let made = made.collect::<Result<Vec<_>, _>>()?;
    let mut config = Config::new();
    // Memories reserve no more than they use: 10,000 default ones would fill the address space.
    config
        .memory_reservation(1 << 20)
        .memory_guard_size(1 << 16);
    let of = Engine::new(&config).map_err(engine("start the engine"))?;
    let module = Module::new(&of, TEXT).map_err(engine("compile the guest"))?;
    let scratch = scratch(&options.folder)?;
    let dir = scratch.path().join("dir-3");
    let laid =
        std::fs::create_dir_all(&dir).and_then(|()| std::fs::write(dir.join("file-14"), "x"));
    laid.map_err(|why| Error::host("create the tree on the host", why))?;
    let peers = (0..count).map(|_| peer::context(Blocking::InPlace, scratch.path()));
    let peer = start(&peer::linker(&of)?, &module, peers, &memory)?;
    for one in made {
        let name = one.shape.name();
        rows.push(
            Row::count(&format!("{name}, bytes"), "B", one.bytes)
                .with_note("without an instance; has used a file of the image"),
        );
        let guests = one.guests.into_iter().map(Ok);
        let started = start(&ours::linker(&of)?, &module, guests, &memory)?;
        rows.push(Row::count(
            &format!("{name}, bytes of an instance"),
            "B",
            started.bytes,
        ));
        let seconds = one.seconds / count as f64 + started.seconds;
        let mut row = Row::count(&format!("{name}, started a second"), "/s", 1.0 / seconds);
        row.peer = Some(Peer {
            label: Blocking::InPlace.label().to_owned(),
            value: 1.0 / peer.seconds,
            spread: None,
        });
        row.ratio = Some(peer.seconds / seconds);
        rows.push(row);
    }
    Ok(rows)
}
