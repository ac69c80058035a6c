// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies an operation of a case on openpath, by the one method that the operation names.

use openpath_abi::{
    AtFlags, Errno, OFlags, OpenHow, RenameFlags, ResolveFlags, Statx, StatxMask, TimeSet,
    Timespec, XattrFlags, fcntl as f, stat,
};

use super::{Ours, Reader, look};
use crate::op::{Fd, Keep, Obj, Op, Time, how, raw_how, size};
use crate::op::{id, low};
use crate::outcome::{Outcome, StatView, StatxView};
use crate::scan;
use crate::skips;
use crate::sys::RawStatx;

mod io;
mod mounts;
mod table;

type Done = Result<Outcome, Errno>;

fn plain(r: Result<(), Errno>) -> Done {
    r.map(|()| Outcome::Ok)
}

fn number(n: usize) -> Outcome {
    Outcome::Num(i64::try_from(n).unwrap_or(i64::MAX))
}

/// The outcome of an fcntl(2) that returns flags.
fn flags(n: u64) -> Outcome {
    Outcome::Num(n.cast_signed())
}

fn time(t: Time) -> TimeSet {
    match t {
        Time::Now => TimeSet::Now,
        Time::Omit => TimeSet::Omit,
        Time::At(s, n) => TimeSet::At(Timespec::new(s, low(n.cast_unsigned()))),
    }
}

fn raw_statx(s: &Statx) -> RawStatx {
    RawStatx {
        mask: s.mask.bits(),
        attributes: s.attributes,
        attributes_mask: s.attributes_mask,
        btime: s.btime,
        mnt_id: s.mnt_id,
        stat: openpath_abi::Stat {
            dev: stat::makedev(s.dev_major, s.dev_minor),
            ino: s.ino,
            mode: u32::from(s.mode),
            nlink: u64::from(s.nlink),
            uid: s.uid,
            gid: s.gid,
            rdev: stat::makedev(s.rdev_major, s.rdev_minor),
            size: s.size.cast_signed(),
            blksize: i64::from(s.blksize),
            blocks: s.blocks.cast_signed(),
            atime: s.atime,
            mtime: s.mtime,
            ctime: s.ctime,
        },
    }
}

impl Ours<'_> {
    pub(super) fn dispatch(&mut self, op: &Op) -> Outcome {
        let done = self
            .open_family(op)
            .or_else(|| self.stat_family(op))
            .or_else(|| self.name_family(op))
            .or_else(|| self.attr_family(op))
            .or_else(|| self.file_family(op))
            .or_else(|| self.space_family(op))
            .or_else(|| self.dir_family(op))
            .or_else(|| self.table_family(op))
            .or_else(|| self.watch_family(op))
            .or_else(|| self.task_family(op))
            .or_else(|| self.place_family(op))
            .or_else(|| self.mount_family(op))
            .or_else(|| self.xattr_family(op));
        match done {
            Some(done) => done.unwrap_or_else(Outcome::Err),
            None => Outcome::Skip(skips::UNKNOWN),
        }
    }

    /// Keeps, closes or moves a new descriptor.
    pub(super) fn opened(&self, keep: Keep, r: Result<i32, Errno>) -> Done {
        let (task, n) = (self.task(), r?);
        let look = || task.fcntl(n, f::F_GETFL, 0).map(flags);
        match keep {
            Keep::Open => Ok(Outcome::Num(i64::from(n))),
            Keep::Look => {
                let flags = look()?;
                task.close(n)?;
                Ok(flags)
            }
            Keep::At(to) => {
                let flags = look()?;
                let moved = task.dup2(n, to);
                if n != to {
                    task.close(n)?;
                }
                moved.map(|_| flags)
            }
        }
    }

    fn open_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::Open {
                keep,
                at,
                path,
                flags,
                mode,
            } => {
                let r = task.openat(
                    at.0,
                    &path.0,
                    OFlags::from_bits_retain(flags.low()),
                    low(mode.0),
                );
                self.opened(*keep, r)
            }
            Op::Openat2 {
                keep,
                at,
                path,
                flags,
                mode,
                resolve,
            } => {
                let how = OpenHow {
                    flags: flags.0,
                    mode: mode.0,
                    resolve: ResolveFlags::from_bits_retain(resolve.0),
                };
                let r = task.openat2(at.0, &path.0, &how);
                self.opened(*keep, r)
            }
            Op::Openat2Raw {
                at,
                path,
                flags,
                mode,
                resolve,
                size: len,
                tail,
            } => {
                let bytes = raw_how(&how(flags.0, mode.0, resolve.0), *len, *tail);
                let r = task.openat2_raw(at.0, &path.0, &bytes, size(*len));
                self.opened(Keep::Look, r)
            }
            Op::Tmplink {
                at,
                dir,
                flags,
                mode,
                new,
            } => {
                let flags = flags.low() | f::O_TMPFILE.bits();
                let file = task.openat(at.0, &dir.0, OFlags::from_bits_retain(flags), low(mode.0));
                file.and_then(|n| {
                    let to = f::AT_FDCWD;
                    let linked = task.linkat(n, b"", to, &new.0, f::AT_EMPTY_PATH);
                    task.close(n)?;
                    plain(linked)
                })
            }
            _ => return None,
        })
    }

    fn stat_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        let stat = match op {
            Op::Stat { path } => task.stat(&path.0),
            Op::Lstat { path } => task.lstat(&path.0),
            Op::Fstat { fd } => task.fstat(fd.0),
            Op::Fstatat { at, path, flags } => {
                task.fstatat(at.0, &path.0, AtFlags::from_bits_retain(flags.low()))
            }
            Op::Statx {
                at,
                path,
                flags,
                mask,
            } => {
                let done = task.statx(
                    at.0,
                    &path.0,
                    AtFlags::from_bits_retain(flags.low()),
                    StatxMask::from_bits_retain(mask.low()),
                );
                return Some(done.map(|s| {
                    let s = raw_statx(&s);
                    Outcome::Statx(Box::new(StatxView::new(&s, &self.ids, &self.stamps)))
                }));
            }
            Op::Statfs { path } => return Some(task.statfs(&path.0).map(|s| Outcome::statfs(&s))),
            Op::Fstatfs { fd } => return Some(task.fstatfs(fd.0).map(|s| Outcome::statfs(&s))),
            Op::Access { path, mode } => return Some(plain(task.access(&path.0, mode.low()))),
            Op::Faccessat2 {
                at,
                path,
                mode,
                flags,
            } => {
                let done = task.faccessat2(
                    at.0,
                    &path.0,
                    mode.low(),
                    AtFlags::from_bits_retain(flags.low()),
                );
                return Some(plain(done));
            }
            _ => return None,
        };
        Some(stat.map(|s| Outcome::Stat(Box::new(StatView::new(&s, &self.ids, &self.stamps)))))
    }

    fn name_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::Mkdir { at, path, mode } => plain(task.mkdirat(at.0, &path.0, low(mode.0))),
            Op::Mknod {
                at,
                path,
                mode,
                dev,
            } => plain(task.mknodat(at.0, &path.0, low(mode.0), dev.0)),
            Op::Unlink { at, path, flags } => {
                plain(task.unlinkat(at.0, &path.0, AtFlags::from_bits_retain(flags.low())))
            }
            Op::Rename {
                at,
                old,
                at2,
                new,
                flags,
            } => {
                let (d, d2) = (at.0, at2.0);
                plain(task.renameat2(
                    d,
                    &old.0,
                    d2,
                    &new.0,
                    RenameFlags::from_bits_retain(flags.low()),
                ))
            }
            Op::Link {
                at,
                old,
                at2,
                new,
                flags,
            } => {
                let (d, d2) = (at.0, at2.0);
                plain(task.linkat(
                    d,
                    &old.0,
                    d2,
                    &new.0,
                    AtFlags::from_bits_retain(flags.low()),
                ))
            }
            Op::Symlink { target, at, path } => plain(task.symlinkat(&target.0, at.0, &path.0)),
            Op::Readlink { at, path } => task.readlinkat(at.0, &path.0).map(Outcome::Bytes),
            _ => return None,
        })
    }

    fn attr_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(plain(match op {
            Op::Chmod {
                at,
                path,
                mode,
                flags,
            } => task.fchmodat2(
                at.0,
                &path.0,
                low(mode.0),
                AtFlags::from_bits_retain(flags.low()),
            ),
            Op::Fchmod { fd, mode } => task.fchmod(fd.0, low(mode.0)),
            Op::Chown {
                at,
                path,
                uid,
                gid,
                flags,
            } => task.fchownat(
                at.0,
                &path.0,
                id(*uid),
                id(*gid),
                AtFlags::from_bits_retain(flags.low()),
            ),
            Op::Fchown { fd, uid, gid } => task.fchown(fd.0, id(*uid), id(*gid)),
            Op::Utimens {
                at,
                path,
                atime,
                mtime,
                flags,
            } => {
                let times = [time(*atime), time(*mtime)];
                task.utimensat(
                    at.0,
                    Some(&path.0),
                    times,
                    AtFlags::from_bits_retain(flags.low()),
                )
            }
            Op::Futimens { fd, atime, mtime } => {
                task.utimensat(fd.0, None, [time(*atime), time(*mtime)], AtFlags::empty())
            }
            Op::Truncate { path, len } => task.truncate(&path.0, *len),
            Op::Ftruncate { fd, len } => task.ftruncate(fd.0, *len),
            _ => return None,
        }))
    }

    fn dir_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::Ls { at, path } => {
                let flags = f::O_RDONLY | f::O_DIRECTORY;
                task.openat(at.0, &path.0, flags, 0).and_then(|n| {
                    let all = scan::all(&mut Reader(task, Fd(n)), 4096);
                    task.close(n)?;
                    all.map(Outcome::entries)
                })
            }
            Op::DirRead { fd, bytes } => self.dir_read(*fd, size(*bytes)),
            Op::Rewind { fd } => task.lseek(fd.0, 0, f::SEEK_SET).map(|_| Outcome::Ok),
            Op::Cookies { fd } => Ok(scan::cookies(&mut Reader(task, *fd))),
            _ => return None,
        })
    }

    fn dir_read(&mut self, at: Fd, bytes: usize) -> Done {
        if self.scans.starts(at) {
            let there = look::list(self.task(), self.inspector, at.0);
            self.renew();
            if let Ok(there) = there {
                self.scans.start(at, there);
            }
        }
        let got = scan::Readable::entries(&mut Reader(self.task(), at), bytes)?;
        Ok(self.scans.feed(at, got))
    }

    fn place_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::Umask { mask } => Ok(Outcome::Num(i64::from(task.umask(low(mask.0))))),
            Op::Getcwd {} => task.getcwd().map(Outcome::Bytes),
            Op::Chdir { path } => plain(task.chdir(&path.0)),
            Op::Fchdir { fd } => plain(task.fchdir(fd.0)),
            Op::Chroot { path } => plain(task.chroot(&path.0)),
            _ => return None,
        })
    }

    fn xattr_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task();
        Some(match op {
            Op::SetXattr {
                obj,
                name,
                value,
                flags,
            } => {
                let (n, v, f) = (&name.0, &value.0, flags.low());
                plain(match obj {
                    Obj::Path(p) => task.setxattr(&p.0, n, v, XattrFlags::from_bits_retain(f)),
                    Obj::LPath(p) => task.lsetxattr(&p.0, n, v, XattrFlags::from_bits_retain(f)),
                    Obj::Fd(fd) => task.fsetxattr(fd.0, n, v, XattrFlags::from_bits_retain(f)),
                })
            }
            Op::GetXattr { obj, name } => match obj {
                Obj::Path(p) => task.getxattr(&p.0, &name.0),
                Obj::LPath(p) => task.lgetxattr(&p.0, &name.0),
                Obj::Fd(fd) => task.fgetxattr(fd.0, &name.0),
            }
            .map(Outcome::Bytes),
            Op::ListXattr { obj } => match obj {
                Obj::Path(p) => task.listxattr(&p.0),
                Obj::LPath(p) => task.llistxattr(&p.0),
                Obj::Fd(fd) => task.flistxattr(fd.0),
            }
            .map(|l| Outcome::xattrs(&l)),
            Op::RemoveXattr { obj, name } => plain(match obj {
                Obj::Path(p) => task.removexattr(&p.0, &name.0),
                Obj::LPath(p) => task.lremovexattr(&p.0, &name.0),
                Obj::Fd(fd) => task.fremovexattr(fd.0, &name.0),
            }),
            _ => return None,
        })
    }
}
