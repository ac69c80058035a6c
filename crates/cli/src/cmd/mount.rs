// SPDX-License-Identifier: MIT OR Apache-2.0
//! `openpath mount` and `openpath umount`: mount a tree on the host, and unmount it.
//!
//! In the foreground the program serves until a signal ends it (`SIGINT`, `SIGTERM`, `SIGHUP`) or
//! the tree is unmounted. With `--daemon` it starts itself again in a new session, and ends when
//! that process reports that the tree is mounted.

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
use openpath_run::live::{ControlServer, Label, ServedKind, StatsSources};
use openpath_vfs::{Cred, Vfs};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::copying::Bar;
use crate::outcome::Outcome;
use spec::Spec;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The tree: `mem[:size=64m,inodes=N,mode=0755,uid=N,gid=N]`,
    /// `host:PATH[,policy=exclusive|notify|revalidate|none,handles=N,watches=N]`, or
    /// `overlay:lower=PATH[,lower=PATH...][,upper=PATH|memory][,policy=...]`, topmost layer first;
    /// with `,null-devices` it can have character devices 0:0, which then are no whiteouts.
    #[arg(value_parser = clap::value_parser!(Spec))]
    spec: Spec,
    /// The directory to mount it at.
    dir: PathBuf,
    /// Return as soon as the tree is mounted, and serve it in the background.
    #[arg(long)]
    daemon: bool,
    /// Refuse all changes through the mount.
    #[arg(long)]
    read_only: bool,
    /// Let other users use the mount too.
    #[arg(long)]
    allow_other: bool,
    /// Let set-ID bits and device nodes take effect.
    #[arg(long)]
    trusted: bool,
    /// Send each open and close to the tree; without this, the kernel answers them from its caches.
    #[arg(long)]
    each_open: bool,
    /// Let the kernel keep writes back, as for a disk: many small writes are faster, reading many
    /// files is slower, and `ENOSPC` appears only at close. Ignored if others may change the tree.
    #[arg(long)]
    write_back: bool,
    /// Handle file locks in this program instead of in the kernel, so that `openpath locks` shows
    /// them. Each open and close is sent to the tree too.
    #[arg(long)]
    locks: bool,
    /// Read requests from `/dev/fuse` even where the kernel offers rings for them.
    #[arg(long)]
    no_rings: bool,
    /// Number of threads that answer requests.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: Option<u16>,
    /// The most files that the kernel may know at once.
    #[arg(long)]
    nodes_max: Option<usize>,
    /// Print the counts of requests when the mount ends.
    #[arg(long)]
    stats: bool,
    /// Set by `--daemon`: report on standard output that the tree is mounted.
    #[arg(long, hide = true)]
    say_ready: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct UmountArgs {
    /// The directory where the tree is mounted.
    dir: PathBuf,
    /// Detach the mount at once; its server ends when no process uses it any more.
    #[arg(long)]
    lazy: bool,
}

/// The line that reports that the tree is mounted.
const READY: &str = "ready";
/// Descriptors that stay free for other uses than the tree.
const KEEP: u64 = 4;

pub(crate) fn run(args: &Args) -> Result<Outcome, Error> {
    if args.daemon {
        return daemon();
    }
    if args.say_ready {
        rustix::process::setsid().map_err(|e| setup("cannot start a session", e.into()))?;
    }
    // Before the first thread starts, so that a signal cannot end any thread.
    let mut signals =
        Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| setup("cannot wait for signals", e))?;
    raise_limit();
    let label = label(args);
    let taken = args.spec.take();
    let taken = taken.map_err(|why| Error::Setup(why.to_string()))?;
    let (session, sources) = start(args, taken.as_ref())?;
    let dir = args.dir.clone();
    // The mount works without `openpath stats` too.
    let control_server = ControlServer::start(label, sources).ok();
    if args.say_ready {
        let said = console::put(&format!("{READY}\n"));
        said.map_err(|e| setup("cannot report that the tree is mounted", e))?;
    } else {
        let dir = dir.display();
        console::warn(&format!(
            "mounted at {dir}; end it with Ctrl-C or `openpath umount`"
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
    drop(control_server);
    drop(taken);
    ended.map_err(|e| setup("the mount failed", e))?;
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
            io::ErrorKind::PermissionDenied => ": only its user can unmount it".to_owned(),
            _ => String::new(),
        };
        Error::Setup(format!("{why}{help}"))
    })
}

/// How the mount is listed.
fn label(args: &Args) -> Label {
    let mut label = Label::new(ServedKind::Mount, std::process::id(), args.spec.source());
    let dir = args.dir.canonicalize();
    label.directory = dir.ok().map(|dir| dir.display().to_string());
    label
}

/// Makes the tree and mounts it; returns the session and the sources of its figures.
fn start(args: &Args, taken: Option<&ViewLock>) -> Result<(Session, StatsSources), Error> {
    let shown = !args.say_ready && io::stderr().is_terminal();
    let tree = args.spec.make(&Arc::new(Bar::new(shown)), taken);
    let tree = tree.map_err(|e| {
        let text = format!("cannot open the tree `{}`", args.spec.source());
        Error::setup(&text, e)
    })?;
    let clock = KernelClock::new().map_err(|e| Error::setup("cannot start the clock", e))?;
    let vfs = Vfs::builder().clock(Box::new(clock));
    let vfs = vfs.build(Arc::clone(&tree));
    let vfs = vfs.map_err(|e| Error::setup("cannot start the VFS", e))?;
    let task = vfs.task(Cred::root());
    let task = task.map_err(|e| Error::setup("cannot make a task", e))?;
    let mut options = Options::default()
        .source(args.spec.source())
        .read_only(args.read_only)
        .allow_other(args.allow_other)
        .trusted(args.trusted)
        .writeback(args.write_back)
        .locks(args.locks)
        .rings(!args.no_rings);
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
    let mut server = server.map_err(|e| Error::setup("cannot start the server", e))?;
    if args.spec.tells() {
        server.subscribe(&tree);
    }
    let session = server.mount(&args.dir);
    let session = session.map_err(|why| Error::Setup(refusal(&why)))?;
    let handle = session.handle();
    Ok((session, StatsSources { handle, vfs, tree }))
}

/// Why the tree cannot be mounted, and what to do.
fn refusal(why: &io::Error) -> String {
    let help = match why.kind() {
        io::ErrorKind::PermissionDenied => {
            "; mount as root, or in new namespaces: `unshare -Urm openpath mount ...`"
        }
        io::ErrorKind::NotFound if why.to_string().contains("/dev/fuse") => {
            "; load the kernel module `fuse`"
        }
        io::ErrorKind::NotFound => "; make the directory first",
        _ => "",
    };
    format!("{why}{help}")
}

fn setup(what: &str, why: io::Error) -> Error {
    Error::Setup(format!("{what}: {why}"))
}

/// Raises the limit on descriptors to its maximum: a tree of the host needs them.
fn raise_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let more = Rlimit {
        current: limit.maximum.map(|most| most.max(KEEP)),
        ..limit
    };
    // Fewer descriptors work too.
    let _more = setrlimit(Resource::Nofile, more);
}

/// Starts this program again without `--daemon`, and waits until it reports that it has mounted.
fn daemon() -> Result<Outcome, Error> {
    let program = std::env::current_exe().map_err(|e| setup("cannot find this program", e))?;
    let arguments = std::env::args_os().skip(1).filter(|a| a != "--daemon");
    let (heard, said) = io::pipe().map_err(|e| setup("cannot make a pipe", e))?;
    let words = said.try_clone();
    let words = words.map_err(|e| setup("cannot duplicate a pipe", e))?;
    Command::new(program)
        .args(arguments)
        .arg("--say-ready")
        .stdin(Stdio::null())
        .stdout(said)
        .stderr(words)
        .spawn()
        .map_err(|e| setup("cannot start the background process", e))?;
    let mut said = String::new();
    for line in io::BufReader::new(heard).lines() {
        let line = line.map_err(|e| setup("cannot read from the background process", e))?;
        if line == READY {
            return Ok(Outcome::Done);
        }
        said.push_str(line.strip_prefix("openpath: ").unwrap_or(&line));
    }
    Err(Error::Setup(said))
}
