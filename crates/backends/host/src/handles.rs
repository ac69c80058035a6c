// SPDX-License-Identifier: MIT OR Apache-2.0
//! The handles of one inode: having one, opening it again, and giving it up.
//!
//! # Rules
//! R1. What is opened by name is compared with what the inode is; another file under its name is
//!     `ESTALE`, never that file.
//! R2. An inode is looked for by a handle of its own if there is one and the host has a `/proc`,
//!     else from the nearest directory above it that has one, by each of the names it was found
//!     under, the last one first.
//! R3. What has no known name keeps the handles it has.
//!
//! # Guarantees
//! G1. `OPEN_HOOK` is set while a file or directory has no handle that can be read.

use crate::node::{Node, Place};
use crate::pool::{Handle, Handles, Owner, Use};
use crate::sys::{errno, look};
use crate::tree::Access;
use openpath_abi::{Errno, mode};
use openpath_vfs::{Inode, Patience, flag};
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::sync::{Arc, Weak};

/// How often what was moved meanwhile is looked for again.
const TRIES: usize = 3;
/// The most directories above one that are looked through.
const DEPTH_MAX: usize = 1 << 16;
/// The longest path that is opened at once.
const PATH_ROOM: usize = 2048;

impl Node {
    /// A handle that is held for this use, or for a greater one.
    pub(crate) fn held(&self, what: Use) -> Option<Arc<Handle>> {
        let handles = self.handles.lock();
        let [path, read, write] = &handles.held;
        let found = match what {
            Use::Path => path.as_ref().or(read.as_ref()).or(write.as_ref()),
            Use::Read => read.as_ref().or(write.as_ref().filter(|h| h.reads)),
            Use::Write => write.as_ref(),
        };
        let found = found?;
        found.touch();
        Some(Arc::clone(found))
    }

    /// A handle for this use: the one that is held, or a new one.
    ///
    /// # Errors
    /// Those of the host; `ESTALE` if it is no longer where it was found; `ENFILE` if no handle can
    /// be given up for it; `EAGAIN` if it would have to wait and may not.
    pub(crate) fn handle(
        self: &Arc<Self>,
        what: Use,
        patience: Patience,
    ) -> Result<Arc<Handle>, Errno> {
        match self.held(what) {
            Some(handle) => Ok(handle),
            None => self.open_handle(what, patience),
        }
    }

    fn open_handle(self: &Arc<Self>, what: Use, patience: Patience) -> Result<Arc<Handle>, Errno> {
        let mut plain = OFlags::NONBLOCK | OFlags::NOCTTY;
        if self.tree.access() == Access::Ours {
            plain |= OFlags::NOATIME;
        }
        let kind = if self.is_dir() {
            OFlags::DIRECTORY
        } else {
            OFlags::empty()
        };
        match what {
            Use::Path => {
                let fd = self.reopen(OFlags::PATH | kind, patience)?;
                self.keep(fd, what, false)
            }
            Use::Read => {
                let fd = self.reopen(OFlags::RDONLY | plain | kind, patience)?;
                self.keep(fd, what, true)
            }
            Use::Write => match self.reopen(OFlags::RDWR | plain, patience) {
                Ok(fd) => self.keep(fd, what, true),
                // Who may write need not be able to read.
                Err(Errno::EACCES) => {
                    let fd = self.reopen(OFlags::WRONLY | plain, patience)?;
                    self.keep(fd, what, false)
                }
                Err(errno) => Err(errno),
            },
        }
    }

    fn as_owner(self: &Arc<Self>) -> Weak<dyn Owner> {
        let weak: Weak<Self> = Arc::downgrade(self);
        weak
    }

    /// Makes a handle of a descriptor on this file.
    ///
    /// # Errors
    /// `ENFILE`.
    pub(crate) fn keep(
        self: &Arc<Self>,
        fd: OwnedFd,
        what: Use,
        reads: bool,
    ) -> Result<Arc<Handle>, Errno> {
        let handle = Handle::new(fd, what, reads, self.as_owner());
        let inode = self.inode();
        let mut handles = self.handles.lock();
        if let Some(other) = &handles.held[what as usize] {
            // Someone was faster; this one is closed when it is dropped.
            return Ok(Arc::clone(other));
        }
        handles.held[what as usize] = Some(Arc::clone(&handle));
        self.note_hook(inode.as_deref(), &handles);
        drop(handles);
        if let Err(errno) = self.tree.pool.admit(&handle) {
            self.take_out(&handle);
            return Err(errno);
        }
        Ok(handle)
    }

    fn take_out(&self, handle: &Arc<Handle>) {
        let inode = self.inode();
        let mut handles = self.handles.lock();
        let slot = &mut handles.held[handle.what as usize];
        let gone = match slot {
            Some(held) if Arc::ptr_eq(held, handle) => slot.take(),
            _ => None,
        };
        self.note_hook(inode.as_deref(), &handles);
        drop(handles);
        drop(gone);
    }

    /// Gives up the handle for this use, whoever needs it.
    pub(crate) fn drop_handle(&self, what: Use) {
        let inode = self.inode();
        let mut handles = self.handles.lock();
        if handles.nameless {
            return;
        }
        let gone = handles.held[what as usize].take();
        self.note_hook(inode.as_deref(), &handles);
        drop(handles);
        drop(gone);
    }

    /// G1. The handles are locked.
    fn note_hook(&self, inode: Option<&Inode>, handles: &Handles) {
        let [_, read, write] = &handles.held;
        let ready = read.is_some() || write.as_ref().is_some_and(|h| h.reads);
        let Some(inode) = inode else { return };
        if !matches!(inode.kind(), mode::S_IFREG | mode::S_IFDIR) {
            return;
        }
        if ready && self.tree.keeps_handles() {
            inode.clear_flags(flag::OPEN_HOOK);
        } else {
            inode.set_flags(flag::OPEN_HOOK);
        }
    }

    /// Says whether nothing but a handle leads to it; then one must be held.
    pub(crate) fn set_nameless(&self, nameless: bool) {
        self.handles.lock().nameless = nameless;
    }

    /// Opens this file of the host once more.
    fn reopen(self: &Arc<Self>, flags: OFlags, patience: Patience) -> Result<OwnedFd, Errno> {
        let opened = self.reopen_once(flags, patience);
        match opened {
            // A stranger's file.
            Err(Errno::EPERM) if flags.contains(OFlags::NOATIME) => {
                self.reopen(flags.difference(OFlags::NOATIME), patience)
            }
            Err(Errno::EMFILE | Errno::ENFILE) => {
                self.tree.pool.relieve();
                self.reopen_once(flags, patience)
            }
            // A lease that must be given back, which takes the time it takes.
            Err(Errno::EAGAIN)
                if patience == Patience::Wait && flags.contains(OFlags::NONBLOCK) =>
            {
                self.reopen_once(flags.difference(OFlags::NONBLOCK), patience)
            }
            other => other,
        }
    }

    fn reopen_once(self: &Arc<Self>, flags: OFlags, patience: Patience) -> Result<OwnedFd, Errno> {
        if patience == Patience::Wait
            && let (Some(proc), Some(handle)) = (&self.tree.proc, self.held(Use::Path))
        {
            return reopen_by_number(proc, &handle, flags);
        }
        let mut end = Errno::ESTALE;
        for _ in 0..TRIES {
            if self.handles.lock().nameless {
                return Err(Errno::ESTALE);
            }
            let places = self.places();
            if places.is_empty() {
                return match self.is_dir() {
                    true => self.reopen_at(None, flags, patience),
                    // By its number it could be, which may wait.
                    false if patience == Patience::Cached => Err(Errno::EAGAIN),
                    false => Err(Errno::ESTALE),
                };
            }
            for place in places {
                match self.reopen_at(Some(place), flags, patience) {
                    Err(Errno::ESTALE) => {}
                    // Another name may be in a directory that can be searched.
                    Err(Errno::EACCES) => end = Errno::EACCES,
                    opened => return opened,
                }
            }
            if end != Errno::ESTALE {
                break;
            }
        }
        Err(end)
    }

    /// Opens this file by one of its names; without one it is the root.
    ///
    /// # Errors
    /// `ESTALE` if it is not there, those of the host.
    fn reopen_at(
        self: &Arc<Self>,
        place: Option<Place>,
        flags: OFlags,
        patience: Patience,
    ) -> Result<OwnedFd, Errno> {
        let (anchor, path) = self.route(place, patience)?;
        let path: &[u8] = if path.is_empty() { b"." } else { &path };
        let way = self.tree.way;
        match way.open(&*anchor, path, flags, Mode::empty(), patience) {
            Ok(fd) if self.is_root() || look(&fd, b"", patience)?.id == self.id => Ok(fd),
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        }
    }

    /// A handle on a directory above, and the path from there.
    fn route(
        self: &Arc<Self>,
        place: Option<Place>,
        patience: Patience,
    ) -> Result<(Arc<Handle>, Vec<u8>), Errno> {
        let mut names: Vec<(Arc<Self>, Box<[u8]>)> = Vec::new();
        let mut node = Arc::clone(self);
        let mut next = place;
        let mut anchor = loop {
            match next {
                // What others move may have places in a ring, all of them of the past.
                Some(_) if names.len() > DEPTH_MAX => return Err(Errno::ESTALE),
                Some(place) => {
                    names.push((node, place.name));
                    node = place.parent;
                    if let Some(handle) = node.held(Use::Path) {
                        break handle;
                    }
                    next = node.place();
                }
                None => break node.held(Use::Path).ok_or(Errno::ESTALE)?,
            }
        };
        let mut path = Vec::new();
        while let Some((node, name)) = names.pop() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            if path.len() > PATH_ROOM && !names.is_empty() {
                let way = self.tree.way;
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                let fd = way.open(&*anchor, &path, flags, Mode::empty(), patience)?;
                anchor = Handle::new(fd, Use::Path, false, node.as_owner());
                path.clear();
            }
        }
        Ok((anchor, path))
    }

    /// The inode is gone: nobody can ask for more than the way to its children.
    pub(crate) fn gone(&self) {
        let mut handles = self.handles.lock();
        handles.nameless = false;
        let held = if self.is_dir() {
            [const { None }; 3]
        } else {
            std::mem::take(&mut handles.held)
        };
        drop(handles);
        drop(held);
    }
}

impl Owner for Node {
    fn let_go(&self, handle: &Arc<Handle>) -> bool {
        {
            let handles = self.handles.lock();
            if handles.nameless || !self.has_place() {
                return false;
            }
        }
        self.take_out(handle);
        true
    }
}

/// Opens what `handle` is on once more, whatever its name is.
fn reopen_by_number(proc: &OwnedFd, handle: &Handle, flags: OFlags) -> Result<OwnedFd, Errno> {
    #[cfg(test)]
    crate::stall::pass(handle, b"", Patience::Wait)?;
    let flags = flags.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC;
    rustix::fs::openat(proc, number(handle), flags, Mode::empty()).map_err(errno)
}

/// The name of a handle in `/proc/self/fd`.
pub(crate) fn number(handle: &Handle) -> String {
    handle.as_fd().as_raw_fd().to_string()
}
