// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a WebAssembly guest on the view, in this process, until it ends or a signal ends this
//! process.
//!
//! # Map
//! | module | what |
//! |---|---|
//! | `options` | the options for guests only |
//! | `guest` | compiles, starts and ends a guest |
//! | `limits` | the memory that a guest may have |
//! | `stop` | signals that end a guest |
//!
//! The guest runs on a thread of its own, from its start function on. The first thread waits for
//! the guest's end or for a signal. After a signal the guest makes no further call: the first
//! thread prints the changes and dies of the signal, wherever the guest is.
//!
//! # Rules
//! R1. A signal ends this process. It waits for the guest and for the changes only for a bounded
//!     time, and a second signal ends it at once.
//! R2. A kept view stays locked as long as a guest may change it: until this process ends.

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
use openpath_run::{CommandExit, InProcessView, PathBytes, Plan, Refusal, RunOutcome, Upper};
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
/// How long an ended guest may take to finish its current call.
const LAST_CALL: Duration = Duration::from_millis(250);
/// How long collecting the changes may take if the guest has not ended by then.
const LOOK: Duration = Duration::from_secs(60);

/// An event that the first thread waits for while the guest runs.
enum GuestEvent {
    /// The guest ended with this exit status, or could not be started.
    Over(Result<u8, Refusal>),
    /// This process got a signal that ends the guest.
    Signal(i32),
}

/// The view of a guest, and its file there.
pub(super) struct Guest {
    view: InProcessView,
    file: PathBuf,
    cache: Option<Cache>,
}

/// The guest, if the command is one. The file is looked up in the view if the view may have another
/// file than the real tree.
pub(super) fn find(args: &Args, plan: &Plan, cwd: &Path) -> Result<Option<Guest>, Refusal> {
    let limit = getrlimit(Resource::Nofile);
    let found = look(args, plan, cwd);
    if !matches!(found, Ok(Some(_))) {
        // Building a view raises the limit; a native program gets the limit of the caller.
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
    let built = InProcessView::build(plan, &guarded, Some(telling));
    let built = built.and_then(|view| Ok((view.task(cwd)?, view)));
    let (task, view) = match built {
        // The view of a native program has fewer restrictions than that of a guest.
        Err(_) if !module => return Ok(None),
        built => built?,
    };
    match magic::find(command, cwd, |path| looked(&task, path)) {
        Some((file, What::Module)) => Ok(Some(Guest { view, file, cache })),
        Some((_, What::Component)) => Err(component(command)),
        None if module => {
            let why = "it is not in the view";
            Err(Refusal::command_not_found(command, why))
        }
        _ => Ok(None),
    }
}

/// Whether a view may differ from the real tree at one of these paths: by a kept change, or by
/// another tree.
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

/// Runs the guest; returns its exit status.
pub(super) fn run(
    args: &Args,
    plan: &Plan,
    guest: Guest,
    cwd: &Path,
    report: Option<Report>,
) -> Result<u8, Refusal> {
    let Guest { view, file, cache } = guest;
    let wasm = read(&view.task(cwd)?, &file)?;
    let task = view.task(cwd)?;
    let ready = Ready::new(args, cwd, task, &wasm, cache.as_ref())?;
    drop(wasm);
    let (tell, events) = channel();
    stop::listen(tell.clone()).map_err(|why| Refusal::step("cannot wait for signals", why))?;
    let interrupt = ready.interrupt();
    guest::spawn(move || ready.run(), tell)?;
    let (ended, _held) = match events.recv() {
        Ok(GuestEvent::Over(code)) => (view.end(CommandExit::Exit(code?)), Some(view)),
        Ok(GuestEvent::Signal(signal)) => {
            interrupt.end();
            stopped(view, &events, signal)
        }
        // Two threads have a sender, and each sends before it ends.
        Err(_) => return Err(Refusal::system("the thread of the guest is gone")),
    };
    end(args, plan, ended, report)
}

/// The end of a guest that makes no further call; its computation and its current call may go on.
/// The returned view must stay locked until this process ends.
fn stopped(
    view: InProcessView,
    events: &Receiver<GuestEvent>,
    signal: i32,
) -> (RunOutcome, Option<InProcessView>) {
    let ended = CommandExit::Signal(signal);
    if events.recv_timeout(LAST_CALL).is_ok() {
        return (view.end(ended), Some(view));
    }
    // If the call is stuck, reading the changes may be stuck in the same place.
    let (tell, seen) = channel();
    let looking = std::thread::Builder::new().spawn(move || {
        let seen = view.end(ended);
        // The receiver gave up: the view stays locked.
        if let Err(unheard) = tell.send((seen, view)) {
            std::mem::forget(unheard);
        }
    });
    let why = match looking.map(|_| seen.recv_timeout(LOOK)) {
        Ok(Ok((seen, view))) => return (seen, Some(view)),
        Ok(Err(_)) => Refusal::system("a call of the guest does not end"),
        Err(why) => Refusal::step("no thread can be started to collect the changes", why),
    };
    (RunOutcome::without_changes(ended, why), None)
}

/// The directory of compiled modules, if there is a place for one.
fn cache_dir() -> Option<PathBuf> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    let top = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(top.join("openpath/modules"))
}

/// Opens the cache; a guest runs without one too.
fn open_cache(dir: &Path) -> Option<Cache> {
    let opened = Cache::open(dir);
    if let Err(why) = &opened {
        tracing::debug!(%why, dir = %dir.display(), "no compiled module is kept");
    }
    opened.ok()
}

fn component(command: &OsString) -> Refusal {
    let why = "it is a WebAssembly component, and only modules can be run";
    Refusal::not_executable(command, why)
}

/// The facts about a file of the view.
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

/// Reads a whole module.
fn read(task: &Task, path: &Path) -> Result<Vec<u8>, Refusal> {
    let name = path.as_os_str();
    let wasm = load(task, path, MODULE_MAX);
    let wasm = wasm.map_err(|why| Refusal::not_executable(name, why))?;
    if wasm.len() == MODULE_MAX {
        return Err(Refusal::not_executable(name, "it has 1 GiB or more"));
    }
    Ok(wasm)
}

/// Reads a file of the view, up to `max` bytes.
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
