// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds what `apply` and `rollback` work on (the real tree, the view's upper tree, the journal and
//! the commit's directory), with the steps that both take.
//!
//! # Rules
//! R1. Other users may rename files in the real tree meanwhile. A directory in which a name changes
//!     must be the inode that the plan saw, and a file that is changed is held (`held_file`).

pub(crate) mod attrs;
pub(crate) mod backups;
pub(crate) mod name_pair;
pub(crate) mod not_undone;
pub(crate) mod staging;
pub(crate) mod writable_dirs;

use crate::attributes::file_stat::{InodeId, Time};
use crate::attributes::xattrs;
use crate::host::filesystems::HeldFilesystems;
use crate::host::held_file::{HeldFile, stat_of};
use crate::host::names::{join, split};
use crate::host::rename::{self, rename_failed};
use crate::host::tree::Tree;
use crate::journal::move_index::MoveIndex;
use crate::journal::records::CommitDir;
use crate::journal::{Bytes, Journal, Move, Replace};
use crate::report::messages::{changed_meanwhile, failed, shown};
use crate::report::phase::{CommitObserver, Phase};
use crate::report::refusal::{Refusal, RefusalKind};
use crate::scan::lower_mark::mark_of;
use crate::transaction::name_pair::NamePair;
use crate::transaction::not_undone::OutOfReach;
use rustix::fd::{AsFd as _, OwnedFd};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::rc::Rc;

/// The mark of a directory that hides what is beneath it.
const OPAQUE: &[u8] = b"opaque";

/// The mark of a directory that shows one of the real tree.
const LOWER: &[u8] = b"lower";

/// A held directory, and a name in it.
type ParentAndName = (Rc<OwnedFd>, Vec<u8>);

/// A commit, with all that it works on.
pub(crate) struct Transaction<'a> {
    pub(crate) base: Tree,
    pub(crate) upper: Tree,
    /// The commit's directory in the view.
    pub(crate) store: Tree,
    pub(crate) commit_dir: CommitDir,
    pub(crate) journal: Journal,
    pub(crate) observer: &'a mut dyn CommitObserver,
    /// [`CommitObserver::step`] has ended it, as a crash would.
    pub(crate) stopped: bool,
    /// It resumes or rolls back an interrupted commit.
    pub(crate) resumed: bool,
    filesystems: HeldFilesystems,
    pub(crate) opened: RefCell<WritableByInode>,
    /// The files that get further names, by inode number.
    linked: OnceCell<HashMap<u64, Vec<InodeId>>>,
    moves: OnceCell<MoveIndex>,
    /// The numbers of the replacements, by path.
    replacements: OnceCell<HashMap<Bytes, usize>>,
    /// The inode that an undo took from a name, by the number of its replacement.
    pub(crate) displaced: HashMap<usize, InodeId>,
    /// What a rollback leaves as it is.
    pub(crate) out_of_reach: OutOfReach,
}

/// The writable directories with an inode number.
#[derive(Default)]
pub(crate) struct WritableByInode {
    /// How many of the journal's directories are in it.
    pub(crate) length: usize,
    pub(crate) all: HashMap<u64, Vec<usize>>,
}

/// Before or after directories move: a path can lead to different directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AroundMoves {
    Before,
    After,
}

/// Before or after directories move, for the hidden name of a replacement: a moving directory waits
/// elsewhere, in a directory that stays.
pub(crate) fn when_hidden(replace: &Replace) -> AroundMoves {
    match replace.hidden == replace.before && replace.items.is_empty() {
        true => AroundMoves::Before,
        false => AroundMoves::After,
    }
}

impl<'a> Transaction<'a> {
    pub(crate) fn open(
        commit_dir: CommitDir,
        journal: Journal,
        observer: &'a mut dyn CommitObserver,
        resumed: bool,
    ) -> Result<Transaction<'a>, Refusal> {
        Ok(Transaction {
            base: Tree::open(Path::new("/"))?,
            upper: commit_dir.records.upper()?,
            store: commit_dir.store()?,
            commit_dir,
            journal,
            observer,
            stopped: false,
            resumed,
            filesystems: HeldFilesystems::default(),
            opened: RefCell::default(),
            linked: OnceCell::new(),
            moves: OnceCell::new(),
            replacements: OnceCell::new(),
            displaced: HashMap::new(),
            out_of_reach: OutOfReach::default(),
        })
    }

    /// The directory of a path of the real tree, and the name in it. The directory must be the one
    /// that the plan saw (R1).
    pub(crate) fn parent(&self, path: &[u8], when: AroundMoves) -> Result<ParentAndName, Refusal> {
        let located = self.find_parent(path, when)?;
        located.ok_or_else(|| changed_meanwhile(split(path).0))
    }

    /// The same; `None` after an interruption if another directory has the path by then.
    pub(crate) fn parent_if_same(
        &self,
        path: &[u8],
        when: AroundMoves,
    ) -> Result<Option<ParentAndName>, Refusal> {
        match self.find_parent(path, when)? {
            None if !self.resumed => Err(changed_meanwhile(split(path).0)),
            located => Ok(located),
        }
    }

    pub(crate) fn find_parent(
        &self,
        path: &[u8],
        when: AroundMoves,
    ) -> Result<Option<ParentAndName>, Refusal> {
        let (dir, name) = match self.base.locate(path) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            located => located.map_err(|why| failed(path, why))?,
        };
        let known = match when {
            AroundMoves::Before => &self.journal.before,
            AroundMoves::After => &self.journal.after,
        };
        let above = split(path).0;
        // They are sorted by path.
        if let Ok(at) = known.binary_search_by(|(path, _)| path[..].cmp(above)) {
            let stat = stat_of(dir.as_fd()).map_err(|why| failed(above, why))?;
            if !stat.id().matches(&known[at].1) {
                return Ok(None);
            }
        }
        Ok(Some((dir, name.to_vec())))
    }

    /// Reports the progress.
    pub(crate) fn step(&mut self, phase: Phase, done: u64, of: u64) -> Result<(), Refusal> {
        if self.observer.step(phase, done, of) {
            return Ok(());
        }
        self.stopped = true;
        Err(Refusal::new(RefusalKind::Interrupted, "stopped"))
    }

    /// Replaces the previous commit, which cannot be undone any more.
    pub(crate) fn replace_previous(&mut self) -> Result<(), Refusal> {
        if !self.commit_dir.is_next() {
            return Ok(());
        }
        let records = &self.commit_dir.records;
        let fail = |why| records.failed(b"/commit", why);
        let view = &records.tree;
        // The state first: without it there is no commit.
        view.remove(b"/commit/state").map_err(fail)?;
        // Its backups can be further names of files that this commit compares by their times. They
        // go once that is done.
        view.remove(b"/previous").map_err(fail)?;
        match view.rename(b"/commit", b"/previous") {
            Err(Errno::NOENT) => {}
            moved => moved.map_err(fail)?,
        }
        view.rename(b"/next", b"/commit").map_err(fail)?;
        self.commit_dir.name = b"/commit";
        Ok(())
    }

    /// Removes what the commit before kept, which cannot be undone any more.
    pub(crate) fn remove_previous(&self) -> Result<(), Refusal> {
        let records = &self.commit_dir.records;
        let removed = records.tree.remove(b"/previous");
        removed.map_err(|why| records.failed(b"/previous", why))
    }

    /// Calls `run` with the names of a replacement; `None` as `parent_if_same`.
    pub(crate) fn with_names<R>(
        &self,
        replace: &Replace,
        run: impl FnOnce(&NamePair<'_>) -> R,
    ) -> Result<Option<R>, Refusal> {
        let Some((dir, name)) = self.parent_if_same(&replace.path, AroundMoves::After)? else {
            return Ok(None);
        };
        let (when, (above, own)) = (when_hidden(replace), split(&replace.hidden));
        let (beside, hidden) = if when == AroundMoves::After && above == split(&replace.path).0 {
            (Rc::clone(&dir), own.to_vec())
        } else {
            match self.parent_if_same(&replace.hidden, when)? {
                Some(located) => located,
                None => return Ok(None),
            }
        };
        let aside = [&hidden[..], b"+"].concat();
        let names = NamePair {
            name: (dir.as_fd(), &name),
            hidden: (beside.as_fd(), &hidden),
            aside: (beside.as_fd(), &aside),
        };
        let done = run(&names);
        self.base.forget_paths();
        Ok(Some(done))
    }

    /// Moves a directory between its own name and the hidden one, if it is there. Where it has its
    /// own name, its directory keeps its times: the commit may remove that, and an undo returns it.
    pub(crate) fn move_dir(&self, moved: &Move, (from, to): (&[u8], &[u8])) -> Result<(), Refusal> {
        let fail = |why| rename_failed(&moved.from, why);
        let Some((dir, name)) = self.parent_if_same(from, AroundMoves::Before)? else {
            return Ok(());
        };
        let held = HeldFile::open(&*dir, &name).map_err(fail)?;
        if let Some(held) = held.filter(|held| held.id().matches(&moved.id)) {
            let (to_dir, to_name) = self.parent(to, AroundMoves::Before)?;
            let own_dir = if from == &moved.from[..] {
                &dir
            } else {
                &to_dir
            };
            let own_dir = HeldFile::open(&**own_dir, b".").map_err(fail)?;
            let (from, to) = ((dir.as_fd(), &name[..]), (to_dir.as_fd(), &to_name[..]));
            rename::checked(from, to, &held).map_err(fail)?;
            if let Some(own_dir) = own_dir {
                let set = own_dir.set_times(own_dir.stat.atime, own_dir.stat.mtime);
                set.or_else(not_allowed).map_err(fail)?;
            }
            self.base.forget_paths();
        }
        Ok(())
    }

    /// Makes a directory of the view opaque, so that it shows none of the real tree, or clears its
    /// mark.
    pub(crate) fn set_opaque(&self, path: &[u8], hides: bool) -> Result<(), Refusal> {
        let fail = |why| failed(path, why);
        let Some(held) = self.upper.hold(path).map_err(fail)? else {
            return Ok(());
        };
        if hides {
            let (mark, flags) = (self.upper.mark(OPAQUE), XattrFlags::empty());
            rustix::fs::setxattr(held.path(), &*mark, b"y", flags).map_err(fail)?;
        }
        let mark = self.upper.mark(if hides { LOWER } else { OPAQUE });
        xattrs::remove(&held.path(), &mark).map_err(fail)
    }

    /// Records in a directory of the view which directory of the real tree it shows from now on.
    pub(crate) fn record_lower(&self, path: &[u8]) -> Result<(), Refusal> {
        let fail = |why| failed(path, why);
        let Some(real) = self.base.stat(path).map_err(fail)? else {
            return Ok(());
        };
        let Some(held) = self.upper.hold(path).map_err(fail)? else {
            return Ok(());
        };
        let value = mark_of(&real);
        let (mark, flags) = (self.upper.mark(LOWER), XattrFlags::empty());
        rustix::fs::setxattr(held.path(), &*mark, value.as_bytes(), flags).map_err(fail)
    }

    /// Sets the times of a directory, if they are this user's to set.
    pub(crate) fn restore_mtime(
        &self,
        path: &[u8],
        id: Option<InodeId>,
        atime: Time,
        mtime: Time,
    ) -> Result<(), Refusal> {
        let fail = |why| failed(path, why);
        let held = self.base.hold(path).map_err(fail)?;
        // Another directory has the name by now, with its own time.
        let Some(held) = held.filter(|held| id.is_some_and(|id| held.id().matches(&id))) else {
            return Ok(());
        };
        held.set_times(atime, mtime)
            .or_else(not_allowed)
            .map_err(fail)
    }

    /// Holds every file system that the commit works on.
    pub(crate) fn hold_filesystems(&self) -> Result<(), Refusal> {
        let replacements = self.journal.replacements.iter();
        let replacements = replacements.flat_map(|replace| [&replace.before, &replace.hidden]);
        let set_attrs = self.journal.set_attrs.iter();
        let set_attrs = set_attrs.flat_map(|attrs| [&attrs.place, &attrs.path]);
        let mtimes = self.journal.mtimes.iter();
        let mtimes = mtimes.flat_map(|restore| [&restore.path_before, &restore.path]);
        let places = replacements.chain(set_attrs).chain(mtimes);
        // Many files are in one directory.
        let mut seen = HashSet::new();
        let dirs = places.map(|place| split(place).0);
        for path in dirs.filter(|dir| seen.insert(*dir)) {
            self.filesystems.hold(&self.base, path).map_err(|why| match why {
                Errno::ACCESS => Refusal::new(RefusalKind::PermissionDenied, format!(
                    "no directory above {} may be read, so what is committed there cannot be \
                     brought to the disk: make it readable (`chmod u+r`)",
                    shown(path)
                )),
                why => failed(path, why),
            })?;
        }
        let store = self.filesystems.hold(&self.store, b"");
        store.map_err(|why| failed(b"/", why))
    }

    /// Syncs every file system that the commit works on.
    pub(crate) fn sync(&self) -> Result<(), Refusal> {
        // Directories on further file systems may exist by now.
        self.hold_filesystems()?;
        let synced = self.filesystems.sync();
        synced.map_err(|why| Refusal::step("the changes cannot be brought to the disk", why))
    }

    /// Whether a file had names in the real tree, and the commit makes further ones.
    pub(crate) fn is_link(&self, id: &InodeId) -> bool {
        let linked = self.linked.get_or_init(|| {
            let mut linked: HashMap<u64, Vec<InodeId>> = HashMap::new();
            for link in &self.journal.links {
                linked.entry(link.id.number).or_default().push(link.id);
            }
            linked
        });
        let same = linked.get(&id.number);
        same.is_some_and(|same| same.iter().any(|link| link.matches(id)))
    }

    /// The directories that the commit moves, by path.
    pub(crate) fn moves(&self) -> &MoveIndex {
        self.moves
            .get_or_init(|| MoveIndex::new(&self.journal.moves))
    }

    /// The number of the replacement at a path. A name that others made at another path is in a
    /// directory of the commit.
    pub(crate) fn replacement_at(&self, path: &[u8]) -> Option<usize> {
        let index = self.replacements.get_or_init(|| {
            let all = self.journal.replacements.iter().enumerate();
            all.map(|(number, replace)| (replace.path.clone(), number))
                .collect()
        });
        index.get(path).copied()
    }
}

/// The times of a directory may not be this user's to set.
fn not_allowed(why: Errno) -> rustix::io::Result<()> {
    match why {
        Errno::PERM | Errno::ACCESS => Ok(()),
        why => Err(why),
    }
}

/// A path in the commit's directory.
pub(crate) fn store_path(kind: &str, number: usize) -> Vec<u8> {
    join(format!("/{kind}").as_bytes(), number.to_string().as_bytes())
}
