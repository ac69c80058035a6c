// SPDX-License-Identifier: MIT OR Apache-2.0
//! A kept view, brought to the real tree.
//!
//! # Order
//! | module | does |
//! |---|---|
//! | `scan` | looks at both trees |
//! | `choice` | chooses what is wanted of the view |
//! | `conflicts` | finds what others did meanwhile |
//! | `draft`, `journal` | write down all that is to be done |
//! | `rights` | finds what would keep it from being done |
//! | `forth` | carries it out |
//! | `back` | takes it back |
//!
//! # Guarantees
//! G1. A name of the real tree stands for what it stood for before, or for all of what it is to
//!     stand for: never for half of it, and never for nothing, whenever the machine stops. Where a
//!     file system cannot exchange two names (`RENAME_EXCHANGE`) it may be gone for a moment.
//! G2. Nothing is done if others changed what is to be changed, unless with force.
//! G3. What was interrupted is gone on with, or gone back from; nothing else can be done with the
//!     view before.
//! G5. What the view never saw is not removed, also with force.
//! G4. The last commit can be undone: what it replaced is in the view's directory.
//!
//! # Limits
//! * A directory that was renamed to another file system is refused.
//! * Names of one file that are kept on another file system for an undo come back as files of their
//!   own.
//! * An attribute of a file that has one name is changed in place.
//! * Extended attributes that only the host's root may set are root's to commit.

use crate::carry::{self, Carry};
use crate::change::Change;
use crate::choice::Choice;
use crate::committed::{check_at, remedy};
use crate::conflicts::Conflict;
use crate::draft::Draft;
use crate::journal::{Journal, State};
use crate::kept::{Kept, ViewLock};
use crate::messages::text;
use crate::notes::{Notes, Place};
use crate::opened;
use crate::path_bytes::PathBytes;
use crate::phase::Watch;
use crate::refusal::Refusal;
use crate::rights::Rights;
use crate::scan::Scan;
use crate::since::Since;
use crate::text::text_of;
use crate::tree::Tree;
use crate::trees::{Side, ViewTrees};
use std::collections::HashMap;
use std::path::Path;

/// What is going to be done. Nobody can use the view meanwhile.
pub struct Commit<T> {
    view: String,
    trees: T,
    notes: Notes,
    journal: Journal,
    conflicts: Vec<Conflict>,
}

impl<T: ViewTrees> Commit<T> {
    /// Finds out what is to be done to have what is at these paths of a view, and below, in the
    /// real tree; without paths, everything. With force owners that cannot be given are let go.
    ///
    /// # Errors
    /// In this order: the view is in use, or another user's; a commit of it was interrupted; it
    /// cannot be read; a path has no change, or cannot go without another. Then: with force, the
    /// view never saw what it would remove; something else would keep it from being done.
    pub fn plan(kept: &Kept, only: &[PathBytes], force: bool) -> Result<Commit<T>, Refusal> {
        let (held, notes) = enter(kept)?;
        let trees = T::hold(kept, held)?;
        let changes = trees.changes()?;
        let base = Tree::open(Path::new("/"))?;
        let upper = notes.below(b"/upper")?;
        let kinds: HashMap<_, _> = changes
            .iter()
            .map(|change| (change.path.bytes().to_vec(), change.kind.clone()))
            .collect();
        let since = Since::new(&notes, kept.about.made)?;
        let scan = Scan::new(&base, &upper, kinds, &since, trees.sides())?;
        let choice = Choice::new(&scan, only, &kept.name)?;
        let conflicts = since.conflicts(&base, &scan, &choice)?;
        if let Some(unseen) = conflicts.iter().find(|both| force && both.unseen) {
            return Err(Refusal::new(format!(
                "{} is in a directory that the view deleted or replaced, and came or changed \
                 since: `--force` removes nothing that the view never saw, so move it away or \
                 name other paths",
                text(unseen.place.bytes())
            )));
        }
        let (seconds, part) = carry::now();
        let id = format!("{:x}{part:08x}", seconds & 0xffff_ffff);
        let mut journal = Draft::journal(&base, &scan, &choice, &since, id)?;
        journal.any_owner = force;
        journal.contested = contested(&conflicts);
        journal.changes = Draft::told(&scan, &choice, changes);
        Rights::check(&base, &upper, &journal, &scan, &choice)?;
        journal.opened = opened::needed(&base, &journal)?;
        Ok(Commit {
            view: kept.name.clone(),
            trees,
            notes,
            journal,
            conflicts,
        })
    }

    /// What is committed, by path.
    #[must_use]
    pub fn changes(&self) -> &[Change] {
        &self.journal.changes
    }

    /// What others changed as well.
    #[must_use]
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
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

    /// Does it, whatever others had changed when it was planned. Where there is nothing to do
    /// nothing is done, and the commit before can still be undone.
    ///
    /// # Errors
    /// It cannot be done, or others changed something since, with nothing done; or it was
    /// interrupted, and is to be gone on with ([`resume`]) or gone back from ([`abort`]).
    pub fn carry_out(self, watch: &mut dyn Watch) -> Result<(), Refusal> {
        // The view is let go, and still nobody else's.
        let _held = self.trees.close();
        if self.journal.is_empty() {
            return Ok(());
        }
        let place = Place::next(&self.notes)?;
        place.write(&self.journal)?;
        place.enter(State::Preparing)?;
        let mut carry = Carry::open(place, self.journal, watch, false)?;
        let done = carry.forth(State::Preparing);
        done.map_err(|why| match carry.stopped || !carry.place.is_next() {
            true => Refusal::step(&format!("interrupted, {}", remedy(&self.view)), why),
            false => why,
        })
    }
}

/// Where conflicts are, in the view and in the real tree.
fn contested(conflicts: &[Conflict]) -> Vec<Vec<u8>> {
    let both = conflicts.iter();
    let both = both.flat_map(|conflict| [&conflict.path, &conflict.place]);
    both.map(|path| path.bytes().strip_suffix(b"/").unwrap_or(path.bytes()))
        .map(<[u8]>::to_vec)
        .collect()
}

/// Takes a view that is this user's, and has no commit that was interrupted.
fn enter(kept: &Kept) -> Result<(ViewLock, Notes), Refusal> {
    let held = kept.lock()?;
    let notes = own(kept)?;
    check_at(&notes, || kept.name.clone())?;
    Ok((held, notes))
}

/// Holds the directory of a view, which must be this user's.
fn own(kept: &Kept) -> Result<Notes, Refusal> {
    let notes = Notes::of(kept.at())?;
    if notes.owner()? == rustix::process::geteuid().as_raw() {
        return Ok(notes);
    }
    Err(Refusal::new(format!(
        "the view {} belongs to another user",
        kept.name
    )))
}

/// What was interrupted, and is finished.
#[derive(Debug)]
pub struct Resumed {
    /// What is committed, or was.
    pub changes: Vec<Change>,
    /// It was the undoing of a commit: nothing of it is committed any more.
    pub undone: bool,
}

/// Goes on with what was interrupted: a commit, or its undoing.
///
/// # Errors
/// There is no such commit; what keeps it from being done, or that others changed something since:
/// if no name was exchanged yet it is gone back from.
pub fn resume(kept: &Kept, watch: &mut dyn Watch) -> Result<Resumed, Refusal> {
    let (_held, place, state) = interrupted(kept)?;
    let journal = place.read()?;
    let mut carry = Carry::open(place, journal, watch, true)?;
    let undone = matches!(state, State::Recalling | State::Undoing);
    match state {
        State::Recalling | State::Undoing => {
            if let Some(conflict) = carry.meanwhile(state)?.first() {
                return Err(Refusal::new(format!(
                    "{} was changed since the undo was interrupted: `openpath commit {} \
                     --abort` lists all such paths; copy your versions elsewhere, then `--abort \
                     --force` finishes the undo over them",
                    text(conflict.path.bytes()),
                    text_of(kept.name.as_bytes())
                )));
            }
            carry.back(state)?;
        }
        state => {
            carry.note_edited(state)?;
            carry.forth(state)?;
        }
    }
    Ok(Resumed {
        changes: carry.journal.changes,
        undone,
    })
}

/// Goes back from a commit that was interrupted, or from its undoing. If others changed since what
/// it had put in place, nothing is done unless it is forced.
///
/// # Errors
/// There is no such commit; with force, a name that the view never saw is in a directory that is to
/// go; what keeps it from being done.
pub fn abort(kept: &Kept, force: bool, watch: &mut dyn Watch) -> Result<Undone, Refusal> {
    let (_held, place, state) = interrupted(kept)?;
    let journal = place.read()?;
    let mut carry = Carry::open(place, journal, watch, true)?;
    let conflicts = carry.meanwhile(state)?;
    refuse_unseen(&conflicts, force)?;
    if force || conflicts.is_empty() {
        carry.back(state)?;
    }
    Ok(Undone {
        changes: carry.journal.changes,
        conflicts,
        of_undo: matches!(state, State::Recalling | State::Undoing),
    })
}

/// G5, for a commit that is taken back.
fn refuse_unseen(conflicts: &[Conflict], force: bool) -> Result<(), Refusal> {
    match conflicts.iter().find(|one| force && one.unseen) {
        Some(unseen) => Err(Refusal::new(format!(
            "{} is in a directory that the commit made, and the view never saw it: `--force` \
             removes nothing that the view never saw, so move it away",
            text(unseen.place.bytes())
        ))),
        None => Ok(()),
    }
}

fn interrupted(kept: &Kept) -> Result<(ViewLock, Place, State), Refusal> {
    let held = kept.lock()?;
    match Place::find(&own(kept)?)? {
        Some((place, state)) if state != State::Done => Ok((held, place, state)),
        _ => Err(Refusal::new(format!(
            "no commit of the view {} was interrupted",
            kept.name
        ))),
    }
}

/// What undoing a commit came to.
#[derive(Debug)]
pub struct Undone {
    /// What had been committed.
    pub changes: Vec<Change>,
    /// What others changed since, or the view: if there is any, and no force, nothing was done.
    pub conflicts: Vec<Conflict>,
    /// It was the undoing of a commit that was interrupted.
    pub of_undo: bool,
}

/// Undoes the last commit; the view has its changes again.
///
/// # Errors
/// There is no commit; with force, a name that the view never saw is in a directory that is to go;
/// what keeps it from being undone.
pub fn undo(kept: &Kept, force: bool, watch: &mut dyn Watch) -> Result<Undone, Refusal> {
    let (_held, notes) = enter(kept)?;
    let Some((place, state)) = Place::find(&notes)? else {
        let text = format!("the view {} has no commit to undo", kept.name);
        return Err(Refusal::new(text));
    };
    let journal = place.read()?;
    let mut carry = Carry::open(place, journal, watch, false)?;
    let conflicts = carry.later()?;
    refuse_unseen(&conflicts, force)?;
    if force || conflicts.is_empty() {
        carry.back(state)?;
    }
    Ok(Undone {
        changes: carry.journal.changes,
        conflicts,
        of_undo: false,
    })
}
