// SPDX-License-Identifier: MIT OR Apache-2.0
//! A WebAssembly guest on the view, in this process.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `options` | what is said of guests alone |
//! | `guest` | compiles, starts and ends one |
//! | `limits` | the memory that it may have |
//! | `stop` | signals that end it |
//!
//! The guest runs on a thread of its own, from its start function on. The first one waits for its
//! end, or for a signal: then the guest makes no further call, and the first thread says what
//! changed and dies of the signal, wherever the guest is.
//!
//! # Rules
//! R1. A signal is died of. Nothing waits for the guest, or for what is to be told of it, without
//!     an end; and a second signal is died of at once.
//! R2. A kept view is held as long as a guest may change it: until this process ends.

mod guest;
mod limits;
mod options;
mod stop;

pub(super) use options::Options;

use super::magic::{self, What};
use super::output::Report;
use super::{Args, end, say};
use crate::copying::Bar;
use guest::Ready;
use openpath_abi::access::X_OK;
use openpath_abi::fcntl::O_RDONLY;
use openpath_abi::{Errno, mode};
use openpath_overlay::CopyUpObserver;
use openpath_run::{End, Ended, Here, PathBytes, Plan, Refusal, Upper};
use openpath_vfs::Task;
use openpath_wasi::cache::Cache;
use rustix::process::{Resource, getrlimit, setrlimit};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The longest module, in bytes.
const MODULE_MAX: usize = 1 << 30;
/// How long a guest that was ended may take to end the call that it is in.
const LAST_CALL: Duration = Duration::from_millis(250);
/// How long it may take to see what a guest has changed that did not end by then.
const LOOK: Duration = Duration::from_secs(60);

/// What the first thread waits for.
enum Told {
    /// The guest ended, with this exit status; or it could not be started.
    Over(Result<u8, Refusal>),
    Signal(i32),
}

/// A guest's view, once it is known that the command is one.
pub(super) struct Guest {
    here: Here,
    file: PathBuf,
    cache: Option<Cache>,
}

/// The guest that the command is, if it is one: in the view, which is looked into where it may have
/// another file than the real tree.
pub(super) fn find(args: &Args, plan: &Plan, cwd: &Path) -> Result<Option<Guest>, Refusal> {
    let limit = getrlimit(Resource::Nofile);
    let found = look(args, plan, cwd);
    if !matches!(found, Ok(Some(_))) {
        // A view raises it, and what is started otherwise is started as this was.
        setrlimit(Resource::Nofile, limit).ok();
    }
    found
}

fn look(args: &Args, plan: &Plan, cwd: &Path) -> Result<Option<Guest>, Refusal> {
    let command = &args.command[0];
    let real = magic::find(command, cwd, magic::file).map(|(_, what)| what);
    let module = real == Some(What::Module);
    let elsewhere = matches!(plan.upper, Upper::Directory(_)) || !plan.extra.is_empty();
    let in_view = match real {
        None => elsewhere,
        Some(_) => elsewhere && differs(plan, &magic::places(command, cwd)),
    };
    if !module && !in_view {
        return match real {
            Some(What::Component) => Err(component(command)),
            _ => Ok(None),
        };
    }
    let dir = cache_dir();
    let cache = dir.as_deref().and_then(open_cache);
    let telling: Arc<dyn CopyUpObserver> = Arc::new(Bar::new(args.shows_progress()));
    let guarded: Vec<_> = dir.iter().map(PathBuf::as_path).collect();
    let built = Here::build(plan, &guarded, Some(telling));
    let built = built.and_then(|here| Ok((here.task(cwd)?, here)));
    let (task, here) = match built {
        // What a guest's view cannot be, that of another program may.
        Err(_) if !module => return Ok(None),
        built => built?,
    };
    match magic::find(command, cwd, |path| looked(&task, path)) {
        Some((file, What::Module)) => Ok(Some(Guest { here, file, cache })),
        Some((_, What::Component)) => Err(component(command)),
        None if module => {
            let why = "it is not in the view";
            Err(Refusal::not_found(command, why))
        }
        _ => Ok(None),
    }
}

/// Whether a view may have something else at one of these paths than the real tree has: what it has
/// kept, or another tree.
fn differs(plan: &Plan, places: &[PathBuf]) -> bool {
    let kept = match &plan.upper {
        Upper::Directory(dir) => Some(dir.path().join("upper")),
        Upper::Memory { .. } => None,
    };
    let kept = |path: &Path| {
        let inside = path.strip_prefix("/").ok()?;
        let path = kept.as_ref()?.join(inside);
        path.symlink_metadata().ok()
    };
    let mounted = |path: &Path| {
        let mut all = plan.extra.iter();
        all.any(|extra| path.starts_with(extra.place.path()))
    };
    let mut places = places.iter();
    places.any(|path| mounted(path) || kept(path).is_some())
}

/// Runs it; its exit status.
pub(super) fn run(
    args: &Args,
    plan: &Plan,
    guest: Guest,
    cwd: &Path,
    report: Option<Report>,
) -> Result<u8, Refusal> {
    let Guest { here, file, cache } = guest;
    let wasm = read(&here.task(cwd)?, &file)?;
    let task = here.task(cwd)?;
    let ready = Ready::new(args, cwd, task, &wasm, cache.as_ref())?;
    drop(wasm);
    let (tell, told) = channel();
    stop::listen(tell.clone()).map_err(|why| Refusal::step("signals cannot be waited for", why))?;
    let interrupt = ready.interrupt();
    guest::spawn(move || ready.run(), tell)?;
    let (ended, _held) = match told.recv() {
        Ok(Told::Over(code)) => (here.end(End::Exit(code?)), Some(here)),
        Ok(Told::Signal(signal)) => {
            interrupt.end();
            stopped(here, &told, signal)
        }
        // Two threads have a sender, and each sends before it ends.
        Err(_) => return Err(Refusal::new("the guest's thread is gone")),
    };
    end(args, plan, ended, report)
}

/// How a guest ended that makes no further call: what it computes may go on, and one call. The view
/// is to be held until this process ends.
fn stopped(here: Here, told: &Receiver<Told>, signal: i32) -> (Ended, Option<Here>) {
    let ended = End::Signal(signal);
    if told.recv_timeout(LAST_CALL).is_ok() {
        return (here.end(ended), Some(here));
    }
    // The call may be stuck where the look would be too.
    let (tell, seen) = channel();
    let looking = std::thread::Builder::new().spawn(move || {
        let seen = here.end(ended);
        // Who is not waited for any more holds the view all the same.
        if let Err(unheard) = tell.send((seen, here)) {
            std::mem::forget(unheard);
        }
    });
    let why = match looking.map(|_| seen.recv_timeout(LOOK)) {
        Ok(Ok((seen, here))) => return (seen, Some(here)),
        Ok(Err(_)) => Refusal::new("a call of the guest does not end"),
        Err(why) => Refusal::step("there is no thread to look", why),
    };
    (Ended::untold(ended, why), None)
}

/// Where compiled modules are kept, if there is a place for them.
fn cache_dir() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let top = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(top.join("openpath/modules"))
}

/// The cache there; a guest runs without one too.
fn open_cache(dir: &Path) -> Option<Cache> {
    let opened = Cache::open(dir);
    if let Err(why) = &opened {
        tracing::debug!(%why, dir = %dir.display(), "no compiled module is kept");
    }
    opened.ok()
}

fn component(command: &OsString) -> Refusal {
    let why = "a component of WebAssembly, of which only modules are run";
    Refusal::not_executable(command, why)
}

/// A file of the view.
fn looked(task: &Task, path: &Path) -> Option<magic::File> {
    let path: PathBytes = path.into();
    let name = path.path().as_os_str().as_bytes();
    let stat = task.stat(name).ok()?;
    let head = mode::is_reg(stat.mode).then(|| load(task, path.path(), magic::HEAD))?;
    Some(magic::File {
        head: head.unwrap_or_default(),
        executable: task.access(name, X_OK).is_ok(),
    })
}

/// All of a module.
fn read(task: &Task, path: &Path) -> Result<Vec<u8>, Refusal> {
    let name = path.as_os_str();
    let wasm = load(task, path, MODULE_MAX);
    let wasm = wasm.map_err(|why| Refusal::not_executable(name, why))?;
    if wasm.len() == MODULE_MAX {
        return Err(Refusal::not_executable(name, "too long"));
    }
    Ok(wasm)
}

/// A file of the view, no more than `max` bytes of it.
fn load(task: &Task, path: &Path, max: usize) -> Result<Vec<u8>, Errno> {
    let fd = task.open(path.as_os_str().as_bytes(), O_RDONLY, 0)?;
    let size = task.fstat(fd).map_or(0, |stat| stat.size);
    let size = usize::try_from(size).unwrap_or(0).saturating_add(1);
    let mut data = vec![0; size.clamp(1, max)];
    let mut filled = 0;
    let read = loop {
        match task.read(fd, &mut data[filled..]) {
            Ok(0) => break Ok(()),
            Ok(got) => filled += got,
            Err(why) => break Err(why),
        }
    };
    task.close(fd)?;
    read?;
    data.truncate(filled);
    Ok(data)
}
