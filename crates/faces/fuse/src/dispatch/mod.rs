// SPDX-License-Identifier: MIT OR Apache-2.0
//! Dispatches requests to calls of the file system, and turns their results into replies.
//!
//! This module only converts arguments and results. `names` has the requests about names,
//! attributes and extended attributes, `data` those about data, listings and locks, `ioctl` those
//! about the flags of a file.

mod data;
mod ioctl;
mod names;

use crate::fs::{Entry, FuseFs};
use crate::locks::Answered;
use crate::observer::{Observing, Requester};
use crate::options::Options;
use crate::stats::Request as Kind;
use crate::wire::attributes::{NodeAttr, Validity, entry};
use crate::wire::init::Negotiated;
use crate::wire::{Header, ReplyBuilder, Request};
use crate::worker::{ActingAs, Worker};
use openpath_abi::{Errno, Statx};
use openpath_vfs::{Fd, InvalidationListener};
use std::sync::Arc;
use std::time::Duration;

/// Serves requests; shared by all threads of a server.
pub(crate) struct Dispatcher {
    fs: Arc<FuseFs>,
    validity: Validity,
    negative_timeout: Duration,
    terms: Negotiated,
    observing: Observing,
    /// Trees report changes to it while a thread serves.
    _invalidation: Option<Arc<dyn InvalidationListener>>,
}

/// A request, its worker, and its reply.
pub(crate) struct RequestContext<'a> {
    pub(crate) w: &'a mut Worker,
    pub(crate) header: Header,
    pub(crate) reply: ReplyBuilder<'a>,
}

impl RequestContext<'_> {
    fn node(&self) -> u64 {
        self.header.node
    }

    fn requester(&self) -> Requester {
        Requester {
            thread: self.header.pid,
            uid: self.header.uid,
            gid: self.header.gid,
        }
    }

    fn owner(&self) -> ActingAs {
        ActingAs::Owner(self.header.uid, self.header.gid)
    }

    /// The writer of data, and whether the write strips set-id bits.
    fn writer(&self, strips: bool) -> ActingAs {
        if strips {
            ActingAs::Stripped(self.header.uid, self.header.gid)
        } else {
            self.owner()
        }
    }

    /// The same if the kernel does not say whether: it does unless root writes.
    fn assumed_writer(&self) -> ActingAs {
        self.writer(self.header.uid != 0)
    }
}

/// The descriptor in a handle: none in 0.
fn fd_of(handle: u64) -> Option<Fd> {
    Fd::try_from(handle.checked_sub(1)?).ok()
}

/// The handle for a descriptor.
fn handle_of(fd: Option<Fd>) -> u64 {
    fd.map_or(0, |fd| u64::from(fd.cast_unsigned()) + 1)
}

/// Replies with a handle (`fuse_open_out`).
fn reply_open(cx: &mut RequestContext<'_>, handle: u64, flags: u32) {
    cx.reply.u64(handle);
    cx.reply.u32(flags);
    cx.reply.u32(0);
}

/// A node and its attributes. The inode number in the attributes is the node's, except for the
/// root.
fn node_attr(number: u64, attr: &Statx) -> NodeAttr<'_> {
    NodeAttr { number, attr }
}

impl Dispatcher {
    pub(crate) fn new(fs: Arc<FuseFs>, options: &Options, terms: Negotiated) -> Self {
        Self {
            fs,
            validity: Validity {
                entry: options.entry_timeout,
                attr: options.attr_timeout,
            },
            negative_timeout: options.negative_timeout,
            terms,
            observing: Observing::default(),
            _invalidation: None,
        }
    }

    /// With the listener for changes of trees.
    pub(crate) fn with_invalidation(self, listener: Arc<dyn InvalidationListener>) -> Self {
        Self {
            _invalidation: Some(listener),
            ..self
        }
    }

    /// With an observer.
    pub(crate) fn with_observer(self, observing: Observing) -> Self {
        Self { observing, ..self }
    }

    /// What was negotiated with the kernel.
    pub(crate) fn terms(&self) -> Negotiated {
        self.terms
    }

    pub(crate) fn count(&self, kind: Kind) {
        self.fs.counts.add(kind, 1);
    }

    /// Serves a request; returns whether it wants a reply.
    pub(crate) fn answer(&self, cx: &mut RequestContext<'_>, request: Request<'_>) -> bool {
        match request {
            Request::Forget(lookups) => {
                self.count(Kind::Forget);
                self.fs.forget(cx.w, [(cx.node(), lookups)]);
                return false;
            }
            Request::Forgets(all) => {
                self.count(Kind::Forget);
                self.fs.forget(cx.w, all);
                return false;
            }
            Request::Lock(lock) => {
                match self.lock(cx, &lock) {
                    Ok(Answered::Now) => {}
                    Ok(Answered::Later) => return false,
                    Err(errno) => cx.reply.fail(errno),
                }
                return true;
            }
            Request::Interrupt(request) => {
                self.count(Kind::Interrupt);
                self.interrupt(cx.w, request);
                return false;
            }
            _ => {}
        }
        if let Err(errno) = self.dispatch(cx, request) {
            cx.reply.fail(errno);
        }
        cx.header.is_answered()
    }

    /// The caller no longer waits for this request, which may not have reached a thread yet.
    fn interrupt(&self, w: &Worker, request: u64) {
        // Before the search of the requests in flight: a request takes its note once it is in
        // flight.
        self.fs.early_interrupts.note(request);
        let mut in_flight = self.fs.in_flight.iter();
        let found = in_flight.any(|in_flight| in_flight.interrupt(request));
        // After that search: a request that goes on to wait for a lock checks then whether it was
        // interrupted.
        let locks = self.fs.locks.as_ref();
        if locks.is_some_and(|locks| locks.interrupt(w, request)) || found {
            self.fs.early_interrupts.take(request);
        }
    }

    /// Whether this request, now in flight, was interrupted before.
    pub(crate) fn was_interrupted(&self, request: u64) -> bool {
        self.fs.early_interrupts.take(request)
    }

    /// A request came by a ring.
    pub(crate) fn count_ring_request(&self) {
        self.fs.counts.count_ring_request();
    }

    /// Requests that create a file, and bring a umask.
    fn create_with_umask(
        &self,
        cx: &mut RequestContext<'_>,
        request: Request<'_>,
    ) -> Result<(), Errno> {
        match request {
            Request::Mknod {
                name,
                mode,
                umask,
                rdev,
            } => self.mknod(cx, name, (mode, umask), rdev),
            Request::Mkdir { name, mode, umask } => self.mkdir(cx, name, (mode, umask)),
            Request::Create {
                name,
                mode,
                umask,
                flags,
            } => self.create(cx, name, (mode, umask), flags),
            Request::Tmpfile { mode, umask, flags } => self.tmpfile(cx, (mode, umask), flags),
            _ => Err(Errno::ENOSYS),
        }
    }

    fn dispatch(&self, cx: &mut RequestContext<'_>, request: Request<'_>) -> Result<(), Errno> {
        match request {
            Request::Lookup(name) => self.lookup(cx, name),
            Request::Getattr => self.getattr(cx),
            Request::Statx => self.statx(cx),
            Request::Setattr(change) => self.setattr(cx, &change),
            Request::Readlink => self.readlink(cx),
            Request::Symlink { name, target } => self.symlink(cx, name, target),
            Request::Mknod { .. }
            | Request::Mkdir { .. }
            | Request::Create { .. }
            | Request::Tmpfile { .. } => self.create_with_umask(cx, request),
            Request::Unlink(name) => self.remove(cx, name, false),
            Request::Rmdir(name) => self.remove(cx, name, true),
            Request::Rename {
                name,
                to,
                new,
                flags,
            } => self.rename(cx, name, (to, new), flags),
            Request::Link { node, name } => self.link(cx, node, name),
            Request::Open { flags } => self.open(cx, flags),
            Request::Opendir => self.opendir(cx),
            Request::Read(span) => self.read(cx, span),
            Request::Readdir(span) => self.readdir(cx, span),
            Request::ReaddirPlus(span) => self.readdirplus(cx, span),
            Request::Write {
                handle,
                offset,
                flags,
                status,
                data,
            } => self.write(cx, (handle, offset), (flags, status), data),
            Request::Statfs => self.statfs(cx),
            Request::Flush { handle, owner } => self.flush(cx, handle, owner),
            Request::Release { handle } => self.release(cx, handle),
            Request::Fsync { handle, data_only } => self.fsync(cx, handle, data_only),
            Request::Fsyncdir { data_only } => self.fsync(cx, 0, data_only),
            Request::Setxattr {
                name,
                value,
                flags,
                strips,
            } => self.setxattr(cx, name, value, (flags, strips)),
            Request::Getxattr { name, room } => self.getxattr(cx, name, room),
            Request::Listxattr { room } => self.listxattr(cx, room),
            Request::Removexattr(name) => self.removexattr(cx, name),
            Request::Ioctl { .. } => self.ioctl(cx, request),
            Request::Fallocate {
                handle,
                offset,
                len,
                mode,
            } => self.fallocate(cx, handle, mode, (offset, len)),
            Request::Lseek {
                handle,
                offset,
                whence,
            } => self.lseek(cx, handle, offset, whence),
            Request::CopyRange(range) => self.copy(cx, &range),
            Request::Releasedir | Request::Destroy => Ok(()),
            // Requests without a reply, and those with a later one, were handled before.
            Request::Forget(_)
            | Request::Forgets(_)
            | Request::Interrupt(_)
            | Request::Lock(_)
            | Request::Unknown => Err(Errno::ENOSYS),
        }
    }

    /// How long the names of a listing are valid: with an observer they are not cached.
    fn listed_validity(&self) -> Validity {
        if self.observing.is_on() {
            Validity::default()
        } else {
            self.validity
        }
    }
}

/// Replies with an entry that is valid for so long.
fn reply_entry(
    cx: &mut RequestContext<'_>,
    found: Result<Entry, Errno>,
    validity: Validity,
) -> Result<(), Errno> {
    let found = found?;
    let validity = if found.is_current {
        validity
    } else {
        Validity::default()
    };
    entry(
        &mut cx.reply,
        &node_attr(found.number, &found.attr),
        validity,
    );
    Ok(())
}
