// SPDX-License-Identifier: MIT OR Apache-2.0
//! Applies an operation of a case on the host, by the one system call that the operation names.

use openpath_abi::{Errno, fcntl as f, time};

use super::actor::{Raw, Stage};
use super::{fd, look};
use crate::op::{Keep, Obj, Op, Time, how, raw_how, size};
use crate::op::{id, low};
use crate::outcome::Outcome;
use crate::scan;
use crate::skips;
use crate::sys::{self, XattrOf};

mod io;
mod mounts;
mod table;

type Done = Result<Outcome, Errno>;
type Given = Result<Raw, Errno>;

/// The outcome of a call that returns nothing but success.
fn plain(r: sys::Ret) -> Done {
    r.map(|_| Outcome::Ok)
}

fn pair(t: Time) -> (i64, i64) {
    match t {
        Time::Now => (0, time::UTIME_NOW),
        Time::Omit => (0, time::UTIME_OMIT),
        Time::At(s, n) => (s, n),
    }
}

impl Stage {
    pub(super) fn dispatch(&mut self, op: &Op) -> Raw {
        let raw = self
            .open_family(op)
            .or_else(|| self.stat_family(op))
            .or_else(|| self.dir_family(op))
            .or_else(|| self.task_family(op))
            .or_else(|| self.table_family(op))
            .or_else(|| self.tree_family(op));
        if let Some(raw) = raw {
            return raw.unwrap_or_else(|e| Raw::Done(Outcome::Err(e)));
        }
        let done = self
            .name_family(op)
            .or_else(|| self.attr_family(op))
            .or_else(|| self.file_family(op))
            .or_else(|| self.space_family(op))
            .or_else(|| self.place_family(op))
            .or_else(|| self.mount_family(op))
            .or_else(|| self.xattr_family(op));
        Raw::Done(match done {
            Some(done) => done.unwrap_or_else(Outcome::Err),
            None => Outcome::Skip(skips::UNKNOWN),
        })
    }

    /// Keeps, closes or moves a new descriptor.
    pub(super) fn opened(keep: Keep, r: sys::Ret) -> Given {
        let n = fd(r)?;
        let look = || sys::fcntl(n, f::F_GETFL, 0);
        match keep {
            Keep::Open => Ok(Raw::Opened(n)),
            Keep::Look => {
                let flags = look()?;
                sys::close(n)?;
                Ok(Raw::Done(Outcome::Num(flags)))
            }
            Keep::At(to) => {
                let flags = look()?;
                let moved = sys::dup2(n, to);
                if n != to {
                    sys::close(n)?;
                }
                moved.map(|_| Raw::Placed(to, flags))
            }
        }
    }

    fn open_family(&mut self, op: &Op) -> Option<Given> {
        Some(match op {
            Op::Open {
                keep,
                at,
                path,
                flags,
                mode,
            } => {
                let r = sys::openat(at.0, &path.0, flags.low(), low(mode.0));
                Self::opened(*keep, r)
            }
            Op::Openat2 {
                keep,
                at,
                path,
                flags,
                mode,
                resolve,
            } => {
                let how = how(flags.0, mode.0, resolve.0);
                let r = sys::openat2(at.0, &path.0, &how, how.len());
                Self::opened(*keep, r)
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
                let r = sys::openat2(at.0, &path.0, &bytes, size(*len));
                Self::opened(Keep::Look, r)
            }
            Op::Tmplink {
                at,
                dir,
                flags,
                mode,
                new,
            } => {
                let flags = flags.low() | f::O_TMPFILE.bits();
                let r = sys::openat(at.0, &dir.0, flags, low(mode.0));
                fd(r).and_then(|fd| {
                    let linked = sys::linkat(fd, b"", f::AT_FDCWD, &new.0, f::AT_EMPTY_PATH.bits());
                    sys::close(fd)?;
                    plain(linked).map(Raw::Done)
                })
            }
            _ => return None,
        })
    }

    fn stat_family(&mut self, op: &Op) -> Option<Given> {
        let stat = match op {
            Op::Stat { path } => sys::stat(&path.0),
            Op::Lstat { path } => sys::lstat(&path.0),
            Op::Fstat { fd } => sys::fstat(fd.0),
            Op::Fstatat { at, path, flags } => sys::fstatat(at.0, &path.0, flags.low()),
            Op::Statx {
                at,
                path,
                flags,
                mask,
            } => {
                let done = sys::statx(at.0, &path.0, flags.low(), mask.low());
                return Some(done.map(Raw::Statx));
            }
            Op::Statfs { path } => {
                return Some(sys::statfs(&path.0).map(|s| Raw::Done(Outcome::statfs(&s))));
            }
            Op::Fstatfs { fd } => {
                return Some(sys::fstatfs(fd.0).map(|s| Raw::Done(Outcome::statfs(&s))));
            }
            _ => return None,
        };
        Some(stat.map(Raw::Stat))
    }

    fn name_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Access { path, mode } => plain(sys::access(&path.0, mode.low())),
            Op::Faccessat2 {
                at,
                path,
                mode,
                flags,
            } => plain(sys::faccessat2(at.0, &path.0, mode.low(), flags.low())),
            Op::Mkdir { at, path, mode } => plain(sys::mkdirat(at.0, &path.0, low(mode.0))),
            Op::Mknod {
                at,
                path,
                mode,
                dev,
            } => plain(sys::mknodat(at.0, &path.0, low(mode.0), dev.0)),
            Op::Unlink { at, path, flags } => plain(sys::unlinkat(at.0, &path.0, flags.low())),
            Op::Rename {
                at,
                old,
                at2,
                new,
                flags,
            } => {
                let (d, d2) = (at.0, at2.0);
                plain(sys::renameat2(d, &old.0, d2, &new.0, flags.low()))
            }
            Op::Link {
                at,
                old,
                at2,
                new,
                flags,
            } => {
                let (d, d2) = (at.0, at2.0);
                plain(sys::linkat(d, &old.0, d2, &new.0, flags.low()))
            }
            Op::Symlink { target, at, path } => plain(sys::symlinkat(&target.0, at.0, &path.0)),
            Op::Readlink { at, path } => sys::readlinkat(at.0, &path.0).map(Outcome::Bytes),
            _ => return None,
        })
    }

    fn attr_family(&mut self, op: &Op) -> Option<Done> {
        Some(plain(match op {
            Op::Chmod {
                at,
                path,
                mode,
                flags,
            } => sys::fchmodat2(at.0, &path.0, low(mode.0), flags.low()),
            Op::Fchmod { fd, mode } => sys::fchmod(fd.0, low(mode.0)),
            Op::Chown {
                at,
                path,
                uid,
                gid,
                flags,
            } => sys::fchownat(at.0, &path.0, id(*uid), id(*gid), flags.low()),
            Op::Fchown { fd, uid, gid } => sys::fchown(fd.0, id(*uid), id(*gid)),
            Op::Utimens {
                at,
                path,
                atime,
                mtime,
                flags,
            } => {
                let times = [pair(*atime), pair(*mtime)];
                sys::utimensat(at.0, Some(&path.0), times, flags.low())
            }
            Op::Futimens { fd, atime, mtime } => {
                sys::utimensat(fd.0, None, [pair(*atime), pair(*mtime)], 0)
            }
            Op::Truncate { path, len } => sys::truncate(&path.0, *len),
            Op::Ftruncate { fd, len } => sys::ftruncate(fd.0, *len),
            _ => return None,
        }))
    }

    fn dir_family(&mut self, op: &Op) -> Option<Given> {
        Some(match op {
            Op::Ls { at, path } => {
                let flags = f::O_RDONLY | f::O_DIRECTORY;
                fd(sys::openat(at.0, &path.0, flags.bits(), 0)).and_then(|fd| {
                    let all = scan::all(&mut Reader(fd), 4096);
                    sys::close(fd)?;
                    Ok(Raw::Done(Outcome::entries(all?)))
                })
            }
            Op::DirRead { fd, bytes } => look::entries(fd.0, size(*bytes)).map(Raw::Entries),
            Op::Rewind { fd } => plain(sys::lseek(fd.0, 0, f::SEEK_SET)).map(Raw::Done),
            Op::Cookies { fd } => Ok(Raw::Done(scan::cookies(&mut Reader(fd.0)))),
            _ => return None,
        })
    }

    fn place_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Umask { mask } => sys::umask(low(mask.0)).map(Outcome::Num),
            Op::Getcwd {} => sys::getcwd().map(Outcome::Bytes),
            Op::Chdir { path } => plain(sys::chdir(&path.0)),
            Op::Fchdir { fd } => plain(sys::fchdir(fd.0)),
            Op::Chroot { path } => plain(sys::chroot(&path.0)),
            _ => return None,
        })
    }

    fn xattr_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::SetXattr {
                obj,
                name,
                value,
                flags,
            } => plain(sys::setxattr(target(obj), &name.0, &value.0, flags.low())),
            Op::GetXattr { obj, name } => sys::getxattr(target(obj), &name.0).map(Outcome::Bytes),
            Op::ListXattr { obj } => sys::listxattr(target(obj)).map(|l| Outcome::xattrs(&l)),
            Op::RemoveXattr { obj, name } => plain(match target(obj) {
                XattrOf::Path(p) => sys::removexattr(p, &name.0),
                XattrOf::LPath(p) => sys::lremovexattr(p, &name.0),
                XattrOf::Fd(fd) => sys::fremovexattr(fd, &name.0),
            }),
            _ => return None,
        })
    }
}

fn target(obj: &Obj) -> XattrOf<'_> {
    match obj {
        Obj::Path(p) => XattrOf::Path(&p.0),
        Obj::LPath(p) => XattrOf::LPath(&p.0),
        Obj::Fd(fd) => XattrOf::Fd(fd.0),
    }
}

/// Lets `scan` read a descriptor.
struct Reader(i32);

impl scan::Readable for Reader {
    fn seek(&mut self, off: i64) -> Result<(), Errno> {
        sys::lseek(self.0, off, f::SEEK_SET).map(|_| ())
    }

    fn entries(&mut self, max: usize) -> Result<Vec<scan::Entry>, Errno> {
        look::entries(self.0, max)
    }
}
