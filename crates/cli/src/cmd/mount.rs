// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath mount` and `openpath umount`: a tree as a mount of the host.
//!
//! In the foreground it serves until it is told to end (`SIGINT`, `SIGTERM`, `SIGHUP`) or the mount
//! is taken away. As a daemon it starts itself once more in a session of its own, and ends when
//! that says that it has mounted.

mod holders;
mod spec;

use crate::console;
use crate::error::Error;
use std::io::{self, BufRead as _, IsTerminal as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use openpath_fuse::{KernelClock, Opens, Options, Server, Session};
use openpath_run::ViewLock;
use openpath_run::live::{Beacon, Label, LiveKind, Sources};
use openpath_vfs::{Cred, Vfs};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::Outcome;
use crate::copying::Bar;
use spec::Spec;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What: `mem[:size=64m,inodes=N,mode=0755,uid=N,gid=N]`,
    /// `host:PATH[,policy=exclusive|notify|revalidate|none,handles=N,watches=N]`, or
    /// `overlay:lower=PATH[,lower=PATH...][,upper=PATH|memory][,policy=...]`; with
    /// `,null-devices` it can have character devices 0:0, which hide nothing.
    #[arg(value_parser = clap::value_parser!(Spec))]
    spec: Spec,
    /// Where: a directory.
    dir: PathBuf,
    /// Return as soon as it is mounted, and serve in the background.
    #[arg(long)]
    daemon: bool,
    /// Nothing can be changed through the mount.
    #[arg(long)]
    read_only: bool,
    /// Other users may use it too.
    #[arg(long)]
    allow_other: bool,
    /// Set-id bits and device nodes take effect.
    #[arg(long)]
    trusted: bool,
    /// Ask the tree at each open and close.
    #[arg(long)]
    each_open: bool,
    /// The kernel keeps writes back, as of a disk: faster for many small writes, slower for reading
    /// many files, and `ENOSPC` appears only at close. Not of a tree that others may change.
    #[arg(long)]
    write_back: bool,
    /// Answer locks of files here, and not in the kernel: `openpath locks` shows them. It asks at
    /// each open and close too.
    #[arg(long)]
    locks: bool,
    /// Read the kernel's requests one by one, also where it offers rings.
    #[arg(long)]
    no_rings: bool,
    /// Threads that answer requests.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// Files that the kernel may know at once.
    #[arg(long)]
    nodes_max: Option<usize>,
    /// Print the counts of requests at the end.
    #[arg(long)]
    stats: bool,
    /// Started by `--daemon`: says that it has mounted.
    #[arg(long, hide = true)]
    say_ready: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UmountArgs {
    /// The directory that it is mounted at.
    dir: PathBuf,
    /// Take it out of sight at once, and end when nobody uses it any more.
    #[arg(long)]
    lazy: bool,
}

/// What is said when it has mounted.
const READY: &str = "ready";
/// Descriptors that are left to the program beside those of the tree.
const KEEP: u64 = 4;

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    if args.daemon {
        return daemon();
    }
    if args.say_ready {
        rustix::process::setsid().map_err(|e| setup("no session of its own", e.into()))?;
    }
    // Before any thread is made, so that none is ended by one.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])
        .map_err(|e| setup("signals cannot be waited for", e))?;
    raise_limit();
    let label = label(args);
    let taken = args.spec.take();
    let taken = taken.map_err(|why| Error::Setup(why.to_string()))?;
    let (session, sources) = start(args, taken.as_ref())?;
    let dir = args.dir.clone();
    // A mount that nobody can ask is a mount.
    let beacon = Beacon::light(label, sources).ok();
    if args.say_ready {
        console::put(&format!("{READY}\n")).map_err(|e| setup("cannot say so", e))?;
    } else {
        let dir = dir.display();
        console::warn(&format!(
            "mounted at {dir}; end with ^C or `openpath umount`"
        ));
    }
    let handle = session.handle();
    let stopper = signals.handle();
    let ended = std::thread::scope(|scope| {
        let handle = &handle;
        let signals = &mut signals;
        scope.spawn(move || {
            for _signal in signals.forever() {
                if let Err(why) = handle.unmount_lazily() {
                    console::warn(&format!("openpath: {why}"));
                }
            }
        });
        let ended = session.wait();
        stopper.close();
        ended
    });
    drop(beacon);
    drop(taken);
    ended.map_err(|e| setup("the mount ended", e))?;
    let stats = handle.stats();
    if args.stats {
        for (kind, n) in &stats.requests {
            console::put(&format!("{kind:40} {n:>12}\n"))?;
        }
        console::put(&format!("{:40} {:>12}\n", "by rings", stats.by_rings))?;
    }
    Ok(Outcome::Done)
}

pub(crate) fn umount(args: &UmountArgs) -> Result<Outcome, Error> {
    let done = openpath_fuse::detach(&args.dir, args.lazy);
    done.map(|()| Outcome::Done).map_err(|why| {
        let help = match why.kind() {
            io::ErrorKind::ResourceBusy => format!(": {}", holders::of(&args.dir)),
            io::ErrorKind::InvalidInput => ": nothing is mounted there".to_owned(),
            io::ErrorKind::PermissionDenied => ": run as the user who mounted it".to_owned(),
            _ => String::new(),
        };
        Error::Setup(format!("{why}{help}"))
    })
}

/// What the mount is known by.
fn label(args: &Args) -> Label {
    let mut label = Label::new(LiveKind::Mount, std::process::id(), args.spec.source());
    let dir = args.dir.canonicalize();
    label.directory = dir.ok().map(|dir| dir.display().to_string());
    label
}

/// Makes the tree and mounts it; the session, and what figures are read from.
fn start(args: &Args, taken: Option<&ViewLock>) -> Result<(Session, Sources), Error> {
    let shown = !args.say_ready && io::stderr().is_terminal();
    let tree = args.spec.make(&Arc::new(Bar::new(shown)), taken);
    let tree = tree.map_err(|e| Error::Setup(format!("no tree `{}`: {e}", args.spec.source())))?;
    let clock = KernelClock::new().map_err(|e| Error::Setup(format!("no clock: {e}")))?;
    let vfs = Vfs::builder().clock(Box::new(clock));
    let vfs = vfs.build(Arc::clone(&tree));
    let vfs = vfs.map_err(|e| Error::Setup(format!("no instance: {e}")))?;
    let task = vfs.task(Cred::root());
    let task = task.map_err(|e| Error::Setup(format!("no task: {e}")))?;
    let mut options = Options {
        source: args.spec.source(),
        read_only: args.read_only,
        allow_other: args.allow_other,
        trusted: args.trusted,
        writeback: args.write_back,
        locks: args.locks,
        rings: !args.no_rings,
        ..Options::default()
    };
    if args.each_open {
        options.opens = Opens::Each;
    }
    if let Some(threads) = args.threads {
        options.threads = usize::from(threads);
    }
    if let Some(max) = args.nodes_max {
        options.nodes_max = max;
    }
    if !args.spec.holds() {
        options.entry_timeout = Duration::ZERO;
        options.negative_timeout = Duration::ZERO;
        options.attr_timeout = Duration::ZERO;
        options.writeback = false;
    }
    let server = Server::new(&task, options);
    let mut server = server.map_err(|e| Error::Setup(format!("no server: {e}")))?;
    if args.spec.tells() {
        server.subscribe(&tree);
    }
    let session = server.mount(&args.dir);
    let session = session.map_err(|why| Error::Setup(refusal(&why)))?;
    let handle = session.handle();
    Ok((session, Sources { handle, vfs, tree }))
}

/// Why there is no mount, and what helps.
fn refusal(why: &io::Error) -> String {
    let help = match why.kind() {
        io::ErrorKind::PermissionDenied => {
            "; mounting takes root, or namespaces of one's own: `unshare -Urm openpath mount ...`"
        }
        io::ErrorKind::NotFound if why.to_string().contains("/dev/fuse") => {
            "; load the module `fuse`"
        }
        _ => "",
    };
    format!("{why}{help}")
}

fn setup(what: &str, why: io::Error) -> Error {
    Error::Setup(format!("{what}: {why}"))
}

/// Takes as many descriptors as may be had: a tree of the host needs them.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let more = Rlimit {
        current: limit.maximum.map(|most| most.max(KEEP)),
        ..limit
    };
    // With fewer it works as well.
    let _more = setrlimit(Resource::Nofile, more);
}

/// Starts this program once more without `--daemon`, and waits for its word.
fn daemon() -> Result<Outcome, Error> {
    let program = std::env::current_exe().map_err(|e| setup("who am I", e))?;
    let arguments = std::env::args_os().skip(1).filter(|a| a != "--daemon");
    let (heard, said) = io::pipe().map_err(|e| setup("no pipe", e))?;
    let words = said.try_clone().map_err(|e| setup("no pipe", e))?;
    Command::new(program)
        .args(arguments)
        .arg("--say-ready")
        .stdin(Stdio::null())
        .stdout(said)
        .stderr(words)
        .spawn()
        .map_err(|e| setup("cannot start", e))?;
    let mut said = String::new();
    for line in io::BufReader::new(heard).lines() {
        let line = line.map_err(|e| setup("cannot hear it", e))?;
        if line == READY {
            return Ok(Outcome::Done);
        }
        said.push_str(line.strip_prefix("openpath: ").unwrap_or(&line));
    }
    Err(Error::Setup(said))
}
