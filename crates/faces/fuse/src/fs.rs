// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the file system behind a mount: nodes over the tree at a task's root, and the
//! requests about names and attributes.
//!
//! `data` has the requests about data and extended attributes, `listing` those that list
//! directories.
//!
//! # Rules
//! R1. A lookup resolves one name in an open directory and follows no symbolic link: the kernel
//!     walks paths.
//! R2. A reply that contains a node counts one lookup of it, and no other reply does.

use crate::early_interrupts::EarlyInterrupts;
use crate::events::Events;
use crate::in_flight::InFlight;
use crate::locks::Locks;
use crate::nodes::{File, Nodes};
use crate::options::{OnlyUser, Opens, Options};
use crate::stats::Counts;
use crate::wire::{Notifier, init};
use crate::worker::{ActingAs, Worker};
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_REMOVEDIR, O_ACCMODE, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW,
    O_PATH, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY,
};
use openpath_abi::mode::{S_IALLUGO, S_IFDIR, S_IFMT, S_ISGID, S_ISUID, is_lnk, is_reg};
use openpath_abi::rename::RENAME_NOREPLACE;
use openpath_abi::statx::{STATX_BASIC_STATS, STATX_BTIME, STATX_MNT_ID_UNIQUE};
use openpath_abi::{Errno, OFlags, RenameFlags, Statx, StatxMask, TimeSet};
use openpath_sync::WriteOnce;
use openpath_vfs::{Fd, Task};
use std::sync::Arc;

/// The attributes that a node is made of.
pub(crate) const WANTED: StatxMask = STATX_BASIC_STATS
    .union(STATX_BTIME)
    .union(STATX_MNT_ID_UNIQUE);
/// Flags of a node's descriptor.
pub(crate) const PATH_ONLY: OFlags = O_PATH.union(O_NOFOLLOW).union(O_CLOEXEC);

/// A name in a directory, by the directory's node.
pub(crate) type Name<'a> = (u64, &'a [u8]);

/// The file that a name leads to.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) attr: Statx,
    /// No event came since the attributes were read, so that the kernel may cache them.
    pub(crate) is_current: bool,
}

/// A change of attributes.
#[derive(Clone, Copy)]
pub(crate) struct AttrChange {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) times: [TimeSet; 2],
    /// The call was about an open file.
    pub(crate) by_descriptor: bool,
    /// The open descriptor, if there is one.
    pub(crate) fd: Option<Fd>,
}

impl AttrChange {
    fn is_nothing(&self) -> bool {
        let fields = [self.mode, self.uid, self.gid];
        fields.iter().all(Option::is_none)
            && self.size.is_none()
            && self.times == [TimeSet::Omit; 2]
    }
}

/// The state of a [`crate::Server`], shared by the threads that serve.
pub(crate) struct FuseFs {
    pub(crate) nodes: Nodes,
    pub(crate) counts: Arc<Counts>,
    /// What each thread handles.
    pub(crate) in_flight: Vec<Arc<InFlight>>,
    pub(crate) early_interrupts: EarlyInterrupts,
    /// Sends notifications to the kernel, once it is mounted.
    pub(crate) notifier: WriteOnce<Notifier>,
    /// Changes that trees report.
    pub(crate) events: Events,
    pub(crate) opens: Opens,
    pub(crate) writeback: bool,
    pub(crate) only: Option<OnlyUser>,
    /// Locks of files, if the server keeps them.
    pub(crate) locks: Option<Locks>,
}

/// Descriptors for open files, beside those of nodes.
const SPARE: u64 = 4096;

impl FuseFs {
    /// The tree at the root of `task`, and the workers for its requests.
    ///
    /// # Errors
    /// `ENOMEM`, those of opening the root.
    pub(crate) fn new(task: &Task, options: &Options) -> Result<(Self, Vec<Worker>), Errno> {
        let own = task.fork()?;
        for fd in own.descriptors() {
            own.close(fd)?;
        }
        own.set_rlimit_nofile(options.nodes_max as u64 + SPARE);
        let root = own.open(b"/", PATH_ONLY | O_DIRECTORY, 0)?;
        let attr = own.statx(root, b"", AT_EMPTY_PATH, WANTED)?;
        let file = File::of(&own, root, &attr)?;
        let workers = Worker::group(&own, options.threads.max(1))?;
        let fs = Self {
            nodes: Nodes::new(root, file, options.nodes_max.max(1)),
            counts: Arc::default(),
            in_flight: workers.iter().map(|w| Arc::clone(&w.in_flight)).collect(),
            early_interrupts: EarlyInterrupts::default(),
            notifier: WriteOnce::default(),
            events: Events::new(options.tracked_names_max),
            opens: if options.locks {
                // Locks belong to openings, and end when those close.
                Opens::Each
            } else {
                options.opens
            },
            writeback: options.writeback,
            only: options.only_user.clone(),
            locks: options
                .locks
                .then(|| Locks::new(&own, options.lock_waits_max)),
        };
        Ok((fs, workers))
    }

    /// The flags of `FUSE_INIT` that depend on the options.
    pub(crate) fn wanted_flags(&self) -> u64 {
        let writeback = if self.writeback { init::WRITEBACK } else { 0 };
        let locks = if self.locks.is_some() { init::LOCKS } else { 0 };
        // A user namespace with one user cannot represent the ids in an access control list.
        let acls = if self.only.is_none() { init::ACLS } else { 0 };
        writeback | locks | acls
    }

    /// Makes a node of the file of an `O_PATH` descriptor, or counts a lookup of the node that it
    /// has. Afterwards the descriptor belongs to the node, or is closed.
    /// `count` is that of the events before the file was looked up.
    fn enter_node(
        &self,
        task: &Task,
        path_fd: Fd,
        (count, name): (u64, Option<Name<'_>>),
    ) -> Result<Entry, Errno> {
        let attr = task.statx(path_fd, b"", AT_EMPTY_PATH, WANTED);
        let entered = attr.and_then(|attr| {
            let is_file = is_reg(u32::from(attr.mode));
            let follows = is_file && self.events.tracks_names && self.writeback;
            let cached_size = follows.then_some(attr.size);
            let file = File::of(task, path_fd, &attr)?;
            let (number, redundant) = self.nodes.add_lookup(path_fd, file, cached_size)?;
            if cached_size.is_some_and(|len| self.nodes.has_grown(number, len)) {
                self.events.size_changed(vec![number], attr.size);
            }
            let attr = self.reply_attr(task, (number, path_fd), attr);
            // An event from now on finds the node.
            let is_current = self.events.set_reply(count, name, number);
            let entry = Entry {
                number,
                attr,
                is_current,
            };
            Ok((entry, redundant))
        });
        if self.nodes.should_prune()
            && let Some(queue) = self.events.queue()
            && !queue.request_prune()
        {
            // The next request comes when there are more.
            self.nodes.prune_requested();
        }
        let needless = match entered {
            Ok((_, redundant)) => redundant,
            Err(_) => Some(path_fd),
        };
        if let Some(fd) = needless {
            // As in `forget`. A lookup that was counted must be in the reply (R2).
            let _closed = task.close(fd);
        }
        entered.map(|(entry, _)| entry)
    }

    /// The file that a name leads to, counted as a lookup. The name's directory is open at `dir`.
    pub(crate) fn find(&self, worker: &Worker, dir: Fd, name: Name<'_>) -> Result<Entry, Errno> {
        let count = self.events.count.get();
        let path_fd = worker.task.openat(dir, name.1, PATH_ONLY, 0)?;
        self.enter_node(&worker.task, path_fd, (count, Some(name)))
    }

    /// `LOOKUP`.
    pub(crate) fn lookup(&self, w: &Worker, (parent, name): Name<'_>) -> Result<Entry, Errno> {
        let dir = self.nodes.path_fd(parent)?;
        // Before the lookup: an event of a later change finds the name.
        self.events.track_name(parent, name);
        self.find(w, dir, (parent, name))
    }

    /// `FORGET`.
    pub(crate) fn forget(&self, w: &Worker, all: impl IntoIterator<Item = (u64, u64)>) {
        for (number, lookups) in all {
            if let Some(path_fd) = self.nodes.forget(number, lookups) {
                // The error of this close concerns no caller: only the server opened the file.
                let _closed = w.task.close_lazily(path_fd);
            }
        }
    }

    /// The attributes of a node as the kernel gets them, with the inode number for stat(2).
    fn reply_attr(&self, task: &Task, (number, path_fd): (u64, Fd), attr: Statx) -> Statx {
        let ino = self.nodes.stat_ino(number, attr.mnt_id, attr.ino);
        let attr = self.present(task, path_fd, attr);
        Statx { ino, ..attr }
    }

    /// `GETATTR`.
    pub(crate) fn getattr(&self, w: &Worker, number: u64) -> Result<Statx, Errno> {
        let path_fd = self.nodes.path_fd(number)?;
        attr_of(w, path_fd).map(|attr| self.reply_attr(&w.task, (number, path_fd), attr))
    }

    /// `STATX`: as `GETATTR`, with the time of birth.
    pub(crate) fn statx(&self, w: &Worker, number: u64) -> Result<Statx, Errno> {
        let path_fd = self.nodes.path_fd(number)?;
        let attr = w.task.statx(path_fd, b"", AT_EMPTY_PATH, WANTED)?;
        Ok(self.reply_attr(&w.task, (number, path_fd), attr))
    }

    /// `SETATTR`, in the order in which Linux applies the changes of one call.
    pub(crate) fn setattr(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        number: u64,
        change: &AttrChange,
    ) -> Result<Statx, Errno> {
        let path_fd = self.nodes.path_fd(number)?;
        w.act_as(actor);
        self.check_setattr(w, path_fd, change)?;
        let change = &self.effective_change(change);
        if let Some(size) = change.size
            && (change.by_descriptor || truncation_has_effect(w, path_fd, size)?)
        {
            let size = i64::try_from(size).map_err(|_| Errno::EFBIG)?;
            let others = self.nodes.mark_written(number);
            match change.fd {
                Some(fd) => w.task.ftruncate(fd, size)?,
                None => w.with_open(path_fd, O_WRONLY, |w, fd| w.task.ftruncate(fd, size))?,
            }
            self.events.size_changed(others, size.cast_unsigned());
        }
        // An empty change is chown(2) to (-1, -1): it moves the time of the change.
        if change.is_nothing() && !may_strip(w, path_fd, actor)? {
            bump_ctime(w, path_fd)?;
        } else if change.uid.is_some() || change.gid.is_some() || change.is_nothing() {
            let (uid, gid) = (change.uid, change.gid);
            let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
            w.task.fchownat(path_fd, b"", uid, gid, AT_EMPTY_PATH)?;
        }
        if let Some(mode) = change.mode {
            let mode = mode & S_IALLUGO;
            self.mode_to_change(w, (number, path_fd), mode)?;
            w.task.fchmodat2(path_fd, b"", mode, AT_EMPTY_PATH)?;
        }
        w.task
            .utimensat(path_fd, Some(b""), change.times, AT_EMPTY_PATH)?;
        self.attributes_given(w, (number, path_fd), change)?;
        attr_of(w, path_fd).map(|attr| self.reply_attr(&w.task, (number, path_fd), attr))
    }

    /// `READLINK`.
    pub(crate) fn readlink(&self, w: &Worker, number: u64) -> Result<Vec<u8>, Errno> {
        let path_fd = self.nodes.path_fd(number)?;
        w.task.readlinkat(path_fd, b"")
    }

    /// `MKNOD` and `MKDIR`: `mode` includes the type.
    pub(crate) fn mknod(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        (parent, name): Name<'_>,
        mode: u32,
        dev: u64,
    ) -> Result<Entry, Errno> {
        let dir = self.nodes.path_fd(parent)?;
        self.events.track_name(parent, name);
        w.act_as(actor);
        if mode & S_IFMT == S_IFDIR {
            w.task.mkdirat(dir, name, mode & !S_IFMT)?;
        } else {
            w.task.mknodat(dir, name, mode, dev)?;
        }
        let entry = self.find(w, dir, (parent, name))?;
        if is_reg(u32::from(entry.attr.mode)) {
            self.file_made(entry.number, Some((parent, name)));
        }
        Ok(entry)
    }

    /// `SYMLINK`.
    pub(crate) fn symlink(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        (parent, name): Name<'_>,
        target: &[u8],
    ) -> Result<Entry, Errno> {
        let dir = self.nodes.path_fd(parent)?;
        self.events.track_name(parent, name);
        w.act_as(actor);
        w.task.symlinkat(target, dir, name)?;
        self.find(w, dir, (parent, name))
    }

    /// `CREATE`: the entry, and its open descriptor with [`Opens::Each`].
    pub(crate) fn create(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        (parent, name): Name<'_>,
        mode: u32,
        flags: OFlags,
    ) -> Result<(Entry, Option<Fd>), Errno> {
        let dir = self.nodes.path_fd(parent)?;
        let how = O_CREAT | O_NOFOLLOW | flags & (O_EXCL | O_TRUNC);
        self.events.track_name(parent, name);
        w.act_as(actor);
        let target = (dir, name, Some((parent, name)));
        let created = self.create_open(w, target, how, mode, flags)?;
        self.file_made(created.0.number, Some((parent, name)));
        Ok(created)
    }

    /// `TMPFILE`: as `CREATE`, for a file without a name.
    pub(crate) fn tmpfile(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        parent: u64,
        mode: u32,
        flags: OFlags,
    ) -> Result<(Entry, Option<Fd>), Errno> {
        let dir = self.nodes.path_fd(parent)?;
        w.act_as(actor);
        let how = O_TMPFILE | flags & O_EXCL;
        let created = self.create_open(w, (dir, b".", None), how, mode, flags)?;
        self.file_made(created.0.number, None);
        Ok(created)
    }

    /// Creates a file by opening `path` with `how`, and with the access of the caller's `flags`; it
    /// gets this name, if any.
    fn create_open(
        &self,
        w: &Worker,
        (dir, path, name): (Fd, &[u8], Option<Name<'_>>),
        how: OFlags,
        mode: u32,
        flags: OFlags,
    ) -> Result<(Entry, Option<Fd>), Errno> {
        let keeps_open = self.opens == Opens::Each;
        let access = if keeps_open {
            self.open_flags(flags)
        } else {
            O_RDWR
        };
        let count = self.events.count.get();
        let fd = w.task.openat(dir, path, access | how, mode)?;
        let entry = w.task.reopen(fd, O_PATH | O_CLOEXEC);
        let entry = entry.and_then(|fd| self.enter_node(&w.task, fd, (count, name)));
        if keeps_open && let Ok(entry) = entry {
            if access & O_ACCMODE == O_RDWR {
                self.nodes.count_writable_open(entry.number, true);
            }
            return Ok((entry, Some(fd)));
        }
        // As in `enter_node`: it was opened only to create the file.
        let _closed = w.task.close(fd);
        entry.map(|entry| (entry, None))
    }

    /// `LINK`.
    pub(crate) fn link(
        &self,
        w: &Worker,
        number: u64,
        (parent, name): Name<'_>,
    ) -> Result<Entry, Errno> {
        let (path_fd, dir) = (self.nodes.path_fd(number)?, self.nodes.path_fd(parent)?);
        self.events.track_name(parent, name);
        self.name_to_change(w, (number, path_fd))?;
        w.task.linkat(path_fd, b"", dir, name, AT_EMPTY_PATH)?;
        self.find(w, dir, (parent, name))
    }

    /// `UNLINK` and `RMDIR`.
    pub(crate) fn remove(
        &self,
        w: &Worker,
        (parent, name): Name<'_>,
        is_dir: bool,
    ) -> Result<(), Errno> {
        let dir = self.nodes.path_fd(parent)?;
        let flags = AT_REMOVEDIR.only_if(is_dir);
        self.check_sticky(w, dir, name)?;
        if !is_dir {
            self.remember_name(w, (parent, name));
        }
        self.events
            .removing_name((parent, name), || w.task.unlinkat(dir, name, flags))
    }

    /// `RENAME2`.
    pub(crate) fn rename(
        &self,
        w: &mut Worker,
        actor: ActingAs,
        (from, name): Name<'_>,
        (to, new): Name<'_>,
        flags: RenameFlags,
    ) -> Result<(), Errno> {
        let (old, path_fd) = ((from, name), self.nodes.path_fd(to)?);
        let from = self.nodes.path_fd(from)?;
        w.act_as(actor);
        self.check_sticky(w, from, name)?;
        self.check_sticky(w, path_fd, new)?;
        // The kernel moves its dentry to the new name.
        self.events.track_name(to, new);
        self.events.renaming([old, (to, new)]);
        let rename = || w.task.renameat2(from, name, path_fd, new, flags);
        if !(flags.is_empty() || flags == RENAME_NOREPLACE) {
            self.names_to_change(w, &[(from, name), (path_fd, new)])?;
            return rename();
        }
        let heir = self.give_of_replaced(w, (from, name), (path_fd, (to, new)))?;
        self.remember_name(w, old);
        let done = self.events.removing_name(old, rename);
        match heir {
            Some(number) if done.is_err() => self.take_back(w, number).and(done),
            _ => done,
        }
    }
}

/// Whether truncate(2) by a path has an effect: for an empty file that has the size already it
/// leaves the times alone, unlike ftruncate(2) and `O_TRUNC`. The kernel sends the same request for
/// `O_TRUNC`.
///
/// Divergence: L60.
fn truncation_has_effect(worker: &Worker, path_fd: Fd, size: u64) -> Result<bool, Errno> {
    let attr = attr_of(worker, path_fd)?;
    let set_id = u32::from(attr.mode) & (S_ISUID | S_ISGID) != 0;
    Ok(size == 0 || attr.size != size || attr.blocks != 0 || set_id)
}

/// Whether chown(2) to (-1, -1) may strip a file's set-id bits: the kernel leaves that to the
/// server. It sends the same request before a write by another user, which strips them anyway.
///
/// Divergence: L61.
fn may_strip(worker: &Worker, path_fd: Fd, actor: ActingAs) -> Result<bool, Errno> {
    Ok(match actor {
        ActingAs::Owner(uid, _) | ActingAs::Stripped(uid, _) => {
            uid == 0 || uid == attr_of(worker, path_fd)?.uid
        }
    })
}

/// Moves the change time of a file to now.
fn bump_ctime(worker: &Worker, path_fd: Fd) -> Result<(), Errno> {
    let mode = u32::from(attr_of(worker, path_fd)?.mode);
    if is_lnk(mode) {
        return worker
            .task
            .fchownat(path_fd, b"", u32::MAX, u32::MAX, AT_EMPTY_PATH);
    }
    worker
        .task
        .fchmodat2(path_fd, b"", mode & S_IALLUGO, AT_EMPTY_PATH)
}

/// The attributes of an open file.
pub(crate) fn attr_of(worker: &Worker, path_fd: Fd) -> Result<Statx, Errno> {
    worker.task.statx(path_fd, b"", AT_EMPTY_PATH, WANTED)
}

#[cfg(test)]
mod tests;
