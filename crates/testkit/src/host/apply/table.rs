// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies a case's operations on descriptors, pipes, inotify queues, tasks and programs on the
//! host.

use openpath_abi::{Errno, fcntl as f, mode};

use super::{Given, id, low, plain};
use crate::host::actor::{Birth, CLONE_FILES, Raw, Stage, born};
use crate::host::fd;
use crate::op::{Cmd, OWN, Op};
use crate::outcome::{Outcome, raw_events};
use crate::sys;

/// A call that makes a descriptor.
fn made(r: sys::Ret) -> Given {
    fd(r).map(Raw::Opened)
}

fn number(r: sys::Ret) -> Given {
    r.map(|n| Raw::Done(Outcome::Num(n)))
}

fn done(r: sys::Ret) -> Given {
    plain(r).map(Raw::Done)
}

/// Replaces the number that stands for this process, which every side knows, by our pid.
fn own_in(arg: i64) -> i64 {
    let own = sys::getpid().unwrap_or(0);
    if arg == OWN { own } else { arg }
}

fn own_out(arg: i64) -> i64 {
    let own = sys::getpid().unwrap_or(0);
    if arg == own { OWN } else { arg }
}

/// Reads all waiting events; from anything but an event queue, bytes.
fn events(fd: i32) -> Given {
    let data = sys::read(fd, 1 << 16)?;
    if mode::file_type(sys::fstat(fd)?.mode) != 0 {
        return Ok(Raw::Done(Outcome::Bytes(data)));
    }
    Ok(raw_events(&data).map_or_else(|e| Raw::Done(Outcome::Bad(e)), Raw::Events))
}

impl Stage {
    pub(super) fn table_family(&mut self, op: &Op) -> Option<Given> {
        Some(match op {
            Op::Close { fd } => done(sys::close(fd.0)),
            Op::CloseRange { first, last, flags } => {
                let (first, last) = (low(first.cast_unsigned()), low(last.cast_unsigned()));
                done(sys::close_range(first, last, flags.low()))
            }
            Op::Dup { fd } => made(sys::dup(fd.0)),
            Op::Dup2 { fd, new } => made(sys::dup2(fd.0, new.0)),
            Op::Dup3 { fd, new, flags } => made(sys::dup3(fd.0, new.0, flags.low())),
            Op::Fcntl { fd, cmd, arg } => self.fcntl(fd.0, *cmd, *arg),
            Op::Same { fd, other } => {
                number(sys::fcntl(fd.0, f::F_DUPFD_QUERY, i64::from(other.0)))
            }
            Op::GetFl { fd } => number(sys::fcntl(fd.0, f::F_GETFL, 0)),
            Op::SetFl { fd, flags } => done(sys::fcntl(fd.0, f::F_SETFL, i64::from(flags.low()))),
            Op::GetOwnEx { fd } => sys::getown_ex(fd.0).map(|[kind, id]| {
                Raw::Done(Outcome::Nums(vec![i64::from(kind), own_out(id.into())]))
            }),
            Op::SetOwnEx {
                fd,
                kind,
                id: owner,
            } => {
                let owner = id(own_in(*owner)).cast_signed();
                done(sys::setown_ex(fd.0, id(*kind).cast_signed(), owner))
            }
            Op::Pipe2 { flags } => sys::pipe2(flags.low()).map(Raw::Paired),
            Op::InotifyInit { flags } => made(sys::inotify_init1(flags.low())),
            Op::Watch { fd, path, mask } => {
                number(sys::inotify_add_watch(fd.0, &path.0, mask.low()))
            }
            Op::Unwatch { fd, wd } => done(sys::inotify_rm_watch(fd.0, id(*wd).cast_signed())),
            Op::Events { fd } => events(fd.0),
            _ => return None,
        })
    }

    fn fcntl(&self, fd: i32, cmd: Cmd, arg: i64) -> Given {
        match cmd.0 {
            f::F_DUPFD | f::F_DUPFD_CLOEXEC => made(sys::fcntl(fd, cmd.0, arg)),
            f::F_SETOWN => number(sys::fcntl(fd, cmd.0, own_in(arg))),
            f::F_GETOWN => number(sys::fcntl(fd, cmd.0, 0).map(own_out)),
            _ => number(sys::fcntl(fd, cmd.0, arg)),
        }
    }

    pub(super) fn task_family(&mut self, op: &Op) -> Option<Given> {
        let birth = |birth| {
            let child = born(birth, self.uid, self.below);
            child.map(Raw::Born).ok_or(Errno::EAGAIN)
        };
        Some(match op {
            Op::Cred { uid } => self.become_user(id(*uid)).map(|()| Raw::Done(Outcome::Ok)),
            Op::Fork {} => birth(Birth::Fork),
            Op::Clone {} => birth(Birth::Clone),
            Op::Unshare {} => done(sys::unshare(CLONE_FILES)),
            Op::Exec {} => exec(),
            Op::Program { path } => {
                let flags = f::O_WRONLY | f::O_CREAT | f::O_TRUNC;
                fd(sys::openat(f::AT_FDCWD, &path.0, flags.bits(), 0o755)).and_then(|fd| {
                    let written = sys::write(fd, &sys::waiting_program());
                    sys::close(fd)?;
                    done(written)
                })
            }
            Op::Run { fd } => sys::run(fd.0).map(|child| {
                self.running.push(child);
                Raw::Done(Outcome::Ok)
            }),
            Op::Halt {} => {
                self.halt();
                Ok(Raw::Done(Outcome::Ok))
            }
            _ => return None,
        })
    }
}

/// Does to the table what execve(2) does: a child executes, and this closes what the child lost.
fn exec() -> Given {
    sys::unshare(CLONE_FILES)?;
    let open = |n: &u32| sys::fcntl(n.cast_signed(), f::F_GETFD, 0).is_ok();
    let all: Vec<u32> = (0..u32::from(u8::MAX)).filter(open).collect();
    let mut asked: Option<(u32, u8)> = None;
    let mut lost = Vec::new();
    for n in all {
        let (first, survive) = match asked {
            Some((first, bits)) if n < first + u32::from(sys::SURVIVORS) => (first, bits),
            _ => (n, sys::survivors(u8::try_from(n).unwrap_or(u8::MAX))?),
        };
        asked = Some((first, survive));
        if survive & (1 << (n - first)) == 0 {
            lost.push(n.cast_signed());
        }
    }
    // The kernel closes the descriptors of one call in descending order.
    for n in lost.into_iter().rev() {
        sys::close(n)?;
    }
    Ok(Raw::Done(Outcome::Ok))
}
