// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requests of the kernel, one method each, as the library hands them over.
//!
//! What a request means is elsewhere; here arguments and answers change their shape.

use crate::answer::{done, fd_of, handle_of, value, written};
use crate::convert::{attributes, errno, listed_kind, no_node, shown_only, time_set};
use crate::listing::More;
use crate::options::{Opens, Options};
use crate::pool::Who;
use crate::stats::Request as Kind;
use crate::terms::agree;
use crate::view::{Change, Entry, View};
use crate::watch::Asker;
use fuser::{
    BsdFileFlags, CopyFileRangeFlags, FileHandle, Filesystem, FopenFlags, Generation, INodeNo,
    IoctlFlags, KernelConfig, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData,
    ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry, ReplyIoctl, ReplyLseek, ReplyOpen,
    ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use openpath_abi::mode::S_IFDIR;
use openpath_abi::{Errno, mode};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// A view, as the library calls it.
pub(crate) struct Wire {
    view: Arc<View>,
    names_hold: Duration,
    absences_hold: Duration,
    attributes_hold: Duration,
}

/// Numbers of nodes are not used for another file while the kernel has one.
const GENERATION: Generation = Generation(0);

fn owner(request: &Request) -> Who {
    Who::Owner(request.uid(), request.gid())
}

/// Who changes what is in a file, where neither the kernel nor the library says whether that takes
/// its set-id bits: from who is not root it does.
fn changer(request: &Request) -> Who {
    match request.uid() {
        0 => owner(request),
        uid => Who::Stripped(uid, request.gid()),
    }
}

fn asker(request: &Request) -> Asker {
    Asker {
        thread: request.pid(),
        uid: request.uid(),
        gid: request.gid(),
    }
}

impl Wire {
    pub(crate) fn new(view: Arc<View>, options: &Options) -> Self {
        Self {
            view,
            names_hold: options.names_hold,
            absences_hold: options.absences_hold,
            attributes_hold: options.attributes_hold,
        }
    }

    fn count(&self, kind: Kind) {
        self.view.counts.add(kind, 1);
    }

    /// How long the kernel believes what a listing says of names: who looks on is not asked about
    /// each.
    fn listed_hold(&self) -> Duration {
        match self.view.watch {
            Some(_) => Duration::ZERO,
            None => self.names_hold.min(self.attributes_hold),
        }
    }

    /// Answers with an entry.
    fn entry(&self, found: Result<Entry, Errno>, reply: ReplyEntry) {
        self.entry_for(&self.names_hold, found, reply);
    }

    /// Answers with an entry whose name holds for so long.
    fn entry_for(&self, names: &Duration, found: Result<Entry, Errno>, reply: ReplyEntry) {
        match found {
            Ok(entry) => {
                let attr = attributes(entry.number, &entry.attr);
                let attributes = &self.attributes_hold;
                reply.entry_with_ttls(attributes, names, &attr, GENERATION);
            }
            Err(e) => reply.error(errno(e)),
        }
    }
}

impl Filesystem for Wire {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        agree(config, self.view.writeback);
        Ok(())
    }

    fn lookup(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.count(Kind::Lookup);
        let place = (parent.0, name.as_bytes());
        let found = self.view.lookup(place.0, place.1);
        let keep = self.view.may_keep(asker(request), place, &found);
        if matches!(found, Err(Errno::ENOENT)) {
            self.count(Kind::Absent);
            if keep && !self.absences_hold.is_zero() {
                return reply.entry(&self.absences_hold, &no_node(), GENERATION);
            }
        }
        let names = if keep {
            &self.names_hold
        } else {
            &Duration::ZERO
        };
        self.entry_for(names, found, reply);
    }

    fn forget(&self, _: &Request, ino: INodeNo, lookups: u64) {
        self.count(Kind::Forget);
        self.view.forget(std::iter::once((ino.0, lookups)));
    }

    fn getattr(&self, request: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.count(Kind::Getattr);
        self.view.looks_at(asker(request), ino.0);
        match self.view.attributes(ino.0) {
            Ok(attr) => reply.attr(&self.attributes_hold, &attributes(ino.0, &attr)),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _ctime: Option<SystemTime>,
        handle: Option<FileHandle>,
        _crtime: Option<SystemTime>,
        _chgtime: Option<SystemTime>,
        _bkuptime: Option<SystemTime>,
        _flags: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        self.count(Kind::Setattr);
        let who = if size.is_some() {
            changer(request)
        } else {
            owner(request)
        };
        let change = Change {
            mode,
            uid,
            gid,
            size,
            times: [time_set(atime), time_set(mtime)],
            by_descriptor: handle.is_some(),
            fd: handle.and_then(fd_of),
        };
        match self.view.change(who, ino.0, &change) {
            Ok(attr) => reply.attr(&self.attributes_hold, &attributes(ino.0, &attr)),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        self.count(Kind::Readlink);
        match self.view.readlink(ino.0) {
            Ok(body) => reply.data(&body),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        rdev: u32,
        reply: ReplyEntry,
    ) {
        self.count(Kind::Make);
        let place = (parent.0, name.as_bytes());
        let made = self.view.make(owner(request), place, mode, u64::from(rdev));
        self.entry(made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        reply: ReplyEntry,
    ) {
        self.count(Kind::Make);
        let mode = mode & !mode::S_IFMT | S_IFDIR;
        let place = (parent.0, name.as_bytes());
        self.entry(self.view.make(owner(request), place, mode, 0), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.count(Kind::Remove);
        done(self.view.remove((parent.0, name.as_bytes()), false), reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.count(Kind::Remove);
        done(self.view.remove((parent.0, name.as_bytes()), true), reply);
    }

    fn symlink(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        self.count(Kind::Make);
        let target = target.as_os_str().as_bytes();
        let place = (parent.0, name.as_bytes());
        self.entry(self.view.symlink(owner(request), place, target), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        self.count(Kind::Rename);
        let from = (parent.0, name.as_bytes());
        let to = (new_parent.0, new_name.as_bytes());
        done(
            self.view.rename(owner(request), from, to, flags.bits()),
            reply,
        );
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.count(Kind::Link);
        let place = (parent.0, name.as_bytes());
        self.entry(self.view.link(ino.0, place), reply);
    }

    fn open(&self, request: &Request, ino: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        self.count(Kind::Open);
        let flags = flags.0.cast_unsigned();
        let (by, view) = (asker(request), &self.view);
        match view.seen(by, (ino.0, None), flags, || view.open(ino.0, flags)) {
            Ok(fd) => reply.opened(handle_of(Some(fd)), FopenFlags::FOPEN_KEEP_CACHE),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        self.count(Kind::Read);
        let mut reply = Some(reply);
        let at = (ino.0, fd_of(handle));
        let read = self.view.read(at, offset, size as usize, |data| {
            if let Some(reply) = reply.take() {
                reply.data(data);
            }
        });
        if let (Err(e), Some(reply)) = (read, reply) {
            reply.error(errno(e));
        }
    }

    fn write(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        data: &[u8],
        write_flags: WriteFlags,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        self.count(Kind::Write);
        let who = if write_flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID) {
            Who::Stripped(request.uid(), request.gid())
        } else {
            owner(request)
        };
        let at = (ino.0, fd_of(handle));
        let result = self.view.write(who, at, offset, data);
        if write_flags.contains(WriteFlags::FUSE_WRITE_CACHE)
            && let Some(notifier) = self.view.notifier.get()
        {
            // The kernel knows how long the file is, and not how many blocks it takes now.
            let _forgotten = notifier.inval_inode(ino, -1, 0);
        }
        written(result, reply);
    }

    fn flush(
        &self,
        _: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _owner: LockOwner,
        reply: ReplyEmpty,
    ) {
        self.count(Kind::Close);
        done(self.view.flush(fd_of(handle)), reply);
    }

    fn release(
        &self,
        _: &Request,
        _ino: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.count(Kind::Close);
        done(self.view.release(fd_of(handle)), reply);
    }

    fn fsync(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.count(Kind::Sync);
        done(self.view.sync((ino.0, fd_of(handle)), data_only), reply);
    }

    fn opendir(&self, _: &Request, _ino: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        self.count(Kind::Open);
        match self.view.opens {
            Opens::Never => reply.error(fuser::Errno::ENOSYS),
            // Without leave for the kernel to keep what it lists.
            Opens::Each => reply.opened(handle_of(None), FopenFlags::empty()),
        }
    }

    fn readdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        self.count(Kind::List);
        let listed = self.view.list(ino.0, offset, |number, entry| {
            let name = OsStr::from_bytes(&entry.name);
            let (next, kind) = (entry.off.cast_unsigned(), listed_kind(entry.kind));
            if reply.add(INodeNo(number), next, kind, name) {
                More::Full
            } else {
                More::Yes
            }
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn readdirplus(
        &self,
        _: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        self.count(Kind::List);
        let ttl = self.listed_hold();
        let listed = self.view.list_plus(ino.0, offset, |number, entry, found| {
            let attr = found.map_or_else(
                || shown_only(number, listed_kind(entry.kind)),
                |f| attributes(f.number, &f.attr),
            );
            let name = OsStr::from_bytes(&entry.name);
            let next = entry.off.cast_unsigned();
            if reply.add(INodeNo(number), next, name, &ttl, &attr, GENERATION) {
                More::Full
            } else {
                More::Yes
            }
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn fsyncdir(
        &self,
        _: &Request,
        ino: INodeNo,
        _handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        self.count(Kind::Sync);
        done(self.view.sync((ino.0, None), data_only), reply);
    }

    fn statfs(&self, _: &Request, ino: INodeNo, reply: ReplyStatfs) {
        self.count(Kind::Statfs);
        match self.view.figures(ino.0) {
            Ok(f) => reply.statfs(
                f.blocks,
                f.bfree,
                f.bavail,
                f.files,
                f.ffree,
                u32::try_from(f.bsize).unwrap_or(4096),
                u32::try_from(f.namelen).unwrap_or(255),
                u32::try_from(f.frsize).unwrap_or(4096),
            ),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn setxattr(
        &self,
        _: &Request,
        ino: INodeNo,
        name: &OsStr,
        value: &[u8],
        flags: i32,
        _position: u32,
        reply: ReplyEmpty,
    ) {
        self.count(Kind::Attribute);
        let (name, flags) = (name.as_bytes(), flags.cast_unsigned());
        done(self.view.setxattr(ino.0, name, value, flags), reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        self.count(Kind::Attribute);
        value(self.view.getxattr(ino.0, name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        self.count(Kind::Attribute);
        value(self.view.listxattr(ino.0), size, reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        self.count(Kind::Attribute);
        done(self.view.removexattr(ino.0, name.as_bytes()), reply);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        self.count(Kind::Create);
        let place = (parent.0, name.as_bytes());
        let flags = flags.cast_unsigned();
        let (by, seen) = (asker(request), (parent.0, Some(place.1)));
        let create = || self.view.create(owner(request), place, mode, flags);
        match self.view.seen(by, seen, flags, create) {
            Ok((entry, fd)) => {
                let attr = attributes(entry.number, &entry.attr);
                let ttl = self.names_hold.min(self.attributes_hold);
                let open = FopenFlags::FOPEN_KEEP_CACHE;
                reply.created(&ttl, &attr, GENERATION, handle_of(fd), open);
            }
            Err(e) => reply.error(errno(e)),
        }
    }

    fn ioctl(
        &self,
        _: &Request,
        _ino: INodeNo,
        _handle: FileHandle,
        _flags: IoctlFlags,
        _cmd: u32,
        _in_data: &[u8],
        _out_size: u32,
        reply: ReplyIoctl,
    ) {
        reply.error(errno(Errno::ENOTTY));
    }

    fn fallocate(
        &self,
        request: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        self.count(Kind::Space);
        let at = (ino.0, fd_of(handle));
        let (mode, range) = (mode.cast_unsigned(), (offset, length));
        done(self.view.allocate(changer(request), at, mode, range), reply);
    }

    fn lseek(
        &self,
        _: &Request,
        ino: INodeNo,
        handle: FileHandle,
        offset: i64,
        whence: i32,
        reply: ReplyLseek,
    ) {
        self.count(Kind::Space);
        let at = (ino.0, fd_of(handle));
        match self.view.seek(at, offset, whence.cast_unsigned()) {
            Ok(to) => reply.offset(to),
            Err(e) => reply.error(errno(e)),
        }
    }

    fn copy_file_range(
        &self,
        request: &Request,
        from: INodeNo,
        from_handle: FileHandle,
        from_offset: u64,
        to: INodeNo,
        to_handle: FileHandle,
        to_offset: u64,
        len: u64,
        _flags: CopyFileRangeFlags,
        reply: ReplyWrite,
    ) {
        self.count(Kind::Space);
        let from = ((from.0, fd_of(from_handle)), from_offset);
        let to = ((to.0, fd_of(to_handle)), to_offset);
        written(self.view.copy(changer(request), from, to, len), reply);
    }
}
