// SPDX-License-Identifier: MIT OR Apache-2.0
//! Gives tests openpath over any backend as a host of the suite, on request with a planted fault,
//! and runs the suite on it with a list of expected differences.

#![allow(dead_code, reason = "each test takes what it needs")]

use openpath_abi::fcntl as f;
use openpath_abi::rename::RENAME_EXCHANGE;
use openpath_abi::{AtFlags, OpenHow, RenameFlags, ResolveFlags, TimeSet, Timespec, UmountFlags};
use openpath_conformance::{
    At, Errno, Host, How, Knowledge, Need, Node, RESOLVE_CACHED, Verdict, run, suite,
};
use openpath_vfs::{Cred, MountFlags, SuperBlock, Task, Tuning, Vfs};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Sender, TryRecvError, channel};
use std::thread::{JoinHandle, spawn};
use std::time::{SystemTime, UNIX_EPOCH};

/// A deliberate difference of openpath: the check, and its entry in `docs/LINUX.md`.
pub(crate) type Difference = (&'static str, &'static str);

/// Runs the suite, and requires exactly these differences.
pub(crate) fn conforms<B: Backend>(mut host: Openpath<B>, differences: &[Difference]) {
    let report = run(&mut host, &suite(), "");
    let mut failed = Vec::new();
    for outcome in &report.outcomes {
        match &outcome.verdict {
            Verdict::Passed => {}
            Verdict::Skipped(why) => println!("skipped {}: {why}", outcome.id),
            Verdict::Failed(_) => failed.push(outcome.id.as_str()),
        }
    }
    let known: Vec<&str> = differences.iter().map(|(check, _)| *check).collect();
    assert_eq!(failed, known, "{}", report.text());
    for (check, entry) in differences {
        println!("differs {check}: {entry}");
    }
    let ([passed, skipped, _], host) = (report.counts(), &report.host);
    let differ = differences.len();
    println!("{host}: {passed} passed, {skipped} skipped, {differ} differ");
}

/// The parts that differ between backends.
pub(crate) trait Backend {
    fn name(&self) -> String;
    /// Why the backend lacks this.
    fn lacks(&self, need: Need) -> Option<String>;
    fn knowledge(&self) -> Knowledge;
    /// Whether other tasks can cause an `EAGAIN`.
    fn is_disturbed(&self) -> bool {
        false
    }
    /// A fresh, empty tree.
    fn tree(&mut self) -> Result<Arc<SuperBlock>, String>;
    /// Waits until notifications of all changes have arrived.
    fn settle(&mut self) {}
    /// Evicts the caches below the backend.
    fn evict(&mut self) -> Result<(), Errno>;
}

/// A `Vfs` over a backend.
pub(crate) struct Openpath<B> {
    backend: B,
    vfs: Vfs,
    task: Task,
    cases: u32,
    here: Vec<u8>,
    open: BTreeSet<i32>,
    mounts: Vec<Vec<u8>>,
    swapper: Option<Swapper>,
    /// Pins held when no case runs.
    pins: usize,
    fault: Fault,
}

/// A deliberate fault that the suite must find.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    None,
    /// Waits despite `RESOLVE_CACHED`.
    IgnoresTheFlag,
    /// Never answers from the cache.
    AlwaysWaits,
    /// A failing try brings the name into the cache.
    LooksUp,
    /// A failing try keeps a reference to its last object.
    Keeps,
    /// A try answers `EAGAIN` before it checks its flags.
    WaitsBeforeInvalid,
}

struct Swapper {
    stop: Sender<()>,
    thread: JoinHandle<Result<u64, openpath_abi::Errno>>,
}

fn told(from: openpath_abi::Errno) -> Errno {
    Errno(from.raw())
}

impl<B: Backend> Openpath<B> {
    pub(crate) fn new(mut backend: B, tuning: Tuning) -> Result<Openpath<B>, String> {
        let root = backend.tree()?;
        let vfs = Vfs::builder()
            .tuning(tuning)
            .build(root)
            .map_err(|why| why.to_string())?;
        let task = vfs.task(Cred::root()).map_err(|why| why.to_string())?;
        task.umask(0);
        Ok(Openpath {
            backend,
            pins: vfs.usage().pins,
            vfs,
            task,
            cases: 0,
            here: Vec::new(),
            open: BTreeSet::new(),
            mounts: Vec::new(),
            swapper: None,
            fault: Fault::None,
        })
    }

    /// The same, with a fault.
    pub(crate) fn with_fault(self, fault: Fault) -> Openpath<B> {
        Openpath { fault, ..self }
    }

    /// openat2(2) with the planted fault.
    fn faulty(&self, at: i32, path: &[u8], how: OpenHow) -> Result<i32, openpath_abi::Errno> {
        let tries = how
            .resolve
            .contains(ResolveFlags::from_bits_retain(RESOLVE_CACHED));
        let makes = how.flags & u64::from(f::O_CREAT) != 0;
        let plain = OpenHow {
            resolve: how.resolve & ResolveFlags::from_bits_retain(!RESOLVE_CACHED),
            ..how
        };
        match self.fault {
            Fault::IgnoresTheFlag => return self.task.openat2(at, path, &plain),
            Fault::AlwaysWaits if tries => return Err(openpath_abi::Errno::EAGAIN),
            Fault::WaitsBeforeInvalid if tries && makes => return Err(openpath_abi::Errno::EAGAIN),
            _ => {}
        }
        let done = self.task.openat2(at, path, &how);
        if tries && done.is_err() && self.fault == Fault::LooksUp {
            let _ = self.task.fstatat(at, path, AtFlags::empty());
        }
        if tries && done.is_err() && self.fault == Fault::Keeps {
            let parent = path
                .iter()
                .rposition(|b| *b == b'/')
                .map_or(&b"."[..], |at| &path[..at]);
            let _ = self.task.openat(at, parent, f::O_PATH, 0);
        }
        done
    }

    fn empty(&self, dir: &[u8]) -> Result<(), openpath_abi::Errno> {
        let open = self.task.open(dir, f::O_RDONLY | f::O_DIRECTORY, 0)?;
        loop {
            let entries = self.task.getdents64(open, 1 << 16)?;
            if entries.is_empty() {
                break;
            }
            for entry in entries.iter().filter(|e| e.name != b"." && e.name != b"..") {
                let path = [dir, b"/", &entry.name].concat();
                match self.task.unlink(&path) {
                    Err(openpath_abi::Errno::EISDIR) => self.empty(&path)?,
                    done => done?,
                }
            }
        }
        self.task.close(open)?;
        self.task.rmdir(dir)
    }
}

impl<B: Backend> Host for Openpath<B> {
    fn name(&self) -> String {
        self.backend.name()
    }

    fn lacks(&self, need: Need) -> Option<String> {
        match need {
            Need::NullPath => Some("paths are slices".to_owned()),
            Need::Proc => Some("there is no proc(5)".to_owned()),
            need => self.backend.lacks(need),
        }
    }

    fn knowledge(&self) -> Knowledge {
        self.backend.knowledge()
    }

    fn is_disturbed(&self) -> bool {
        self.backend.is_disturbed()
    }

    fn begin(&mut self) -> Result<Vec<u8>, String> {
        self.cases += 1;
        self.here = format!("/case-{}", self.cases).into_bytes();
        let made = self.task.mkdir(&self.here, 0o755);
        made.and_then(|()| self.task.chdir(&self.here))
            .map_err(|why| why.to_string())?;
        Ok(self.here.clone())
    }

    fn end(&mut self) -> Result<(), String> {
        let mut left = Vec::new();
        if let Some(Err(why)) = self.swapper.take().map(Swapper::stop) {
            left.push(format!("a rename failed: {why}"));
        }
        for fd in std::mem::take(&mut self.open) {
            let _ = self.task.close(fd);
        }
        while let Some(path) = self.mounts.pop() {
            if let Err(why) = self.task.umount(&path, UmountFlags::empty()) {
                left.push(format!("{}: {why}", path.escape_ascii()));
            }
        }
        let gone = self.task.chdir(b"/").and_then(|()| self.empty(&self.here));
        if let Err(why) = gone {
            left.push(format!("the directory of the case: {why}"));
        }
        self.vfs.collect();
        let (usage, pins) = (self.vfs.usage(), self.pins);
        if usage.pins != pins {
            left.push(format!("{} pins, {pins} before", usage.pins));
        }
        if usage.pending_free != 0 {
            left.push(format!("{} unlinked entries in use", usage.pending_free));
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("; "))
        }
    }

    fn openat2(&mut self, at: At, path: Option<&[u8]>, how: How) -> Result<i32, Errno> {
        let dirfd = match at {
            At::Cwd => f::AT_FDCWD,
            At::Bad => 9999,
            At::Fd(fd) => fd,
        };
        let how = OpenHow {
            flags: how.flags,
            mode: how.mode,
            resolve: ResolveFlags::from_bits_retain(how.resolve),
        };
        let path = path.ok_or(Errno(38))?;
        let fd = self.faulty(dirfd, path, how).map_err(told)?;
        self.open.insert(fd);
        Ok(fd)
    }

    fn close(&mut self, fd: i32) -> Result<(), Errno> {
        self.open.remove(&fd);
        self.task.close(fd).map_err(told)
    }

    fn read(&mut self, fd: i32, buf: &mut [u8]) -> Result<usize, Errno> {
        self.task.read(fd, buf).map_err(told)
    }

    fn stat(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.task.stat(path).map(drop).map_err(told)
    }

    fn make(&mut self, path: &[u8], node: Node<'_>, mode: u32) -> Result<(), Errno> {
        let task = &self.task;
        let made = match node {
            Node::Dir => task.mkdir(path, mode),
            Node::Link(target) => task.symlink(target, path),
            Node::Fifo => task.mknod(path, openpath_abi::mode::S_IFIFO | mode, 0),
            Node::File(data) => {
                let flags = f::O_CREAT | f::O_EXCL | f::O_WRONLY;
                task.open(path, flags, mode).and_then(|fd| {
                    task.write(fd, data)?;
                    task.close(fd)
                })
            }
        };
        made.map_err(told)
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), Errno> {
        let done = match self.task.unlink(path) {
            Err(openpath_abi::Errno::EISDIR) => self.task.rmdir(path),
            done => done,
        };
        self.backend.settle();
        done.map_err(told)
    }

    fn rename(&mut self, old: &[u8], new: &[u8], exchange: bool) -> Result<(), Errno> {
        let flags = if exchange {
            RENAME_EXCHANGE
        } else {
            RenameFlags::empty()
        };
        let cwd = f::AT_FDCWD;
        self.task.renameat2(cwd, old, cwd, new, flags).map_err(told)
    }

    fn chmod(&mut self, path: &[u8], mode: u32) -> Result<(), Errno> {
        self.task.chmod(path, mode).map_err(told)
    }

    fn set_atime(&mut self, path: &[u8], seconds: i64) -> Result<(), Errno> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let at = TimeSet::At(Timespec::new(now.as_secs().cast_signed() + seconds, 0));
        let flags = f::AT_SYMLINK_NOFOLLOW;
        self.task
            .utimensat(f::AT_FDCWD, Some(path), [at, TimeSet::Omit], flags)
            .map_err(told)
    }

    fn mount(&mut self, path: &[u8]) -> Result<(), Errno> {
        let tree = self.backend.tree().map_err(|_| Errno(5))?;
        self.task
            .mount(tree, path, MountFlags::from_ms(0))
            .map_err(told)?;
        self.mounts.push(path.to_vec());
        Ok(())
    }

    fn bind(&mut self, source: &[u8], target: &[u8]) -> Result<(), Errno> {
        self.task.bind(source, target).map_err(told)?;
        self.mounts.push(target.to_vec());
        Ok(())
    }

    fn umount(&mut self, path: &[u8]) -> Result<(), Errno> {
        self.task.umount(path, UmountFlags::empty()).map_err(told)?;
        if let Some(last) = self.mounts.iter().rposition(|mounted| mounted == path) {
            self.mounts.remove(last);
        }
        Ok(())
    }

    fn act_as(&mut self, uid: u32) -> Result<(), Errno> {
        self.task.set_cred(match uid {
            0 => Cred::root(),
            uid => Cred::user(uid, uid, &[]),
        });
        Ok(())
    }

    fn evict(&mut self) -> Result<(), Errno> {
        self.backend.settle();
        self.vfs.shrink(u32::MAX);
        self.backend.evict()
    }

    fn free_nodes(&mut self) -> Result<u64, Errno> {
        // Unlinked and unused objects are freed only on request.
        self.vfs.collect();
        self.task
            .statfs(b".")
            .map(|figures| figures.ffree)
            .map_err(told)
    }

    fn start_swapping(&mut self, one: &[u8], other: &[u8]) -> Result<(), Errno> {
        let paths = [one, other].map(|name| [&self.here, b"/".as_slice(), name].concat());
        let vfs = self.vfs.clone();
        let (stop, stopped) = channel();
        let (begin, begun) = channel();
        let thread = spawn(move || {
            let task = vfs.task(Cred::root())?;
            let (cwd, [one, other]) = (f::AT_FDCWD, paths);
            let mut count = 0;
            while stopped.try_recv() == Err(TryRecvError::Empty) {
                task.renameat2(cwd, &one, cwd, &other, RENAME_EXCHANGE)?;
                count += 1;
                if count == 1 && begin.send(()).is_err() {
                    break;
                }
            }
            Ok(count)
        });
        if begun.recv().is_err() {
            return Err(thread
                .join()
                .ok()
                .and_then(Result::err)
                .map_or(Errno(5), told));
        }
        self.swapper = Some(Swapper { stop, thread });
        Ok(())
    }

    fn stop_swapping(&mut self) -> Result<u64, Errno> {
        let swapper = self.swapper.take().ok_or(Errno(22))?;
        swapper.stop().map_err(told)
    }
}

impl Swapper {
    fn stop(self) -> Result<u64, openpath_abi::Errno> {
        drop(self.stop);
        self.thread.join().unwrap_or(Err(openpath_abi::Errno::EIO))
    }
}
