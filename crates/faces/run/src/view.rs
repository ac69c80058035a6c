// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds, serves and releases the view, which is the tree that the command sees.
//!
//! # Shape
//! At the bottom is the host's tree, read only. Above it an overlay takes the changes.
//! Written-through directories and further trees are mounted in it, each as a mount of its own with
//! those rules of absent names that reach into it.

use crate::absent::Absent;
use crate::changes::{TreeComparison, limits_once};
use crate::links;
use crate::live::StatsSources;
use crate::log::{Log, LogFile, LogWriter};
use crate::plan::{Plan, TreeSource, Upper};
use crate::session_waiter::SessionWaiter;
use openpath_abi::Errno;
use openpath_commit::{PathBytes, Refusal, ViewDir, ViewLock};
use openpath_fuse::{Handle, KernelClock, Opens, Server, Session};
use openpath_host::{
    Crossing, EnforcedFlags, HostFs, HostOptions, Interruption, LeaseWaits, Ownership, Policy,
};
use openpath_mem::{Charging, MemFs, MemOptions};
use openpath_overlay::{CopyUpObserver, Marks, OverlayFs, OverlayOptions};
use openpath_vfs::{
    Clock, Cred, FineClock, Limits, MountFlags, SuperBlock, Task, TenantLimits, Vfs,
};
use rustix::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use std::time::Duration;

/// How long the last users of the view may take to leave, once the command is gone, without a
/// request: the kernel's delayed writes come then.
const LEAVE: Duration = Duration::from_secs(10);
/// How long they may take with any number of requests: processes outside the view can send requests
/// for ever. In this time 24 GB of delayed writes are written at 40 MB/s.
const LEAVE_MAX: Duration = Duration::from_secs(600);
/// How long a slow log may take then.
const LOG: Duration = Duration::from_secs(2);
/// Threads that answer requests while a log observes them, which reads in the memory of the
/// callers.
const LOOKERS: usize = 8;
/// Descriptors for the host's tree.
const HANDLES: usize = 16_384;
/// Cached names: more than the server has nodes. Those of names that do not exist take 30 MB.
const NAMES: u32 = 1 << 20;
const ABSENT_NAMES: u32 = 1 << 17;
/// Locks on files, at 150 bytes each; beyond them the command gets `ENOLCK`.
const LOCKS: u64 = 1 << 18;
/// Directories that an overlay makes for itself in its upper tree.
const OVERLAY_DIRS: u32 = 2;
/// Directories of the host that are watched.
const WATCHES: usize = 65_536;

/// The observer of copy-ups, if there is one.
pub(crate) type ObserverOption = Option<Arc<dyn CopyUpObserver>>;

/// How the trees of a view are made.
#[derive(Clone, Default)]
pub(crate) struct ViewOptions {
    pub(crate) observer: ObserverOption,
    /// Which of the host's mounts are part of them.
    pub(crate) crossing: Crossing,
    /// Set once all commands of the view have ended.
    pub(crate) ended: Arc<OnceLock<()>>,
    /// How many requests may wait for leases of processes outside at a time.
    pub(crate) lease_waits: LeaseWaits,
    /// Mount flags are enforced where the view is shown, as the plan says ([`Plan::enforced`]).
    pub(crate) holds_flags: bool,
    /// The tree in memory for the changes, if the kernel is to use it as well.
    pub(crate) memory: Option<Arc<OwnedFd>>,
    /// No command runs in the view: its names are looked at once.
    pub(crate) is_compared: bool,
    /// This process ends soon after the view.
    pub(crate) leaves_watches: bool,
    /// Few names are looked at, and the host is asked for each: nothing is watched.
    pub(crate) asks_host: bool,
}

/// What the command sees.
pub(crate) struct View {
    vfs: Vfs,
    task: Task,
    lower: Arc<SuperBlock>,
    overlay: Arc<SuperBlock>,
    /// The prefix of the marks in its upper tree.
    marks: Marks,
    /// The session, and the thread that waits for its end.
    session: Option<(Session, SessionWaiter)>,
    /// The log, until the view is served, and the thread that writes it.
    log: Option<Log>,
    writer: Option<LogWriter>,
    /// The trees that others may change, and that send events for it.
    observed: Vec<Arc<SuperBlock>>,
    /// The kernel may delay writes.
    uses_write_back: bool,
    /// The server handles file locks.
    locks: bool,
    /// Requests are read even if there are rings.
    no_rings: bool,
    /// The paths of trees of the host, with the paths in each at which mount flags are enforced.
    flags: Vec<(PathBytes, Arc<EnforcedFlags>)>,
    /// As in [`ViewOptions`].
    ended: Arc<OnceLock<()>>,
    /// The lock of the directory of changes.
    held: Option<ViewLock>,
    /// The locks of other trees' directories of changes.
    taken: Vec<ViewLock>,
}

impl View {
    /// Builds the view of a plan.
    pub(crate) fn build(plan: &Plan, view_options: &ViewOptions) -> Result<View, Refusal> {
        let held = match &plan.upper {
            Upper::Memory { .. } => None,
            Upper::Directory(dir) => {
                let held = openpath_commit::lock_view(dir.path())?;
                openpath_commit::check_not_discarded(held.dir())?;
                openpath_commit::forget_places(held.dir())?;
                openpath_commit::record_taken(held.dir())?;
                Some(held)
            }
        };
        let view = View::open_locked(plan, held, view_options)?;
        if let (Some(held), Some(rules)) = (&view.held, &plan.rules) {
            openpath_commit::update_rules(held.dir(), rules)?;
        }
        Ok(view)
    }

    /// Builds the view of a plan whose directory is locked.
    pub(crate) fn open_locked(
        plan: &Plan,
        held: Option<ViewLock>,
        view_options: &ViewOptions,
    ) -> Result<View, Refusal> {
        crate::confine::raise_fd_limit();
        let failed = |why| Refusal::step("the view cannot be made", why);
        let clock = clock(plan)?;
        let mut flags = Vec::new();
        let top = PathBytes::root();
        let lower = view_options.host_at(plan, &top, Path::new("/"), true, &mut flags)?;
        let upper = match (&plan.upper, &held) {
            (Upper::Memory { size }, _) => match &view_options.memory {
                None => memory(*size, OVERLAY_DIRS),
                Some(tree) => changes_at(tree)?,
            },
            (Upper::Directory(_), Some(held)) => changes_in(held.dir())?,
            (Upper::Directory(dir), None) => {
                let text = format!("the view in {} is not locked", dir.path().display());
                return Err(Refusal::system(text));
            }
        };
        let marks = view_options.marks(held.as_ref())?;
        let overlay = OverlayFs::new(
            OverlayOptions::default()
                .lowers(vec![Arc::clone(&lower)])
                .marks(marks)
                .null_devices(true)
                .records_taken(held.is_some())
                .direct_whiteouts(!stores_attributes(&plan.upper, view_options))
                .upper(Some(upper))
                .copying(view_options.observer.clone())
                .clock(Arc::clone(&clock)),
        );
        let overlay = overlay.map_err(failed)?;
        let vfs = Vfs::builder()
            .limits(view_options.limits())
            .clock(Box::new(Arc::clone(&clock)));
        let vfs = vfs.root_tenant(TenantLimits::default().locks_max(LOCKS));
        let vfs = vfs.build(Arc::clone(&overlay)).map_err(failed)?;
        let mut view = View {
            task: vfs.task(Cred::root()).map_err(failed)?,
            vfs,
            lower,
            overlay: Arc::clone(&overlay),
            session: None,
            log: None,
            writer: None,
            marks,
            observed: vec![overlay],
            uses_write_back: plan.uses_write_back(),
            ended: Arc::clone(&view_options.ended),
            locks: plan.locks,
            no_rings: plan.no_rings,
            flags,
            held,
            taken: Vec::new(),
        };
        view.mount_all(plan, view_options, &clock)?;
        Ok(view)
    }

    /// Mounts the trees in the view, outer ones first, and gives each its rules.
    fn mount_all(
        &mut self,
        plan: &Plan,
        view_options: &ViewOptions,
        clock: &Arc<dyn Clock>,
    ) -> Result<(), Refusal> {
        let mut mounts = Vec::new();
        for path in &plan.write_through {
            let tree = view_options.host_at(plan, path, path.path(), false, &mut self.flags)?;
            mounts.push(("--rw", path, tree));
        }
        for extra in &plan.extra {
            let tree = match &extra.source {
                TreeSource::Memory { size } => memory(*size, 0),
                TreeSource::Host(path) => {
                    let (place, path) = (&extra.place, path.path());
                    view_options.host_at(plan, place, path, extra.read_only, &mut self.flags)?
                }
                TreeSource::Overlay { lowers, upper } => {
                    let (upper, marks) = match upper {
                        None => (None, Marks::User),
                        Some(Upper::Memory { size }) => {
                            (Some(memory(*size, OVERLAY_DIRS)), Marks::User)
                        }
                        Some(Upper::Directory(dir)) => {
                            let held = openpath_commit::lock_view(dir.path())?;
                            let changes = changes_in(held.dir())?;
                            let marks = openpath_commit::marks_of(held.dir())?;
                            self.taken.push(held);
                            (Some(changes), marks)
                        }
                    };
                    let lowers = lowers.iter().map(|lower| {
                        view_options.host_at(
                            plan,
                            &extra.place,
                            lower.path(),
                            true,
                            &mut self.flags,
                        )
                    });
                    let lowers = lowers.collect::<Result<_, _>>()?;
                    view_options.overlay_of((lowers, upper, marks), Arc::clone(clock))?
                }
            };
            mounts.push(("--mount", &extra.place, tree));
        }
        mounts.sort_by_key(|(_, path, _)| path.bytes().to_vec());
        let mut absent = Absent::new(plan)?;
        let mut places = vec![PathBytes::root()];
        for (option, path, tree) in mounts {
            absent.admits(path)?;
            links::check(&self.task, plan, option, path.path())?;
            self.observed.push(Arc::clone(&tree));
            let mounted = self.task.mount(tree, path.bytes(), MountFlags::default());
            mounted.map_err(|why| failed("mount", path, why))?;
            places.push(path.clone());
        }
        for (option, paths) in [("--ro", &plan.read_only), ("--pass", &plan.pass)] {
            for path in paths {
                links::check(&self.task, plan, option, path.path())?;
            }
        }
        links::check_hidden(&self.task, plan)?;
        // Only now all files are visible, and no rule keeps a mount from being made in a mount.
        let is_missing = |path: &PathBytes| self.task.stat(path.bytes()) == Err(Errno::ENOENT);
        absent.forbid(&plan.read_only_if_any, |path| !is_missing(path));
        for place in places {
            let set = self.task.set_absent(place.bytes(), absent.below(&place)?);
            set.map_err(|why| failed("rule", &place, why))?;
        }
        Ok(())
    }

    /// Copies a directory up with all that a commit has to know of it. From now on it is shown
    /// empty, and nothing in it is looked at.
    ///
    /// # Errors
    /// There is no such directory; it cannot be copied up.
    pub(crate) fn lend(&self, place: &PathBytes) -> Result<(), Refusal> {
        let why = |why| failed("lend", place, why);
        let stat = self.task.stat(place.bytes()).map_err(why)?;
        let bits = stat.mode & openpath_abi::mode::S_IALLUGO;
        self.task.chmod(place.bytes(), bits).map_err(why)?;
        OverlayFs::lend(&self.overlay, place.bytes()).map_err(why)
    }

    /// Logs refused and redirected opens.
    pub(crate) fn log(&mut self, plan: &Plan, to: LogFile) -> Result<(), Refusal> {
        let opened = Log::open(plan, &self.overlay, to.file, to.json);
        let (log, writer) = opened.map_err(|why| Refusal::step("no log", why))?;
        (self.log, self.writer) = (Some(log), Some(writer));
        Ok(())
    }

    /// Waits until the log is written, once the view is unused; returns how many lines were not.
    pub(crate) fn finish_log(&mut self) -> u64 {
        self.writer.take().map_or(0, |writer| writer.end(LOG))
    }

    /// Serves the view on a descriptor of FUSE, which may belong to a user namespace.
    pub(crate) fn serve(&mut self, fuse: OwnedFd, mapped: bool) -> Result<Handle, Refusal> {
        let failed = |why: &dyn std::fmt::Display| Refusal::step("the view cannot be served", why);
        let mut options = crate::namespaces::options(mapped);
        options.writeback = self.uses_write_back;
        options.locks = self.locks;
        options.rings = !self.no_rings;
        if self.log.is_some() {
            options.opens = Opens::Each;
            options.threads = options.threads.max(LOOKERS);
        }
        let server = Server::new(&self.task, options);
        let mut server = server.map_err(|why| failed(&why))?;
        if let Some(log) = self.log.take() {
            server.observe(Arc::new(log));
        }
        for tree in &self.observed {
            if self.uses_write_back {
                server.subscribe_disjoint(tree);
            } else {
                server.subscribe(tree);
            }
        }
        let waiter = SessionWaiter::prepare().map_err(|why| failed(&why))?;
        let session = server.serve(fuse).map_err(|why| failed(&why))?;
        let handle = session.handle();
        self.session = Some((session, waiter));
        Ok(handle)
    }

    /// Records that mount flags are not enforced at these paths.
    pub(crate) fn unenforce(&self, places: &[PathBytes]) {
        for (top, flags) in &self.flags {
            let below = places.iter().filter_map(|place| {
                let below = place.path().strip_prefix(top.path()).ok()?;
                Some(below.as_os_str().as_bytes())
            });
            below.for_each(|path| {
                flags.give_up(path);
            });
        }
    }

    /// What its statistics are read from.
    pub(crate) fn stats_sources(&self, handle: Handle) -> StatsSources {
        StatsSources {
            handle,
            vfs: self.vfs.clone(),
            tree: Arc::clone(&self.overlay),
        }
    }

    /// Waits until the view is unused and all delayed writes have come; returns how many of them
    /// found no room, and `None` if it is still used. `on_progress` is called now and then while
    /// some come.
    pub(crate) fn wait_until_unused(
        &mut self,
        on_progress: impl Fn(),
    ) -> Result<Option<u64>, Refusal> {
        let Some((session, waiter)) = self.session.take() else {
            return Ok(Some(0));
        };
        self.ended.get_or_init(|| ());
        let handle = session.handle();
        let asked = || handle.stats().requests.iter().map(|(_, n)| n).sum::<u64>();
        waiter.begin(session);
        match waiter.wait_while_active(LEAVE, LEAVE_MAX, asked, on_progress) {
            Some(Ok(())) => Ok(Some(handle.stats().lost_writes())),
            Some(Err(why)) => Err(Refusal::step("the view ended badly", why)),
            None => Ok(None),
        }
    }

    /// A task in it, as root.
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    /// The prefix of the marks in its upper tree.
    pub(crate) fn marks(&self) -> Marks {
        self.marks
    }

    /// The lock of the directory, if it keeps its changes in one.
    pub(crate) fn held(&self) -> Option<&ViewLock> {
        self.held.as_ref()
    }

    /// Releases all but the lock of the directory.
    pub(crate) fn close(self) -> Option<ViewLock> {
        self.held
    }

    /// Whether it holds what others may wait for: directories of changes.
    pub(crate) fn is_awaited(&self) -> bool {
        self.held.is_some() || !self.taken.is_empty()
    }

    /// The comparison that finds the changes.
    pub(crate) fn compare(&self) -> Result<TreeComparison, Refusal> {
        // Removed files that wait have handles which the comparison may need.
        self.vfs.collect();
        TreeComparison::new((&self.overlay, &self.lower), self.marks, &self.task)
    }
}

/// The clock for times of files in this view. A clock in order with the kernel's takes two system
/// calls, so a view has it only if the kernel sets times of its files as well.
fn clock(plan: &Plan) -> Result<Arc<dyn Clock>, Refusal> {
    if !plan.is_stamped_by_kernel() {
        return Ok(Arc::new(FineClock));
    }
    let clock = KernelClock::new().map_err(|why| Refusal::step("no clock", why))?;
    Ok(Arc::new(clock))
}

fn failed(what: &str, path: &PathBytes, why: Errno) -> Refusal {
    Refusal::step(&format!("cannot {what} {}", path.path().display()), why)
}

impl ViewOptions {
    /// The limits on what a view caches, besides the changes.
    fn limits(&self) -> Limits {
        match self.is_compared {
            true => limits_once(),
            false => Limits::default()
                .dentries_max(NAMES)
                .negatives_max(ABSENT_NAMES),
        }
    }

    /// The marks of a view, whose directory is locked if it has one.
    fn marks(&self, held: Option<&ViewLock>) -> Result<Marks, Refusal> {
        let is_trusted = match (held, &self.memory) {
            (Some(held), _) => return openpath_commit::choose_marks(held.dir()),
            (None, Some(tree)) => {
                let path = format!("/proc/self/fd/{}", tree.as_raw_fd());
                openpath_commit::set_trusted(&path).is_ok()
            }
            // The kernel is not asked for attributes in this process.
            (None, None) => true,
        };
        Ok(match is_trusted && rustix::process::geteuid().is_root() {
            true => Marks::Trusted,
            false => Marks::User,
        })
    }

    /// A directory of the host as a tree.
    pub(crate) fn host(&self, path: &Path, read_only: bool) -> Result<Arc<SuperBlock>, Refusal> {
        self.host_with(path, read_only, None)
    }

    /// A directory of the host as a tree of a view, at `place`; the paths in it at which mount
    /// flags are enforced are added to `flags`.
    fn host_at(
        &self,
        plan: &Plan,
        place: &PathBytes,
        path: &Path,
        read_only: bool,
        flags: &mut Vec<(PathBytes, Arc<EnforcedFlags>)>,
    ) -> Result<Arc<SuperBlock>, Refusal> {
        if !self.holds_flags {
            return self.host(path, read_only);
        }
        let held = Arc::new(crate::mount_flags::enforced_in(plan, place));
        flags.push((place.clone(), Arc::clone(&held)));
        self.host_with(path, read_only, Some(held))
    }

    /// A request waits for the host no longer than its caller does, and than the commands run.
    fn interruption(&self) -> Interruption {
        let ended = Arc::clone(&self.ended);
        Interruption::new(move || {
            openpath_fuse::request_is_interrupted()
                .is_some_and(|interrupted| interrupted || ended.get().is_some())
        })
    }

    fn host_with(
        &self,
        path: &Path,
        read_only: bool,
        held: Option<Arc<EnforcedFlags>>,
    ) -> Result<Arc<SuperBlock>, Refusal> {
        let options = HostOptions::default()
            .policy(match self.asks_host {
                true => Policy::Revalidate,
                false => Policy::Notify,
            })
            .ownership(Ownership::PassThrough)
            .crossing(self.crossing)
            .handles_max(HANDLES)
            .watches_max(WATCHES)
            .leaves_watches(self.leaves_watches)
            .held(held)
            .read_only(read_only)
            .interrupted(self.interruption())
            .lease_waits(self.lease_waits.clone());
        let failed = |why: &dyn std::fmt::Display| Refusal::step(&path.display().to_string(), why);
        let dir = crate::links::open(path).map_err(|why| failed(&why))?;
        let options = options.path(Some(path.to_owned()));
        HostFs::over(dir, options).map_err(|why| failed(&why))
    }

    /// An overlay of directories of the host.
    fn overlay_of(
        &self,
        (lowers, upper, marks): (Vec<Arc<SuperBlock>>, Option<Arc<SuperBlock>>, Marks),
        clock: Arc<dyn Clock>,
    ) -> Result<Arc<SuperBlock>, Refusal> {
        let overlay = OverlayFs::new(
            OverlayOptions::default()
                .lowers(lowers)
                .upper(upper)
                .marks(marks)
                .copying(self.observer.clone())
                .clock(clock),
        );
        overlay.map_err(|why| Refusal::step("an overlay cannot be made", why))
    }
}

/// The directory of changes, as an upper tree.
fn changes_in(dir: &ViewDir) -> Result<Arc<SuperBlock>, Refusal> {
    for name in ["upper", "work"] {
        dir.subdir(name).map_err(|why| dir.failed(why))?;
    }
    let fd = dir.descriptor().map_err(|why| dir.failed(why))?;
    HostFs::over(fd, upper_options()).map_err(|why| dir.failed(why))
}

/// The same of a file system that is attached nowhere.
fn changes_at(tree: &OwnedFd) -> Result<Arc<SuperBlock>, Refusal> {
    let failed = |why: &dyn std::fmt::Display| Refusal::step("the changes cannot be kept", why);
    let tree = tree.try_clone().map_err(|why| failed(&why))?;
    HostFs::over(tree, upper_options()).map_err(|why| failed(&why))
}

/// Whether this upper tree keeps types and owners in attributes, which takes several steps: the
/// user is not root, and can make neither.
fn stores_attributes(upper: &Upper, view_options: &ViewOptions) -> bool {
    let is_on_host = matches!(upper, Upper::Directory(_)) || view_options.memory.is_some();
    is_on_host && !rustix::process::geteuid().is_root()
}

/// The options of an upper tree on the host.
fn upper_options() -> HostOptions {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    HostOptions::default()
        .policy(Policy::Exclusive)
        .keeps_writers(true)
        // A user other than root cannot change owners, and records them in extended attributes.
        .ownership(if uid.is_root() {
            Ownership::PassThrough
        } else {
            Ownership::Xattr {
                uid: uid.as_raw(),
                gid: gid.as_raw(),
            }
        })
        .handles_max(HANDLES)
}

/// An empty tree in memory, in which everything counts against its size except so many inodes.
fn memory(size: Option<u64>, spare_inodes: u32) -> Arc<SuperBlock> {
    MemFs::new(
        MemOptions::default()
            .mode(0o755)
            .uid(rustix::process::getuid().as_raw())
            .gid(rustix::process::getgid().as_raw())
            .size(size.unwrap_or_else(half_of_memory))
            .inodes(0)
            .charging(Charging::Memory { spare_inodes }),
    )
}

/// Half of the machine's memory in whole pages, in bytes: the default size of a tree in memory, as
/// of tmpfs(5).
#[must_use]
pub fn half_of_memory() -> u64 {
    let info = rustix::system::sysinfo();
    let half = info.totalram.saturating_mul(u64::from(info.mem_unit)) / 2;
    half - half % rustix::param::page_size() as u64
}
