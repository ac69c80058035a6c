// SPDX-License-Identifier: MIT OR Apache-2.0
//! A server, and the session that it runs.
//!
//! # States
//! Server -> session, while the mount is there -> ended, when the mount is gone. When the process
//! ends, whatever the way, the kernel ends the session: who waits for an answer gets `ECONNABORTED`
//! and who asks later `ENOTCONN`, until the mount is taken away.

use crate::answer::Clerk;
use crate::attach::{attach, detach, settled};
use crate::crew::Crew;
use crate::hear;
use crate::options::Options;
use crate::rings::{self, Rings};
use crate::stats::{Counts, Stats};
use crate::thread;
use crate::view::View;
use crate::watch::Observer;
use crate::wire::{Device, Notifier, init};
use crate::worker::Worker;
use openpath_abi::Errno;
use openpath_vfs::{SuperBlock, Task};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// Shows the tree that the root of a task shows as a mount of the host.
///
/// ```no_run
/// use openpath_fuse::{Options, Server};
/// use openpath_mem::{MemFs, MemOptions};
/// use openpath_vfs::{Cred, Vfs};
///
/// let vfs = Vfs::builder().build(MemFs::new(MemOptions::default())).expect("a Vfs");
/// let task = vfs.task(Cred::root()).expect("a task");
/// let server = Server::new(&task, Options::default()).expect("a server");
/// let session = server.mount("/mnt".as_ref())?;
/// std::fs::write("/mnt/hello", "by any program")?;
/// session.unmount()?;
/// session.wait()
/// # ; Ok::<(), std::io::Error>(())
/// ```
pub struct Server {
    view: Arc<View>,
    workers: Vec<Worker>,
    options: Options,
    trees: Vec<Arc<SuperBlock>>,
}

impl Server {
    /// A server of what `task`'s root shows now: its mounts, its rules of absent names, its tenant.
    /// The task itself is not used afterwards.
    ///
    /// # Errors
    /// `ENOMEM`, what keeps the root from being opened.
    pub fn new(task: &Task, options: Options) -> Result<Self, Errno> {
        let (view, workers) = View::new(task, &options)?;
        Ok(Self {
            view: Arc::new(view),
            workers,
            options,
            trees: Vec::new(),
        })
    }

    /// Hears of changes of this tree, which the mount shows, that are not made through the mount:
    /// the kernel is told what to ask for again. Writes are not kept back then: of a file that the
    /// kernel writes back later it believes no size but its own.
    pub fn subscribe(&mut self, tree: &Arc<SuperBlock>) {
        if let Some(view) = Arc::get_mut(&mut self.view) {
            view.writeback = false;
        }
        self.subscribe_disjoint(tree);
    }

    /// As [`Server::subscribe`], of a tree in which others never change a file that was changed through
    /// the mount, as an overlay's lower files: writes may be kept back.
    ///
    /// Divergence: L75.
    pub fn subscribe_disjoint(&mut self, tree: &Arc<SuperBlock>) {
        if let Some(view) = Arc::get_mut(&mut self.view) {
            view.hears = true;
        }
        self.trees.push(Arc::clone(tree));
    }

    /// Has someone look on while it serves.
    pub fn observe(&mut self, watch: Arc<dyn Observer>) {
        if let Some(view) = Arc::get_mut(&mut self.view) {
            view.watch = Some(watch);
        }
    }

    /// Mounts at `dir` and serves, in threads of its own.
    ///
    /// # Errors
    /// Those of [`attach`], and of making the threads.
    pub fn mount(self, dir: &Path) -> io::Result<Session> {
        let dir = settled(dir)?;
        let fuse = attach(&dir, &self.options)?;
        let mut session = self.serve(fuse).inspect_err(|_| {
            let _gone = detach(&dir, true);
        })?;
        session.handle.dir = Some(dir);
        Ok(session)
    }

    /// Serves at a descriptor of `/dev/fuse` that was mounted by someone else, maybe in namespaces
    /// of his own: see [`attach`].
    ///
    /// # Errors
    /// What keeps the kernel and the server from agreeing (`ENOTCONN`: it is mounted no more;
    /// `Unsupported`: the kernel is older than Linux 5.4), and of making the threads.
    pub fn serve(mut self, fuse: OwnedFd) -> io::Result<Session> {
        let device = Arc::new(Device::new(fuse)?);
        let wishes = self.view.wishes();
        let mut crew = Err(Rings::NotOffered);
        let terms = init::agree(&device, |offered| {
            crew = self.crew(&device, offered);
            let rings = if crew.is_ok() { init::RINGS } else { 0 };
            wishes | rings
        })?;
        self.view.notifier.set(Notifier::new(Arc::clone(&device)));
        if let Some(locks) = &self.view.locks {
            locks.answer_at(&device);
        }
        let (above, thread) = hear::begin(&self.view)?;
        for tree in &self.trees {
            tree.tell(&above);
        }
        let clerk = Clerk::new(Arc::clone(&self.view), &self.options, terms).heard_by(above);
        let clerk = Arc::new(clerk);
        let mut running = thread::begin(&clerk, &device, self.workers, crew.is_err())?;
        let rings = match crew {
            Ok(crew) => {
                let (threads, rings) = crew.begin(&clerk);
                running.extend(threads);
                rings
            }
            Err(why) => why,
        };
        tracing::info!(target: "openpath::fuse", %rings, "how requests come");
        Ok(Session {
            running,
            hearing: Some(thread),
            handle: Handle {
                counts: Arc::clone(&self.view.counts),
                view: Arc::downgrade(&self.view),
                dir: None,
                locks: self.view.locks.is_some(),
                rings,
            },
        })
    }

    /// Who serves by rings, if the kernel offers them and nothing is against it; or what is.
    fn crew(&mut self, device: &Arc<Device>, offered: u64) -> Result<Crew, Rings> {
        if !self.options.rings {
            return Err(Rings::Disabled);
        }
        if self.view.locks.is_some() {
            return Err(Rings::Locks);
        }
        if offered & init::RINGS == 0 {
            return Err(Rings::NotOffered);
        }
        let plan = rings::plan(self.options.threads).map_err(Rings::Refused)?;
        let first = self.workers.first().ok_or(Rings::Refused(Errno::EINVAL))?;
        let workers = Worker::some(&first.task, plan.len()).map_err(Rings::Refused)?;
        // Nobody else has it yet.
        let view = Arc::get_mut(&mut self.view).ok_or(Rings::Refused(Errno::EBUSY))?;
        let seats = workers.iter().map(|w| Arc::clone(&w.seat));
        view.seats.extend(seats);
        Crew::build(device, plan.into_iter().zip(workers)).map_err(Rings::Refused)
    }
}

/// A mount that is being served. Dropping it takes the mount away lazily, if it was made here.
pub struct Session {
    /// The threads that answer.
    running: Vec<JoinHandle<io::Result<()>>>,
    /// What passes changes on. It hears of them until the last thread that answers has ended, also
    /// where nobody waits for that.
    hearing: Option<JoinHandle<()>>,
    handle: Handle,
}

/// What any thread may ask of a session while another waits for its end.
#[derive(Clone)]
pub struct Handle {
    counts: Arc<Counts>,
    /// Not kept by who only looks: with it goes the descriptor, and what hangs on that.
    view: Weak<View>,
    /// Where it is mounted, if that was done here.
    dir: Option<PathBuf>,
    locks: bool,
    rings: Rings,
}

impl Handle {
    /// Whether it answers for locks of files ([`Options::locks`]).
    #[must_use]
    pub fn answers_locks(&self) -> bool {
        self.locks
    }

    /// Whether requests come by rings, and why not.
    #[must_use]
    pub fn rings(&self) -> Rings {
        self.rings
    }

    /// What was asked so far, and what is kept.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let nodes = self.view.upgrade().map_or(0, |view| view.nodes.len());
        Stats::new(&self.counts, nodes)
    }

    /// Takes the mount away. Linux: umount(2).
    ///
    /// # Errors
    /// `EBUSY`: it is in use. `EINVAL`: it was mounted by someone else, or is gone.
    pub fn unmount(&self) -> io::Result<()> {
        self.detach(false)
    }

    /// Takes the mount out of sight at once; the session ends when the last one who uses it does.
    ///
    /// # Errors
    /// `EINVAL`: it was mounted by someone else, or is gone.
    pub fn unmount_lazily(&self) -> io::Result<()> {
        self.detach(true)
    }

    fn detach(&self, lazily: bool) -> io::Result<()> {
        match &self.dir {
            Some(dir) => detach(dir, lazily),
            None => Err(rustix::io::Errno::INVAL.into()),
        }
    }
}

impl Session {
    /// A handle of it.
    #[must_use]
    pub fn handle(&self) -> Handle {
        self.handle.clone()
    }

    /// As [`Handle::stats`].
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.handle.stats()
    }

    /// As [`Handle::unmount`].
    ///
    /// # Errors
    /// As there.
    pub fn unmount(&self) -> io::Result<()> {
        self.handle.unmount()
    }

    /// As [`Handle::unmount_lazily`].
    ///
    /// # Errors
    /// As there.
    pub fn unmount_lazily(&self) -> io::Result<()> {
        self.handle.unmount_lazily()
    }

    /// Waits until the mount is gone and every thread has ended.
    ///
    /// # Errors
    /// What went wrong between the kernel and the server.
    pub fn wait(mut self) -> io::Result<()> {
        let mut ended = Ok(());
        for thread in std::mem::take(&mut self.running) {
            let end = thread.join().unwrap_or_else(|_| Err(lost()));
            ended = ended.and(end);
        }
        if let Some(thread) = self.hearing.take() {
            // It passes on what it is told, and can do no more than end.
            let _ended = thread.join();
        }
        ended
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        if !self.running.is_empty() && self.handle.dir.is_some() {
            // It may be gone already.
            let _gone = self.unmount_lazily();
        }
    }
}

fn lost() -> io::Error {
    io::Error::other("a thread of the server was lost")
}
