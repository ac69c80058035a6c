// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds, opens and evicts the handles (descriptors of the host) of one inode.
//!
//! # Rules
//! R1. A file that is opened by name is compared with the inode's identity; another file under its
//!     name is `ESTALE`, never that file.
//! R2. An inode is reopened by a handle of its own if there is one and the host has a `/proc`.
//!     Otherwise it is opened from the nearest directory above it that has a handle, by each of its
//!     aliases, the latest first.
//! R3. A file without a known name keeps the handles it has.
//!
//! # Guarantees
//! G1. `OPEN_HOOK` is set while a file or directory has no readable handle.

use crate::node::{Alias, Node};
use crate::pool::{Handle, HandleKind, HandleOwner, Handles};
use crate::sys::{errno, stat_at};
use crate::tree::AtimeSource;
use openpath_abi::{Errno, mode};
use openpath_vfs::{Inode, WaitMode, flag};
use rustix::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::sync::{Arc, Weak};
use std::time::Duration;

/// How often a file that was moved meanwhile is looked up again.
const TRIES: usize = 3;
/// The most directories above a file that are walked.
const DEPTH_MAX: usize = 1 << 16;
/// The longest path that is opened at once.
const PATH_ROOM: usize = 2048;
/// The first and the longest pause between two tries to open a file that has a lease.
const LEASE_PAUSE: Duration = Duration::from_millis(1);
const LEASE_PAUSE_MAX: Duration = Duration::from_millis(50);

impl Node {
    /// A handle that is held for this use, or for a more general one.
    pub(crate) fn held_handle(&self, kind: HandleKind) -> Option<Arc<Handle>> {
        let handles = self.handles.lock();
        let [path, read, write] = &handles.held;
        let found = match kind {
            HandleKind::Path => path.as_ref().or(read.as_ref()).or(write.as_ref()),
            HandleKind::Read => read.as_ref().or(write.as_ref().filter(|h| h.readable)),
            HandleKind::Write => write.as_ref(),
        };
        let found = found?;
        found.mark_used();
        Some(Arc::clone(found))
    }

    /// A handle for this use: the one that is held, or a new one.
    ///
    /// # Errors
    /// Those of the host; `ESTALE` if the file is no longer where it was found; `ENFILE` if no
    /// handle can be evicted for it; `EAGAIN` if it would have to wait and may not.
    pub(crate) fn handle(
        self: &Arc<Self>,
        kind: HandleKind,
        wait_mode: WaitMode,
    ) -> Result<Arc<Handle>, Errno> {
        match self.held_handle(kind) {
            Some(handle) => Ok(handle),
            None => self.open_handle(kind, wait_mode),
        }
    }

    fn open_handle(
        self: &Arc<Self>,
        kind: HandleKind,
        wait_mode: WaitMode,
    ) -> Result<Arc<Handle>, Errno> {
        let mut plain = OFlags::NONBLOCK | OFlags::NOCTTY;
        if self.tree.atime_source() == AtimeSource::Own {
            plain |= OFlags::NOATIME;
        }
        let dir_flag = if self.is_dir() {
            OFlags::DIRECTORY
        } else {
            OFlags::empty()
        };
        match kind {
            HandleKind::Path => {
                let fd = self.reopen(OFlags::PATH | dir_flag, wait_mode)?;
                self.install_handle(fd, kind, false)
            }
            HandleKind::Read => {
                let fd = self.reopen(OFlags::RDONLY | plain | dir_flag, wait_mode)?;
                self.install_handle(fd, kind, true)
            }
            HandleKind::Write => match self.reopen(OFlags::RDWR | plain, wait_mode) {
                Ok(fd) => self.install_handle(fd, kind, true),
                // A process that may write the file may not be able to read it.
                Err(Errno::EACCES) => {
                    let fd = self.reopen(OFlags::WRONLY | plain, wait_mode)?;
                    self.install_handle(fd, kind, false)
                }
                Err(errno) => Err(errno),
            },
        }
    }

    fn as_owner(self: &Arc<Self>) -> Weak<dyn HandleOwner> {
        let weak: Weak<Self> = Arc::downgrade(self);
        weak
    }

    /// Makes a handle of a descriptor on this file.
    ///
    /// # Errors
    /// `ENFILE`.
    pub(crate) fn install_handle(
        self: &Arc<Self>,
        fd: OwnedFd,
        kind: HandleKind,
        readable: bool,
    ) -> Result<Arc<Handle>, Errno> {
        let handle = Handle::new(fd, kind, readable, self.as_owner());
        let inode = self.inode();
        let mut handles = self.handles.lock();
        if let Some(other) = &handles.held[kind as usize] {
            // Another thread was faster; this handle is closed when it is dropped.
            return Ok(Arc::clone(other));
        }
        handles.held[kind as usize] = Some(Arc::clone(&handle));
        self.update_open_hook(inode.as_deref(), &handles);
        drop(handles);
        if let Err(errno) = self.tree.pool.admit(&handle) {
            self.remove_handle(&handle);
            return Err(errno);
        }
        Ok(handle)
    }

    fn remove_handle(&self, handle: &Arc<Handle>) {
        let inode = self.inode();
        let mut handles = self.handles.lock();
        let slot = &mut handles.held[handle.kind as usize];
        let gone = match slot {
            Some(held) if Arc::ptr_eq(held, handle) => slot.take(),
            _ => None,
        };
        self.update_open_hook(inode.as_deref(), &handles);
        drop(handles);
        drop(gone);
    }

    /// Drops the handle for this use, even if it is needed.
    pub(crate) fn drop_handle(&self, kind: HandleKind) {
        let inode = self.inode();
        let mut handles = self.handles.lock();
        if handles.nameless {
            return;
        }
        let gone = handles.held[kind as usize].take();
        self.update_open_hook(inode.as_deref(), &handles);
        drop(handles);
        drop(gone);
    }

    /// G1. The handles are locked.
    fn update_open_hook(&self, inode: Option<&Inode>, handles: &Handles) {
        let [_, read, write] = &handles.held;
        let ready = read.is_some() || write.as_ref().is_some_and(|h| h.readable);
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

    /// Notes whether only a handle leads to the file; then one must be held.
    pub(crate) fn set_nameless(&self, nameless: bool) {
        self.handles.lock().nameless = nameless;
    }

    /// Opens the same file of the host once more.
    fn reopen(self: &Arc<Self>, flags: OFlags, wait_mode: WaitMode) -> Result<OwnedFd, Errno> {
        let opened = self.reopen_once(flags, wait_mode);
        match opened {
            // The file belongs to another user.
            Err(Errno::EPERM) if flags.contains(OFlags::NOATIME) => {
                self.reopen(flags.difference(OFlags::NOATIME), wait_mode)
            }
            Err(Errno::EMFILE | Errno::ENFILE) => {
                self.tree.pool.shrink();
                self.reopen_once(flags, wait_mode)
            }
            Err(Errno::EAGAIN)
                if wait_mode == WaitMode::Wait && flags.contains(OFlags::NONBLOCK) =>
            {
                self.reopen_past_lease(flags)
            }
            other => other,
        }
    }

    /// Opens the file once another process has given up its lease. The open that failed has asked
    /// the holder for that; the kernel takes the lease away after `lease-break-time`. The thread
    /// never waits in the kernel, where nothing could interrupt it.
    ///
    /// # Errors
    /// `EAGAIN`: too many opens wait (`lease_waits`). `EINTR`, those of the host.
    fn reopen_past_lease(self: &Arc<Self>, flags: OFlags) -> Result<OwnedFd, Errno> {
        let waits = &self.tree.options.lease_waits;
        let _waiting = waits.begin().ok_or(Errno::EAGAIN)?;
        let mut pause = LEASE_PAUSE;
        loop {
            if self.tree.options.interrupted.is_pending() {
                return Err(Errno::EINTR);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(LEASE_PAUSE_MAX);
            match self.reopen_once(flags, WaitMode::Wait) {
                Err(Errno::EAGAIN) => {}
                opened => return opened,
            }
        }
    }

    fn reopen_once(self: &Arc<Self>, flags: OFlags, wait_mode: WaitMode) -> Result<OwnedFd, Errno> {
        if wait_mode == WaitMode::Wait
            && let (Some(proc), Some(handle)) =
                (&self.tree.proc, self.held_handle(HandleKind::Path))
        {
            return reopen_by_number(proc, &handle, flags);
        }
        let mut end = Errno::ESTALE;
        for _ in 0..TRIES {
            if self.handles.lock().nameless {
                return Err(Errno::ESTALE);
            }
            let aliases = self.aliases();
            if aliases.is_empty() {
                return match self.is_dir() {
                    true => self.reopen_at(None, flags, wait_mode),
                    // It could be reopened by its number, which may wait.
                    false if wait_mode == WaitMode::Cached => Err(Errno::EAGAIN),
                    false => Err(Errno::ESTALE),
                };
            }
            for alias in aliases {
                match self.reopen_at(Some(alias), flags, wait_mode) {
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
        alias: Option<Alias>,
        flags: OFlags,
        wait_mode: WaitMode,
    ) -> Result<OwnedFd, Errno> {
        let (anchor, path) = self.route(alias, wait_mode)?;
        let path: &[u8] = if path.is_empty() { b"." } else { &path };
        let opener = self.tree.opener;
        match opener.open(&*anchor, path, flags, Mode::empty(), wait_mode) {
            Ok(fd) if self.is_root() || stat_at(&fd, b"", wait_mode)?.id == self.id => Ok(fd),
            Ok(_) | Err(Errno::ENOENT | Errno::ENOTDIR | Errno::ELOOP) => Err(Errno::ESTALE),
            Err(errno) => Err(errno),
        }
    }

    /// A handle on a directory above, and the path from there.
    fn route(
        self: &Arc<Self>,
        alias: Option<Alias>,
        wait_mode: WaitMode,
    ) -> Result<(Arc<Handle>, Vec<u8>), Errno> {
        let mut names: Vec<(Arc<Self>, Box<[u8]>)> = Vec::new();
        let mut node = Arc::clone(self);
        let mut next = alias;
        let mut anchor = loop {
            match next {
                // Moves by others can leave aliases that form a ring, all of them outdated.
                Some(_) if names.len() > DEPTH_MAX => return Err(Errno::ESTALE),
                Some(alias) => {
                    names.push((node, alias.name));
                    node = alias.parent;
                    if let Some(handle) = node.held_handle(HandleKind::Path) {
                        break handle;
                    }
                    next = node.last_alias();
                }
                None => break node.held_handle(HandleKind::Path).ok_or(Errno::ESTALE)?,
            }
        };
        let mut path = Vec::new();
        while let Some((node, name)) = names.pop() {
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(&name);
            if path.len() > PATH_ROOM && !names.is_empty() {
                let opener = self.tree.opener;
                let flags = OFlags::PATH | OFlags::DIRECTORY;
                let fd = opener.open(&*anchor, &path, flags, Mode::empty(), wait_mode)?;
                anchor = Handle::new(fd, HandleKind::Path, false, node.as_owner());
                path.clear();
            }
        }
        Ok((anchor, path))
    }

    /// The inode is gone: only the way to its children may still be needed.
    pub(crate) fn release_handles(&self) {
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

impl HandleOwner for Node {
    fn evict(&self, handle: &Arc<Handle>) -> bool {
        {
            let handles = self.handles.lock();
            if handles.nameless || !self.has_alias() {
                return false;
            }
        }
        self.remove_handle(handle);
        true
    }
}

/// Opens the file of `handle` once more, whatever its name is.
fn reopen_by_number(proc: &OwnedFd, handle: &Handle, flags: OFlags) -> Result<OwnedFd, Errno> {
    #[cfg(test)]
    crate::stall::pass(handle, b"", WaitMode::Wait)?;
    let flags = flags.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC;
    rustix::fs::openat(proc, fd_name(handle), flags, Mode::empty()).map_err(errno)
}

/// The name of a handle in `/proc/self/fd`.
pub(crate) fn fd_name(handle: &Handle) -> String {
    handle.as_fd().as_raw_fd().to_string()
}
