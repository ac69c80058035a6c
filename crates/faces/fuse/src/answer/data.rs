// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests about what is in files and directories.

use super::{Asked, Clerk, fd_of, handle_of, opened, shown};
use crate::data::Written;
use crate::listing::More;
use crate::locks::Answered;
use crate::options::Opens;
use crate::stats::Request as Kind;
use crate::wire::attributes::Holds;
use crate::wire::entries::{plain, plus};
use crate::wire::numbers::{FOPEN_KEEP_CACHE, WRITE_CACHE, WRITE_KILL_SUIDGID};
use crate::wire::request::{CopyRange, Lock, Locking, Span};
use openpath_abi::Errno;
use openpath_abi::fcntl::{O_APPEND, O_DIRECT};

type Done = Result<(), Errno>;

/// Whether a listing goes on after an entry that had room or not.
fn more(had_room: bool) -> More {
    if had_room { More::Yes } else { More::Full }
}

impl Clerk {
    pub(super) fn open(&self, asked: &mut Asked<'_>, flags: u32) -> Done {
        self.count(Kind::Open);
        let (by, node) = (asked.by(), asked.node());
        let fd = self.view.seen(asked.w, by, (node, None), flags, |w| {
            self.view.open(w, node, flags)
        })?;
        opened(asked, handle_of(Some(fd)), FOPEN_KEEP_CACHE);
        Ok(())
    }

    pub(super) fn opendir(&self, asked: &mut Asked<'_>) -> Done {
        self.count(Kind::Open);
        match self.view.opens {
            Opens::Never => return Err(Errno::ENOSYS),
            // Without leave for the kernel to keep what it lists.
            Opens::Each => opened(asked, handle_of(None), 0),
        }
        Ok(())
    }

    pub(super) fn flush(&self, asked: &mut Asked<'_>, handle: u64, owner: u64) -> Done {
        self.count(Kind::Close);
        self.view.flush(asked.w, fd_of(handle), owner)
    }

    /// Answers a request for a lock; or it waits, and is answered later.
    pub(super) fn lock(&self, asked: &mut Asked<'_>, lock: &Lock) -> Result<Answered, Errno> {
        self.count(Kind::Lock);
        let locks = self.view.locks.as_ref().ok_or(Errno::ENOSYS)?;
        let fd = fd_of(lock.handle).ok_or(Errno::EBADF)?;
        match lock.how {
            Locking::Test => {
                let found = locks.test(asked.w, fd, lock)?;
                let end = match found.len {
                    0 => i64::MAX,
                    len => found.start.saturating_add(len - 1),
                };
                asked.answer.u64(found.start.cast_unsigned());
                asked.answer.u64(end.cast_unsigned());
                asked.answer.u32(i32::from(found.kind).cast_unsigned());
                // Whom the kernel does not know it shows as 0.
                asked.answer.u32(found.pid.max(0).cast_unsigned());
                Ok(Answered::Now)
            }
            Locking::Set => locks.at_once(asked.w, fd, lock).map(|()| Answered::Now),
            Locking::Wait => locks.wait(asked.w, fd, lock, asked.header.unique),
        }
    }

    pub(super) fn release(&self, asked: &mut Asked<'_>, handle: u64) -> Done {
        self.count(Kind::Close);
        let node = asked.node();
        self.view.release(asked.w, (node, fd_of(handle)))
    }

    pub(super) fn read(&self, asked: &mut Asked<'_>, span: Span) -> Done {
        self.count(Kind::Read);
        let at = (asked.node(), fd_of(span.handle));
        let span = (span.offset, span.size as usize, span.status);
        self.view.read(asked.w, at, span, &mut asked.answer)
    }

    pub(super) fn write(
        &self,
        asked: &mut Asked<'_>,
        (handle, offset): (u64, u64),
        (flags, status): (u32, u32),
        data: &[u8],
    ) -> Done {
        self.count(Kind::Write);
        let who = asked.changer(flags & WRITE_KILL_SUIDGID != 0);
        let node = asked.node();
        let at = (node, fd_of(handle));
        let kept = flags & WRITE_CACHE != 0;
        // Where nobody else writes the kernel knows the end; and what goes past its cache comes in
        // pieces, of which each has its place.
        let appends = status & (O_APPEND | O_DIRECT) == O_APPEND;
        let shared = self.view.hears || self.holds.attributes.is_zero();
        let how = match () {
            () if kept => Written::Back,
            () if appends && shared => Written::AtTheEnd,
            () => Written::AtOnce,
        };
        let written = self
            .view
            .write(asked.w, who, at, (offset, how, status), data);
        if kept && let Some(notifier) = self.view.notifier.get() {
            // The kernel knows how long the file is, and not how many blocks it takes now.
            let _forgotten = notifier.inode(node, -1, 0);
        }
        // No request is larger than its 32 bits.
        asked.answer.u32(written? as u32);
        asked.answer.u32(0);
        Ok(())
    }

    pub(super) fn fsync(&self, asked: &mut Asked<'_>, handle: u64, data_only: bool) -> Done {
        self.count(Kind::Sync);
        let at = (asked.node(), fd_of(handle));
        self.view.sync(asked.w, at, data_only)
    }

    pub(super) fn readdir(&self, asked: &mut Asked<'_>, span: Span) -> Done {
        self.count(Kind::List);
        let (node, answer) = (asked.node(), &mut asked.answer);
        let (from, size) = ((span.offset, span.status), span.size as usize);
        self.view.list(asked.w, node, from, |number, listed| {
            more(plain(answer, size, number, listed))
        })
    }

    pub(super) fn readdirplus(&self, asked: &mut Asked<'_>, span: Span) -> Done {
        self.count(Kind::List);
        let (node, answer) = (asked.node(), &mut asked.answer);
        let (view, holds) = (&self.view, self.listed_hold());
        let (from, size) = ((span.offset, span.status), span.size as usize);
        view.list_plus(asked.w, node, from, |number, listed, found| {
            let holds = match found {
                Some(entry) if !entry.holds => Holds::default(),
                _ => holds,
            };
            let found = found.map(|entry| shown(entry.number, &entry.attr));
            let found = found.as_ref().map(|shown| (shown, holds));
            more(plus(answer, size, number, listed, found))
        })
    }

    pub(super) fn fallocate(
        &self,
        asked: &mut Asked<'_>,
        handle: u64,
        mode: u32,
        range: (u64, u64),
    ) -> Done {
        self.count(Kind::Space);
        let at = (asked.node(), fd_of(handle));
        let who = asked.guessed();
        self.view.allocate(asked.w, who, at, mode, range)
    }

    pub(super) fn lseek(
        &self,
        asked: &mut Asked<'_>,
        handle: u64,
        offset: u64,
        whence: u32,
    ) -> Done {
        self.count(Kind::Space);
        let at = (asked.node(), fd_of(handle));
        let offset = offset.cast_signed();
        let to = self.view.seek(asked.w, at, offset, whence)?;
        asked.answer.u64(to.cast_unsigned());
        Ok(())
    }

    pub(super) fn copy(&self, asked: &mut Asked<'_>, range: &CopyRange) -> Done {
        self.count(Kind::Space);
        let from = ((asked.node(), fd_of(range.handle)), range.offset);
        let to = ((range.to, fd_of(range.to_handle)), range.to_offset);
        let who = asked.guessed();
        let copied = self.view.copy(asked.w, who, from, to, range.len)?;
        if range.wide {
            asked.answer.u64(copied as u64);
        } else {
            // It is no more than one request copies.
            asked.answer.u32(copied as u32);
            asked.answer.u32(0);
        }
        Ok(())
    }
}
