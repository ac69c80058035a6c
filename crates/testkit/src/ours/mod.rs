// SPDX-License-Identifier: MIT OR Apache-2.0
//! openpath as a face: a `Vfs` of its own for each case, over the memory backend.
//!
//! # Rules
//! * The clock stands still during an operation and moves on by a second between two.
//! * A second task, root in the root of the case, takes the pictures.
//! * Where the host face replaces its credentials to act as root, this one does too: linkat(2) of
//!   an empty path compares credentials by identity.

mod apply;
mod look;

use std::sync::Arc;

use openpath_abi::{Errno, Timespec, mount as m};
use openpath_mem::{MemFs, MemOptions};
use openpath_sync::Word;
use openpath_vfs::{At, Clock, Cred, Limits, OpenFile, SuperBlock, Sysctl, Task, Tuning, Vfs};

use crate::face::Face;
use crate::host::groups;
use crate::op::{Dir, Op, SLOTS, Slot};
use crate::outcome::{Ids, Outcome, Stamps};
use crate::scan::{Entry, Readable, Scan};
use crate::tree::{Depth, Tree};

/// A clock that only moves when it is told to.
#[derive(Clone, Debug)]
struct Hand(Arc<Word>);

impl Clock for Hand {
    fn now(&self) -> Timespec {
        Timespec::new(self.0.get().cast_signed(), 500)
    }
}

/// A `Vfs` for one case.
pub struct World {
    clock: Hand,
    vfs: Vfs,
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
    }
}

/// Few of everything: a case is small, and a `Vfs` is made for each.
const LIMITS: Limits = Limits {
    dentries_max: 1 << 12,
    mounts_max: 1 << 8,
    pins_max: 1 << 10,
    path_cache_entries: 1 << 8,
    files_max: u64::MAX,
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

impl World {
    /// A fresh one, with the switch of this number off; 0 for none.
    ///
    /// # Errors
    /// What kept it from being built.
    pub fn new(sysctl: Sysctl, switch: u32) -> Result<World, Errno> {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let clock = Hand(Arc::new(Word::new(now.map_or(0, |d| d.as_secs()))));
        let root = tmpfs(clock.now(), false);
        let mut tuning = Tuning::default();
        if let Some((_, turn_off)) = SWITCHES.get(switch as usize) {
            turn_off(&mut tuning);
        }
        let builder = Vfs::builder()
            .tuning(tuning)
            .limits(LIMITS)
            .sysctl(sysctl)
            .clock(Box::new(clock.clone()));
        let vfs = builder.build(root)?;
        Ok(World { clock, vfs })
    }

    /// The two tasks of a case: the one that acts, and the one that looks.
    ///
    /// # Errors
    /// What kept them from being made.
    pub fn tasks(&self) -> Result<[Task; 2], Errno> {
        Ok([self.vfs.task(Cred::root())?, self.vfs.task(Cred::root())?])
    }
}

/// A switch of the core: its name, and what turns it off.
pub type Switch = (&'static str, fn(&mut Tuning));

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
];

/// One case on openpath.
pub struct Ours<'t> {
    world: &'t World,
    task: &'t Task,
    eye: &'t Task,
    slots: [Option<OpenFile<'t>>; SLOTS],
    scans: [Scan; SLOTS],
    uid: u32,
    stamps: Stamps,
    ids: Ids,
}

impl<'t> Ours<'t> {
    /// A case begins.
    #[must_use]
    pub fn new(world: &'t World, [task, eye]: &'t [Task; 2]) -> Ours<'t> {
        let mut stamps = Stamps::default();
        stamps.start(world.clock.now());
        Ours {
            world,
            task,
            eye,
            slots: Default::default(),
            scans: std::array::from_fn(|_| Scan::default()),
            uid: 0,
            stamps,
            ids: Ids::default(),
        }
    }

    fn slot(&self, s: Slot) -> Result<&OpenFile<'t>, Errno> {
        self.slots[usize::from(s.0)].as_ref().ok_or(Errno::EBADF)
    }

    fn at(&self, dir: Dir) -> At<'_> {
        match dir {
            Dir::Cwd => At::Cwd,
            Dir::Bad => At::Bad,
            Dir::Slot(s) => self.slot(s).map_or(At::Bad, At::File),
        }
    }

    fn tick(&mut self) {
        self.world.clock.0.add(1);
        self.stamps.start(self.world.clock.now());
    }

    /// Walks to what an umount(2) names, as the host face does to see whether it is the root.
    fn walk_to(&self, op: &Op) {
        if let Op::Umount { path, flags } = op {
            let nofollow = flags.low() & m::UMOUNT_NOFOLLOW != 0;
            let _ = if nofollow {
                self.task.lstat(&path.0)
            } else {
                self.task.stat(&path.0)
            };
        }
    }

    fn become_user(&mut self, uid: u32) {
        self.uid = uid;
        self.task.set_cred(cred(uid));
    }

    /// Replaces the credentials by equal ones, as acting as root for a while does.
    fn renew(&self) {
        if self.uid != 0 {
            self.task.set_cred(cred(self.uid));
        }
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

impl Face for Ours<'_> {
    fn apply(&mut self, _at: usize, op: &Op) -> Outcome {
        for scan in &mut self.scans {
            scan.touch(op);
        }
        self.tick();
        self.dispatch(op)
    }

    fn skip(&mut self, _at: usize, op: &Op) {
        self.tick();
        if let Op::Umount { path, flags } = op {
            let nofollow = flags.low() & m::UMOUNT_NOFOLLOW != 0;
            let _ = if nofollow {
                self.task.lstat(&path.0)
            } else {
                self.task.stat(&path.0)
            };
        }
    }

    fn snapshot(&mut self, depth: Depth) -> Tree {
        self.renew();
        let mut ids = std::mem::take(&mut self.ids);
        let mut eye = look::Look { task: self.eye };
        let tree = crate::eye::picture(&mut eye, &mut ids, &self.stamps, depth);
        self.ids = ids;
        tree
    }

    fn finish(&mut self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (file, scan) in self.slots.iter().zip(&mut self.scans) {
            let (Some(file), true) = (file, scan.open()) else {
                continue;
            };
            while scan.open() {
                let outcome = match Reader(file).entries(4096) {
                    Ok(got) => scan.feed(got),
                    Err(e) => {
                        scan.rewind();
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

/// What `scan` needs to read an open file.
struct Reader<'a, 't>(&'a OpenFile<'t>);

impl Readable for Reader<'_, '_> {
    fn seek(&mut self, off: i64) -> Result<(), Errno> {
        self.0.lseek(off, openpath_abi::fcntl::SEEK_SET).map(|_| ())
    }

    fn entries(&mut self, max: usize) -> Result<Vec<Entry>, Errno> {
        let got = self.0.getdents64(max)?;
        let entry = |e: openpath_vfs::DirEntry| Entry {
            ino: e.ino,
            off: e.off,
            kind: e.kind,
            name: e.name,
        };
        Ok(got.into_iter().map(entry).collect())
    }
}
