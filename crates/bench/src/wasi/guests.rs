// SPDX-License-Identifier: MIT OR Apache-2.0
//! Measures very many guests over one image: the memory of each, how many start in a second, and
//! how many stores two of them make to the same cache lines. `pages/wasi.md` describes the guests.
//!
//! Memory is the growth of the resident set, once for the guests without instances, and once for
//! their instances.

use std::sync::Arc;
use std::time::Instant;

use openpath_abi::fcntl::O_DIRECTORY;
use openpath_overlay::{OverlayFs, OverlayOptions};
use openpath_vfs::{SuperBlock, TenantLimits};
use openpath_wasi::{Guest, OpenpathWasi};
use wasmtime::{Config, Engine, Linker, Module, Store};

use super::hosts::{self, Blocking};
use super::{Options, engine, scratch};
use crate::common::*;
use crate::ours::{memory, over, task};
use crate::watch::observe;
use crate::watch::sys::Kind;

/// The tree that a guest writes to, by the beginning of its row names and the directory of the
/// image: a directory of its own, or an overlay over the image.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Shape(&'static str, &'static str);

const SHAPES: [Shape; 2] = [
    Shape("wasi guests, directory each", "/"),
    Shape("wasi guests, overlay each", "/overlay"),
];

impl Shape {
    fn name(self, end: &str) -> String {
        format!("{}, {end}", self.0)
    }
}

/// Directories of the image, and files in each.
const DIRS: usize = 10;
const FILES: usize = 100;
/// The file that every guest uses.
const FILE: &[u8] = b"dir-3/file-14";
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

struct Image {
    vfs: Vfs,
    image: Arc<SuperBlock>,
}

const MAKE: &str = "make a guest";

impl Image {
    fn new() -> Result<Self, Error> {
        let image = memory();
        let first = over(image.clone())?;
        let maker = task(&first)?;
        maker.make_dir(b"/private")?;
        maker.make_dir(b"/overlay")?;
        for d in 0..DIRS {
            maker.make_dir(format!("/dir-{d}").as_bytes())?;
            for n in 0..FILES {
                let path = format!("/dir-{d}/file-{n}");
                maker.make_file(path.as_bytes(), path.as_bytes())?;
            }
        }
        drop((maker, first));
        let vfs = over(image.clone())?;
        Ok(Self { vfs, image })
    }

    /// A guest that has used its file.
    fn guest(&self, shape: Shape) -> Result<Guest, Error> {
        let task = task(&self.vfs)?;
        task.set_tenant(&self.vfs.tenant(BUDGET))
            .expect("a tenant of this Vfs");
        task.set_rlimit_nofile(DESCRIPTORS);
        let private = memory();
        let builder = OpenpathWasi::builder().task(task);
        let builder = match shape.1 {
            "/" => builder.mount("/private", private),
            dir => {
                let options = OverlayOptions::default()
                    .lowers(vec![self.image.clone()])
                    .upper(Some(private));
                builder.mount(dir, OverlayFs::new(options).setup(MAKE)?)
            }
        };
        let guest = builder.preopen("/", shape.1).build().setup(MAKE)?;
        use_file(&guest, shape)?;
        Ok(guest)
    }
}

/// Opens and closes the file as the guest's calls do.
fn use_file(guest: &Guest, Shape(_, root): Shape) -> Result<(), Error> {
    let task = guest.task();
    let dir = task.open(root.as_bytes(), O_RDONLY | O_DIRECTORY, 0);
    let dir = dir.setup(MAKE)?;
    let fd = task.beneath().openat(dir, FILE, O_RDONLY, 0);
    task.close(fd.setup(MAKE)?).setup(MAKE)?;
    task.close(dir).setup(MAKE)
}

/// The end of the rows' names: stores, and what takes a one.
const STORES: &str = "common stores";
const OF_MANY: [&str; 3] = ["bytes", "bytes of an instance", "started a second"];

/// The cost of one guest or instance.
struct Cost {
    bytes: f64,
    seconds: f64,
}

/// Makes all of these, which live until the last one is made; returns them, and the cost of each.
fn make<T>(
    memory: &Resident,
    all: impl ExactSizeIterator<Item = Result<T, Error>>,
) -> Result<(Vec<T>, Cost), Error> {
    let mut made = Vec::with_capacity(all.len());
    let (before, begun) = (memory.bytes()?, Instant::now());
    for one in all {
        made.push(one?);
    }
    let (seconds, count) = (begun.elapsed().as_secs_f64(), made.len().max(1) as f64);
    let bytes = memory.bytes()?.saturating_sub(before) as f64 / count;
    let seconds = seconds / count;
    Ok((made, Cost { bytes, seconds }))
}

/// Gives each guest its instance and runs it.
fn start<T: 'static>(
    linker: &Linker<T>,
    module: &Module,
    guests: impl ExactSizeIterator<Item = Result<T, Error>>,
    memory: &Resident,
) -> Result<Cost, Error> {
    let failed = engine("start a guest");
    let ready = linker.instantiate_pre(module).map_err(&failed)?;
    let start = |data: Result<T, Error>| {
        let mut store = Store::new(module.engine(), data?);
        let instance = ready.instantiate(&mut store).map_err(&failed)?;
        let run = instance.get_typed_func::<(), u32>(&mut store, "run");
        let answer = run.and_then(|run| run.call(&mut store, ()));
        match answer.map_err(&failed)? {
            0 => Ok(store),
            wrong => Err(Error::Wrong(format!("a guest: {wrong}"))),
        }
    };
    make(memory, guests.map(start)).map(|(_, cost)| cost)
}

/// How often each of two guests opens its file before stores are counted, and again during it; how
/// many guests the image has then.
const OPENS: [usize; 2] = [8, 16];
const GUESTS: usize = 16;

/// Counts the stores to lines that two guests both store to while they open one file of the image.
fn common_stores(shape: Shape) -> Result<Row, Error> {
    let build = || {
        let image = Image::new()?;
        let guests = (0..GUESTS).map(|_| image.guest(shape));
        let guests = guests.collect::<Result<Vec<_>, _>>()?;
        Ok((image, guests))
    };
    let stores = gate::apart(build, |(image, guests)| {
        let pair = [&guests[GUESTS / 2 - 1], &guests[GUESTS / 2]];
        let step = |guest: usize| use_file(pair[guest], shape).is_ok();
        let seen = observe(&image.vfs, Kind::Stores, pair.len(), OPENS, step)?;
        Ok(seen.stores(&[]))
    })?;
    let mut note = format!("{:.1} stores in all", stores.all);
    for (name, count) in &stores.places {
        note.push_str(&format!("; {name} {count:.1}"));
    }
    Ok(Row::count(&shape.name(STORES), "", stores.common).with_note(&note))
}

pub(super) fn rows(options: &Options) -> Result<Vec<Row>, Error> {
    let count = options.guests;
    let mut shapes = SHAPES.to_vec();
    let wants = |shape: &Shape, end: &str| options.ask.wants(&shape.name(end));
    let mut rows = Vec::new();
    for &shape in shapes.iter().filter(|shape| wants(shape, STORES)) {
        tell(&shape.name(STORES));
        rows.push(common_stores(shape)?);
    }
    shapes.retain(|shape| OF_MANY.iter().any(|end| wants(shape, end)));
    if shapes.is_empty() {
        return Ok(rows);
    }
    tell(&format!("wasi guests, {count} of each kind"));
    let image = Image::new()?;
    let memory = Resident::open()?;
    let made = shapes.iter().map(|&shape| {
        let guests = (0..count).map(|_| image.guest(shape));
        Ok((shape, make(&memory, guests)?))
    });
    let made = made.collect::<Result<Vec<_>, Error>>()?;
    let mut config = Config::new();
    // Memories reserve no more than they use: 10,000 default ones would fill the address space.
    config.memory_reservation(1 << 20);
    config.memory_guard_size(1 << 16);
    let of = Engine::new(&config).map_err(engine("start the engine"))?;
    let module = Module::new(&of, TEXT).map_err(engine("compile the guest"))?;
    let scratch = scratch(&options.folder)?;
    let dir = scratch.path().join("dir-3").into_os_string();
    Kernel.make_dir(dir.as_encoded_bytes())?;
    Kernel.make_file(&[dir.as_encoded_bytes(), b"/file-14"].concat(), b"x")?;
    let peers = (0..count).map(|_| hosts::context(Blocking::InPlace, scratch.path()));
    let peer = start(&hosts::peer_linker(&of)?, &module, peers, &memory)?;
    for (shape, (guests, cost)) in made {
        let count = |what: &str, unit, value| Row::count(&shape.name(what), unit, value);
        let started = guests.into_iter().map(Ok);
        let started = start(&hosts::linker(&of)?, &module, started, &memory)?;
        let seconds = cost.seconds + started.seconds;
        let mut speed = count("started a second", "/s", 1.0 / seconds);
        speed.ratio = Some(peer.seconds / seconds);
        let speed = speed.against(Blocking::InPlace.label(), 1.0 / peer.seconds, None);
        let bytes = count("bytes", "B", cost.bytes);
        rows.extend([
            bytes.with_note("without an instance; has used a file of the image"),
            count("bytes of an instance", "B", started.bytes),
            speed,
        ]);
    }
    Ok(rows)
}
