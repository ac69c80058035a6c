// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatches FUSE requests about names, attributes and extended attributes, and `STATFS`: each
//! becomes a call of the file system, and its result a reply.

use super::{Dispatcher, RequestContext, fd_of, handle_of, node_attr, reply_entry};
use crate::fs::{AttrChange, Entry};
use crate::stats::Request as Kind;
use crate::wire::attributes::{Validity, attributes, negative_entry, statfs, statx};
use crate::wire::numbers::FOPEN_KEEP_CACHE;
use crate::wire::request::Setattr;
use openpath_abi::mode::{S_IFDIR, S_IFMT};
use openpath_abi::{Errno, OFlags, RenameFlags, XattrFlags};
use openpath_vfs::Fd;
use std::time::Duration;

type Done = Result<(), Errno>;

impl Dispatcher {
    pub(super) fn lookup(&self, cx: &mut RequestContext<'_>, name: &[u8]) -> Done {
        self.count(Kind::Lookup);
        let target = (cx.node(), name);
        let found = self.fs.lookup(cx.w, target);
        let by = cx.requester();
        let cacheable = self.observing.name((&self.fs, cx.w), by, target, &found);
        if matches!(found, Err(Errno::ENOENT)) {
            self.count(Kind::Absent);
            if cacheable && !self.negative_timeout.is_zero() {
                negative_entry(&mut cx.reply, self.negative_timeout);
                return Ok(());
            }
        }
        let entry = if cacheable {
            self.validity.entry
        } else {
            Duration::ZERO
        };
        let validity = Validity {
            entry,
            ..self.validity
        };
        reply_entry(cx, found, validity)
    }

    pub(super) fn getattr(&self, cx: &mut RequestContext<'_>) -> Done {
        self.count(Kind::Getattr);
        let (by, node) = (cx.requester(), cx.node());
        self.observing.attributes((&self.fs, cx.w), by, node);
        let attr = self.fs.getattr(cx.w, node)?;
        attributes(&mut cx.reply, &node_attr(node, &attr), self.validity.attr);
        Ok(())
    }

    pub(super) fn statx(&self, cx: &mut RequestContext<'_>) -> Done {
        self.count(Kind::Getattr);
        let (by, node) = (cx.requester(), cx.node());
        self.observing.attributes((&self.fs, cx.w), by, node);
        let attr = self.fs.statx(cx.w, node)?;
        statx(&mut cx.reply, &node_attr(node, &attr), self.validity.attr);
        Ok(())
    }

    pub(super) fn setattr(&self, cx: &mut RequestContext<'_>, wanted: &Setattr) -> Done {
        self.count(Kind::Setattr);
        let node = cx.node();
        let actor = match wanted.size {
            None => cx.owner(),
            Some(_) if self.terms.has_kill_flags() => cx.writer(wanted.strips),
            Some(_) => cx.assumed_writer(),
        };
        let change = AttrChange {
            mode: wanted.mode,
            uid: wanted.uid,
            gid: wanted.gid,
            size: wanted.size,
            times: wanted.times,
            by_descriptor: wanted.handle.is_some(),
            fd: wanted.handle.and_then(fd_of),
        };
        let attr = self.fs.setattr(cx.w, actor, node, &change)?;
        attributes(&mut cx.reply, &node_attr(node, &attr), self.validity.attr);
        Ok(())
    }

    pub(super) fn readlink(&self, cx: &mut RequestContext<'_>) -> Done {
        self.count(Kind::Readlink);
        let body = self.fs.readlink(cx.w, cx.node())?;
        cx.reply.bytes(&body);
        Ok(())
    }

    /// `mode` comes with the umask, which a default access control list replaces.
    pub(super) fn mknod(
        &self,
        cx: &mut RequestContext<'_>,
        name: &[u8],
        (mode, umask): (u32, u32),
        rdev: u32,
    ) -> Done {
        self.count(Kind::Make);
        cx.w.task.umask(umask);
        let (actor, target) = (cx.owner(), (cx.node(), name));
        let created = self.fs.mknod(cx.w, actor, target, mode, rdev.into());
        reply_entry(cx, created, self.validity)
    }

    pub(super) fn mkdir(
        &self,
        cx: &mut RequestContext<'_>,
        name: &[u8],
        (mode, umask): (u32, u32),
    ) -> Done {
        self.mknod(cx, name, (mode & !S_IFMT | S_IFDIR, umask), 0)
    }

    pub(super) fn symlink(&self, cx: &mut RequestContext<'_>, name: &[u8], path: &[u8]) -> Done {
        self.count(Kind::Make);
        let (actor, target) = (cx.owner(), (cx.node(), name));
        let created = self.fs.symlink(cx.w, actor, target, path);
        reply_entry(cx, created, self.validity)
    }

    pub(super) fn remove(&self, cx: &mut RequestContext<'_>, name: &[u8], is_dir: bool) -> Done {
        self.count(Kind::Remove);
        let target = (cx.node(), name);
        self.fs.remove(cx.w, target, is_dir)
    }

    pub(super) fn rename(
        &self,
        cx: &mut RequestContext<'_>,
        name: &[u8],
        to: (u64, &[u8]),
        flags: RenameFlags,
    ) -> Done {
        self.count(Kind::Rename);
        let (actor, from) = (cx.owner(), (cx.node(), name));
        self.fs.rename(cx.w, actor, from, to, flags)
    }

    pub(super) fn link(&self, cx: &mut RequestContext<'_>, node: u64, name: &[u8]) -> Done {
        self.count(Kind::Link);
        let target = (cx.node(), name);
        let linked = self.fs.link(cx.w, node, target);
        reply_entry(cx, linked, self.validity)
    }

    pub(super) fn create(
        &self,
        cx: &mut RequestContext<'_>,
        name: &[u8],
        (mode, umask): (u32, u32),
        flags: OFlags,
    ) -> Done {
        self.count(Kind::Create);
        cx.w.task.umask(umask);
        let (actor, target) = (cx.owner(), (cx.node(), name));
        let (by, observed) = (cx.requester(), (target.0, Some(name)));
        let created = self
            .observing
            .open((&self.fs, cx.w), by, observed, flags, |w| {
                self.fs.create(w, actor, target, mode, flags)
            });
        self.created(cx, created)
    }

    pub(super) fn tmpfile(
        &self,
        cx: &mut RequestContext<'_>,
        (mode, umask): (u32, u32),
        flags: OFlags,
    ) -> Done {
        self.count(Kind::Create);
        cx.w.task.umask(umask);
        let (actor, dir) = (cx.owner(), cx.node());
        let by = cx.requester();
        let created = self
            .observing
            .open((&self.fs, cx.w), by, (dir, None), flags, |w| {
                self.fs.tmpfile(w, actor, dir, mode, flags)
            });
        self.created(cx, created)
    }

    /// Replies with an entry that is open.
    fn created(
        &self,
        cx: &mut RequestContext<'_>,
        created: Result<(Entry, Option<Fd>), Errno>,
    ) -> Done {
        let (entry, fd) = created?;
        reply_entry(cx, Ok(entry), self.validity)?;
        super::reply_open(cx, handle_of(fd), FOPEN_KEEP_CACHE);
        Ok(())
    }

    pub(super) fn statfs(&self, cx: &mut RequestContext<'_>) -> Done {
        self.count(Kind::Statfs);
        let figures = self.fs.statfs(cx.w, cx.node())?;
        statfs(&mut cx.reply, &figures);
        Ok(())
    }

    pub(super) fn setxattr(
        &self,
        cx: &mut RequestContext<'_>,
        name: &[u8],
        value: &[u8],
        (flags, strips): (XattrFlags, bool),
    ) -> Done {
        self.count(Kind::Attribute);
        let node = cx.node();
        let actor = cx.writer(strips);
        cx.w.act_as(actor);
        self.fs.setxattr(cx.w, node, name, value, flags)
    }

    pub(super) fn getxattr(&self, cx: &mut RequestContext<'_>, name: &[u8], room: u32) -> Done {
        self.count(Kind::Attribute);
        let value = self.fs.getxattr(cx.w, cx.node(), name)?;
        sized(cx, &value, room)
    }

    pub(super) fn listxattr(&self, cx: &mut RequestContext<'_>, room: u32) -> Done {
        self.count(Kind::Attribute);
        let entry = self.fs.listxattr(cx.w, cx.node())?;
        sized(cx, &entry, room)
    }

    pub(super) fn removexattr(&self, cx: &mut RequestContext<'_>, name: &[u8]) -> Done {
        self.count(Kind::Attribute);
        // Divergence: L121.
        let actor = cx.owner();
        cx.w.act_as(actor);
        self.fs.removexattr(cx.w, cx.node(), name)
    }
}

/// Replies with a value, or with its size if that is requested.
fn sized(cx: &mut RequestContext<'_>, value: &[u8], room: u32) -> Done {
    if room == 0 {
        cx.reply.u32(value.len() as u32);
        cx.reply.u32(0);
    } else if value.len() > room as usize {
        return Err(Errno::ERANGE);
    } else {
        cx.reply.bytes(value);
    }
    Ok(())
}
