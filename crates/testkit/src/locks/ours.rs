// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs scripts of lock calls on openpath: a task for each thread, over a tree in memory.

use super::turns::Caller;
use super::{Answer, FILES, Layout, Op, SIZE, Told};
use openpath_abi::fcntl::{O_CREAT, O_RDWR, SEEK_SET};
use openpath_abi::lock as l;
use openpath_abi::{Errno, OFlags};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Task, Vfs};

/// Our processes.
pub(super) struct Ours {
    pub(super) vfs: Vfs,
    pub(super) tasks: Vec<Task>,
}

fn path(file: i32) -> Vec<u8> {
    format!("/{file}").into_bytes()
}

fn nothing<T>(_: T) -> Told {
    Told::Number(0)
}

impl Caller for Task {
    fn call(&self, op: &Op) -> Answer {
        let number = |fd: i32| Told::Number(fd.into());
        match *op {
            Op::Open(file, flags) => self
                .open(&path(file), OFlags::from_bits_retain(flags), 0)
                .map(number),
            Op::Close(fd) => self.close(fd).map(nothing),
            Op::CloseRange(first, last) => self.close_range(first, last, 0).map(nothing),
            Op::Dup(fd) => self.dup(fd).map(number),
            Op::Dup2(fd, to) => self.dup2(fd, to).map(number),
            Op::Seek(fd, to) => self.lseek(fd, to, SEEK_SET).map(Told::Number),
            Op::Truncate(fd, to) => self.ftruncate(fd, to).map(nothing),
            Op::Flock(fd, op) => self.flock(fd, op).map(nothing),
            Op::Fcntl(fd, cmd, ask) => match cmd {
                l::F_GETLK => self.fcntl_getlk(fd, &ask).map(|lock| Told::lock(&lock)),
                l::F_OFD_GETLK => self.ofd_getlk(fd, &ask).map(|lock| Told::lock(&lock)),
                l::F_SETLK => self.fcntl_setlk(fd, &ask).map(nothing),
                l::F_SETLKW => self.fcntl_setlkw(fd, &ask).map(nothing),
                l::F_OFD_SETLK => self.ofd_setlk(fd, &ask).map(nothing),
                l::F_OFD_SETLKW => self.ofd_setlkw(fd, &ask).map(nothing),
                _ => Err(Errno::EINVAL),
            },
            Op::Look(look) => Ok(self.look(look)),
        }
    }
}

impl Ours {
    pub(super) fn new(layout: &Layout) -> Result<Self, Errno> {
        let vfs = Vfs::builder().build(MemFs::new(MemOptions::default()))?;
        let parent = vfs.task(Cred::root())?;
        for file in 0..FILES {
            let fd = parent.open(&path(file), O_CREAT | O_RDWR, 0o666)?;
            parent.write(fd, &[b'x'; SIZE])?;
            parent.close(fd)?;
        }
        if layout.common {
            for file in 0..FILES {
                parent.open(&path(file), O_RDWR, 0)?;
            }
        }
        let mut tasks = Vec::new();
        for count in layout.threads {
            let first = parent.fork()?;
            let others: Result<Vec<Task>, Errno> =
                (1..*count).map(|_| first.clone_files()).collect();
            tasks.push(first);
            tasks.extend(others?);
        }
        for (pid, task) in (1..).zip(&tasks) {
            task.set_pid(pid);
        }
        Ok(Self { vfs, tasks })
    }

    /// Runs steps in order.
    pub(super) fn run(&self, steps: impl Iterator<Item = super::Step>) -> Vec<Answer> {
        steps
            .map(|step| self.tasks[step.thread].act(&step.op))
            .collect()
    }

    /// The locks that are left when all processes have ended.
    pub(super) fn end(self) -> Vec<openpath_vfs::LockInfo> {
        drop(self.tasks);
        self.vfs.locks()
    }
}
