// SPDX-License-Identifier: MIT OR Apache-2.0
//! Guesses which descriptors are open in the table of each task, so that most of the random
//! generator's operations are valid. The generator runs nothing: the guess follows from the
//! operations that it made.

use std::collections::BTreeMap;

use openpath_abi::fcntl as f;

use super::guess::Kind;
use crate::op::{Cmd, Op};
use crate::side;

/// A descriptor that may be open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    pub(super) path: Vec<u8>,
    pub(super) kind: Kind,
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) cloexec: bool,
}

/// A task that may exist.
#[derive(Clone, Debug)]
struct Task {
    table: usize,
    limit: i32,
    /// Path of the working directory.
    cwd: Vec<u8>,
}

/// All tables.
#[derive(Clone, Debug)]
pub(super) struct Tables {
    tables: Vec<BTreeMap<i32, Held>>,
    tasks: Vec<Option<Task>>,
    acting: usize,
}

impl Default for Tables {
    fn default() -> Tables {
        let task = Task {
            table: 0,
            limit: side::LIMIT as i32,
            cwd: Vec::new(),
        };
        Tables {
            tables: vec![BTreeMap::new()],
            tasks: vec![Some(task)],
            acting: 0,
        }
    }
}

impl Tables {
    fn task(&self) -> Task {
        let first = Task {
            table: 0,
            limit: 0,
            cwd: Vec::new(),
        };
        self.tasks[self.acting].clone().unwrap_or(first)
    }

    fn table(&mut self) -> &mut BTreeMap<i32, Held> {
        let at = self.task().table;
        &mut self.tables[at]
    }

    /// Descriptors that may be open in the acting task.
    pub(super) fn open(&self) -> &BTreeMap<i32, Held> {
        &self.tables[self.task().table]
    }

    /// The working directory of the acting task.
    pub(super) fn cwd(&self) -> Vec<u8> {
        self.task().cwd
    }

    pub(super) fn set_cwd(&mut self, path: Vec<u8>) {
        if let Some(task) = &mut self.tasks[self.acting] {
            task.cwd = path;
        }
    }

    /// The limit of the acting task.
    pub(super) fn limit(&self) -> i32 {
        self.task().limit
    }

    /// How many tasks there were.
    pub(super) fn tasks(&self) -> usize {
        self.tasks.len()
    }

    /// The lowest free number from `from` on, if it is below the limit.
    fn free(&self, from: i32) -> Option<i32> {
        let free = (from..=i32::MAX).find(|n| !self.open().contains_key(n));
        free.filter(|n| (0..self.limit()).contains(n))
    }

    /// Records an opened file.
    pub(super) fn put(&mut self, held: Held) {
        if let Some(n) = self.free(0) {
            self.table().insert(n, held);
        }
    }

    /// Records a file that was opened and moved to this number.
    pub(super) fn put_at(&mut self, n: i32, held: Option<Held>) {
        if (0..self.limit()).contains(&n)
            && let Some(mut held) = held
        {
            held.cloexec = false;
            self.table().insert(n, held);
        }
    }

    fn double(&mut self, old: i32, new: Option<i32>, cloexec: bool) {
        let Some(mut held) = self.open().get(&old).cloned() else {
            return;
        };
        held.cloexec = cloexec;
        match new {
            Some(n) if (0..self.limit()).contains(&n) => drop(self.table().insert(n, held)),
            Some(_) => {}
            None => self.put(held),
        }
    }

    /// Gives the acting task a table of its own.
    fn own(&mut self) {
        let copy = self.open().clone();
        self.tables.push(copy);
        let at = self.tables.len() - 1;
        if let Some(task) = &mut self.tasks[self.acting] {
            task.table = at;
        }
    }

    fn born(&mut self, copied: bool) {
        if self.tasks.len() >= side::TASKS {
            return;
        }
        let mut task = self.task();
        if copied {
            let copy = self.open().clone();
            self.tables.push(copy);
            task.table = self.tables.len() - 1;
        }
        self.tasks.push(Some(task));
    }

    fn fcntl(&mut self, fd: i32, cmd: Cmd, arg: i64) {
        let arg = i32::try_from(arg).unwrap_or(-1);
        match cmd.0 {
            f::F_DUPFD | f::F_DUPFD_CLOEXEC if arg >= 0 => {
                if let Some(n) = self.free(arg) {
                    self.double(fd, Some(n), cmd.0 == f::F_DUPFD_CLOEXEC);
                }
            }
            f::F_SETFD => {
                if let Some(held) = self.table().get_mut(&fd) {
                    held.cloexec = arg & 1 != 0;
                }
            }
            _ => {}
        }
    }

    fn range(&mut self, first: i64, last: i64, flags: u32) {
        if flags & !6 != 0 || first > last {
            return;
        }
        if flags & f::CLOSE_RANGE_UNSHARE != 0 {
            self.own();
        }
        let inside = |n: &i32| (first..=last).contains(&i64::from(*n));
        if flags & f::CLOSE_RANGE_CLOEXEC != 0 {
            let marked = self.table().iter_mut().filter(|(n, _)| inside(n));
            marked.for_each(|(_, held)| held.cloexec = true);
        } else {
            self.table().retain(|n, _| !inside(n));
        }
    }

    /// Records what a successful operation does to tables and tasks.
    pub(super) fn learn(&mut self, op: &Op) {
        match op {
            Op::Close { fd } => drop(self.table().remove(&fd.0)),
            Op::CloseRange { first, last, flags } => self.range(*first, *last, flags.low()),
            Op::Dup { fd } => self.double(fd.0, None, false),
            Op::Dup2 { fd, new } if fd != new => self.double(fd.0, Some(new.0), false),
            Op::Dup3 { fd, new, flags } if fd != new && flags.0 & !0o2000000 == 0 => {
                self.double(fd.0, Some(new.0), flags.0 != 0);
            }
            Op::Fcntl { fd, cmd, arg } => self.fcntl(fd.0, *cmd, *arg),
            Op::Rlimit { soft } => {
                if let Some(task) = &mut self.tasks[self.acting] {
                    task.limit = side::limit(*soft) as i32;
                }
            }
            Op::Fork {} => self.born(true),
            Op::Clone {} => self.born(false),
            Op::Unshare {} => self.own(),
            Op::Exec {} => {
                self.own();
                self.table().retain(|_, held| !held.cloexec);
            }
            Op::Exit {} if self.acting != 0 => {
                self.tasks[self.acting] = None;
                self.acting = 0;
            }
            Op::Task { task } => {
                self.acting = side::other(&self.tasks, *task).unwrap_or(self.acting)
            }
            Op::Pass { task, fd } => {
                let from = side::other(&self.tasks, *task).and_then(|n| self.tasks[n].clone());
                let held = from.and_then(|t| self.tables[t.table].get(&fd.0).cloned());
                if let Some(mut held) = held {
                    held.cloexec = true;
                    self.put(held);
                }
            }
            Op::Pipe2 { flags } => {
                for writes in [false, true] {
                    self.put(Held {
                        path: Vec::new(),
                        kind: Kind::Pipe,
                        reads: !writes,
                        writes,
                        cloexec: flags.low() & f::O_CLOEXEC.bits() != 0,
                    });
                }
            }
            Op::InotifyInit { .. } => self.put(Held {
                path: Vec::new(),
                kind: Kind::Queue,
                reads: true,
                writes: false,
                cloexec: false,
            }),
            _ => {}
        }
    }
}
