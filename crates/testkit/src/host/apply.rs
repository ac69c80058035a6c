// SPDX-License-Identifier: MIT OR Apache-2.0
//! One operation, on the host: the system call it names and nothing else.

use openpath_abi::{Errno, fcntl as f, mount as m, time};

use super::{Host, Reader, fd, look};
use crate::op::{Keep, Obj, Op, Slot, Time, content, how, raw_how, size};
use crate::outcome::{Outcome, StatView, StatxView};
use crate::scan;
use crate::skips;
use crate::sys::{self, XattrOf};

type Done = Result<Outcome, Errno>;

/// A call that gives nothing but success.
fn plain(r: sys::Ret) -> Done {
    r.map(|_| Outcome::Ok)
}

fn id(v: i64) -> u32 {
    if v < 0 {
        u32::MAX
    } else {
        u32::try_from(v).unwrap_or(u32::MAX)
    }
}

fn low(v: u64) -> u32 {
    (v & 0xffff_ffff) as u32
}

fn pair(t: Time) -> (i64, i64) {
    match t {
        Time::Now => (0, time::UTIME_NOW),
        Time::Omit => (0, time::UTIME_OMIT),
        Time::At(s, n) => (s, n),
    }
}

impl Host<'_> {
    pub(super) fn dispatch(&mut self, op: &Op) -> Outcome {
        let done = self
            .open_family(op)
            .or_else(|| self.stat_family(op))
            .or_else(|| self.name_family(op))
            .or_else(|| self.attr_family(op))
            .or_else(|| self.file_family(op))
            .or_else(|| self.dir_family(op))
            .or_else(|| self.task_family(op))
            .or_else(|| self.xattr_family(op));
        match done {
            Some(done) => done.unwrap_or_else(Outcome::Err),
            None => Outcome::Skip(skips::UNKNOWN),
        }
    }

    /// Keeps or closes what was opened; the outcome is its flags.
    fn opened(&mut self, keep: Keep, r: sys::Ret) -> Done {
        let fd = fd(r)?;
        let flags = sys::fcntl(fd, f::F_GETFL, 0)?;
        match keep.0 {
            Some(slot) => self.slots[usize::from(slot.0)] = Some(fd),
            None => {
                sys::close(fd)?;
            }
        }
        Ok(Outcome::Num(flags))
    }

    /// Empties the slot that an open is about to fill.
    fn make_room(&mut self, keep: Keep) {
        if let Some(slot) = keep.0 {
            let _ = self.put_back(slot);
        }
    }

    fn open_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Open {
                keep,
                at,
                path,
                flags,
                mode,
            } => {
                // The directory may be in the slot that is about to be filled.
                let dir = self.dir(*at);
                let r = sys::openat(dir, &path.0, flags.low(), low(mode.0));
                self.make_room(*keep);
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
                let how = how(flags.0, mode.0, resolve.0);
                let r = sys::openat2(self.dir(*at), &path.0, &how, how.len());
                self.make_room(*keep);
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
                let r = sys::openat2(self.dir(*at), &path.0, &bytes, size(*len));
                self.opened(Keep(None), r)
            }
            Op::Tmplink {
                at,
                dir,
                flags,
                mode,
                new,
            } => {
                let flags = flags.low() | f::O_TMPFILE;
                let r = sys::openat(self.dir(*at), &dir.0, flags, low(mode.0));
                fd(r).and_then(|fd| {
                    let linked = sys::linkat(fd, b"", f::AT_FDCWD, &new.0, f::AT_EMPTY_PATH);
                    sys::close(fd)?;
                    plain(linked)
                })
            }
            Op::Close { slot } => Ok(self.put_back(*slot)),
            Op::GetFl { slot } => sys::fcntl(self.slot(*slot), f::F_GETFL, 0).map(Outcome::Num),
            _ => return None,
        })
    }

    fn stat_family(&mut self, op: &Op) -> Option<Done> {
        let stat = match op {
            Op::Stat { path } => sys::stat(&path.0),
            Op::Lstat { path } => sys::lstat(&path.0),
            Op::Fstat { slot } => sys::fstat(self.slot(*slot)),
            Op::Fstatat { at, path, flags } => sys::fstatat(self.dir(*at), &path.0, flags.low()),
            Op::Statx {
                at,
                path,
                flags,
                mask,
            } => {
                let done = sys::statx(self.dir(*at), &path.0, flags.low(), mask.low());
                return Some(done.map(|s| {
                    Outcome::Statx(Box::new(StatxView::new(&s, &self.ids, &self.stamps)))
                }));
            }
            Op::Statfs { path } => {
                return Some(sys::statfs(&path.0).map(|s| Outcome::statfs(&s)));
            }
            Op::Access { path, mode } => return Some(plain(sys::access(&path.0, mode.low()))),
            Op::Faccessat2 {
                at,
                path,
                mode,
                flags,
            } => {
                let dir = self.dir(*at);
                return Some(plain(sys::faccessat2(
                    dir,
                    &path.0,
                    mode.low(),
                    flags.low(),
                )));
            }
            _ => return None,
        };
        Some(stat.map(|s| Outcome::Stat(Box::new(StatView::new(&s, &self.ids, &self.stamps)))))
    }

    fn name_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Mkdir { at, path, mode } => {
                plain(sys::mkdirat(self.dir(*at), &path.0, low(mode.0)))
            }
            Op::Mknod {
                at,
                path,
                mode,
                dev,
            } => plain(sys::mknodat(self.dir(*at), &path.0, low(mode.0), dev.0)),
            Op::Unlink { at, path, flags } => {
                plain(sys::unlinkat(self.dir(*at), &path.0, flags.low()))
            }
            Op::Rename {
                at,
                old,
                at2,
                new,
                flags,
            } => {
                let (d, d2) = (self.dir(*at), self.dir(*at2));
                plain(sys::renameat2(d, &old.0, d2, &new.0, flags.low()))
            }
            Op::Link {
                at,
                old,
                at2,
                new,
                flags,
            } => {
                let (d, d2) = (self.dir(*at), self.dir(*at2));
                plain(sys::linkat(d, &old.0, d2, &new.0, flags.low()))
            }
            Op::Symlink { target, at, path } => {
                plain(sys::symlinkat(&target.0, self.dir(*at), &path.0))
            }
            Op::Readlink { at, path } => {
                sys::readlinkat(self.dir(*at), &path.0).map(Outcome::Bytes)
            }
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
            } => sys::fchmodat2(self.dir(*at), &path.0, low(mode.0), flags.low()),
            Op::Fchmod { slot, mode } => sys::fchmod(self.slot(*slot), low(mode.0)),
            Op::Chown {
                at,
                path,
                uid,
                gid,
                flags,
            } => sys::fchownat(self.dir(*at), &path.0, id(*uid), id(*gid), flags.low()),
            Op::Fchown { slot, uid, gid } => sys::fchown(self.slot(*slot), id(*uid), id(*gid)),
            Op::Utimens {
                at,
                path,
                atime,
                mtime,
                flags,
            } => {
                let times = [pair(*atime), pair(*mtime)];
                sys::utimensat(self.dir(*at), Some(&path.0), times, flags.low())
            }
            Op::Futimens { slot, atime, mtime } => {
                sys::utimensat(self.slot(*slot), None, [pair(*atime), pair(*mtime)], 0)
            }
            Op::Truncate { path, len } => sys::truncate(&path.0, *len),
            Op::Ftruncate { slot, len } => sys::ftruncate(self.slot(*slot), *len),
            _ => return None,
        }))
    }

    fn file_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Pread { slot, len, off } => {
                sys::pread(self.slot(*slot), size(*len), *off).map(Outcome::Bytes)
            }
            Op::Pwrite {
                slot,
                len,
                off,
                seed,
            } => {
                let data = content(*seed, *off, *len);
                sys::pwrite(self.slot(*slot), &data, *off).map(Outcome::Num)
            }
            Op::Read { slot, len } => sys::read(self.slot(*slot), size(*len)).map(Outcome::Bytes),
            Op::Write { slot, len, seed } => {
                sys::write(self.slot(*slot), &content(*seed, 0, *len)).map(Outcome::Num)
            }
            Op::Lseek { slot, off, whence } => {
                let fd = self.slot(*slot);
                match sys::fstat(fd) {
                    Ok(s) if openpath_abi::mode::is_dir(s.mode) => {
                        Ok(Outcome::Skip(skips::LSEEK_DIRECTORY))
                    }
                    _ => sys::lseek(fd, *off, id(*whence)).map(Outcome::Num),
                }
            }
            _ => return None,
        })
    }

    fn dir_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Ls { at, path } => {
                let flags = f::O_RDONLY | f::O_DIRECTORY;
                fd(sys::openat(self.dir(*at), &path.0, flags, 0)).and_then(|fd| {
                    let all = scan::all(&mut Reader(fd), 4096);
                    sys::close(fd)?;
                    Ok(Outcome::entries(all?))
                })
            }
            Op::DirRead { slot, bytes } => self.dir_read(*slot, size(*bytes)),
            Op::Rewind { slot } => {
                self.scans[usize::from(slot.0)].rewind();
                plain(sys::lseek(self.slot(*slot), 0, f::SEEK_SET))
            }
            Op::Cookies { slot } => {
                self.scans[usize::from(slot.0)].rewind();
                Ok(scan::cookies(&mut Reader(self.slot(*slot))))
            }
            _ => return None,
        })
    }

    fn dir_read(&mut self, slot: Slot, bytes: usize) -> Done {
        let (at, fd) = (usize::from(slot.0), self.slot(slot));
        if self.scans[at].starts() {
            let there = self.as_root(|_| look::Look { root: fd }.list_here());
            if let Ok(there) = there {
                self.scans[at].start(there);
            }
        }
        let got = look::entries(fd, bytes)?;
        Ok(self.scans[at].feed(got))
    }

    fn task_family(&mut self, op: &Op) -> Option<Done> {
        Some(match op {
            Op::Cred { uid } => self.become_user(id(*uid)).map(|()| Outcome::Ok),
            Op::Umask { mask } => sys::umask(low(mask.0)).map(Outcome::Num),
            Op::Getcwd {} => sys::getcwd().map(Outcome::Bytes),
            Op::Chdir { path } => plain(sys::chdir(&path.0)),
            Op::Fchdir { slot } => plain(sys::fchdir(self.slot(*slot))),
            Op::Chroot { path } => plain(sys::chroot(&path.0)),
            Op::Mount { path, flags } => plain(sys::mount(
                b"none",
                &path.0,
                b"tmpfs",
                flags.0,
                super::TMPFS_OPTIONS,
            )),
            Op::Bind {
                source,
                target,
                flags,
            } => plain(sys::mount(
                &source.0,
                &target.0,
                b"",
                m::MS_BIND | flags.0,
                b"",
            )),
            Op::RemountBind { path, flags } => {
                let flags = m::MS_REMOUNT | m::MS_BIND | flags.0;
                plain(sys::mount(b"none", &path.0, b"", flags, b""))
            }
            Op::RemountSb { path, flags } => plain(sys::mount(
                b"none",
                &path.0,
                b"",
                m::MS_REMOUNT | flags.0,
                b"",
            )),
            Op::Umount { .. } if self.is_root(op) => Ok(Outcome::Skip(skips::UMOUNT_ROOT)),
            Op::Umount { path, flags } => plain(sys::umount2(&path.0, flags.low())),
            _ => return None,
        })
    }

    fn xattr_family(&mut self, op: &Op) -> Option<Done> {
        if let Op::SetXattr { obj, .. }
        | Op::GetXattr { obj, .. }
        | Op::ListXattr { obj }
        | Op::RemoveXattr { obj, .. } = op
            && let Obj::Slot(s) = obj
            && self.slots[usize::from(s.0)].is_none()
        {
            return Some(Ok(Outcome::Skip(skips::XATTR_NO_FILE)));
        }
        let of = |obj: &'_ Obj| match obj {
            Obj::Slot(s) => self.slot(*s),
            _ => 0,
        };
        Some(match op {
            Op::SetXattr {
                obj,
                name,
                value,
                flags,
            } => plain(sys::setxattr(
                target(obj, of(obj)),
                &name.0,
                &value.0,
                flags.low(),
            )),
            Op::GetXattr { obj, name } => {
                sys::getxattr(target(obj, of(obj)), &name.0).map(Outcome::Bytes)
            }
            Op::ListXattr { obj } => {
                sys::listxattr(target(obj, of(obj))).map(|l| Outcome::xattrs(&l))
            }
            Op::RemoveXattr { obj, name } => plain(match target(obj, of(obj)) {
                XattrOf::Path(p) => sys::removexattr(p, &name.0),
                XattrOf::LPath(p) => sys::lremovexattr(p, &name.0),
                XattrOf::Fd(fd) => sys::fremovexattr(fd, &name.0),
            }),
            _ => return None,
        })
    }
}

fn target(obj: &Obj, fd: i32) -> XattrOf<'_> {
    match obj {
        Obj::Path(p) => XattrOf::Path(&p.0),
        Obj::LPath(p) => XattrOf::LPath(&p.0),
        Obj::Slot(_) => XattrOf::Fd(fd),
    }
}
