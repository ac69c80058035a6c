// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a mount shows: nodes over the tree that a task's root is in, and the requests about names
//! and attributes.
//!
//! `data` has the requests about what is in files, `listing` those about what is in directories.
//!
//! # Rules
//! R1. Names are looked up one at a time, in a directory that is held, without following a link:
//!     the kernel walks, the server says what one name means.
//! R2. An answer that names a node counts one lookup, and no other answer does.

use crate::early::Early;
use crate::hear::Queue;
use crate::locks::Locks;
use crate::nodes::{File, Nodes};
use crate::options::{OnlyUser, Opens, Options};
use crate::seat::Seat;
use crate::stats::Counts;
use crate::told::Told;
use crate::watch::Observer;
use crate::wire::{Notifier, init};
use crate::worker::{Who, Worker};
use openpath_abi::fcntl::{
    AT_EMPTY_PATH, AT_REMOVEDIR, O_ACCMODE, O_CLOEXEC, O_CREAT, O_DIRECTORY, O_EXCL, O_NOFOLLOW,
    O_PATH, O_RDWR, O_TMPFILE, O_TRUNC, O_WRONLY,
};
use openpath_abi::mode::{S_IALLUGO, S_IFDIR, S_IFMT, S_ISGID, S_ISUID, is_lnk, is_reg};
use openpath_abi::rename::RENAME_NOREPLACE;
use openpath_abi::statx::{STATX_BASIC_STATS, STATX_BTIME, STATX_MNT_ID_UNIQUE};
use openpath_abi::{Errno, Statx, TimeSet};
use openpath_sync::{Mutex, Word, WriteOnce};
use openpath_vfs::lock_order::FuseTold;
use openpath_vfs::{Fd, Task};
use std::sync::{Arc, Weak};

/// What is asked of a file that a node is made for.
const WANTED: u32 = STATX_BASIC_STATS | STATX_BTIME | STATX_MNT_ID_UNIQUE;
/// How a node's place is opened.
const PLACE: u32 = O_PATH | O_NOFOLLOW | O_CLOEXEC;

/// A name in a directory, by its node.
pub(crate) type Name<'a> = (u64, &'a [u8]);

/// What a name leads to.
#[derive(Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) number: u64,
    pub(crate) attr: Statx,
    /// Whether the kernel may believe it: nothing was told since it was looked at.
    pub(crate) holds: bool,
}

/// What is to become of attributes.
#[derive(Clone, Copy)]
pub(crate) struct Change {
    pub(crate) mode: Option<u32>,
    pub(crate) uid: Option<u32>,
    pub(crate) gid: Option<u32>,
    pub(crate) size: Option<u64>,
    pub(crate) times: [TimeSet; 2],
    /// The call was about an open file.
    pub(crate) by_descriptor: bool,
    /// The descriptor that it is open at, if there is one.
    pub(crate) fd: Option<Fd>,
}

impl Change {
    fn is_nothing(&self) -> bool {
        let fields = [self.mode, self.uid, self.gid];
        fields.iter().all(Option::is_none)
            && self.size.is_none()
            && self.times == [TimeSet::Omit; 2]
    }
}

/// The inside of a [`crate::Server`], shared by the threads that answer.
pub(crate) struct View {
    pub(crate) nodes: Nodes,
    pub(crate) counts: Arc<Counts>,
    /// Where its threads answer.
    pub(crate) seats: Vec<Arc<Seat>>,
    /// Interrupts that came before their requests.
    pub(crate) early: Early,
    /// What tells the kernel, once there is one.
    pub(crate) notifier: WriteOnce<Notifier>,
    /// Where changes of heard trees are put down, if any is heard.
    pub(crate) queue: WriteOnce<Weak<Queue>>,
    /// How often something was told.
    pub(crate) tells: Word,
    /// Names that such a change may have to take back.
    pub(crate) told: Mutex<Told, FuseTold>,
    /// Whether there are any.
    pub(crate) hears: bool,
    /// Who looks on.
    pub(crate) watch: Option<Arc<dyn Observer>>,
    pub(crate) opens: Opens,
    pub(crate) writeback: bool,
    pub(crate) only: Option<OnlyUser>,
    /// Locks of files, if they are answered here.
    pub(crate) locks: Option<Locks>,
}

/// The file that is open at `place`, and has these attributes.
///
/// # Errors
/// `EBADF`: nothing is open there.
fn file_of(task: &Task, place: Fd, attr: &Statx) -> Result<File, Errno> {
    Ok(File {
        mount: attr.mnt_id,
        ino: attr.ino,
        inode: task.inode_identity(place)?,
    })
}

/// Descriptors beside those of nodes: what requests have open.
const SPARE: u64 = 4096;

impl View {
    /// A view of what the root of `task` shows, and who answers for it.
    ///
    /// # Errors
    /// `ENOMEM`, what keeps the root from being opened.
    pub(crate) fn new(task: &Task, options: &Options) -> Result<(Self, Vec<Worker>), Errno> {
        let own = task.fork()?;
        for fd in own.descriptors() {
            own.close(fd)?;
        }
        own.set_rlimit_nofile(options.nodes_max as u64 + SPARE);
        let root = own.open(b"/", PLACE | O_DIRECTORY, 0)?;
        let attr = own.statx(root, b"", AT_EMPTY_PATH, WANTED)?;
        let file = file_of(&own, root, &attr)?;
        let workers = Worker::some(&own, options.threads.max(1))?;
        let view = Self {
            nodes: Nodes::new(root, file, options.nodes_max.max(1)),
            counts: Arc::default(),
            seats: workers.iter().map(|w| Arc::clone(&w.seat)).collect(),
            early: Early::default(),
            notifier: WriteOnce::default(),
            queue: WriteOnce::default(),
            tells: Word::new(0),
            hears: false,
            watch: None,
            told: Mutex::new(Told::new(options.tracked_names_max)),
            opens: if options.locks {
                // They are of openings, and end with closes.
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
        Ok((view, workers))
    }

    /// What is asked of the kernel besides what is always.
    pub(crate) fn wishes(&self) -> u64 {
        let writeback = if self.writeback { init::WRITEBACK } else { 0 };
        let locks = if self.locks.is_some() { init::LOCKS } else { 0 };
        // Ids of a user namespace that knows one user cannot be in a list.
        let acls = if self.only.is_none() { init::ACLS } else { 0 };
        writeback | locks | acls
    }

    /// Looks at what is open at `place`, and makes it a node or counts one more lookup of the node
    /// that it is. The descriptor is the node's afterwards, or closed.
    fn enter(&self, task: &Task, place: Fd) -> Result<Entry, Errno> {
        let tells = self.tells.get();
        let attr = task.statx(place, b"", AT_EMPTY_PATH, WANTED);
        let entered = attr.and_then(|attr| {
            let is_file = is_reg(u32::from(attr.mode));
            let told = (is_file && self.hears && self.writeback).then_some(attr.size);
            let file = file_of(task, place, &attr)?;
            let (number, needless) = self.nodes.enter(place, file, told)?;
            if told.is_some_and(|len| self.nodes.has_grown(number, len)) {
                self.has_length(vec![number], attr.size);
            }
            let attr = self.answered(task, (number, place), attr);
            // What is told from now on finds the node.
            let holds = self.tells.get() == tells;
            let entry = Entry {
                number,
                attr,
                holds,
            };
            Ok((entry, needless))
        });
        if self.nodes.are_many()
            && let Some(queue) = self.queue.get().and_then(Weak::upgrade)
            && !queue.crowd()
        {
            // It is said again when they are more.
            self.nodes.pruned();
        }
        match entered {
            Ok((entry, needless)) => {
                if let Some(fd) = needless {
                    task.close(fd)?;
                }
                Ok(entry)
            }
            Err(errno) => {
                task.close(place)?;
                Err(errno)
            }
        }
    }

    /// What `name` in the directory at `dir` leads to, counted as a lookup.
    pub(crate) fn find(&self, worker: &Worker, dir: Fd, name: &[u8]) -> Result<Entry, Errno> {
        let place = worker.task.openat(dir, name, PLACE, 0)?;
        self.enter(&worker.task, place)
    }

    /// `LOOKUP`.
    pub(crate) fn lookup(&self, w: &Worker, (parent, name): Name<'_>) -> Result<Entry, Errno> {
        let dir = self.nodes.place(parent)?;
        // Before the look: what changes after it is told after it.
        self.note(parent, name);
        self.find(w, dir, name)
    }

    /// `FORGET`.
    pub(crate) fn forget(&self, w: &Worker, all: impl IntoIterator<Item = (u64, u64)>) {
        for (number, lookups) in all {
            if let Some(place) = self.nodes.forget(number, lookups) {
                // What closing says is nobody's: the place was opened by the server alone.
                let _closed = w.task.close(place);
            }
        }
    }

    /// The attributes of a node as they are answered, with the inode number that stat(2) shows.
    fn answered(&self, task: &Task, (number, place): (u64, Fd), attr: Statx) -> Statx {
        let ino = self.nodes.shown(number, attr.mnt_id, attr.ino);
        let attr = self.shown(task, place, attr);
        Statx { ino, ..attr }
    }

    /// `GETATTR`.
    pub(crate) fn attributes(&self, w: &Worker, number: u64) -> Result<Statx, Errno> {
        let place = self.nodes.place(number)?;
        attributes_at(w, place).map(|attr| self.answered(&w.task, (number, place), attr))
    }

    /// `STATX`: the same with the time of birth.
    pub(crate) fn birth(&self, w: &Worker, number: u64) -> Result<Statx, Errno> {
        let place = self.nodes.place(number)?;
        let attr = w.task.statx(place, b"", AT_EMPTY_PATH, WANTED)?;
        Ok(self.answered(&w.task, (number, place), attr))
    }

    /// `SETATTR`, in the order in which Linux applies the changes of one call.
    pub(crate) fn change(
        &self,
        w: &mut Worker,
        who: Who,
        number: u64,
        change: &Change,
    ) -> Result<Statx, Errno> {
        let place = self.nodes.place(number)?;
        w.act_for(who);
        self.may_change(w, place, change)?;
        if let Some(size) = change.size
            && (change.by_descriptor || cuts(w, place, size)?)
        {
            let size = i64::try_from(size).map_err(|_| Errno::EFBIG)?;
            let others = self.nodes.ours(number);
            match change.fd {
                Some(fd) => w.task.ftruncate(fd, size)?,
                None => w.opened(place, O_WRONLY, |w, fd| w.task.ftruncate(fd, size))?,
            }
            self.has_length(others, size.cast_unsigned());
        }
        // Nothing at all is what chown(2) to nobody asks for: the time of the change moves.
        if change.is_nothing() && !may_strip(w, place, who)? {
            touch(w, place)?;
        } else if change.uid.is_some() || change.gid.is_some() || change.is_nothing() {
            let (uid, gid) = (change.uid, change.gid);
            let (uid, gid) = (uid.unwrap_or(u32::MAX), gid.unwrap_or(u32::MAX));
            w.task.fchownat(place, b"", uid, gid, AT_EMPTY_PATH)?;
        }
        if let Some(mode) = change.mode {
            let mode = mode & S_IALLUGO;
            w.task.fchmodat2(place, b"", mode, AT_EMPTY_PATH)?;
        }
        w.task
            .utimensat(place, Some(b""), change.times, AT_EMPTY_PATH)?;
        attributes_at(w, place).map(|attr| self.answered(&w.task, (number, place), attr))
    }

    /// `READLINK`.
    pub(crate) fn readlink(&self, w: &Worker, number: u64) -> Result<Vec<u8>, Errno> {
        let place = self.nodes.place(number)?;
        w.task.readlinkat(place, b"")
    }

    /// `MKNOD` and `MKDIR`: `mode` has the type.
    pub(crate) fn make(
        &self,
        w: &mut Worker,
        who: Who,
        (parent, name): Name<'_>,
        mode: u32,
        dev: u64,
    ) -> Result<Entry, Errno> {
        let dir = self.nodes.place(parent)?;
        self.note(parent, name);
        w.act_for(who);
        if mode & S_IFMT == S_IFDIR {
            w.task.mkdirat(dir, name, mode & !S_IFMT)?;
        } else {
            w.task.mknodat(dir, name, mode, dev)?;
        }
        self.find(w, dir, name)
    }

    /// `SYMLINK`.
    pub(crate) fn symlink(
        &self,
        w: &mut Worker,
        who: Who,
        (parent, name): Name<'_>,
        target: &[u8],
    ) -> Result<Entry, Errno> {
        let dir = self.nodes.place(parent)?;
        self.note(parent, name);
        w.act_for(who);
        w.task.symlinkat(target, dir, name)?;
        self.find(w, dir, name)
    }

    /// `CREATE`: the entry, and the descriptor it is open at, if files are opened one by one.
    pub(crate) fn create(
        &self,
        w: &mut Worker,
        who: Who,
        (parent, name): Name<'_>,
        mode: u32,
        flags: u32,
    ) -> Result<(Entry, Option<Fd>), Errno> {
        let dir = self.nodes.place(parent)?;
        let how = O_CREAT | O_NOFOLLOW | flags & (O_EXCL | O_TRUNC);
        self.note(parent, name);
        w.act_for(who);
        self.opened_new(w, (dir, name), how, mode, flags)
    }

    /// `TMPFILE`: the same of a file without a name, in a directory's file system.
    pub(crate) fn unnamed(
        &self,
        w: &mut Worker,
        who: Who,
        parent: u64,
        mode: u32,
        flags: u32,
    ) -> Result<(Entry, Option<Fd>), Errno> {
        let dir = self.nodes.place(parent)?;
        w.act_for(who);
        self.opened_new(w, (dir, b"."), O_TMPFILE | flags & O_EXCL, mode, flags)
    }

    /// Makes a file by opening it, as `how` and the kernel's `flags` say.
    fn opened_new(
        &self,
        w: &Worker,
        (dir, name): (Fd, &[u8]),
        how: u32,
        mode: u32,
        flags: u32,
    ) -> Result<(Entry, Option<Fd>), Errno> {
        let keeps = self.opens == Opens::Each;
        let access = if keeps {
            self.kept_flags(flags)
        } else {
            O_RDWR
        };
        let fd = w.task.openat(dir, name, access | how, mode)?;
        let entry = w.task.reopen(fd, O_PATH | O_CLOEXEC);
        let entry = entry.and_then(|place| self.enter(&w.task, place));
        if keeps && let Ok(entry) = entry {
            if access & O_ACCMODE == O_RDWR {
                self.nodes.may_map(entry.number, true);
            }
            return Ok((entry, Some(fd)));
        }
        w.task.close(fd)?;
        entry.map(|entry| (entry, None))
    }

    /// `LINK`.
    pub(crate) fn link(
        &self,
        w: &Worker,
        number: u64,
        (parent, name): Name<'_>,
    ) -> Result<Entry, Errno> {
        let (place, dir) = (self.nodes.place(number)?, self.nodes.place(parent)?);
        self.note(parent, name);
        w.task.linkat(place, b"", dir, name, AT_EMPTY_PATH)?;
        self.find(w, dir, name)
    }

    /// `UNLINK` and `RMDIR`.
    pub(crate) fn remove(
        &self,
        w: &Worker,
        (parent, name): Name<'_>,
        is_dir: bool,
    ) -> Result<(), Errno> {
        let dir = self.nodes.place(parent)?;
        let flags = if is_dir { AT_REMOVEDIR } else { 0 };
        self.may_take(w, dir, name)?;
        self.changing((parent, name), || w.task.unlinkat(dir, name, flags))
    }

    /// Takes a name away: of what is gone the kernel believes nothing. A look that comes meanwhile
    /// notes the name again.
    fn changing(
        &self,
        (parent, name): Name<'_>,
        change: impl FnOnce() -> Result<(), Errno>,
    ) -> Result<(), Errno> {
        if !self.hears {
            return change();
        }
        self.told.lock().drop_name(parent, name);
        let done = change();
        if done.is_err() {
            self.displace(parent, name);
        }
        done
    }

    /// `RENAME2`.
    pub(crate) fn rename(
        &self,
        w: &mut Worker,
        who: Who,
        (from, name): Name<'_>,
        (to, new): Name<'_>,
        flags: u32,
    ) -> Result<(), Errno> {
        let (old, place) = ((from, name), self.nodes.place(to)?);
        let from = self.nodes.place(from)?;
        w.act_for(who);
        self.may_take(w, from, name)?;
        self.may_take(w, place, new)?;
        // The kernel moves what it has under the old name to the new one.
        self.note(to, new);
        let rename = || w.task.renameat2(from, name, place, new, flags);
        if flags == 0 || flags == RENAME_NOREPLACE {
            self.changing(old, rename)
        } else {
            rename()
        }
    }
}

/// Whether truncate(2) by a path changes anything: of a file without data that is as long already
/// it leaves the times alone, as ftruncate(2) and `O_TRUNC` do not. The kernel says the same of the
/// latter.
///
/// Divergence: L60.
fn cuts(worker: &Worker, place: Fd, size: u64) -> Result<bool, Errno> {
    let attr = attributes_at(worker, place)?;
    let set_id = u32::from(attr.mode) & (S_ISUID | S_ISGID) != 0;
    Ok(size == 0 || attr.size != size || attr.blocks != 0 || set_id)
}

/// Whether chown(2) to nobody is to take a file's set-id bits, if it has any: the kernel leaves
/// that to who takes them, and asks the same before a write by a stranger, which takes them itself.
///
/// Divergence: L61.
fn may_strip(worker: &Worker, place: Fd, who: Who) -> Result<bool, Errno> {
    Ok(match who {
        Who::Owner(uid, _) | Who::Stripped(uid, _) => {
            uid == 0 || uid == attributes_at(worker, place)?.uid
        }
    })
}

/// Moves the time of the change.
fn touch(worker: &Worker, place: Fd) -> Result<(), Errno> {
    let mode = u32::from(attributes_at(worker, place)?.mode);
    if is_lnk(mode) {
        return worker
            .task
            .fchownat(place, b"", u32::MAX, u32::MAX, AT_EMPTY_PATH);
    }
    worker
        .task
        .fchmodat2(place, b"", mode & S_IALLUGO, AT_EMPTY_PATH)
}

/// What the file at `place` is.
pub(crate) fn attributes_at(worker: &Worker, place: Fd) -> Result<Statx, Errno> {
    worker.task.statx(place, b"", AT_EMPTY_PATH, WANTED)
}
