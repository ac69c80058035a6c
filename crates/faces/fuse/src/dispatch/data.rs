// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatches FUSE requests about the data of files, listings of directories and locks: each
//! becomes a call of the file system, and its result a reply.

use super::{Dispatcher, RequestContext, fd_of, handle_of, node_attr, reply_open};
use crate::data::WriteKind;
use crate::listing::More;
use crate::locks::Answered;
use crate::options::Opens;
use crate::stats::Request as Kind;
use crate::wire::attributes::Validity;
use crate::wire::entries::{dirent, direntplus};
use crate::wire::numbers::{FOPEN_KEEP_CACHE, WRITE_CACHE, WRITE_KILL_SUIDGID};
use crate::wire::request::{CopyRange, Lock, LockCommand, Span};
use openpath_abi::fcntl::{O_APPEND, O_DIRECT};
use openpath_abi::{Errno, OFlags};

type Done = Result<(), Errno>;

/// Whether a listing continues after an entry that did or did not fit.
fn more(had_room: bool) -> More {
    if had_room { More::Yes } else { More::Full }
}

impl Dispatcher {
    pub(super) fn open(&self, cx: &mut RequestContext<'_>, flags: OFlags) -> Done {
        self.count(Kind::Open);
        let (by, node) = (cx.requester(), cx.node());
        let fd = self
            .observing
            .open((&self.fs, cx.w), by, (node, None), flags, |w| {
                self.fs.open(w, node, flags)
            })?;
        reply_open(cx, handle_of(Some(fd)), FOPEN_KEEP_CACHE);
        Ok(())
    }

    pub(super) fn opendir(&self, cx: &mut RequestContext<'_>) -> Done {
        self.count(Kind::Open);
        match self.fs.opens {
            Opens::Never => return Err(Errno::ENOSYS),
            // Without permission to cache the listing.
            Opens::Each => reply_open(cx, handle_of(None), 0),
        }
        Ok(())
    }

    pub(super) fn flush(&self, cx: &mut RequestContext<'_>, handle: u64, owner: u64) -> Done {
        self.count(Kind::Close);
        self.fs.flush(cx.w, fd_of(handle), owner)
    }

    /// Answers a request for a lock, or has it wait.
    pub(super) fn lock(&self, cx: &mut RequestContext<'_>, lock: &Lock) -> Result<Answered, Errno> {
        self.count(Kind::Lock);
        let locks = self.fs.locks.as_ref().ok_or(Errno::ENOSYS)?;
        let fd = fd_of(lock.handle).ok_or(Errno::EBADF)?;
        match lock.command {
            LockCommand::Test => {
                let found = locks.test(cx.w, fd, lock)?;
                let end = match found.len {
                    0 => i64::MAX,
                    len => found.start.saturating_add(len - 1),
                };
                cx.reply.u64(found.start.cast_unsigned());
                cx.reply.u64(end.cast_unsigned());
                cx.reply.u32(i32::from(found.kind).cast_unsigned());
                // The kernel shows a process that it does not know as 0.
                cx.reply.u32(found.pid.max(0).cast_unsigned());
                Ok(Answered::Now)
            }
            LockCommand::Set => locks.set_now(cx.w, fd, lock).map(|()| Answered::Now),
            LockCommand::Wait => locks.wait(cx.w, fd, lock, cx.header.unique),
        }
    }

    pub(super) fn release(&self, cx: &mut RequestContext<'_>, handle: u64) -> Done {
        self.count(Kind::Close);
        let node = cx.node();
        self.fs.release(cx.w, (node, fd_of(handle)))
    }

    pub(super) fn read(&self, cx: &mut RequestContext<'_>, span: Span) -> Done {
        self.count(Kind::Read);
        let at = (cx.node(), fd_of(span.handle));
        let span = (span.offset, span.size as usize, span.status);
        self.fs.read(cx.w, at, span, &mut cx.reply)
    }

    pub(super) fn write(
        &self,
        cx: &mut RequestContext<'_>,
        (handle, offset): (u64, u64),
        (flags, status): (u32, OFlags),
        data: &[u8],
    ) -> Done {
        self.count(Kind::Write);
        let actor = cx.writer(flags & WRITE_KILL_SUIDGID != 0);
        let node = cx.node();
        let at = (node, fd_of(handle));
        let kept = flags & WRITE_CACHE != 0;
        // If nobody else writes, the kernel knows the end. Direct writes come in pieces, each with
        // its offset.
        let appends = status & (O_APPEND | O_DIRECT) == O_APPEND;
        let shared = self.fs.events.tracks_names || self.validity.attr.is_zero();
        let how = match () {
            () if kept => WriteKind::Writeback,
            () if appends && shared => WriteKind::Append,
            () => WriteKind::Direct,
        };
        let written = self.fs.write(cx.w, actor, at, (offset, how, status), data);
        if kept && let Some(notifier) = self.fs.notifier.get() {
            // The kernel knows the new size, but not the new number of blocks.
            let _forgotten = notifier.invalidate_inode(node, -1, 0);
        }
        // A request has at most 32 bits of data.
        cx.reply.u32(written? as u32);
        cx.reply.u32(0);
        Ok(())
    }

    pub(super) fn fsync(&self, cx: &mut RequestContext<'_>, handle: u64, data_only: bool) -> Done {
        self.count(Kind::Sync);
        let at = (cx.node(), fd_of(handle));
        self.fs.fsync(cx.w, at, data_only)
    }

    pub(super) fn readdir(&self, cx: &mut RequestContext<'_>, span: Span) -> Done {
        self.count(Kind::List);
        let (node, reply) = (cx.node(), &mut cx.reply);
        let (from, size) = ((span.offset, span.status), span.size as usize);
        self.fs.readdir(cx.w, node, from, |number, listed| {
            more(dirent(reply, size, number, listed))
        })
    }

    pub(super) fn readdirplus(&self, cx: &mut RequestContext<'_>, span: Span) -> Done {
        self.count(Kind::List);
        let (node, reply) = (cx.node(), &mut cx.reply);
        let (fs, validity) = (&self.fs, self.listed_validity());
        let (from, size) = ((span.offset, span.status), span.size as usize);
        fs.readdirplus(cx.w, node, from, |number, listed, found| {
            let validity = match found {
                Some(entry) if !entry.is_current => Validity::default(),
                _ => validity,
            };
            let found = found.map(|entry| node_attr(entry.number, &entry.attr));
            let found = found.as_ref().map(|attr| (attr, validity));
            more(direntplus(reply, size, number, listed, found))
        })
    }

    pub(super) fn fallocate(
        &self,
        cx: &mut RequestContext<'_>,
        handle: u64,
        mode: u32,
        range: (u64, u64),
    ) -> Done {
        self.count(Kind::Space);
        let at = (cx.node(), fd_of(handle));
        let actor = cx.assumed_writer();
        self.fs.fallocate(cx.w, actor, at, mode, range)
    }

    pub(super) fn lseek(
        &self,
        cx: &mut RequestContext<'_>,
        handle: u64,
        offset: u64,
        whence: u32,
    ) -> Done {
        self.count(Kind::Space);
        let at = (cx.node(), fd_of(handle));
        let offset = offset.cast_signed();
        let to = self.fs.lseek(cx.w, at, offset, whence)?;
        cx.reply.u64(to.cast_unsigned());
        Ok(())
    }

    pub(super) fn copy(&self, cx: &mut RequestContext<'_>, range: &CopyRange) -> Done {
        self.count(Kind::Space);
        let from = ((cx.node(), fd_of(range.handle)), range.offset);
        let to = ((range.to, fd_of(range.to_handle)), range.to_offset);
        let actor = cx.assumed_writer();
        let copied = self.fs.copy_file_range(cx.w, actor, from, to, range.len)?;
        if range.wide {
            cx.reply.u64(copied as u64);
        } else {
            // At most what one request copies.
            cx.reply.u32(copied as u32);
            cx.reply.u32(0);
        }
        Ok(())
    }
}
