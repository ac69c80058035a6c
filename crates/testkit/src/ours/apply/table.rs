// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies a case's operations on descriptors, pipes, inotify queues, tasks and programs on
//! openpath.

use openpath_abi::{Errno, OFlags, fcntl as f, mode};
use openpath_vfs::{OwnerEx, Task};

use super::{Done, flags, id, low, plain};
use crate::op::Op;
use crate::ours::{Ours, cred};
use crate::outcome::{Outcome, raw_events};
use crate::side;
use crate::sys;

fn made(r: Result<i32, Errno>) -> Done {
    r.map(|n| Outcome::Num(i64::from(n)))
}

impl Ours<'_> {
    pub(super) fn table_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::Close { fd } => plain(task.close(fd.0)),
            Op::CloseRange {
                first,
                last,
                flags: how,
            } => {
                let (first, last) = (low(first.cast_unsigned()), low(last.cast_unsigned()));
                plain(task.close_range(first, last, how.low()))
            }
            Op::Dup { fd } => made(task.dup(fd.0)),
            Op::Dup2 { fd, new } => made(task.dup2(fd.0, new.0)),
            Op::Dup3 {
                fd,
                new,
                flags: how,
            } => made(task.dup3(fd.0, new.0, OFlags::from_bits_retain(how.low()))),
            Op::Fcntl { fd, cmd, arg } => {
                let done = task.fcntl(fd.0, cmd.0, arg.cast_unsigned());
                done.map(|n| match cmd.0 {
                    f::F_GETOWN => Outcome::Num(i64::from((low(n)).cast_signed())),
                    _ => flags(n),
                })
            }
            Op::Same { fd, other } => {
                let other = i64::from(other.0).cast_unsigned();
                task.fcntl(fd.0, f::F_DUPFD_QUERY, other).map(flags)
            }
            Op::GetFl { fd } => task.fcntl(fd.0, f::F_GETFL, 0).map(flags),
            Op::SetFl { fd, flags: how } => {
                plain(task.fcntl(fd.0, f::F_SETFL, u64::from(how.low())).map(drop))
            }
            Op::GetOwnEx { fd } => task
                .getown_ex(fd.0)
                .map(|o| Outcome::Nums(vec![i64::from(o.kind), i64::from(o.pid)])),
            Op::SetOwnEx {
                fd,
                kind,
                id: owner,
            } => plain(task.setown_ex(
                fd.0,
                OwnerEx {
                    kind: id(*kind),
                    pid: id(*owner).cast_signed(),
                },
            )),
            _ => return None,
        })
    }

    pub(super) fn watch_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::Pipe2 { flags: how } => task
                .pipe2(OFlags::from_bits_retain(how.low()))
                .map(|(read, write)| Outcome::Nums(vec![read.into(), write.into()])),
            Op::InotifyInit { flags: how } => made(task.inotify_init1(how.low())),
            Op::Watch { fd, path, mask } => made(task.inotify_add_watch(fd.0, &path.0, mask.low())),
            Op::Unwatch { fd, wd } => plain(task.inotify_rm_watch(fd.0, id(*wd).cast_signed())),
            Op::Events { fd } => {
                let mut data = vec![0; 1 << 16];
                let got = match task.read(fd.0, &mut data) {
                    Ok(got) => got,
                    Err(e) => return Some(Err(e)),
                };
                data.truncate(got);
                if task.fstat(fd.0).is_ok_and(|s| mode::file_type(s.mode) != 0) {
                    return Some(Ok(Outcome::Bytes(data)));
                }
                Ok(match raw_events(&data) {
                    Ok(all) => Outcome::Events(self.names.events(all)),
                    Err(text) => Outcome::Bad(text),
                })
            }
            _ => return None,
        })
    }

    pub(super) fn task_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Cred { uid } => {
                self.become_user(id(*uid));
                Ok(Outcome::Ok)
            }
            Op::Rlimit { soft } => {
                self.task().set_rlimit_nofile(side::limit(*soft));
                Ok(Outcome::Ok)
            }
            Op::Fork {} | Op::Clone {} if self.tasks.len() >= side::TASKS => Err(Errno::EAGAIN),
            Op::Fork {} => {
                let child = self.task().fork();
                self.born(child)
            }
            Op::Clone {} => {
                let child = self.task().clone_files();
                self.born(child)
            }
            Op::Unshare {} => plain(self.task().unshare_files()),
            Op::Exec {} => plain(self.task().exec()),
            Op::Program { path } => {
                let (task, flags) = (self.task(), f::O_WRONLY | f::O_CREAT | f::O_TRUNC);
                task.open(&path.0, flags, 0o755).and_then(|fd| {
                    let written = task.write(fd, &sys::waiting_program());
                    task.close(fd)?;
                    plain(written.map(drop))
                })
            }
            Op::Run { fd } => self.task().deny_write(fd.0).and_then(|running| {
                self.running.push(running);
                // execve(2) reads the file.
                plain(self.task().pread(fd.0, &mut [0], 0).map(drop))
            }),
            Op::Halt {} => {
                self.running.clear();
                Ok(Outcome::Ok)
            }
            Op::Exit {} if self.acting == 0 => Err(Errno::EPERM),
            Op::Exit {} => {
                self.tasks[self.acting] = None;
                self.acting = 0;
                Ok(Outcome::Ok)
            }
            Op::Task { task } => match side::other(&self.tasks, *task) {
                Some(number) => {
                    self.acting = number;
                    Ok(Outcome::Ok)
                }
                None => Err(Errno::ESRCH),
            },
            Op::Pass { task, fd } => match side::other(&self.tasks, *task) {
                Some(number) => self.take(number, fd.0),
                None => Err(Errno::ESRCH),
            },
            _ => return None,
        })
    }

    /// Takes a descriptor of another task.
    fn take(&self, number: usize, fd: i32) -> Done {
        let from = self.tasks[number].as_ref().ok_or(Errno::ESRCH)?;
        let file = from.file(fd)?;
        made(self.task().install(&file, f::O_CLOEXEC))
    }

    /// Adds a task.
    fn born(&mut self, child: Result<Task, Errno>) -> Done {
        let (child, uid) = (child?, self.uids[self.acting]);
        if uid != 0 {
            child.set_cred(cred(uid));
        }
        self.tasks.push(Some(child));
        self.uids.push(uid);
        self.scans.stop_following();
        Ok(Outcome::Num(
            i64::try_from(self.tasks.len() - 1).unwrap_or(0),
        ))
    }
}
