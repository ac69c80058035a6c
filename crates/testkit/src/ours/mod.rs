// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs cases on openpath: a `Vfs` of its own for each case, over the memory backend by default.
//!
//! # Rules
//! * The clock stands still during an operation and moves on by a second between two.
//! * A separate task, root in the root of the case, takes the snapshots; it inspects descriptors
//!   through the tasks that have them.
//! * Where the host side replaces its credentials, this one does too: linkat(2) of an empty path
//!   compares credentials by identity.

mod apply;
mod explained;
mod look;

use std::cell::OnceCell;
use std::sync::Arc;

use openpath_abi::{Errno, Timespec, fcntl as f};
use openpath_mem::{MemFs, MemOptions};
use openpath_sync::Word;
use openpath_vfs::{
    Clock, Cred, Limits, MountFlags, Namespace, RunningProgram, SuperBlock, Sysctl, Task, Tuning,
    Vfs,
};

use crate::host::{HostWorld, SLOTS, groups};
use crate::op::low;
use crate::op::{Fd, Op};
use crate::outcome::{Ids, Names, Outcome, Stamps};
use crate::plain::Trust;
use crate::scan::{Entry, Readable, Scans};
use crate::side::{self, Side};
use crate::snapshot::TreeReader;
use crate::tree::{Depth, RawTask, Tree};

/// A clock in nanoseconds that moves only on request.
#[derive(Clone, Debug)]
struct Hand(Arc<Word>);

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

impl Hand {
    fn set(&self, now: Timespec) {
        let seconds = now.sec.cast_unsigned().saturating_mul(SECOND);
        self.0.set(seconds.saturating_add(u64::from(now.nsec)));
    }
}

impl Clock for Hand {
    fn now(&self) -> Timespec {
        let now = self.0.get();
        // Less than a second, so the conversion keeps the value.
        Timespec::new((now / SECOND).cast_signed(), (now % SECOND) as u32)
    }
}

/// A `Vfs` for one case.
pub struct World<'h> {
    /// The host that provides the file system of the case's root, and the clock.
    host: Option<(&'h HostWorld, Trust)>,
    clock: Hand,
    vfs: Vfs,
    /// Whether operations are explained before they run.
    explains: bool,
    /// The tree that a case begins with.
    root: OnceCell<Arc<SuperBlock>>,
}

/// The kernel's `protected_*`, so that both sides use the same.
#[must_use]
pub fn sysctl() -> Sysctl {
    let read = |name: &str| -> u8 {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/protected_{name}"));
        text.ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0)
    };
    Sysctl::default()
        .protected_symlinks(read("symlinks") > 0)
        .protected_hardlinks(read("hardlinks") > 0)
        .protected_fifos(read("fifos"))
        .protected_regular(read("regular"))
}

/// Small limits: a case is small, and each has a `Vfs` of its own.
const LIMITS: Limits = Limits::new()
    .dentries_max(1 << 12)
    .negatives_max(1 << 11)
    .mounts_max(1 << 12)
    .namespaces_max(1 << 6)
    .pins_max(1 << 14)
    .path_cache_entries(1 << 8)
    .files_max(u64::MAX)
    .nr_open(1 << 12)
    .max_user_instances(128)
    .max_user_watches(1 << 16)
    .max_queued_events(16384)
    .pipe_max_size(1 << 20)
    .pipe_user_pages_soft(16384)
    .pipe_user_pages_hard(0)
    .pipe_pages_max(1 << 20);

/// A tree with the mount options of the host's cases.
fn tmpfs(now: Timespec, read_only: bool) -> Arc<SuperBlock> {
    MemFs::new(
        MemOptions::default()
            .mode(0o755)
            .size(1 << 30)
            .inodes(1 << 20)
            .now(Some(now))
            .read_only(read_only),
    )
}

impl<'h> World<'h> {
    /// Makes a world with the switch of this number off; 0 for none.
    ///
    /// # Errors
    /// Those of building the `Vfs`.
    pub fn new(sysctl: Sysctl, switch: u32) -> Result<World<'h>, Errno> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let clock = Hand(Arc::new(Word::new(0)));
        let seconds = now.map_or(0, |d| d.as_secs());
        clock.set(Timespec::new(seconds.cast_signed(), 500));
        let base = tmpfs(clock.now(), true);
        let mut tuning = Tuning::default();
        let mut explains = false;
        if let Some((name, turn_off)) = SWITCHES.get(switch as usize) {
            turn_off(&mut tuning);
            explains = *name == EXPLAIN;
        }
        let builder = Vfs::builder()
            .tuning(tuning)
            .limits(LIMITS)
            .sysctl(sysctl)
            .clock(Box::new(clock.clone()));
        let vfs = builder.build(base)?;
        Ok(World {
            host: None,
            clock,
            vfs,
            explains,
            root: OnceCell::new(),
        })
    }

    /// Puts the root of the case on a tmpfs of the host, with this trust in it.
    pub fn over(&mut self, host: &'h HostWorld, trust: Trust) {
        self.clock.set(host.tick());
        self.host = Some((host, trust));
    }

    /// The time of the next operation.
    fn tick(&self) -> Timespec {
        match self.host {
            Some((host, _)) => self.clock.set(host.tick()),
            None => drop(self.clock.0.add(SECOND)),
        }
        self.clock.now()
    }

    /// Makes the two tasks of a case: the one that acts, and the one that inspects. As on the host,
    /// a tree covers the root of the namespace, and is the root of the acting task.
    ///
    /// # Errors
    /// Those of making the tasks.
    pub fn tasks(&self) -> Result<[Task; 2], Errno> {
        let [first, inspector] = [self.vfs.task(Cred::root())?, self.vfs.task(Cred::root())?];
        let root = self.layer()?;
        let _first = self.root.set(Arc::clone(&root));
        first.mount(root, b"/", MountFlags::from_ms(0))?;
        // `..` of the root gives the root, and then what is mounted on it.
        first.chroot(b"/..")?;
        first.chdir(b"/")?;
        Ok([first, inspector])
    }
}

impl World<'_> {
    /// An empty tree of the kind that this world's cases use.
    fn layer(&self) -> Result<Arc<SuperBlock>, Errno> {
        match self.host {
            Some((host, trust)) => host.plain()?.tree(trust),
            None => Ok(tmpfs(self.clock.now(), false)),
        }
    }
}

/// A switch of the core: its name, and the function that turns it off.
pub type Switch = (&'static str, fn(&mut Tuning));

/// Not a switch of the core: explains each operation that can be explained; the explanation must
/// give the same errno and leave nothing behind.
pub const EXPLAIN: &str = "explain";

/// The switches of the core that can be off during a comparison, by number: none changes a result.
pub const SWITCHES: &[Switch] = &[
    ("none", |_| {}),
    ("lock-free-walk", |t| t.lock_free_walk = false),
    ("path-cache", |t| t.path_cache = false),
    ("root-reset", |t| t.root_reset_before_unlazy = false),
    ("hand-over", |t| t.reference_hand_over = false),
    ("create-looks-first", |t| t.create_looks_first = false),
    ("lock-context-flag", |t| t.lock_context_flag = false),
    ("failed-open-inline", |t| t.failed_open_frees_inline = false),
    ("fd-peek", |t| t.fd_word_peek = false),
    ("fd-summary", |t| t.fd_conditional_summary = false),
    ("complete-directories", |t| t.complete_directories = false),
    (EXPLAIN, |_| {}),
];

/// One case on openpath.
pub struct Ours<'t> {
    world: &'t World<'t>,
    inspector: &'t Task,
    /// The inspecting task's descriptor of the case's root.
    root: Fd,
    tasks: Vec<Option<Task>>,
    acting: usize,
    /// Kept namespaces.
    kept: [Option<Namespace>; SLOTS],
    scans: Scans,
    uids: Vec<u32>,
    stamps: Stamps,
    ids: Ids,
    names: Names,
    running: Vec<RunningProgram>,
}

impl<'t> Ours<'t> {
    /// Starts a case; `first` acts and `inspector` inspects.
    ///
    /// # Errors
    /// Those of opening the root of the case.
    pub fn new(world: &'t World<'t>, first: Task, inspector: &'t Task) -> Result<Ours<'t>, Errno> {
        let mut stamps = Stamps::default();
        stamps.start(world.clock.now());
        first.set_rlimit_nofile(side::LIMIT);
        let root = Fd(inspector.open(b"/..", f::O_PATH | f::O_DIRECTORY, 0)?);
        Ok(Ours {
            world,
            inspector,
            root,
            tasks: vec![Some(first)],
            acting: 0,
            kept: [const { None }; SLOTS],
            scans: Scans::default(),
            uids: vec![0],
            stamps,
            ids: Ids::default(),
            names: Names::default(),
            running: Vec::new(),
        })
    }

    /// The task that acts.
    fn task(&self) -> &Task {
        self.tasks[self.acting]
            .as_ref()
            .expect("the acting task lives")
    }

    fn tick(&mut self) {
        let now = self.world.tick();
        self.stamps.start(now);
    }

    fn become_user(&mut self, uid: u32) {
        self.uids[self.acting] = uid;
        self.task().set_cred(cred(uid));
    }

    /// Replaces the credentials by equal ones, as acting as root for a while does.
    fn renew(&self) {
        let uid = self.uids[self.acting];
        if uid != 0 {
            self.task().set_cred(cred(uid));
        }
    }

    /// Continues over an overlay of the present tree. As on the host, two trees are mounted for it.
    fn stack(&self) -> Result<(), Errno> {
        let task = self.task();
        // Open descriptors would refer to the lower tree.
        task.close_range(0, u32::MAX, 0)?;
        task.set_cred(cred(0));
        let lower = self.world.root.get().ok_or(Errno::ENOENT)?;
        let clock = Arc::new(self.world.clock.clone());
        let overlay = crate::stack::over(Arc::clone(lower), self.world.layer()?, clock)?;
        for tree in [tmpfs(self.world.clock.now(), false), overlay] {
            task.mount(tree, b"/", MountFlags::from_ms(0))?;
            task.chroot(b"/..")?;
            task.chdir(b"/")?;
        }
        let root = self.inspector.open(b"/..", f::O_PATH | f::O_DIRECTORY, 0)?;
        self.inspector.dup2(root, self.root.0)?;
        self.renew();
        self.inspector.close(root)
    }

    /// Inspects all tasks.
    fn looked_at(&self, depth: Depth) -> Vec<RawTask> {
        let of = |task: &Option<Task>| {
            let Some(task) = task else {
                return RawTask::default();
            };
            let all = task.descriptors().into_iter();
            RawTask {
                table: all.map(|n| look::descriptor(task, n)).collect(),
                place: (depth >= Depth::Mounts).then(|| look::place(task)),
            }
        };
        self.tasks.iter().map(of).collect()
    }
}

/// The credentials of a test user.
#[must_use]
pub fn cred(uid: u32) -> Cred {
    if uid == 0 {
        Cred::root()
    } else {
        Cred::user(uid, uid, groups(uid))
    }
}

impl Side for Ours<'_> {
    fn apply(&mut self, _at: usize, op: &Op) -> Outcome {
        self.scans.touch(op);
        self.tick();
        let explained = if self.world.explains {
            explained::explain(self.task(), op)
        } else {
            None
        };
        let outcome = explained::confirmed(explained.as_ref(), self.dispatch(op));
        self.scans.learn(op, &outcome);
        outcome
    }

    fn skip(&mut self, _at: usize, _op: &Op) {
        self.tick();
    }

    fn snapshot(&mut self, depth: Depth) -> Tree {
        let tasks = self.looked_at(depth);
        let mut ids = std::mem::take(&mut self.ids);
        let living = self.tasks.iter().flatten();
        let lookers: Vec<Task> = match depth {
            Depth::Deep => living.filter_map(look::looker).collect(),
            _ => Vec::new(),
        };
        let mut readers = vec![look::Look {
            task: self.inspector,
            root: self.root,
        }];
        readers.extend(lookers.iter().filter_map(look::Look::from_root));
        let mut all: Vec<&mut dyn TreeReader> = readers
            .iter_mut()
            .map(|e| e as &mut dyn TreeReader)
            .collect();
        let tree = crate::snapshot::take_snapshot(&mut all, &mut ids, &self.stamps, depth, tasks);
        self.ids = ids;
        tree
    }

    fn finish(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for at in self.scans.open() {
            while self.scans.is_open(at) {
                let outcome = match Reader(self.task(), at).entries(4096) {
                    Ok(got) => self.scans.feed(at, got),
                    Err(e) => {
                        self.scans.rewind(at);
                        Outcome::Err(e)
                    }
                };
                if let Outcome::Bad(text) = outcome {
                    wrong.push(text);
                }
            }
        }
        wrong
    }
}

/// Lets `scan` read a descriptor.
struct Reader<'t>(&'t Task, Fd);

impl Readable for Reader<'_> {
    fn seek(&mut self, off: i64) -> Result<(), Errno> {
        let from_start = openpath_abi::fcntl::SEEK_SET;
        self.0.lseek(self.1.0, off, from_start).map(|_| ())
    }

    fn entries(&mut self, max: usize) -> Result<Vec<Entry>, Errno> {
        let got = self.0.getdents64(self.1.0, max)?;
        let entry = |e: openpath_vfs::DirEntry| Entry {
            ino: e.ino,
            off: e.off,
            kind: e.kind,
            name: e.name,
        };
        Ok(got.into_iter().map(entry).collect())
    }
}
