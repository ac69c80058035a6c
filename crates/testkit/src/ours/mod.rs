// SPDX-License-Identifier: MIT OR Apache-2.0
//! openpath as a face: a `Vfs` of its own for each case, over the memory backend.
//!
//! # Rules
//! * The clock stands still during an operation and moves on by a second between two.
//! * A task apart, root in the root of the case, takes the pictures; it looks at descriptors
//!   through the tasks that have them.
//! * Where the host face replaces its credentials, this one does too: linkat(2) of an empty path
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
    Clock, Cred, Limits, MountFlags, Namespace, Running, SuperBlock, Sysctl, Task, Tuning, Vfs,
};

use crate::eye::Eye;
use crate::face::{self, Face};
use crate::host::{HostWorld, SLOTS, groups};
use crate::op::{Fd, Op};
use crate::outcome::{Ids, Names, Outcome, Stamps};
use crate::plain::Trust;
use crate::scan::{Entry, Readable, Scans};
use crate::tree::{Depth, RawTask, Tree};

/// A clock that only moves when it is told to, in nanoseconds.
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
    /// On whose file system the case's root is, and whose clock is the one there.
    host: Option<(&'h HostWorld, Trust)>,
    clock: Hand,
    vfs: Vfs,
    /// What can be explained is, before it is done.
    explains: bool,
    /// The tree that a case begins with.
    root: OnceCell<Arc<SuperBlock>>,
}

/// The kernel's `protected_*`, for both sides to obey the same.
#[must_use]
pub fn sysctl() -> Sysctl {
    let read = |name: &str| -> u8 {
        let text = std::fs::read_to_string(format!("/proc/sys/fs/protected_{name}"));
        text.ok().and_then(|t| t.trim().parse().ok()).unwrap_or(0)
    };
    Sysctl {
        protected_symlinks: read("symlinks") > 0,
        protected_hardlinks: read("hardlinks") > 0,
        protected_fifos: read("fifos"),
        protected_regular: read("regular"),
        ..Sysctl::default()
    }
}

/// Few of everything: a case is small, and a `Vfs` is made for each.
const LIMITS: Limits = Limits {
    dentries_max: 1 << 12,
    negatives_max: 1 << 11,
    mounts_max: 1 << 12,
    namespaces_max: 1 << 6,
    pins_max: 1 << 14,
    path_cache_entries: 1 << 8,
    files_max: u64::MAX,
    nr_open: 1 << 12,
    max_user_instances: 128,
    max_user_watches: 1 << 16,
    max_queued_events: 16384,
    pipe_max_size: 1 << 20,
    pipe_user_pages_soft: 16384,
    pipe_user_pages_hard: 0,
    pipe_pages_max: 1 << 20,
};

/// A tree with the mount options of the host's cases.
fn tmpfs(now: Timespec, read_only: bool) -> Arc<SuperBlock> {
    MemFs::new(MemOptions {
        mode: 0o755,
        size: 1 << 30,
        inodes: 1 << 20,
        now: Some(now),
        read_only,
        ..MemOptions::default()
    })
}

impl<'h> World<'h> {
    /// A fresh one, with the switch of this number off; 0 for none.
    ///
    /// # Errors
    /// What kept it from being built.
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

    /// Has the root of the case lie on a tmpfs of the host, of which so much is kept.
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

    /// The two tasks of a case: the one that acts, and the one that looks. As on the host a tree
    /// lies over the root of the namespace, and is the root of the one that acts.
    ///
    /// # Errors
    /// What kept them from being made.
    pub fn tasks(&self) -> Result<[Task; 2], Errno> {
        let [first, eye] = [self.vfs.task(Cred::root())?, self.vfs.task(Cred::root())?];
        let root = self.layer()?;
        let _first = self.root.set(Arc::clone(&root));
        first.mount(root, b"/", MountFlags::from_ms(0))?;
        // `..` of the root is the root, and then what lies on it.
        first.chroot(b"/..")?;
        first.chdir(b"/")?;
        Ok([first, eye])
    }
}

impl World<'_> {
    /// An empty tree of the kind that cases of this world are in.
    fn layer(&self) -> Result<Arc<SuperBlock>, Errno> {
        match self.host {
            Some((host, trust)) => host.plain()?.tree(trust),
            None => Ok(tmpfs(self.clock.now(), false)),
        }
    }
}

/// A switch of the core: its name, and what turns it off.
pub type Switch = (&'static str, fn(&mut Tuning));

/// Not a switch of the core: each operation that can be explained is, and the explanation must give
/// the same errno and leave nothing behind.
pub const EXPLAIN: &str = "explain";

/// The switches of the core that can be off while everything is compared, by number: flipping one
/// never changes a result.
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
    eye: &'t Task,
    /// What the looking task has open at the root of the case.
    root: Fd,
    tasks: Vec<Option<Task>>,
    acting: usize,
    /// Namespaces that are kept.
    kept: [Option<Namespace>; SLOTS],
    scans: Scans,
    uids: Vec<u32>,
    stamps: Stamps,
    ids: Ids,
    names: Names,
    running: Vec<Running>,
}

impl<'t> Ours<'t> {
    /// A case begins; `first` acts and `eye` looks.
    ///
    /// # Errors
    /// What kept the root of the case from being opened.
    pub fn new(world: &'t World<'t>, first: Task, eye: &'t Task) -> Result<Ours<'t>, Errno> {
        let mut stamps = Stamps::default();
        stamps.start(world.clock.now());
        first.set_rlimit_nofile(face::LIMIT);
        let root = Fd(eye.open(b"/..", f::O_PATH | f::O_DIRECTORY, 0)?);
        Ok(Ours {
            world,
            eye,
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

    /// Goes on over an overlay of what there is. As on the host, two trees are mounted for it.
    fn stack(&self) -> Result<(), Errno> {
        let task = self.task();
        // What is open would be open beneath.
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
        let root = self.eye.open(b"/..", f::O_PATH | f::O_DIRECTORY, 0)?;
        self.eye.dup2(root, self.root.0)?;
        self.renew();
        self.eye.close(root)
    }

    /// What all tasks show of themselves.
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

/// The low word of an argument.
fn low(v: u64) -> u32 {
    (v & 0xffff_ffff) as u32
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

impl Face for Ours<'_> {
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
        let mut eyes = vec![look::Look {
            task: self.eye,
            root: self.root,
        }];
        eyes.extend(lookers.iter().filter_map(look::Look::from_root));
        let mut all: Vec<&mut dyn Eye> = eyes.iter_mut().map(|e| e as &mut dyn Eye).collect();
        let tree = crate::eye::picture(&mut all, &mut ids, &self.stamps, depth, tasks);
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

/// What `scan` needs to read a descriptor.
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
