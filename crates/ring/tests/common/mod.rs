// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests of rings a tree in memory, a slow tree beside it with names that block until a gate
//! is opened, and short forms to submit entries and wait for them. With `OPENPATH_RING_TREE=host`
//! the first tree is a directory of the host.

#![allow(dead_code, reason = "each test takes what it needs")]

use openpath_abi::fcntl::{AT_FDCWD, O_RDONLY};
use openpath_abi::{Errno, StatFs, Timespec, mode};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Cqe, Pool, PoolOptions, Ring, RingOptions, Sqe};
use openpath_vfs::{
    Attr, Cred, Inode, InodeOps, Limits, LookupResult, MountFlags, SuperBlock, SuperBlockOps,
    SuperBlockOptions, Task, Usage, Vfs, WaitMode,
};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Closed, it blocks lookups of names that begin with `w`.
#[derive(Default)]
pub(crate) struct Gate {
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.1 += 1;
        self.changed.notify_all();
        while !state.0 {
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        state.1 -= 1;
        self.changed.notify_all();
    }

    /// Opens the gate.
    pub(crate) fn open(&self) {
        self.state.lock().unwrap().0 = true;
        self.changed.notify_all();
    }

    /// Waits until so many lookups are blocked.
    pub(crate) fn await_waiting(&self, count: usize) {
        let mut state = self.state.lock().unwrap();
        while state.1 < count {
            state = self.changed.wait(state).unwrap();
        }
    }
}

struct Slow(Arc<Gate>);

struct Plain;

fn inode(ino: u64, bits: u32, ops: Box<dyn InodeOps>) -> Arc<Inode> {
    let attr = Attr {
        mode: bits,
        nlink: 1,
        size: 8,
        ..Attr::default()
    };
    Inode::new(ino, 0, attr, Timespec::default(), ops)
}

impl InodeOps for Plain {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn read_at(&self, _inode: &Inode, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let left = 8usize.saturating_sub(offset as usize).min(buf.len());
        buf[..left].fill(b's');
        Ok(left)
    }
}

impl InodeOps for Slow {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn lookup(
        &self,
        _dir: &Inode,
        name: &[u8],
        wait_mode: WaitMode,
    ) -> Result<LookupResult, Errno> {
        match name[0] {
            b'w' if wait_mode == WaitMode::Cached => return Ok(LookupResult::WouldBlock),
            b'w' => self.0.pass(),
            b'e' => return Err(Errno::EIO),
            b'a' => return Ok(LookupResult::Absent),
            b'p' => panic!("a backend that breaks"),
            _ => {}
        }
        let ino = name.iter().fold(7, |sum, b| sum * 31 + u64::from(*b));
        Ok(LookupResult::Inode(inode(
            ino,
            mode::S_IFREG | 0o644,
            Box::new(Plain),
        )))
    }
}

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

/// A directory of the host, removed on drop.
pub(crate) struct Scratch(Option<std::path::PathBuf>);

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Some(path) = &self.0 {
            let _goes_if_it_can = std::fs::remove_dir_all(path);
        }
    }
}

/// Whether trees are directories of the host.
pub(crate) fn over_host() -> bool {
    std::env::var_os("OPENPATH_RING_TREE").is_some_and(|tree| tree == "host")
}

/// The tree of a world.
fn root() -> (Arc<SuperBlock>, Scratch) {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    if !over_host() {
        return (MemFs::new(MemOptions::default()), Scratch(None));
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("openpath-ring-{}-{number}", std::process::id());
    let place = std::env::temp_dir().join(name);
    let _left_over = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("a directory to play in");
    let options = HostOptions::default().policy(Policy::Exclusive);
    let tree = HostFs::open(&place, options).expect("a tree");
    (tree, Scratch(Some(place)))
}

/// `/d/f0` to `/d/f9` with ten bytes each, a FIFO `/fifo`, and the slow tree at `/slow`.
pub(crate) struct World {
    pub(crate) vfs: Vfs,
    pub(crate) gate: Arc<Gate>,
    pub(crate) pool: Pool,
    /// The usage before the test.
    pub(crate) before: Usage,
    scratch: Scratch,
}

impl World {
    pub(crate) fn new() -> Self {
        Self::with(PoolOptions::default(), false)
    }

    pub(crate) fn with(options: PoolOptions, blocking_io: bool) -> Self {
        let limits = Limits::default().pins_max(1 << 18);
        let (root, scratch) = root();
        let vfs = Vfs::builder().limits(limits).build(root).expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        for dir in [&b"/d"[..], b"/slow"] {
            task.mkdir(dir, 0o755).expect("a directory");
        }
        for n in 0..10 {
            let fd = task.creat(format!("/d/f{n}").as_bytes(), 0o644);
            let fd = fd.expect("a file");
            task.write(fd, b"0123456789").expect("ten bytes");
            task.close(fd).expect("close");
        }
        task.mknod(b"/fifo", mode::S_IFIFO | 0o666, 0)
            .expect("a FIFO");
        let gate = Arc::new(Gate::default());
        let dir = inode(1, mode::S_IFDIR | 0o755, Box::new(Slow(Arc::clone(&gate))));
        let options_of_tree = SuperBlockOptions::default().blocking_io(blocking_io);
        let slow = SuperBlock::new(dir, Box::new(Tree), options_of_tree);
        task.mount(slow, b"/slow", MountFlags::default())
            .expect("a mount");
        drop(task);
        let before = vfs.usage();
        Self {
            vfs,
            gate,
            pool: Pool::new(options),
            before,
            scratch,
        }
    }

    pub(crate) fn task(&self) -> Task {
        self.vfs.task(Cred::root()).expect("a task")
    }

    pub(crate) fn ring(&self) -> Ring {
        self.ring_with(|_| {})
    }

    pub(crate) fn ring_with(&self, set: impl FnOnce(&mut RingOptions)) -> Ring {
        let mut options = RingOptions::default();
        set(&mut options);
        Ring::new(self.task(), &self.pool, options).expect("a ring")
    }

    /// Nothing is in use any more, once the workers have ended.
    pub(crate) fn assert_at_rest(self) {
        let Self {
            vfs,
            pool,
            before,
            scratch,
            ..
        } = self;
        drop(pool);
        vfs.collect();
        let now = vfs.usage();
        assert_eq!((now.pins, now.mounts), (before.pins, before.mounts));
        drop(scratch);
    }
}

/// Submits one entry, and waits for its completion.
pub(crate) fn one(ring: &mut Ring, sqe: Sqe) -> Cqe {
    let mut all = all(ring, [sqe]);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

/// Submits entries together, and waits until all is done.
pub(crate) fn all(ring: &mut Ring, sqes: impl IntoIterator<Item = Sqe>) -> Vec<Cqe> {
    for sqe in sqes {
        ring.prepare(sqe).expect("room");
    }
    ring.submit().expect("submitted");
    rest(ring)
}

/// Waits until all is done.
pub(crate) fn rest(ring: &mut Ring) -> Vec<Cqe> {
    let mut done = Vec::new();
    loop {
        done.extend(std::iter::from_fn(|| ring.next_completion()));
        if ring.in_flight() == 0 {
            done.extend(std::iter::from_fn(|| ring.next_completion()));
            return done;
        }
        ring.wait(1, Some(Duration::from_secs(60)))
            .expect("progress");
    }
}

/// The results by `user_data`.
pub(crate) fn results(mut done: Vec<Cqe>) -> Vec<(u64, Result<u64, Errno>)> {
    done.sort_by_key(|cqe| cqe.user_data);
    done.iter().map(|cqe| (cqe.user_data, cqe.result)).collect()
}

pub(crate) fn open(path: &str) -> Sqe {
    Sqe::openat(AT_FDCWD, path, O_RDONLY, 0)
}

/// A result as a descriptor.
pub(crate) fn fd(cqe: &Cqe) -> i32 {
    cqe.result.expect("a descriptor") as i32
}
