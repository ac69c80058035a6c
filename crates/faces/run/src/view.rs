// SPDX-License-Identifier: MIT OR Apache-2.0
//! The view: what the command sees, as a tree of openpath.
//!
//! # Shape
//! At the bottom the host's tree, read only; above it an overlay that takes the changes; in it the
//! directories that are written through and the other trees, each a mount of its own with the rules
//! of absent names that reach into it.

use crate::absent::Absent;
use crate::changes::Compare;
use crate::leaving::Leaving;
use crate::links;
use crate::live::Sources;
use crate::log::{Log, LogFile, Writing};
use crate::plan::{Plan, Source, Upper};
use openpath_abi::Errno;
use openpath_commit::{PathBytes, Refusal, ViewDir, ViewLock};
use openpath_fuse::{Handle, KernelClock, Opens, Server, Session};
use openpath_host::{
    Crossing, EnforcedFlags, HostFs, HostOptions, Interruption, Ownership, Policy,
};
use openpath_mem::{Charging, MemFs, MemOptions};
use openpath_overlay::{CopyUpObserver, OverlayFs, OverlayOptions};
use openpath_vfs::{
    Clock, Cred, FineClock, Limits, MountFlags, SuperBlock, Task, TenantLimits, Vfs,
};
use rustix::fd::OwnedFd;
use rustix::process::{Resource, Rlimit};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use std::time::Duration;

/// How long the last users of the view may take to go, once the command is gone, without asking
/// anything: what the kernel kept back is written then.
const LEAVE: Duration = Duration::from_secs(10);
/// How long they may take however much they ask: processes that are not the view's can ask for
/// ever. In this time 24 GB that were kept back are written at 40 MB/s.
const LEAVE_MAX: Duration = Duration::from_secs(600);
/// How long a slow log may take then.
const LOG: Duration = Duration::from_secs(2);
/// Threads that answer where somebody looks on: he reads in the memory of who waits.
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

/// Who is told how far copying up is, if anyone is.
pub(crate) type Telling = Option<Arc<dyn CopyUpObserver>>;

/// How the trees of a view are made.
#[derive(Clone, Default)]
pub(crate) struct How {
    pub(crate) telling: Telling,
    /// What of the host's mounts is part of them.
    pub(crate) crossing: Crossing,
    /// Set once all commands of the view have ended.
    pub(crate) ended: Arc<OnceLock<()>>,
    /// Mount flags are enforced where the view is shown, as the plan says ([`Plan::held`]).
    pub(crate) holds_flags: bool,
}

/// What the command sees.
pub(crate) struct View {
    vfs: Vfs,
    task: Task,
    lower: Arc<SuperBlock>,
    overlay: Arc<SuperBlock>,
    /// What is served, and what waits for its end.
    session: Option<(Session, Leaving)>,
    /// Who looks on, until it is served, and what he says is written by.
    log: Option<Log>,
    writing: Option<Writing>,
    /// The trees that others may change, and tell of it.
    told: Vec<Arc<SuperBlock>>,
    /// Writes may be kept back.
    keeps_back: bool,
    /// Locks of files are answered.
    locks: bool,
    /// Requests are read, also where there are rings.
    no_rings: bool,
    /// Trees of the host with the places at which mount flags are enforced, each where it is.
    flags: Vec<(PathBytes, Arc<EnforcedFlags>)>,
    /// As in [`How`].
    ended: Arc<OnceLock<()>>,
    /// The lock of a directory of changes.
    held: Option<ViewLock>,
    /// Those of other trees' directories of changes.
    taken: Vec<ViewLock>,
}

impl View {
    /// Builds what the plan says.
    pub(crate) fn build(plan: &Plan, how: &How) -> Result<View, Refusal> {
        let held = match &plan.upper {
            Upper::Memory { .. } => None,
            Upper::Directory(dir) => {
                let held = openpath_commit::take(dir.path())?;
                openpath_commit::check_whole(held.dir())?;
                openpath_commit::note_taken(held.dir())?;
                Some(held)
            }
        };
        let view = View::hold(plan, held, how)?;
        if let (Some(held), Some(rules)) = (&view.held, &plan.rules) {
            openpath_commit::renew_rules(held.dir(), rules)?;
        }
        Ok(view)
    }

    /// Builds what the plan says, its directory being locked.
    pub(crate) fn hold(plan: &Plan, held: Option<ViewLock>, how: &How) -> Result<View, Refusal> {
        more_descriptors();
        let failed = |why| Refusal::step("the view cannot be made", why);
        let clock = clock(plan)?;
        let mut flags = Vec::new();
        let top = PathBytes::root();
        let lower = how.host_at(plan, &top, Path::new("/"), true, &mut flags)?;
        let upper = match (&plan.upper, &held) {
            (Upper::Memory { size }, _) => memory(*size, OVERLAY_DIRS),
            (Upper::Directory(_), Some(held)) => changes_in(held.dir())?,
            (Upper::Directory(dir), None) => {
                let text = format!("the view in {} is not locked", dir.path().display());
                return Err(Refusal::new(text));
            }
        };
        let overlay = OverlayFs::new(
            OverlayOptions::default()
                .lowers(vec![Arc::clone(&lower)])
                .null_devices(true)
                .records_taken(held.is_some())
                .upper(Some(upper))
                .copying(how.telling.clone())
                .clock(Arc::clone(&clock)),
        );
        let overlay = overlay.map_err(failed)?;
        let vfs = Vfs::builder().limits(limits()).clock(Box::new(clock));
        let vfs = vfs.root_tenant(TenantLimits::default().locks_max(LOCKS));
        let vfs = vfs.build(Arc::clone(&overlay)).map_err(failed)?;
        let mut view = View {
            task: vfs.task(Cred::root()).map_err(failed)?,
            vfs,
            lower,
            overlay: Arc::clone(&overlay),
            session: None,
            log: None,
            writing: None,
            told: vec![overlay],
            keeps_back: plan.keeps_back(),
            ended: Arc::clone(&how.ended),
            locks: plan.locks,
            no_rings: plan.no_rings,
            flags,
            held,
            taken: Vec::new(),
        };
        view.furnish(plan, how)?;
        Ok(view)
    }

    /// Mounts what is in the view, outer ones first, and gives each its rules.
    fn furnish(&mut self, plan: &Plan, how: &How) -> Result<(), Refusal> {
        let mut mounts = Vec::new();
        for path in &plan.write_through {
            let tree = how.host_at(plan, path, path.path(), false, &mut self.flags)?;
            mounts.push(("--rw", path, tree));
        }
        for extra in &plan.extra {
            let tree = match &extra.source {
                Source::Memory { size } => memory(*size, 0),
                Source::Host(path) => {
                    let (place, path) = (&extra.place, path.path());
                    how.host_at(plan, place, path, extra.read_only, &mut self.flags)?
                }
                Source::Overlay { lowers, upper } => {
                    let upper = match upper {
                        None => None,
                        Some(Upper::Memory { size }) => Some(memory(*size, OVERLAY_DIRS)),
                        Some(Upper::Directory(dir)) => {
                            let held = openpath_commit::take(dir.path())?;
                            let changes = changes_in(held.dir())?;
                            self.taken.push(held);
                            Some(changes)
                        }
                    };
                    let lowers = lowers.iter().map(|lower| {
                        how.host_at(plan, &extra.place, lower.path(), true, &mut self.flags)
                    });
                    let lowers = lowers.collect::<Result<_, _>>()?;
                    how.stack(lowers, upper)?
                }
            };
            mounts.push(("--mount", &extra.place, tree));
        }
        mounts.sort_by_key(|(_, path, _)| path.bytes().to_vec());
        let mut absent = Absent::new(plan)?;
        let mut places = vec![PathBytes::root()];
        for (option, path, tree) in mounts {
            absent.admits(path)?;
            links::check(&self.task, option, path.path())?;
            self.told.push(Arc::clone(&tree));
            let mounted = self.task.mount(tree, path.bytes(), MountFlags::default());
            mounted.map_err(|why| failed("mount", path, why))?;
            places.push(path.clone());
        }
        for (option, paths) in [("--ro", &plan.read_only), ("--pass", &plan.pass)] {
            for path in paths {
                links::check(&self.task, option, path.path())?;
            }
        }
        links::check_hidden(&self.task, plan)?;
        // Only now it is known what there is; and no rule is in the way of a mount in a mount.
        let is_missing = |path: &PathBytes| self.task.stat(path.bytes()) == Err(Errno::ENOENT);
        absent.forbid(&plan.read_only_if_any, |path| !is_missing(path));
        for place in places {
            let set = self.task.set_absent(place.bytes(), absent.below(&place)?);
            set.map_err(|why| failed("rule", &place, why))?;
        }
        Ok(())
    }

    /// Has refused and redirected opens be told of.
    pub(crate) fn log(&mut self, plan: &Plan, to: LogFile) -> Result<(), Refusal> {
        let opened = Log::open(plan, &self.overlay, to.file, to.json);
        let (log, writing) = opened.map_err(|why| Refusal::step("no log", why))?;
        (self.log, self.writing) = (Some(log), Some(writing));
        Ok(())
    }

    /// Waits until the log is written, once nobody is in the view; how many lines were not.
    pub(crate) fn logged(&mut self) -> u64 {
        self.writing.take().map_or(0, |writing| writing.end(LOG))
    }

    /// Answers for the view at a descriptor of FUSE, which may be of a user namespace.
    pub(crate) fn serve(&mut self, fuse: OwnedFd, mapped: bool) -> Result<Handle, Refusal> {
        let failed = |why: &dyn std::fmt::Display| Refusal::step("the view cannot be served", why);
        let mut options = crate::namespaces::options(mapped);
        options.writeback = self.keeps_back;
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
        for tree in &self.told {
            if self.keeps_back {
                server.subscribe_disjoint(tree);
            } else {
                server.subscribe(tree);
            }
        }
        let leaving = Leaving::prepare().map_err(|why| failed(&why))?;
        let session = server.serve(fuse).map_err(|why| failed(&why))?;
        let handle = session.handle();
        self.session = Some((session, leaving));
        Ok(handle)
    }

    /// Mount flags are not enforced at these places.
    pub(crate) fn give_up(&self, places: &[PathBytes]) {
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

    /// What its figures are read from.
    pub(crate) fn sources(&self, handle: Handle) -> Sources {
        Sources {
            handle,
            vfs: self.vfs.clone(),
            tree: Arc::clone(&self.overlay),
        }
    }

    /// Waits until nobody is in the view any more, and everything that was written has come; says
    /// how many writes came and had no room. While some come `going_on` is called now and then.
    pub(crate) fn left(&mut self, going_on: impl Fn()) -> Result<u64, Refusal> {
        let Some((session, leaving)) = self.session.take() else {
            return Ok(0);
        };
        self.ended.get_or_init(|| ());
        let handle = session.handle();
        let asked = || handle.stats().requests.iter().map(|(_, n)| n).sum::<u64>();
        leaving.begin(session);
        match leaving.outwait(LEAVE, LEAVE_MAX, asked, going_on) {
            Some(Ok(())) => Ok(handle.stats().lost_writes()),
            Some(Err(why)) => Err(Refusal::step("the view ended badly", why)),
            None => Err(Refusal::new("another process still uses the view")),
        }
    }

    /// Acts in it, as root.
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    /// Lets go of all but the lock of the directory.
    pub(crate) fn close(self) -> Option<ViewLock> {
        self.held
    }

    /// Whether it holds what others may wait for: directories of changes.
    pub(crate) fn is_awaited(&self) -> bool {
        self.held.is_some() || !self.taken.is_empty()
    }

    /// What the changes are found by.
    pub(crate) fn compare(&self) -> Result<Compare, Refusal> {
        Compare::new(&self.overlay, &self.lower, &self.task)
    }
}

/// The clock that stamps files of this view. One in order with the kernel's stamps takes two system
/// calls, so only a view has it whose files the kernel stamps as well.
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

impl How {
    /// A directory of the host as a tree.
    pub(crate) fn host(&self, path: &Path, read_only: bool) -> Result<Arc<SuperBlock>, Refusal> {
        self.host_with(path, read_only, None)
    }

    /// A directory of the host as a tree of a view, at `place`; its places of mount flags are
    /// added to `flags`.
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
        let held = Arc::new(crate::mount_flags::held_in(plan, place));
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
            .policy(Policy::Notify)
            .ownership(Ownership::PassThrough)
            .crossing(self.crossing)
            .handles_max(HANDLES)
            .watches_max(WATCHES)
            .held(held)
            .read_only(read_only)
            .interrupted(self.interruption());
        let failed = |why: &dyn std::fmt::Display| Refusal::step(&path.display().to_string(), why);
        let dir = crate::links::open(path).map_err(|why| failed(&why))?;
        let options = options.path(Some(path.to_owned()));
        HostFs::over(dir, options).map_err(|why| failed(&why))
    }

    /// An overlay of directories of the host.
    fn stack(
        &self,
        lowers: Vec<Arc<SuperBlock>>,
        upper: Option<Arc<SuperBlock>>,
    ) -> Result<Arc<SuperBlock>, Refusal> {
        let overlay = OverlayFs::new(
            OverlayOptions::default()
                .lowers(lowers)
                .upper(upper)
                .copying(self.telling.clone()),
        );
        overlay.map_err(|why| Refusal::step("an overlay cannot be made", why))
    }
}

/// The directory of changes, as an upper tree.
fn changes_in(dir: &ViewDir) -> Result<Arc<SuperBlock>, Refusal> {
    let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
    let options = HostOptions::default()
        .policy(Policy::Exclusive)
        // Who is not root can give files to nobody, and notes whose they are.
        .ownership(if uid.is_root() {
            Ownership::PassThrough
        } else {
            Ownership::Xattr {
                uid: uid.as_raw(),
                gid: gid.as_raw(),
            }
        })
        .handles_max(HANDLES);
    for name in ["upper", "work"] {
        dir.subdir(name).map_err(|why| dir.failed(why))?;
    }
    let fd = dir.descriptor().map_err(|why| dir.failed(why))?;
    HostFs::over(fd, options).map_err(|why| dir.failed(why))
}

/// An empty tree in memory, in which everything counts against its size but so many inodes.
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

/// What the server keeps for the command at most, besides the changes.
fn limits() -> Limits {
    Limits::default()
        .dentries_max(NAMES)
        .negatives_max(ABSENT_NAMES)
}

/// Half of the machine's memory in whole pages, in bytes: the most that a tree in memory holds
/// unless told otherwise, as of tmpfs(5).
#[must_use]
pub fn half_of_memory() -> u64 {
    let info = rustix::system::sysinfo();
    let half = info.totalram.saturating_mul(u64::from(info.mem_unit)) / 2;
    half - half % rustix::param::page_size() as u64
}

/// Takes as many descriptors as may be had: the host's tree is held by them.
fn more_descriptors() {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // With fewer it is slower.
    rustix::process::setrlimit(Resource::Nofile, most).ok();
}
