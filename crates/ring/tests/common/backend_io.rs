// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests a file system with one file, `/f`, whose asynchronous reads, writes and syncs finish
//! when the test says so.
//!
//! It logs the other calls on the file, each with the thread that made it: the caller, a worker of
//! the ring, or the thread that stands for the kernel.

use openpath_abi::{Errno, OFlags, StatFs, Timespec, mode};
use openpath_ring::{Pool, PoolOptions, Ring, RingOptions};
use openpath_vfs::{
    AsyncIo, Attr, Clock, Cred, FileOps, Inode, InodeOps, IoCompletion, IoKind, IoRequest,
    LookupResult, SetAttr, SuperBlock, SuperBlockOps, SuperBlockOptions, Usage, Vfs, WaitMode,
};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

/// An operation of the backend, until the test ends it.
pub(crate) struct BackendOp {
    pub(crate) request: IoRequest,
    pub(crate) offset: u64,
    then: IoCompletion,
}

/// Shared by the file's calls.
pub(crate) struct State {
    pub(crate) data: Mutex<Vec<u8>>,
    /// The calls, in order.
    pub(crate) log: Mutex<Vec<String>>,
    begun: Mutex<Sender<BackendOp>>,
    /// Whether the backend moves data.
    moves_data: bool,
}

impl State {
    fn note(&self, what: &str) {
        let who = thread::current().name().unwrap_or("").to_owned();
        let who = if who.starts_with("openpath") {
            "worker"
        } else if who == "kernel" {
            "kernel"
        } else {
            "caller"
        };
        self.log.lock().unwrap().push(format!("{who} {what}"));
    }

    fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let data = self.data.lock().unwrap();
        let from = data.get(offset as usize..).unwrap_or_default();
        let len = from.len().min(buf.len());
        buf[..len].copy_from_slice(&from[..len]);
        len
    }

    fn write(&self, bytes: &[u8], offset: u64) -> usize {
        let (mut data, from) = (self.data.lock().unwrap(), offset as usize);
        let len = data.len().max(from + bytes.len());
        data.resize(len, 0);
        data[from..from + bytes.len()].copy_from_slice(bytes);
        bytes.len()
    }
}

impl BackendOp {
    /// Does it completely.
    pub(crate) fn done(mut self, state: &State) {
        let moved = match &mut self.request {
            IoRequest::Read(buf) => state.read(buf, self.offset),
            IoRequest::Write(data) => state.write(data, self.offset),
            IoRequest::Sync(_) => 0,
        };
        self.end_with(Ok(moved));
    }

    /// Ends it with this result, in a thread of the backend.
    pub(crate) fn end_with(self, moved: Result<usize, Errno>) {
        let Self { request, then, .. } = self;
        let kernel = thread::Builder::new().name("kernel".to_owned());
        let kernel = kernel
            .spawn(move || then(request, moved))
            .expect("a thread");
        kernel.join().expect("no panic");
    }
}

struct Backend(Arc<State>);

impl AsyncIo for Backend {
    fn begin(self: Box<Self>, request: IoRequest, offset: u64, then: IoCompletion) {
        let begun = BackendOp {
            request,
            offset,
            then,
        };
        self.0.begun.lock().unwrap().send(begun).expect("the test");
    }
}

struct FileNode(Arc<State>);

struct Opening(Arc<State>);

impl FileOps for Opening {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn leaves_data(&self) -> bool {
        true
    }
    fn release(&self) {
        self.0.note("release");
    }
}

impl InodeOps for FileNode {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn read_at(&self, _inode: &Inode, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        self.0.note("read");
        Ok(self.0.read(buf, offset))
    }
    fn write_at(
        &self,
        inode: &Inode,
        data: &[u8],
        offset: u64,
        _now: Timespec,
    ) -> Result<usize, Errno> {
        self.0.note(&format!("write {} at {offset}", data.len()));
        let written = self.0.write(data, offset);
        self.settle(inode);
        Ok(written)
    }
    fn settle(&self, inode: &Inode) {
        self.0.note("settle");
        let len = self.0.data.lock().unwrap().len() as u64;
        inode.update(|attr| attr.size = len);
    }
    fn fsync(&self, _inode: &Inode, _data_only: bool) -> Result<(), Errno> {
        self.0.note("sync");
        Ok(())
    }
    fn setattr(&self, inode: &Inode, change: &SetAttr) -> Result<(), Errno> {
        if let Some(size) = change.size {
            self.0.note(&format!("cut {size}"));
            self.0.data.lock().unwrap().resize(size as usize, 0);
            inode.update(|attr| attr.size = size);
        }
        inode.apply(change);
        Ok(())
    }
    fn open(
        &self,
        _inode: &Inode,
        _flags: OFlags,
        _wait_mode: WaitMode,
    ) -> Result<Option<Box<dyn FileOps>>, Errno> {
        Ok(Some(Box::new(Opening(Arc::clone(&self.0)))))
    }
    fn async_io(&self, _inode: &Inode, _kind: IoKind) -> Option<Box<dyn AsyncIo>> {
        let place = Backend(Arc::clone(&self.0));
        self.0
            .moves_data
            .then(|| Box::new(place) as Box<dyn AsyncIo>)
    }
}

struct Root(Arc<Inode>);

impl InodeOps for Root {
    fn as_any(&self) -> &dyn core::any::Any {
        self
    }
    fn lookup(
        &self,
        _dir: &Inode,
        name: &[u8],
        _wait_mode: WaitMode,
    ) -> Result<LookupResult, Errno> {
        match name {
            b"f" => Ok(LookupResult::Inode(Arc::clone(&self.0))),
            _ => Ok(LookupResult::Absent),
        }
    }
}

struct Tree;

impl SuperBlockOps for Tree {
    fn statfs(&self) -> Result<StatFs, Errno> {
        Ok(StatFs::default())
    }
}

/// A `Vfs` over the tree; `/f` has ten bytes, mode 0644, and access times that stay.
pub(crate) struct World {
    pub(crate) vfs: Vfs,
    pub(crate) pool: Pool,
    pub(crate) state: Arc<State>,
    pub(crate) begun: Receiver<BackendOp>,
    before: Usage,
}

impl World {
    pub(crate) fn new(moves_data: bool) -> Self {
        let (begun, receiver) = channel();
        let state = Arc::new(State {
            data: Mutex::new(b"0123456789".to_vec()),
            log: Mutex::default(),
            begun: Mutex::new(begun),
            moves_data,
        });
        let attr = |bits| Attr {
            mode: bits,
            nlink: 1,
            size: 10,
            atime: Timespec::new(i64::from(u32::MAX), 0),
            ..Attr::default()
        };
        let kept = Box::new(FileNode(Arc::clone(&state)));
        let file = Inode::new(2, 0, attr(mode::S_IFREG | 0o644), Timespec::default(), kept);
        file.set_flags(openpath_vfs::flag::OPEN_HOOK | openpath_vfs::flag::WRITE_HOOK);
        let ops = Box::new(Root(file));
        let root = Inode::new(1, 0, attr(mode::S_IFDIR | 0o755), Timespec::default(), ops);
        let options = SuperBlockOptions::default().blocking_io(true);
        let tree = SuperBlock::new(root, Box::new(Tree), options);
        let vfs = Vfs::builder()
            .clock(Box::new(Fine))
            .build(tree)
            .expect("a Vfs");
        let task = vfs.task(Cred::root()).expect("a task");
        task.stat(b"/f").expect("it is cached");
        drop(task);
        let before = vfs.usage();
        Self {
            vfs,
            pool: Pool::new(PoolOptions::default()),
            state,
            begun: receiver,
            before,
        }
    }

    pub(crate) fn ring(&self, cred: Cred) -> Ring {
        let task = self.vfs.task(cred).expect("a task");
        Ring::new(task, &self.pool, RingOptions::default()).expect("a ring")
    }

    /// The next operation.
    pub(crate) fn next(&self) -> BackendOp {
        self.begun.recv().expect("something is begun")
    }

    /// The calls since the last time.
    pub(crate) fn log(&self) -> Vec<String> {
        std::mem::take(&mut *self.state.log.lock().unwrap())
    }

    /// Nothing is in use any more.
    pub(crate) fn assert_at_rest(self) {
        let Self {
            vfs, pool, before, ..
        } = self;
        drop(pool);
        // A lane that outlived its pool may still be releasing its last file.
        let by = std::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            vfs.collect();
            let now = vfs.usage();
            let rest = (now.pins, now.mounts) == (before.pins, before.mounts);
            if rest || std::time::Instant::now() > by {
                assert!(rest, "{before:?} before, {now:?} after");
                return;
            }
            std::thread::yield_now();
        }
    }
}

/// The wall clock in nanoseconds: successive calls have different times.
pub(crate) struct Fine;

impl Clock for Fine {
    fn now(&self) -> Timespec {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .expect("after 1970");
        Timespec::new(now.as_secs().cast_signed(), now.subsec_nanos())
    }
}
