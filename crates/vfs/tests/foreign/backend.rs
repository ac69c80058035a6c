// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests a backend whose names and files they change without the core's knowledge. It counts
//! lookups and requests for attributes, and on request holds a call at a gate or answers that it
//! would wait.

use openpath_abi::{Errno, OFlags, StatFs, Timespec, mode};
use openpath_vfs::{
    Attr, Caching, Cred, FileOps, Inode, InodeOps, LookupResult, NewInode, Rename, SuperBlock,
    SuperBlockOps, SuperBlockOptions, Task, Vfs, WaitMode,
};
use std::any::Any;
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};

type Names = BTreeMap<Vec<u8>, Arc<Inode>>;

/// A closed gate: for which calls, the sender that reports one, and the receiver that lets it go
/// on.
type Closed = (At, Sender<()>, Receiver<()>);

/// The state that the test and the tree's inodes share.
#[derive(Default)]
pub(crate) struct World {
    dirs: Mutex<HashMap<u64, Names>>,
    next: AtomicU64,
    /// Whether a request that must not wait is refused with `EAGAIN`.
    pub(crate) slow: AtomicBool,
    lookups: AtomicU64,
    refreshed: AtomicU64,
    /// Holds the next call of this kind after it is carried out.
    gate: Mutex<Option<Closed>>,
}

/// The kind of call that a gate holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum At {
    Lookup,
    Change,
    Readlink,
}

/// The test's end of a gate.
pub(crate) struct Gate {
    reached: Receiver<()>,
    open: Sender<()>,
}

impl Gate {
    /// Waits until a call is at the gate.
    pub(crate) fn wait(&self) {
        self.reached.recv().expect("a call reaches the gate");
    }

    /// Lets the call go on.
    pub(crate) fn open(self) {
        self.open.send(()).expect("a call waits at the gate");
    }
}

struct Node(Arc<World>);

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

impl World {
    pub(crate) fn dirs(&self) -> MutexGuard<'_, HashMap<u64, Names>> {
        self.dirs.lock().expect("no test panics with the lock")
    }

    /// A new inode without a name.
    pub(crate) fn inode(self: &Arc<Self>, mode: u32) -> Arc<Inode> {
        let ino = 1 + self.next.fetch_add(1, Ordering::Relaxed);
        let attr = Attr {
            mode,
            nlink: 1,
            ..Attr::default()
        };
        self.dirs().insert(ino, Names::new());
        Inode::new(
            ino,
            0,
            attr,
            Timespec::default(),
            Box::new(Node(Arc::clone(self))),
        )
    }

    /// Gives an inode a name, without an invalidation.
    pub(crate) fn put(&self, dir: &Inode, name: &str, inode: &Arc<Inode>) {
        let mut dirs = self.dirs();
        let names = dirs.get_mut(&dir.ino()).expect("a directory");
        names.insert(name.as_bytes().to_vec(), Arc::clone(inode));
    }

    /// Creates a file under a name.
    pub(crate) fn file(self: &Arc<Self>, dir: &Inode, name: &str) -> Arc<Inode> {
        let file = self.inode(mode::S_IFREG | 0o644);
        self.put(dir, name, &file);
        file
    }

    /// Creates a directory under a name.
    pub(crate) fn dir(self: &Arc<Self>, dir: &Inode, name: &str) -> Arc<Inode> {
        let new = self.inode(mode::S_IFDIR | 0o755);
        self.put(dir, name, &new);
        new
    }

    /// Removes a name, without an invalidation.
    pub(crate) fn take(&self, dir: &Inode, name: &str) {
        let mut dirs = self.dirs();
        dirs.get_mut(&dir.ino())
            .expect("a directory")
            .remove(name.as_bytes());
    }

    /// The number of lookups since the last call of this.
    pub(crate) fn lookups(&self) -> u64 {
        self.lookups.swap(0, Ordering::Relaxed)
    }

    /// The number of attribute requests since the last call of this.
    pub(crate) fn refreshed(&self) -> u64 {
        self.refreshed.swap(0, Ordering::Relaxed)
    }

    pub(crate) fn set_slow(&self, slow: bool) {
        self.slow.store(slow, Ordering::Relaxed);
    }

    /// Holds the next waiting call of this kind at a gate, after its answer is decided.
    pub(crate) fn close_gate(&self, at: At) -> Gate {
        let (reach, reached) = channel();
        let (open, opened) = channel();
        *self.gate.lock().expect("gate") = Some((at, reach, opened));
        Gate { reached, open }
    }

    fn pass_gate(&self, at: At) {
        let gate = self.gate.lock().expect("gate").take_if(|gate| gate.0 == at);
        if let Some((_, reach, opened)) = gate {
            reach.send(()).expect("the test waits");
            opened.recv().expect("the test opens");
        }
    }

    fn would_block(&self, wait_mode: WaitMode) -> bool {
        wait_mode == WaitMode::Cached && self.slow.load(Ordering::Relaxed)
    }
}

impl InodeOps for Node {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn lookup(&self, dir: &Inode, name: &[u8], wait_mode: WaitMode) -> Result<LookupResult, Errno> {
        self.0.lookups.fetch_add(1, Ordering::Relaxed);
        if self.0.would_block(wait_mode) {
            return Ok(LookupResult::WouldBlock);
        }
        let found = self.0.dirs()[&dir.ino()].get(name).map(Arc::clone);
        if wait_mode == WaitMode::Wait {
            self.0.pass_gate(At::Lookup);
        }
        Ok(found.map_or(LookupResult::Absent, LookupResult::Inode))
    }

    fn create(&self, dir: &Inode, name: &[u8], new: &NewInode<'_>) -> Result<Arc<Inode>, Errno> {
        let made = self.0.inode(new.mode);
        let name = str::from_utf8(name).expect("a name of the test");
        self.0.put(dir, name, &made);
        self.0.pass_gate(At::Change);
        Ok(made)
    }

    fn unlink(
        &self,
        dir: &Inode,
        name: &[u8],
        victim: &Arc<Inode>,
        _now: Timespec,
    ) -> Result<(), Errno> {
        let name = str::from_utf8(name).expect("a name of the test");
        self.0.take(dir, name);
        victim.update(|attr| attr.nlink -= 1);
        self.0.pass_gate(At::Change);
        Ok(())
    }

    fn rename(&self, rename: &Rename<'_>) -> Result<(), Errno> {
        {
            let mut dirs = self.0.dirs();
            let from = dirs.get_mut(&rename.old_dir.ino()).ok_or(Errno::ESTALE)?;
            from.remove(rename.old_name);
            let to = dirs.get_mut(&rename.new_dir.ino()).ok_or(Errno::ESTALE)?;
            to.insert(rename.new_name.to_vec(), Arc::clone(rename.source));
        }
        self.0.pass_gate(At::Change);
        Ok(())
    }

    fn readlink(&self, _inode: &Inode, wait_mode: WaitMode) -> Result<Cow<'_, [u8]>, Errno> {
        if self.0.would_block(wait_mode) {
            return Err(Errno::EAGAIN);
        }
        if wait_mode == WaitMode::Wait {
            self.0.pass_gate(At::Readlink);
        }
        Ok(Cow::Borrowed(b"f"))
    }

    fn open(
        &self,
        _inode: &Inode,
        _flags: OFlags,
        wait_mode: WaitMode,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        if self.0.would_block(wait_mode) {
            return Err(Errno::EAGAIN);
        }
        Ok(None)
    }

    fn refresh(&self, inode: &Inode, wait_mode: WaitMode) -> Result<(), Errno> {
        self.0.refreshed.fetch_add(1, Ordering::Relaxed);
        if self.0.would_block(wait_mode) {
            return Err(Errno::EAGAIN);
        }
        if inode.kind() == mode::S_IFREG {
            inode.update(|attr| attr.size += 1);
        }
        Ok(())
    }
}

/// A tree, its state, and a task at its root.
pub(crate) struct Scene {
    pub(crate) world: Arc<World>,
    pub(crate) tree: Arc<SuperBlock>,
    pub(crate) root: Arc<Inode>,
    pub(crate) vfs: Vfs,
    pub(crate) task: Task,
}

/// A `Vfs` over one tree with these options.
pub(crate) fn scene(caching: Caching, tries: bool) -> Scene {
    let (world, tree) = tree(caching, tries);
    let root = Arc::clone(tree.root());
    let vfs = Vfs::builder().build(Arc::clone(&tree)).expect("a vfs");
    let task = vfs.task(Cred::root()).expect("a task");
    Scene {
        world,
        tree,
        root,
        vfs,
        task,
    }
}

/// A tree with these options.
pub(crate) fn tree(caching: Caching, tries: bool) -> (Arc<World>, Arc<SuperBlock>) {
    let world = Arc::new(World::default());
    let root = world.inode(mode::S_IFDIR | 0o755);
    let options = SuperBlockOptions::default()
        .kind("foreign")
        .caching(caching)
        .tries(tries);
    let tree = SuperBlock::new(root, Box::new(Tree), options);
    (world, tree)
}
