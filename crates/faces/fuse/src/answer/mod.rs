// SPDX-License-Identifier: MIT OR Apache-2.0
//! From a request to calls of the view, and from what they give to an answer.
//!
//! What a request means is elsewhere; here arguments and answers change their shape. `names` has
//! the requests about names and attributes, `data` those about what is in files and directories.

mod data;
mod ioctl;
mod names;

use crate::locks::Answered;
use crate::options::Options;
use crate::stats::Request as Kind;
use crate::view::{Entry, View};
use crate::watch::Requester;
use crate::wire::attributes::{Holds, Shown, entry};
use crate::wire::init::Terms;
use crate::wire::{Answer, Header, Request};
use crate::worker::{Who, Worker};
use openpath_abi::{Errno, Statx};
use openpath_vfs::{Above, Fd};
use std::sync::Arc;
use std::time::Duration;

/// What every thread of a server answers from.
pub(crate) struct Clerk {
    view: Arc<View>,
    holds: Holds,
    negative_timeout: Duration,
    terms: Terms,
    /// Trees tell it for as long as somebody answers.
    _above: Option<Arc<dyn Above>>,
}

/// One request, who is at it, and its answer.
pub(crate) struct Asked<'a> {
    pub(crate) w: &'a mut Worker,
    pub(crate) header: Header,
    pub(crate) answer: Answer<'a>,
}

impl Asked<'_> {
    fn node(&self) -> u64 {
        self.header.node
    }

    fn by(&self) -> Requester {
        Requester {
            thread: self.header.pid,
            uid: self.header.uid,
            gid: self.header.gid,
        }
    }

    fn owner(&self) -> Who {
        Who::Owner(self.header.uid, self.header.gid)
    }

    /// Who changes what is in a file, and whether that takes its set-id bits.
    fn changer(&self, strips: bool) -> Who {
        if strips {
            Who::Stripped(self.header.uid, self.header.gid)
        } else {
            self.owner()
        }
    }

    /// The same where the kernel does not say: from who is not root it does.
    fn guessed(&self) -> Who {
        self.changer(self.header.uid != 0)
    }
}

/// The descriptor in a handle: none in 0.
fn fd_of(handle: u64) -> Option<Fd> {
    Fd::try_from(handle.checked_sub(1)?).ok()
}

/// The handle that a descriptor goes into.
fn handle_of(fd: Option<Fd>) -> u64 {
    fd.map_or(0, |fd| u64::from(fd.cast_unsigned()) + 1)
}

/// Answers with a handle (`fuse_open_out`).
fn opened(asked: &mut Asked<'_>, handle: u64, flags: u32) {
    asked.answer.u64(handle);
    asked.answer.u32(flags);
    asked.answer.u32(0);
}

/// A node with the number that it is shown with: its own; but of the root, whose inode's is.
fn shown(number: u64, attr: &Statx) -> Shown<'_> {
    Shown { node: number, attr }
}

impl Clerk {
    pub(crate) fn new(view: Arc<View>, options: &Options, terms: Terms) -> Self {
        Self {
            view,
            holds: Holds {
                name: options.entry_timeout,
                attributes: options.attr_timeout,
            },
            negative_timeout: options.negative_timeout,
            terms,
            _above: None,
        }
    }

    /// The same, for which this hears.
    pub(crate) fn heard_by(self, above: Arc<dyn Above>) -> Self {
        Self {
            _above: Some(above),
            ..self
        }
    }

    /// What was agreed on with the kernel.
    pub(crate) fn terms(&self) -> Terms {
        self.terms
    }

    pub(crate) fn count(&self, kind: Kind) {
        self.view.counts.add(kind, 1);
    }

    /// Answers a request; whether it wants an answer.
    pub(crate) fn answer(&self, asked: &mut Asked<'_>, request: Request<'_>) -> bool {
        match request {
            Request::Forget(lookups) => {
                self.count(Kind::Forget);
                self.view.forget(asked.w, [(asked.node(), lookups)]);
                return false;
            }
            Request::Forgets(all) => {
                self.count(Kind::Forget);
                self.view.forget(asked.w, all);
                return false;
            }
            Request::Lock(lock) => {
                match self.lock(asked, &lock) {
                    Ok(Answered::Now) => {}
                    Ok(Answered::Later) => return false,
                    Err(errno) => asked.answer.fail(errno),
                }
                return true;
            }
            Request::Interrupt(request) => {
                self.count(Kind::Interrupt);
                self.interrupt(asked.w, request);
                return false;
            }
            _ => {}
        }
        if let Err(errno) = self.asked(asked, request) {
            asked.answer.fail(errno);
        }
        asked.header.is_answered()
    }

    /// Nobody wants to wait for this request any longer, which may be on its way to a thread.
    fn interrupt(&self, w: &Worker, request: u64) {
        // Before the seats: who takes one looks then whether this was noted.
        self.view.early.note(request);
        let mut seats = self.view.seats.iter();
        let found = seats.any(|seat| seat.interrupt(request));
        // After the seats: who goes from one of them to wait for a lock looks then whether he was
        // interrupted.
        let locks = self.view.locks.as_ref();
        if locks.is_some_and(|locks| locks.interrupt(w, request)) || found {
            self.view.early.take(request);
        }
    }

    /// Whether that request, which has its seat, was interrupted before it had.
    pub(crate) fn was_interrupted(&self, request: u64) -> bool {
        self.view.early.take(request)
    }

    /// A request came by a ring.
    pub(crate) fn ringed(&self) {
        self.view.counts.ringed();
    }

    /// Requests that make a file and come with a umask.
    fn make(&self, asked: &mut Asked<'_>, request: Request<'_>) -> Result<(), Errno> {
        match request {
            Request::Mknod {
                name,
                mode,
                umask,
                rdev,
            } => self.mknod(asked, name, (mode, umask), rdev),
            Request::Mkdir { name, mode, umask } => self.mkdir(asked, name, (mode, umask)),
            Request::Create {
                name,
                mode,
                umask,
                flags,
            } => self.create(asked, name, (mode, umask), flags),
            Request::Tmpfile { mode, umask, flags } => self.tmpfile(asked, (mode, umask), flags),
            _ => Err(Errno::ENOSYS),
        }
    }

    fn asked(&self, asked: &mut Asked<'_>, request: Request<'_>) -> Result<(), Errno> {
        match request {
            Request::Lookup(name) => self.lookup(asked, name),
            Request::Getattr => self.getattr(asked),
            Request::Statx => self.statx(asked),
            Request::Setattr(change) => self.setattr(asked, &change),
            Request::Readlink => self.readlink(asked),
            Request::Symlink { name, target } => self.symlink(asked, name, target),
            Request::Mknod { .. }
            | Request::Mkdir { .. }
            | Request::Create { .. }
            | Request::Tmpfile { .. } => self.make(asked, request),
            Request::Unlink(name) => self.remove(asked, name, false),
            Request::Rmdir(name) => self.remove(asked, name, true),
            Request::Rename {
                name,
                to,
                new,
                flags,
            } => self.rename(asked, name, (to, new), flags),
            Request::Link { node, name } => self.link(asked, node, name),
            Request::Open { flags } => self.open(asked, flags),
            Request::Opendir => self.opendir(asked),
            Request::Read(span) => self.read(asked, span),
            Request::Readdir(span) => self.readdir(asked, span),
            Request::ReaddirPlus(span) => self.readdirplus(asked, span),
            Request::Write {
                handle,
                offset,
                flags,
                status,
                data,
            } => self.write(asked, (handle, offset), (flags, status), data),
            Request::Statfs => self.statfs(asked),
            Request::Flush { handle, owner } => self.flush(asked, handle, owner),
            Request::Release { handle } => self.release(asked, handle),
            Request::Fsync { handle, data_only } => self.fsync(asked, handle, data_only),
            Request::Fsyncdir { data_only } => self.fsync(asked, 0, data_only),
            Request::Setxattr {
                name,
                value,
                flags,
                strips,
            } => self.setxattr(asked, name, value, (flags, strips)),
            Request::Getxattr { name, room } => self.getxattr(asked, name, room),
            Request::Listxattr { room } => self.listxattr(asked, room),
            Request::Removexattr(name) => self.removexattr(asked, name),
            Request::Ioctl { .. } => self.ioctl(asked, request),
            Request::Fallocate {
                handle,
                offset,
                len,
                mode,
            } => self.fallocate(asked, handle, mode, (offset, len)),
            Request::Lseek {
                handle,
                offset,
                whence,
            } => self.lseek(asked, handle, offset, whence),
            Request::CopyRange(range) => self.copy(asked, &range),
            Request::Releasedir | Request::Destroy => Ok(()),
            // Those without an answer, and those with a late one, were dealt with.
            Request::Forget(_)
            | Request::Forgets(_)
            | Request::Interrupt(_)
            | Request::Lock(_)
            | Request::Unknown => Err(Errno::ENOSYS),
        }
    }

    /// How long the kernel believes what a listing says of names: who looks on is not asked about
    /// each.
    fn listed_hold(&self) -> Holds {
        match self.view.watch {
            Some(_) => Holds::default(),
            None => self.holds,
        }
    }
}

/// Answers with an entry that holds for so long.
fn entry_for(
    asked: &mut Asked<'_>,
    found: Result<Entry, Errno>,
    holds: Holds,
) -> Result<(), Errno> {
    let found = found?;
    let holds = if found.holds { holds } else { Holds::default() };
    entry(&mut asked.answer, &shown(found.number, &found.attr), holds);
    Ok(())
}
