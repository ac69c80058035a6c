// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes, ends and selects the tasks of a case on the host, and inspects their descriptors, mounts
//! and working directories from outside.

use openpath_abi::{Errno, fcntl as f};

use super::actor::{Order, Raw};
use super::{Host, SLOTS, Task, fd};
use crate::mounts;
use crate::op::Op;
use crate::outcome::Outcome;
use crate::side;
use crate::sys;
use crate::tree::{Depth, RawPlace, RawTask};

/// How mountinfo shows a served root of a case.
const SERVED: &str = " - fuse.tmpfs ";
/// How mountinfo shows a tmpfs.
const PLAIN: &str = " - tmpfs ";
/// The most bytes of a mount table.
const TABLE: usize = 1 << 18;

impl Host<'_> {
    /// Applies operations that make or end a task, or choose the acting one.
    pub(super) fn tasks_family(&mut self, op: &Op) -> Option<Outcome> {
        Some(match op {
            Op::Task { task } => match side::other(&self.tasks, *task) {
                Some(number) => {
                    self.acting = number;
                    Outcome::Ok
                }
                None => Outcome::Err(Errno::ESRCH),
            },
            Op::Fork {} | Op::Clone {} if self.tasks.len() >= side::TASKS => {
                Outcome::Err(Errno::EAGAIN)
            }
            Op::Exit {} if self.acting == 0 => Outcome::Err(Errno::EPERM),
            Op::Exit {} => {
                if let Some(task) = self.tasks[self.acting].take() {
                    task.actor.end();
                }
                self.acting = 0;
                Outcome::Ok
            }
            Op::Pass { task, fd } => match side::other(&self.tasks, *task) {
                Some(number) => {
                    let tid = self.tasks[number].as_ref().map_or(0, |t| t.actor.tid);
                    let done = self.order(Order::Take(tid, *fd));
                    self.said(done)
                }
                None => Outcome::Err(Errno::ESRCH),
            },
            Op::Rlimit { soft } => {
                let soft = side::limit(*soft);
                if let Some(task) = &mut self.tasks[self.acting] {
                    task.limit = soft;
                }
                self.world.limit(soft);
                Outcome::Ok
            }
            Op::Stack {} => {
                let done = self.order(Order::Stack);
                let root = self.roots().next();
                if let Some(root) = root {
                    let _ = sys::close(self.root);
                    self.root = root;
                }
                self.stamps.stacked = true;
                self.said(done)
            }
            Op::SaveNs { slot } => self.keep(*slot).unwrap_or_else(Outcome::Err),
            Op::SetNs { slot } => match slot_of(*slot).and_then(|s| self.kept[s]) {
                Some(kept) => {
                    let own = sys::gettid().unwrap_or(0);
                    let done = self.order(Order::Enter(own, kept));
                    self.said(done)
                }
                None => Outcome::Err(Errno::EBADF),
            },
            _ => return None,
        })
    }

    /// Keeps the acting task's namespace.
    fn keep(&mut self, slot: i64) -> Result<Outcome, Errno> {
        let slot = slot_of(slot).ok_or(Errno::EBADF)?;
        let tid = self.tasks[self.acting].as_ref().map_or(0, |t| t.actor.tid);
        let file = namespace(self.world.proc, tid)?;
        if let Some(old) = self.kept[slot].replace(file) {
            sys::close(old)?;
        }
        Ok(Outcome::Ok)
    }

    /// Inspects all tasks.
    pub(super) fn looked_at(&mut self, depth: Depth) -> Vec<RawTask> {
        let of = |task: &Option<Task>| {
            let Some(task) = task else {
                return RawTask::default();
            };
            let Raw::Table(table, cwd) = task.actor.ask(Order::Table(self.top)) else {
                return RawTask::default();
            };
            let place = (depth >= Depth::Mounts).then(|| self.place(task.actor.tid, cwd));
            RawTask { table, place }
        };
        let all: Vec<RawTask> = self.tasks.iter().map(of).collect();
        let tables = all.iter().flat_map(|t| &t.place).flat_map(|p| &p.mounts);
        self.mounts = tables.map(Vec::len).max().unwrap_or(self.mounts);
        all
    }

    fn place(&self, tid: i64, cwd_path: Result<Vec<u8>, Errno>) -> RawPlace {
        let stat = |name| sys::fstatat(self.world.proc, &path(tid, name), 0);
        let flags = f::O_RDONLY | f::O_CLOEXEC;
        let table = fd(sys::openat(
            self.world.proc,
            &path(tid, "mountinfo"),
            flags.bits(),
            0,
        ));
        let text = table.and_then(|fd| {
            let text = read_all(fd);
            sys::close(fd)?;
            text
        });
        let text = text.unwrap_or_default();
        RawPlace {
            mounts: mounts::lines(&String::from_utf8_lossy(&text).replace(SERVED, PLAIN)),
            root: stat("root"),
            cwd: stat("cwd"),
            cwd_path,
        }
    }

    /// Opens the roots of all tasks.
    pub(super) fn roots(&self) -> impl Iterator<Item = i32> {
        let flags = f::O_PATH | f::O_DIRECTORY | f::O_CLOEXEC;
        let open = move |task: &Task| {
            let path = path(task.actor.tid, "root");
            fd(sys::openat(self.world.proc, &path, flags.bits(), 0)).ok()
        };
        self.tasks.iter().flatten().filter_map(open)
    }
}

/// Whether there can be more mounts after this operation.
pub(super) fn adds_mounts(op: &Op) -> bool {
    matches!(
        op,
        Op::Mount { .. }
            | Op::Bind { .. }
            | Op::Move { .. }
            | Op::UnshareMounts {}
            | Op::OpenTree { .. }
            | Op::MoveMount { .. }
    )
}

/// A descriptor of a thread's namespace.
pub(super) fn namespace(proc: i32, tid: i64) -> Result<i32, Errno> {
    let flags = f::O_RDONLY | f::O_CLOEXEC;
    fd(sys::openat(proc, &path(tid, "ns/mnt"), flags.bits(), 0))
}

fn slot_of(slot: i64) -> Option<usize> {
    usize::try_from(slot).ok().filter(|s| *s < SLOTS)
}

/// The path of a thread's file in `/proc`.
fn path(tid: i64, name: &str) -> Vec<u8> {
    format!("self/task/{tid}/{name}").into_bytes()
}

fn read_all(fd: i32) -> Result<Vec<u8>, Errno> {
    let mut all = Vec::new();
    loop {
        let got = sys::read(fd, 1 << 14)?;
        if got.is_empty() || all.len() > TABLE {
            return Ok(all);
        }
        all.extend(got);
    }
}
