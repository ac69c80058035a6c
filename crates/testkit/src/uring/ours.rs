// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs batches of ring entries (a scene) on openpath's ring, over a tree in memory or a directory
//! of the host.

use super::{
    Act, Answer, Back, DIRS, Desc, ENTRIES, Entry, FDS, Leaf, PATIENCE, SLOTS, Scene, Step, Trace,
    flag, paths,
};
use crate::scratch::Scratch;
use openpath_abi::fcntl::{AT_FDCWD, F_GETFD, F_GETFL, O_CREAT, O_NOFOLLOW, O_RDWR, SEEK_CUR};
use openpath_abi::{AtFlags, Errno, OFlags, OpenHow, RenameFlags, ResolveFlags, mode};
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_mem::{MemFs, MemOptions};
use openpath_ring::{Bytes, Cqe, Output, Pool, PoolOptions, Ring, RingOptions, Sqe};
use openpath_vfs::{Cred, Task, Vfs};
use std::time::{Duration, Instant};

/// Turns the error of a call that must succeed into a message.
fn must<T>(what: &str, done: Result<T, Errno>) -> Result<T, String> {
    done.map_err(|errno| format!("{what} here: {errno}"))
}

/// Runs a scene.
pub(super) fn run(scene: &Scene, back: Back) -> Result<Trace, String> {
    let place = Scratch::new("uring").map_err(|e| e.to_string())?;
    let tree = match back {
        Back::Mem => MemFs::new(MemOptions::default()),
        Back::Host => {
            let options = HostOptions::default().policy(Policy::Exclusive);
            must("a tree", HostFs::open(place.path(), options))?
        }
    };
    let vfs = must("a Vfs", Vfs::builder().build(tree))?;
    let task = must("a task", vfs.task(Cred::root()))?;
    task.umask(0o022);
    must("the scene", set_up(&task))?;
    let pool = Pool::new(PoolOptions::default());
    let mut options = RingOptions::default();
    options.entries = ENTRIES;
    options.completions = ENTRIES * 4;
    options.slots = SLOTS;
    let mut side = Side {
        ring: must("a ring", Ring::new(task, &pool, options))?,
        trace: Trace::default(),
    };
    for step in &scene.0 {
        side.step(step)?;
    }
    side.until(usize::MAX)?;
    let Side { ring, mut trace } = side;
    let task = ring.into_task();
    for fd in 0..FDS {
        if let Some(desc) = descriptor(&task, fd) {
            trace.table.insert(fd, desc);
        }
    }
    for path in paths() {
        if let Some(leaf) = leaf(&task, path.as_bytes()) {
            trace.files.insert(path, leaf);
        }
    }
    Ok(trace)
}

fn set_up(task: &Task) -> Result<(), Errno> {
    task.mknod(b"fifo", mode::S_IFIFO | 0o644, 0)?;
    task.open(b"fifo", O_RDWR, 0)?;
    for k in 0..DIRS {
        task.mkdir(format!("k{k}").as_bytes(), 0o755)?;
        let fd = task.open(format!("k{k}/f").as_bytes(), O_CREAT | O_RDWR, 0o644)?;
        task.pwrite(fd, b"0123456789", 0)?;
    }
    Ok(())
}

fn descriptor(task: &Task, fd: i32) -> Option<Desc> {
    let own = task.fcntl(fd, F_GETFD, 0).ok()?.cast_signed();
    let flags = task.fcntl(fd, F_GETFL, 0).map_or(-1, u64::cast_signed);
    let stat = task.fstat(fd).ok()?;
    let is_file = mode::file_type(stat.mode) == mode::S_IFREG;
    let size = if is_file { stat.size } else { 0 };
    Some((own, flags, task.lseek(fd, 0, SEEK_CUR), stat.mode, size))
}

fn leaf(task: &Task, path: &[u8]) -> Option<Leaf> {
    let stat = task.lstat(path).ok()?;
    match mode::file_type(stat.mode) {
        mode::S_IFDIR => Some((stat.mode, 0, 0, Vec::new())),
        mode::S_IFLNK => Some((stat.mode, stat.nlink, stat.size, task.readlink(path).ok()?)),
        _ => {
            let mut bytes = vec![0; usize::try_from(stat.size).ok()?];
            let fd = task.open(path, O_NOFOLLOW, 0).ok()?;
            let read = task.pread(fd, &mut bytes, 0).ok()?;
            task.close(fd).ok()?;
            bytes.truncate(read);
            Some((stat.mode, stat.nlink, stat.size, bytes))
        }
    }
}

struct Side {
    ring: Ring,
    trace: Trace,
}

impl Side {
    fn step(&mut self, step: &Step) -> Result<(), String> {
        match step {
            Step::Submit(entries) => {
                for entry in entries {
                    let prepared = self.ring.prepare(sqe(entry));
                    prepared.map_err(|full| format!("prepare: {full}"))?;
                }
                match self.ring.submit() {
                    Ok(n) if n == entries.len() => Ok(()),
                    other => Err(format!("{other:?} of {} entries submitted", entries.len())),
                }
            }
            Step::Feed(n) => {
                let fed = self.ring.task().write(0, &vec![b'x'; *n]);
                must("write", fed).map(drop)
            }
            Step::Await(n) => self.until(*n),
        }
    }

    /// Waits for this many completions, or for all.
    fn until(&mut self, count: usize) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            while let Some(cqe) = self.ring.next_completion() {
                self.trace.answers.push(answer(&cqe));
            }
            let enough = self.trace.answers.len() >= count;
            if enough || count == usize::MAX && self.ring.in_flight() == 0 {
                // Completions that came in between are taken as well.
                while let Some(cqe) = self.ring.next_completion() {
                    self.trace.answers.push(answer(&cqe));
                }
                return Ok(());
            }
            let _late = self.ring.wait(1, Some(Duration::from_millis(100)));
            if begun.elapsed() > PATIENCE {
                let answers = &self.trace.answers;
                return Err(format!(
                    "completions are missing: {answers:?}; {:?}",
                    self.ring
                ));
            }
        }
    }
}

fn answer(cqe: &Cqe) -> Answer {
    let bytes = |all: &mut dyn Iterator<Item = &u8>| all.copied().map(u64::from).collect();
    let seen = match (&cqe.output, cqe.result) {
        (Output::Buffer(buf), Ok(_)) => bytes(&mut buf.iter()),
        (Output::Buffers(bufs), Ok(_)) => bytes(&mut bufs.iter().flatten()),
        (Output::Statx(s), Ok(_)) => {
            let is_dir = mode::is_dir(u32::from(s.mode));
            let size = if is_dir { 0 } else { s.size };
            let links = if size == 0 { 0 } else { u64::from(s.nlink) };
            vec![u64::from(s.mode), links, size]
        }
        _ => Vec::new(),
    };
    Answer {
        data: cqe.user_data,
        result: cqe.result,
        more: cqe.more,
        seen,
    }
}

/// Our ring's form of an entry.
fn sqe(entry: &Entry) -> Sqe {
    let mut sqe = build(&entry.act).user_data(entry.data);
    for (bit, with) in [
        (flag::DRAIN, Sqe::drain as fn(Sqe) -> Sqe),
        (flag::LINK, Sqe::link),
        (flag::HARDLINK, Sqe::hardlink),
        (flag::ASYNC, Sqe::offload),
        (flag::SKIP, Sqe::skip_success),
    ] {
        if entry.flags & bit != 0 {
            sqe = with(sqe);
        }
    }
    sqe
}

fn build(act: &Act) -> Sqe {
    let ms = |ms: &u64| Duration::from_millis(*ms);
    let some = |byte: u8, len: u32| Bytes::from(vec![byte; len as usize]);
    match act {
        Act::Nop => Sqe::nop(),
        Act::Open(path, flags, mode, into) => {
            Sqe::openat(AT_FDCWD, &path[..], OFlags::from_bits_retain(*flags), *mode)
                .into_slot(*into)
        }
        Act::Open2(path, flags, resolve, into) => {
            let how = OpenHow {
                flags: *flags,
                resolve: ResolveFlags::from_bits_retain(*resolve),
                ..OpenHow::default()
            };
            Sqe::openat2(AT_FDCWD, &path[..], how).into_slot(*into)
        }
        Act::Close(file) => Sqe::close(*file),
        Act::Read(file, len, offset) => Sqe::read(*file, vec![0; *len as usize], *offset),
        Act::Readv(file, lens, offset) => {
            let bufs = lens.iter().map(|len| vec![0; *len as usize]);
            Sqe::readv(*file, bufs.collect(), *offset)
        }
        Act::Write(file, byte, len, offset) => Sqe::write(*file, some(*byte, *len), *offset),
        Act::Writev(file, pieces, offset) => {
            let pieces = pieces.iter().map(|(byte, len)| some(*byte, *len));
            Sqe::writev(*file, pieces.collect(), *offset)
        }
        Act::Sync(file, false) => Sqe::fsync(*file),
        Act::Sync(file, true) => Sqe::fdatasync(*file),
        Act::Truncate(file, len) => Sqe::ftruncate(*file, *len),
        Act::Allocate(file, how, offset, len) => Sqe::fallocate(*file, *how, *offset, *len),
        Act::Statx(path, flags) => Sqe::statx(
            AT_FDCWD,
            &path[..],
            AtFlags::from_bits_retain(*flags),
            openpath_abi::statx::STATX_BASIC_STATS,
        ),
        Act::Unlink(path, flags) => {
            Sqe::unlinkat(AT_FDCWD, &path[..], AtFlags::from_bits_retain(*flags))
        }
        Act::Rename(old, new, flags) => Sqe::renameat2(
            AT_FDCWD,
            &old[..],
            AT_FDCWD,
            &new[..],
            RenameFlags::from_bits_retain(*flags),
        ),
        Act::Mkdir(path, mode) => Sqe::mkdirat(AT_FDCWD, &path[..], *mode),
        Act::Symlink(target, path) => Sqe::symlinkat(&target[..], AT_FDCWD, &path[..]),
        Act::Link(old, new, flags) => Sqe::linkat(
            AT_FDCWD,
            &old[..],
            AT_FDCWD,
            &new[..],
            AtFlags::from_bits_retain(*flags),
        ),
        Act::Timeout(after, 0) => Sqe::timeout(ms(after)),
        Act::Timeout(after, count) => Sqe::timeout_or(ms(after), *count),
        Act::Ticks(every, times) => Sqe::timeout_multishot(ms(every), *times),
        Act::Pause(after) => Sqe::timeout(ms(after)).etime_is_success(),
        Act::LinkTimeout(after) => Sqe::link_timeout(ms(after)),
        Act::TimeoutRemove(of) => Sqe::timeout_remove(*of),
        Act::TimeoutUpdate(of, after) => Sqe::timeout_update(*of, ms(after)),
        Act::Cancel(which) => Sqe::cancel(*which),
        Act::CancelAll(which) => Sqe::cancel_all(*which),
        Act::Install(slot, cloexec) => Sqe::install(*slot, *cloexec),
        Act::Keep(fd, place) => Sqe::files_update(*fd, *place),
    }
}
