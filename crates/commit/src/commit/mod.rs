// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans and carries out the commit of a kept view, which brings its changes to the real tree,
//! finishes or rolls back a commit that was interrupted, and undoes the last one.
//!
//! # Order
//! | module | does |
//! |---|---|
//! | `scan` | reads both trees |
//! | `selection` | selects entries |
//! | `conflicts` | finds changes by others |
//! | `journal_builder`, `journal` | write all steps to the disk |
//! | `one_path` | refuses steps that reach one directory by two paths |
//! | `preflight` | finds what would make a step fail |
//! | `apply` | applies the journal |
//! | `rollback` | rolls it back |
//!
//! # Guarantees
//! G1. A name of the real tree refers to its old file or to its complete new file, whenever the
//!     machine stops: never to half a file, and never to none. On a file system that cannot
//!     exchange two names (`RENAME_EXCHANGE`) it may be missing for a moment.
//! G2. A path that others changed too is not overwritten without force; the commit is refused.
//! G3. An interrupted commit is resumed or rolled back before anything else can be done with the
//!     view.
//! G4. The last commit can be undone: its backups are in the view's directory.
//! G5. A name that the view never saw is not removed, even with force.
//!
//! # Limits
//! * A directory that was renamed to another file system is refused.
//! * If backups are on another file system, an undo restores the names of one file as separate
//!   files.
//! * An attribute of a file with one name is changed in place, unless it gains rights (R2 of
//!   `journal_builder`).
//! * Only root can commit extended attributes that only the host's root may set.

pub(crate) mod trees;

use crate::attributes::clock;
use crate::commit::trees::{Side, ViewTrees};
use crate::host::tree::Tree;
use crate::journal::committed::{check_at, remedy};
use crate::journal::records::{CommitDir, Records};
use crate::journal::{Bytes, Journal, State};
use crate::kept::{KeptView, OLD_CONTENT, ViewLock};
use crate::plan::conflicts::Conflict;
use crate::plan::journal_builder::JournalBuilder;
use crate::plan::one_path;
use crate::plan::preflight::Preflight;
use crate::plan::selection::Selection;
use crate::report::change::Change;
use crate::report::messages::shown;
use crate::report::path_bytes::PathBytes;
use crate::report::phase::{CommitObserver, Looker, Phase, Unobserved};
use crate::report::printable::printable;
use crate::report::refusal::{Refusal, RefusalKind};
use crate::scan::baseline::Baseline;
use crate::scan::{Kinds, Scan};
use crate::transaction::Transaction;
use crate::transaction::not_undone::NotUndone;
use crate::transaction::writable_dirs;
use std::path::Path;

/// A planned commit. No other process can use the view meanwhile.
#[derive(Debug)]
pub struct Commit<T> {
    view: String,
    trees: T,
    records: Records,
    journal: Journal,
    conflicts: Vec<Conflict>,
    resolved: Vec<(PathBytes, PathBytes)>,
    left_out: usize,
}

impl<T: ViewTrees> Commit<T> {
    /// Plans to bring the changes at these paths of a view, and below, to the real tree; without
    /// paths, all changes. With force an owner that cannot be set is left out.
    ///
    /// # Errors
    /// In this order: the view is in use, or another user's; a commit of it was interrupted; it
    /// cannot be read; a path has no change, leads through a link that another user controls, or
    /// cannot be committed without another. Then, with
    /// force: the view never saw a name that would be removed. Then: the changes reach one
    /// directory or file by two paths. Last: a step would fail.
    pub fn plan(kept: &KeptView, only: &[PathBytes], force: bool) -> Result<Commit<T>, Refusal> {
        Self::plan_observed(kept, only, force, &mut Unobserved)
    }

    /// The same; `observer` is told of the names that are looked at.
    ///
    /// # Errors
    /// As [`Commit::plan`].
    pub fn plan_observed(
        kept: &KeptView,
        only: &[PathBytes],
        force: bool,
        observer: &mut dyn CommitObserver,
    ) -> Result<Commit<T>, Refusal> {
        let (held, records) = enter(kept)?;
        crate::scan::places::check(&records)?;
        let trees = T::open_locked(kept, held)?;
        let changes = trees.changes(observer)?;
        let base = Tree::open(Path::new("/"))?;
        let upper = records.upper()?;
        let kinds = changes.iter();
        let kinds: Kinds<'_> = kinds
            .map(|change| (change.path.bytes(), &change.kind))
            .collect();
        let baseline = Baseline::new(&records, kept.info.made)?;
        // Each is scanned, and gets its steps.
        let all = 2 * changes.len() as u64;
        let mut looker = Looker::new(observer, Phase::Planning, all);
        let scan = Scan::new(
            &base,
            &upper,
            (&kinds, trees.sides()),
            &baseline,
            &mut looker,
        )?;
        drop(kinds);
        let selection = Selection::new(&scan, only, &kept.name)?;
        let conflicts = baseline.conflicts(&base, &scan, &selection)?;
        if let Some(unseen) = conflicts.iter().find(|both| force && both.unseen) {
            return Err(Refusal::new(
                RefusalKind::Conflict,
                format!(
                    "{} is in a directory that the view deleted or replaced, and came or changed \
                 since: `--force` removes nothing that the view never saw, so move it away or \
                 name other paths",
                    shown(unseen.place.bytes())
                ),
            ));
        }
        let (seconds, part) = clock::now();
        let id = format!("{:x}{part:08x}", seconds & 0xffff_ffff);
        let trees_and_baseline = (&base, &scan, &selection, &baseline);
        let mut journal = JournalBuilder::build(trees_and_baseline, id, &mut looker)?;
        one_path::check(&journal, &scan, &selection)?;
        journal.any_owner = force;
        journal.contested = contested(&conflicts);
        let others = baseline.changed_dirs(&scan, &selection);
        journal.contested.extend(others.cloned());
        let found = changes.len();
        journal.changes = JournalBuilder::committed_changes(&scan, &selection, changes);
        let left_out = found - journal.changes.len();
        Preflight::check(&base, &upper, &journal, &scan, &selection)?;
        journal.opened = writable_dirs::find(&base, &journal)?;
        Ok(Commit {
            view: kept.name.clone(),
            trees,
            records,
            journal,
            conflicts,
            resolved: selection.resolved,
            left_out,
        })
    }

    /// How many changes of the view are not at the paths of the commit.
    #[must_use]
    pub fn left_out(&self) -> usize {
        self.left_out
    }

    /// The changes to commit, by path.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.journal.changes
    }

    /// The paths that others changed as well.
    #[must_use]
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// The paths that lead through symbolic links, as they were written, each with where it leads.
    #[must_use]
    pub fn resolved(&self) -> &[(PathBytes, PathBytes)] {
        &self.resolved
    }

    /// As [`ViewTrees::data`].
    ///
    /// # Errors
    /// It cannot be read.
    pub fn data(
        &self,
        side: Side,
        path: &PathBytes,
        max: usize,
    ) -> Result<Option<Vec<u8>>, Refusal> {
        self.trees.data(side, path, max)
    }

    /// Applies the commit, over the conflicts that the plan found, and returns its changes. Without
    /// changes nothing is done, and the previous commit can still be undone.
    ///
    /// # Errors
    /// A step failed, or others changed a file since the plan; then nothing is done. Or it was
    /// interrupted, and must be resumed ([`resume`]) or rolled back ([`abort`]).
    pub fn carry_out(self, observer: &mut dyn CommitObserver) -> Result<Vec<Change>, Refusal> {
        // The view is released, and its lock kept.
        let _held = self.trees.close();
        if self.journal.is_empty() {
            return Ok(self.journal.changes);
        }
        // R2 of `places`
        crate::scan::places::forget(&self.records)?;
        let commit_dir = CommitDir::next(&self.records)?;
        commit_dir.write(&self.journal)?;
        commit_dir.enter(State::Preparing)?;
        let mut transaction = Transaction::open(commit_dir, self.journal, observer, false)?;
        let done = transaction.apply(State::Preparing);
        done.map_err(
            |why| match transaction.stopped || !transaction.commit_dir.is_next() {
                true => {
                    let text = format!("interrupted, {}: {why}", remedy(&self.view));
                    Refusal::new(RefusalKind::Interrupted, text)
                }
                false => why,
            },
        )?;
        Ok(transaction.journal.changes)
    }

    /// The changes of a commit that is not applied.
    #[must_use]
    pub fn into_changes(self) -> Vec<Change> {
        self.journal.changes
    }
}

/// The paths of conflicts, in the view and in the real tree.
fn contested(conflicts: &[Conflict]) -> Vec<Bytes> {
    let both = conflicts.iter();
    let both = both.flat_map(|conflict| [&conflict.path, &conflict.place]);
    both.map(|path| path.bytes().strip_suffix(b"/").unwrap_or(path.bytes()))
        .map(Bytes::from)
        .collect()
}

/// Locks a view of this user without an interrupted commit.
fn enter(kept: &KeptView) -> Result<(ViewLock, Records), Refusal> {
    let held = kept.lock()?;
    let records = Records::of(kept.view_dir())?;
    check_at(&records, || kept.name.clone())?;
    Ok((held, records))
}

/// An interrupted commit or undo that was finished.
#[derive(Debug)]
#[non_exhaustive]
pub struct Resumed {
    /// The changes of the commit.
    pub changes: Vec<Change>,
    /// It was an undo: the commit is undone.
    pub undone: bool,
}

/// Resumes an interrupted commit, or an interrupted undo.
///
/// # Errors
/// There is none; a step failed; others changed a file since. If no name was exchanged yet, the
/// commit is then rolled back.
pub fn resume(kept: &KeptView, observer: &mut dyn CommitObserver) -> Result<Resumed, Refusal> {
    let (_held, commit_dir, state) = interrupted(kept)?;
    let journal = commit_dir.read()?;
    let mut transaction = Transaction::open(commit_dir, journal, observer, true)?;
    let undone = matches!(state, State::Recalling | State::Undoing);
    match state {
        State::Recalling | State::Undoing => {
            if let Some(conflict) = transaction.changes_since_interruption(state)?.first() {
                return Err(Refusal::new(
                    RefusalKind::Conflict,
                    format!(
                        "{} was changed since the undo was interrupted: `openpath commit {} \
                     --abort` lists all such paths; copy your versions elsewhere, then `--abort \
                     --force` finishes the undo over them",
                        shown(conflict.path.bytes()),
                        printable(kept.name.as_bytes())
                    ),
                ));
            }
            transaction.find_out_of_reach(state)?;
            if let Some(left) = transaction.not_undone()?.first() {
                return Err(Refusal::new(
                    RefusalKind::Conflict,
                    format!(
                        "{} cannot be put back, because it or its directory was moved, removed or \
                     replaced: `openpath commit {} --abort` lists all such paths; move them back, \
                     or `--abort --force` undoes the rest and keeps their old content",
                        shown(left.path.bytes()),
                        printable(kept.name.as_bytes())
                    ),
                ));
            }
            transaction.roll_back(state)?;
        }
        state => {
            transaction.record_edits(state)?;
            transaction.apply(state)?;
        }
    }
    Ok(Resumed {
        changes: transaction.journal.changes,
        undone,
    })
}

/// Rolls back an interrupted commit, or finishes an interrupted undo. If others have changed the
/// files that it had put in place, nothing is done without force.
///
/// # Errors
/// There is none; with force, a name that the view never saw is in a directory to remove; a step
/// failed.
pub fn abort(
    kept: &KeptView,
    force: bool,
    observer: &mut dyn CommitObserver,
) -> Result<Undone, Refusal> {
    let (_held, commit_dir, state) = interrupted(kept)?;
    let journal = commit_dir.read()?;
    let mut transaction = Transaction::open(commit_dir, journal, observer, true)?;
    let conflicts = transaction.changes_since_interruption(state)?;
    refuse_unseen(&conflicts, force)?;
    let left = roll_back_within_reach(&mut transaction, state, (force, &conflicts))?;
    Ok(Undone {
        changes: transaction.journal.changes,
        conflicts,
        left,
        of_undo: matches!(state, State::Recalling | State::Undoing),
    })
}

/// Rolls back what can be put back; without force, nothing unless that is all and there are no
/// conflicts. Returns what cannot be.
fn roll_back_within_reach(
    transaction: &mut Transaction<'_>,
    state: State,
    (force, conflicts): (bool, &[Conflict]),
) -> Result<Vec<NotUndone>, Refusal> {
    transaction.find_out_of_reach(state)?;
    if force || conflicts.is_empty() && transaction.out_of_reach.is_empty() {
        transaction.roll_back(state)?;
    }
    transaction.not_undone()
}

/// G5, for a rollback.
fn refuse_unseen(conflicts: &[Conflict], force: bool) -> Result<(), Refusal> {
    match conflicts.iter().find(|one| force && one.unseen) {
        Some(unseen) => Err(Refusal::new(
            RefusalKind::Conflict,
            format!(
                "{} is in a directory that the commit made, and the view never saw it: `--force` \
             removes nothing that the view never saw, so move it away",
                shown(unseen.place.bytes())
            ),
        )),
        None => Ok(()),
    }
}

fn interrupted(kept: &KeptView) -> Result<(ViewLock, CommitDir, State), Refusal> {
    let held = kept.lock()?;
    match CommitDir::find(&Records::of(kept.view_dir())?)? {
        Some((commit_dir, state)) if state != State::Done => Ok((held, commit_dir, state)),
        _ => Err(Refusal::new(
            RefusalKind::NoSuchCommit,
            format!("no commit of the view {} was interrupted", kept.name),
        )),
    }
}

/// The result of an undo or a rollback.
#[derive(Debug)]
#[non_exhaustive]
pub struct Undone {
    /// The changes of the commit.
    pub changes: Vec<Change>,
    /// Paths that changed since, by others or in the view. If there are any, and no force, nothing
    /// was done.
    pub conflicts: Vec<Conflict>,
    /// What cannot be put back, because it or its directory was moved, removed or replaced. If
    /// there is any, and no force, nothing was done; with force the rest was.
    pub left: Vec<NotUndone>,
    /// It finished an interrupted undo.
    pub of_undo: bool,
}

/// Undoes the last commit; the view has its changes again.
///
/// # Errors
/// There is no commit; with force, a name that the view never saw is in a directory to remove; a
/// step failed.
pub fn undo(
    kept: &KeptView,
    force: bool,
    observer: &mut dyn CommitObserver,
) -> Result<Undone, Refusal> {
    let (_held, records) = enter(kept)?;
    // R2 of `places`
    crate::scan::places::check(&records)?;
    let Some((commit_dir, state)) = CommitDir::find(&records)? else {
        let mut text = format!("the view {} has no commit to undo", kept.name);
        if kept.view_dir().has(OLD_CONTENT).unwrap_or(false) {
            let kept = kept.view_dir().path().join(OLD_CONTENT);
            text += "; what an earlier undo could not put back is in ";
            text += &kept.display().to_string();
        }
        return Err(Refusal::new(RefusalKind::NoSuchCommit, text));
    };
    let journal = commit_dir.read()?;
    let mut transaction = Transaction::open(commit_dir, journal, observer, false)?;
    let conflicts = transaction.changes_since_commit()?;
    refuse_unseen(&conflicts, force)?;
    crate::scan::places::forget(&records)?;
    let left = roll_back_within_reach(&mut transaction, state, (force, &conflicts))?;
    Ok(Undone {
        changes: transaction.journal.changes,
        conflicts,
        left,
        of_undo: false,
    })
}
