// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a FUSE server of a task's tree ([`Server`]), and the mount that it serves
//! ([`Session`]).
//!
//! # States
//! Server -> session, while the mount is there -> ended, when the mount is gone. When the process
//! ends in any way, the kernel ends the session: callers that wait for a reply get `ECONNABORTED`,
//! and later ones `ENOTCONN`, until the mount is removed.

use crate::attach::{attach, detach, settled};
use crate::device_threads::{self, Waiting};
use crate::dispatch::Dispatcher;
use crate::fs::FuseFs;
use crate::invalidation;
use crate::observer::{Observer, Observing};
use crate::options::Options;
use crate::ring_threads::RingThreads;
use crate::rings::{self, Rings};
use crate::stats::{Counts, Stats};
use crate::tuning::may_keep_awake;
use crate::wire::{Device, Notifier, init};
use crate::worker::Worker;
use openpath_abi::Errno;
use openpath_vfs::{SuperBlock, Task};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

/// Serves the tree at the root of a task as a mount of the host.
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
    fs: Arc<FuseFs>,
    workers: Vec<Worker>,
    invalidation_task: Task,
    options: Options,
    /// Trees that report changes.
    sources: Vec<Arc<SuperBlock>>,
    observing: Observing,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Server {
    /// A server of the tree that `task` has as its root now: with its mounts, its rules of absent
    /// names and its tenant. The task itself is not used afterwards.
    ///
    /// # Errors
    /// `ENOMEM`, those of opening the root.
    pub fn new(task: &Task, options: Options) -> Result<Self, Errno> {
        let (fs, workers) = FuseFs::new(task, &options)?;
        let first = workers.first().ok_or(Errno::EINVAL)?;
        Ok(Self {
            fs: Arc::new(fs),
            invalidation_task: first.task.clone_files()?,
            workers,
            options,
            sources: Vec::new(),
            observing: Observing::default(),
        })
    }

    /// Invalidates what the kernel has cached of this tree when others change it. The writeback
    /// cache is off then: the kernel trusts no size but its own for a file that it writes back
    /// later.
    pub fn subscribe(&mut self, tree: &Arc<SuperBlock>) {
        if let Some(fs) = Arc::get_mut(&mut self.fs) {
            fs.writeback = false;
        }
        self.subscribe_disjoint(tree);
    }

    /// As [`Server::subscribe`], for a tree in which others never change a file that was changed
    /// through the mount, as the lower files of an overlay: the writeback cache may stay on.
    ///
    /// Divergence: L75.
    pub fn subscribe_disjoint(&mut self, tree: &Arc<SuperBlock>) {
        if let Some(fs) = Arc::get_mut(&mut self.fs) {
            fs.events.tracks_names = true;
        }
        self.sources.push(Arc::clone(tree));
    }

    /// Has requests observed while they are served.
    pub fn observe(&mut self, observer: Arc<dyn Observer>) {
        self.observing = Observing(Some(observer));
    }

    /// Mounts at `dir` and serves, in threads of its own.
    ///
    /// # Errors
    /// Those of [`attach`], and of starting the threads.
    pub fn mount(self, dir: &Path) -> io::Result<Session> {
        let dir = settled(dir)?;
        let fuse = attach(&dir, &self.options.clone().root_mode(self.root_mode()))?;
        let mut session = self.serve(fuse).inspect_err(|_| {
            let _gone = detach(&dir, true);
        })?;
        session.handle.dir = Some(dir);
        Ok(session)
    }

    /// The bits of the root directory that are the same for all users, to read and search it.
    fn root_mode(&self) -> u16 {
        let mode = self
            .invalidation_task
            .stat(b"/")
            .map_or(0, |stat| stat.mode);
        let all = mode >> 6 & mode >> 3 & mode & 0o5;
        (all << 6 | all << 3 | all) as u16
    }

    /// Serves at a descriptor of `/dev/fuse` that was mounted elsewhere, maybe in other namespaces:
    /// see [`attach`].
    ///
    /// # Errors
    /// Those of the negotiation with the kernel (`ENOTCONN`: it is mounted no more; `Unsupported`:
    /// the kernel is older than Linux 5.4), and of starting the threads.
    pub fn serve(mut self, fuse: OwnedFd) -> io::Result<Session> {
        let device = Arc::new(Device::new(fuse)?);
        let wanted = self.fs.wanted_flags();
        let mut built = Err(Rings::NotOffered);
        let terms = init::negotiate(&device, |offered| {
            built = self.build_ring_threads(&device, offered);
            let rings = if built.is_ok() { init::RINGS } else { 0 };
            wanted | rings
        })?;
        self.fs.notifier.set(Notifier::new(Arc::clone(&device)));
        if let Some(locks) = &self.fs.locks {
            locks.set_device(&device);
        }
        let (listener, invalidation) = invalidation::start(&self.fs, self.invalidation_task)?;
        for source in &self.sources {
            source.add_listener(&listener);
        }
        let dispatcher = Dispatcher::new(Arc::clone(&self.fs), &self.options, terms)
            .with_invalidation(listener)
            .with_observer(self.observing);
        let dispatcher = Arc::new(dispatcher);
        let waiting = Waiting {
            eager: built.is_err(),
            keep_awake: may_keep_awake(),
        };
        let mut running = device_threads::start(&dispatcher, &device, self.workers, waiting)?;
        let rings = match built {
            Ok(threads) => {
                let (threads, rings) = threads.start(&dispatcher, may_keep_awake());
                running.extend(threads);
                rings
            }
            Err(why) => why,
        };
        tracing::info!(target: "openpath::fuse", %rings, "how requests come");
        Ok(Session {
            running,
            invalidation: Some(invalidation),
            handle: Handle {
                counts: Arc::clone(&self.fs.counts),
                fs: Arc::downgrade(&self.fs),
                dir: None,
                locks: self.fs.locks.is_some(),
                rings,
            },
        })
    }

    /// The threads that serve by rings, or why rings are not used.
    fn build_ring_threads(
        &mut self,
        device: &Arc<Device>,
        offered: u64,
    ) -> Result<RingThreads, Rings> {
        if !self.options.rings {
            return Err(Rings::Disabled);
        }
        if self.fs.locks.is_some() {
            return Err(Rings::Locks);
        }
        if offered & init::RINGS == 0 {
            return Err(Rings::NotOffered);
        }
        let plan = rings::plan(self.options.threads).map_err(Rings::Refused)?;
        let first = self.workers.first().ok_or(Rings::Refused(Errno::EINVAL))?;
        let workers = Worker::group(&first.task, plan.len()).map_err(Rings::Refused)?;
        // There is no other reference yet.
        let fs = Arc::get_mut(&mut self.fs).ok_or(Rings::Refused(Errno::EBUSY))?;
        let in_flight = workers.iter().map(|w| Arc::clone(&w.in_flight));
        fs.in_flight.extend(in_flight);
        RingThreads::build(device, plan.into_iter().zip(workers)).map_err(Rings::Refused)
    }
}

/// A mount that is being served. Dropping it detaches the mount lazily, if it was made here.
pub struct Session {
    /// The threads that serve.
    running: Vec<JoinHandle<io::Result<()>>>,
    /// The thread that invalidates. It runs until the last serving thread has ended, also if
    /// [`Session::wait`] is not called.
    invalidation: Option<JoinHandle<()>>,
    handle: Handle,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("handle", &self.handle)
            .finish_non_exhaustive()
    }
}

/// A handle of a session for any thread, while another one waits for its end.
#[derive(Clone)]
pub struct Handle {
    counts: Arc<Counts>,
    /// Weak, because the descriptor of the device goes with it.
    fs: Weak<FuseFs>,
    /// Where it is mounted, if that was done here.
    dir: Option<PathBuf>,
    locks: bool,
    rings: Rings,
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle")
            .field("dir", &self.dir)
            .field("locks", &self.locks)
            .field("rings", &self.rings)
            .finish_non_exhaustive()
    }
}

impl Handle {
    /// Whether the server keeps locks of files ([`Options::locks`]).
    #[must_use]
    pub fn answers_locks(&self) -> bool {
        self.locks
    }

    /// Whether requests come by rings, or why not.
    #[must_use]
    pub fn rings(&self) -> Rings {
        self.rings
    }

    /// The requests so far, and the nodes.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let nodes = self.fs.upgrade().map_or(0, |fs| fs.nodes.len());
        Stats::new(&self.counts, nodes)
    }

    /// Unmounts. Linux: umount(2).
    ///
    /// # Errors
    /// `EBUSY`: it is in use. `EINVAL`: it was not mounted here, or is gone.
    pub fn unmount(&self) -> io::Result<()> {
        self.detach(false)
    }

    /// Detaches the mount at once; the session ends when it is no longer in use.
    ///
    /// # Errors
    /// `EINVAL`: it was not mounted here, or is gone.
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
    /// A handle of the session.
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
    /// The first error of a thread that served.
    pub fn wait(mut self) -> io::Result<()> {
        let mut ended = Ok(());
        for thread in std::mem::take(&mut self.running) {
            let end = thread.join().unwrap_or_else(|_| Err(thread_panicked()));
            ended = ended.and(end);
        }
        if let Some(thread) = self.invalidation.take() {
            // It ends with the serving threads, and has no result.
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

fn thread_panicked() -> io::Error {
    io::Error::other("a thread of the server panicked")
}
