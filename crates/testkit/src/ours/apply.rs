// SPDX-License-Identifier: MIT OR Apache-2.0
//! One operation, on openpath: the method it names and nothing else.

use openpath_abi::{Errno, OpenHow, Statx, TimeSet, Timespec, fcntl as f, mount as m, stat};
use openpath_vfs::{At, MountFlags, OpenFile};

use super::{Ours, Reader, tmpfs};
use crate::op::{Keep, Obj, Op, Slot, Time, content, how, raw_how, size};
use crate::outcome::{Outcome, StatView, StatxView};
use crate::scan;
use crate::skips;
use crate::sys::RawStatx;

type Done = Result<Outcome, Errno>;

fn plain(r: Result<(), Errno>) -> Done {
    r.map(|()| Outcome::Ok)
}

fn number(n: usize) -> Outcome {
    Outcome::Num(i64::try_from(n).unwrap_or(i64::MAX))
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

fn time(t: Time) -> TimeSet {
    match t {
        Time::Now => TimeSet::Now,
        Time::Omit => TimeSet::Omit,
        Time::At(s, n) => TimeSet::At(Timespec::new(s, low(n.cast_unsigned()))),
    }
}

fn raw_statx(s: &Statx) -> RawStatx {
    RawStatx {
        mask: s.mask,
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

impl<'t> Ours<'t> {
    pub(super) fn dispatch(&mut self, op: &Op) -> Outcome {
        let done = self
            .open_family(op)
            .or_else(|| self.stat_family(op))
            .or_else(|| self.name_family(op))
            .or_else(|| self.attr_family(op))
            .or_else(|| self.file_family(op))
            .or_else(|| self.dir_family(op))
            .or_else(|| self.task_family(op))
            .or_else(|| self.mount_family(op))
            .or_else(|| self.xattr_family(op));
        match done {
            Some(done) => done.unwrap_or_else(Outcome::Err),
            None => Outcome::Skip(skips::UNKNOWN),
        }
    }

    /// Keeps or closes what was opened; the outcome is its flags.
    fn opened(&mut self, keep: Keep, r: Result<OpenFile<'t>, Errno>) -> Done {
        if let Some(slot) = keep.0 {
            let _ = self.put_back(slot);
        }
        let file = r?;
        let flags = i64::from(file.flags());
        match keep.0 {
            Some(slot) => self.slots[usize::from(slot.0)] = Some(file),
            None => file.close(),
        }
        Ok(Outcome::Num(flags))
    }

    fn put_back(&mut self, s: Slot) -> Outcome {
        self.scans[usize::from(s.0)].rewind();
        match self.slots[usize::from(s.0)].take() {
            Some(file) => {
                file.close();
                Outcome::Ok
            }
            None => Outcome::Err(Errno::EBADF),
        }
    }

    fn open_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task;
        Some(match op {
            Op::Open {
                keep,
                at,
                path,
                flags,
                mode,
            } => {
                let r = task.openat(self.at(*at), &path.0, flags.low(), low(mode.0));
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
                    resolve: resolve.0,
                };
                let r = task.openat2(self.at(*at), &path.0, &how);
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
                let r = task.openat2_raw(self.at(*at), &path.0, &bytes, size(*len));
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
                let file = task.openat(self.at(*at), &dir.0, flags, low(mode.0));
                file.and_then(|file| {
                    let from = At::File(&file);
                    plain(task.linkat(from, b"", At::Cwd, &new.0, f::AT_EMPTY_PATH))
                })
            }
            Op::Close { slot } => Ok(self.put_back(*slot)),
            Op::GetFl { slot } => self.slot(*slot).map(|s| Outcome::Num(i64::from(s.flags()))),
            _ => return None,
        })
    }

    fn stat_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task;
        let stat = match op {
            Op::Stat { path } => task.stat(&path.0),
            Op::Lstat { path } => task.lstat(&path.0),
            Op::Fstat { slot } => self.slot(*slot).and_then(OpenFile::stat),
            Op::Fstatat { at, path, flags } => task.fstatat(self.at(*at), &path.0, flags.low()),
            Op::Statx {
                at,
                path,
                flags,
                mask,
            } => {
                let done = task.statx(self.at(*at), &path.0, flags.low(), mask.low());
                return Some(done.map(|s| {
                    let s = raw_statx(&s);
                    Outcome::Statx(Box::new(StatxView::new(&s, &self.ids, &self.stamps)))
                }));
            }
            Op::Statfs { path } => return Some(task.statfs(&path.0).map(|s| Outcome::statfs(&s))),
            Op::Access { path, mode } => return Some(plain(task.access(&path.0, mode.low()))),
            Op::Faccessat2 {
                at,
                path,
                mode,
                flags,
            } => {
                let done = task.faccessat2(self.at(*at), &path.0, mode.low(), flags.low());
                return Some(plain(done));
            }
            _ => return None,
        };
        Some(stat.map(|s| Outcome::Stat(Box::new(StatView::new(&s, &self.ids, &self.stamps)))))
    }

    fn name_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task;
        Some(match op {
            Op::Mkdir { at, path, mode } => plain(task.mkdirat(self.at(*at), &path.0, low(mode.0))),
            Op::Mknod {
                at,
                path,
                mode,
                dev,
            } => plain(task.mknodat(self.at(*at), &path.0, low(mode.0), dev.0)),
            Op::Unlink { at, path, flags } => {
                plain(task.unlinkat(self.at(*at), &path.0, flags.low()))
            }
            Op::Rename {
                at,
                old,
                at2,
                new,
                flags,
            } => {
                let (d, d2) = (self.at(*at), self.at(*at2));
                plain(task.renameat2(d, &old.0, d2, &new.0, flags.low()))
            }
            Op::Link {
                at,
                old,
                at2,
                new,
                flags,
            } => {
                let (d, d2) = (self.at(*at), self.at(*at2));
                plain(task.linkat(d, &old.0, d2, &new.0, flags.low()))
            }
            Op::Symlink { target, at, path } => {
                plain(task.symlinkat(&target.0, self.at(*at), &path.0))
            }
            Op::Readlink { at, path } => task.readlinkat(self.at(*at), &path.0).map(Outcome::Bytes),
            _ => return None,
        })
    }

    fn attr_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task;
        Some(plain(match op {
            Op::Chmod {
                at,
                path,
                mode,
                flags,
            } => task.fchmodat2(self.at(*at), &path.0, low(mode.0), flags.low()),
            Op::Fchmod { slot, mode } => self.slot(*slot).and_then(|s| s.fchmod(low(mode.0))),
            Op::Chown {
                at,
                path,
                uid,
                gid,
                flags,
            } => task.fchownat(self.at(*at), &path.0, id(*uid), id(*gid), flags.low()),
            Op::Fchown { slot, uid, gid } => {
                self.slot(*slot).and_then(|s| s.fchown(id(*uid), id(*gid)))
            }
            Op::Utimens {
                at,
                path,
                atime,
                mtime,
                flags,
            } => {
                let times = [time(*atime), time(*mtime)];
                task.utimensat(self.at(*at), Some(&path.0), times, flags.low())
            }
            Op::Futimens { slot, atime, mtime } => {
                let at = self.slot(*slot).map_or(At::Bad, At::File);
                task.utimensat(at, None, [time(*atime), time(*mtime)], 0)
            }
            Op::Truncate { path, len } => task.truncate(&path.0, *len),
            // As with the offsets of pread(2), the kernel looks at the length first.
            Op::Ftruncate { len: ..0, .. } => Err(Errno::EINVAL),
            Op::Ftruncate { slot, len } => self.slot(*slot).and_then(|s| s.ftruncate(*len)),
            _ => return None,
        }))
    }

    fn file_family(&mut self, op: &Op) -> Option<Done> {
        let buffer = |len: i64| vec![0; size(len)];
        let read = |mut b: Vec<u8>, got: usize| {
            b.truncate(got);
            Outcome::Bytes(b)
        };
        let slot = match op {
            Op::Pread { slot, .. }
            | Op::Pwrite { slot, .. }
            | Op::Read { slot, .. }
            | Op::Write { slot, .. }
            | Op::Lseek { slot, .. } => self.slot(*slot),
            _ => return None,
        };
        // The kernel looks at the offset before it looks for the descriptor.
        if let Op::Pread { off, .. } | Op::Pwrite { off, .. } = op
            && *off < 0
        {
            return Some(Err(Errno::EINVAL));
        }
        let file = match slot {
            Ok(file) => file,
            Err(e) => return Some(Err(e)),
        };
        Some(match op {
            Op::Pread { len, off, .. } => {
                let mut b = buffer(*len);
                file.pread(&mut b, off.cast_unsigned()).map(|n| read(b, n))
            }
            Op::Pwrite { len, off, seed, .. } => file
                .pwrite(&content(*seed, *off, *len), off.cast_unsigned())
                .map(number),
            Op::Read { len, .. } => {
                let mut b = buffer(*len);
                file.read(&mut b).map(|n| read(b, n))
            }
            Op::Write { len, seed, .. } => file.write(&content(*seed, 0, *len)).map(number),
            Op::Lseek { off, whence, .. } => file.lseek(*off, id(*whence)).map(Outcome::Num),
            _ => return None,
        })
    }

    fn dir_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task;
        Some(match op {
            Op::Ls { at, path } => {
                let flags = f::O_RDONLY | f::O_DIRECTORY;
                task.openat(self.at(*at), &path.0, flags, 0)
                    .and_then(|file| scan::all(&mut Reader(&file), 4096))
                    .map(Outcome::entries)
            }
            Op::DirRead { slot, bytes } => self.dir_read(*slot, size(*bytes)),
            Op::Rewind { slot } => {
                self.scans[usize::from(slot.0)].rewind();
                self.slot(*slot)
                    .and_then(|s| s.lseek(0, f::SEEK_SET))
                    .map(|_| Outcome::Ok)
            }
            Op::Cookies { slot } => {
                self.scans[usize::from(slot.0)].rewind();
                self.slot(*slot).map(|s| scan::cookies(&mut Reader(s)))
            }
            _ => return None,
        })
    }

    fn dir_read(&mut self, slot: Slot, bytes: usize) -> Done {
        let at = usize::from(slot.0);
        if self.scans[at].starts() {
            let there = self.list_slot(slot);
            self.renew();
            if let Ok(there) = there {
                self.scans[at].start(there);
            }
        }
        let got = Reader(self.slot(slot)?);
        let got = scan::Readable::entries(&mut { got }, bytes)?;
        Ok(self.scans[at].feed(got))
    }

    /// All entries of an open directory, by the eyes of root, without changing its times.
    fn list_slot(&self, slot: Slot) -> Result<Vec<scan::Entry>, Errno> {
        let flags = f::O_DIRECTORY | f::O_NOATIME;
        let dir = self
            .eye
            .openat(self.at(crate::op::Dir::Slot(slot)), b".", flags, 0)?;
        scan::all(&mut Reader(&dir), 4096)
    }

    fn task_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task;
        Some(match op {
            Op::Cred { uid } => {
                self.become_user(id(*uid));
                Ok(Outcome::Ok)
            }
            Op::Umask { mask } => Ok(Outcome::Num(i64::from(task.umask(low(mask.0))))),
            Op::Getcwd {} => task.getcwd().map(Outcome::Bytes),
            Op::Chdir { path } => plain(task.chdir(&path.0)),
            Op::Fchdir { slot } => plain(self.slot(*slot).and_then(|s| task.fchdir(s))),
            Op::Chroot { path } => plain(task.chroot(&path.0)),
            _ => return None,
        })
    }

    fn mount_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task;
        Some(plain(match op {
            Op::Mount { path, flags } => {
                let read_only = flags.0 & m::MS_RDONLY != 0;
                let sb = tmpfs(self.stamps.last(), read_only);
                task.mount(sb, &path.0, MountFlags::from_ms(flags.0))
            }
            Op::Bind {
                source,
                target,
                flags,
            } if flags.0 & m::MS_REC != 0 => task.bind_tree(&source.0, &target.0),
            Op::Bind { source, target, .. } => task.bind(&source.0, &target.0),
            Op::RemountBind { path, flags } => self.remount_bind(&path.0, flags.0),
            Op::RemountSb { path, flags } => {
                // mount(2) changes the mount as well as the file system.
                task.remount_sb(&path.0, flags.0 & m::MS_RDONLY != 0)
                    .and_then(|()| self.remount_bind(&path.0, flags.0))
            }
            Op::Umount { path, flags } => {
                self.walk_to(op);
                task.umount(&path.0, flags.low())
            }
            _ => return None,
        }))
    }

    fn remount_bind(&self, path: &[u8], flags: u64) -> Result<(), Errno> {
        let old = self.task.mount_flags(path)?;
        self.task.remount_bind(path, old.remounted(flags))
    }

    fn xattr_family(&mut self, op: &Op) -> Option<Done> {
        let task = self.task;
        Some(match op {
            Op::SetXattr {
                obj,
                name,
                value,
                flags,
            } => {
                let (n, v, f) = (&name.0, &value.0, flags.low());
                plain(match obj {
                    Obj::Path(p) => task.setxattr(&p.0, n, v, f),
                    Obj::LPath(p) => task.lsetxattr(&p.0, n, v, f),
                    Obj::Slot(s) => self.slot(*s).and_then(|s| s.fsetxattr(n, v, f)),
                })
            }
            Op::GetXattr { obj, name } => match obj {
                Obj::Path(p) => task.getxattr(&p.0, &name.0),
                Obj::LPath(p) => task.lgetxattr(&p.0, &name.0),
                Obj::Slot(s) => self.slot(*s).and_then(|s| s.fgetxattr(&name.0)),
            }
            .map(Outcome::Bytes),
            Op::ListXattr { obj } => match obj {
                Obj::Path(p) => task.listxattr(&p.0),
                Obj::LPath(p) => task.llistxattr(&p.0),
                Obj::Slot(s) => self.slot(*s).and_then(OpenFile::flistxattr),
            }
            .map(|l| Outcome::xattrs(&l)),
            Op::RemoveXattr { obj, name } => plain(match obj {
                Obj::Path(p) => task.removexattr(&p.0, &name.0),
                Obj::LPath(p) => task.lremovexattr(&p.0, &name.0),
                Obj::Slot(s) => self.slot(*s).and_then(|s| s.fremovexattr(&name.0)),
            }),
            _ => return None,
        })
    }
}
