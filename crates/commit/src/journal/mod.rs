// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the journal of a commit, which has every step and is on the disk before the first of
//! them is done, and the records of times by which changes of others are found.
//!
//! # Layout
//! | in the view's directory | is |
//! |---|---|
//! | `next` | a commit that is being prepared: `commit` is still the one before |
//! | `commit` | the commit that is being carried out, or the last one, which can be undone |
//! | `previous` | the commit before, while the next one is carried out |
//! | `.../journal` | all steps, as JSON |
//! | `.../state` | its state, one word |
//! | `.../old/N` | the backup of a replaced file |
//! | `.../view/N` | a committed part of the view's upper tree |
//! | `known` | since when paths are as the view knows them, whatever commits did to them |
//! | `taken` | when the view took what its last run found in it |
//!
//! # States
//! Preparing -> Applying -> Settling -> Done; from the second and on also -> Recalling -> Undoing
//! -> nothing. Any other state than Done at the next start is that of an interrupted commit.
//!
//! # Rules
//! R1. The inode that has the name shows whether a replacement is done, so that it can be repeated.

pub(crate) mod committed;
pub(crate) mod move_index;
pub(crate) mod records;
pub(crate) mod snapshot;

use crate::attributes::file_stat::{Attributes, InodeId, Time};
use crate::attributes::xattrs::Xattrs;
use crate::copies::stamp::Stamp;
use crate::journal::snapshot::Snapshot;
use crate::report::change::Change;
use crate::stored_bytes;
pub(crate) use crate::stored_bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};

/// How far a commit is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum State {
    /// New files are being made under hidden names.
    Preparing,
    /// Names are being exchanged for those.
    Applying,
    /// Backups are being moved away, and committed files out of the view.
    Settling,
    /// It can be undone.
    Done,
    /// It is being undone: backups come back under hidden names.
    Recalling,
    /// It is being undone: names are exchanged.
    Undoing,
}

/// A directory that moves.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Move {
    /// Where it was.
    #[serde(with = "stored_bytes::one")]
    pub(crate) from: Bytes,
    /// Where it goes.
    #[serde(with = "stored_bytes::one")]
    pub(crate) to: Bytes,
    /// Where it waits under a hidden name while other entries are removed.
    #[serde(with = "stored_bytes::one")]
    pub(crate) stage: Bytes,
    pub(crate) id: InodeId,
}

/// Replaces the file that a name refers to, makes the name, or removes it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Replace {
    /// The name, once directories have moved.
    #[serde(with = "stored_bytes::one")]
    pub(crate) path: Bytes,
    /// The hidden name beside it.
    #[serde(with = "stored_bytes::one")]
    pub(crate) hidden: Bytes,
    /// The hidden name, before they moved.
    #[serde(with = "stored_bytes::one")]
    pub(crate) before: Bytes,
    /// The new file, which waits under the hidden name; number 0: it is not made yet.
    pub(crate) new: Option<InodeId>,
    /// The old file, which gets the hidden name.
    pub(crate) old: Option<InodeId>,
    /// A copy of the old file, which an undo makes under a hidden name.
    pub(crate) copy: Option<Box<InodeId>>,
    /// The paths to make for it, directories first; none that moved.
    #[serde(with = "stored_bytes::list")]
    pub(crate) items: Vec<Bytes>,
    /// Attributes of the old file that the new one keeps, because the view does not show them.
    #[serde(default)]
    pub(crate) kept: Xattrs,
    /// The stamps of these once they are made; none for a directory or for a file that existed.
    #[serde(default)]
    pub(crate) stamps: Vec<Option<Stamp>>,
    /// What the real tree had under the name when the commit was planned, and where that was; none
    /// for a directory that moves.
    #[serde(rename = "seen", with = "stored_bytes::with")]
    pub(crate) snapshot: Option<(Bytes, Snapshot)>,
}

/// Sets the attributes of a file.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SetAttrs {
    #[serde(with = "stored_bytes::one")]
    pub(crate) path: Bytes,
    /// Where it is before directories move.
    #[serde(with = "stored_bytes::one")]
    pub(crate) place: Bytes,
    pub(crate) id: InodeId,
    /// Its time of change when the commit was planned.
    pub(crate) ctime: Time,
    pub(crate) before: Attributes,
    pub(crate) after: Attributes,
}

/// Sets the modification time of a directory, after all other steps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct RestoreMtime {
    #[serde(with = "stored_bytes::one")]
    pub(crate) path: Bytes,
    #[serde(with = "stored_bytes::one")]
    pub(crate) path_before: Bytes,
    /// Its inode; of a new directory, once it is made.
    pub(crate) id: Option<InodeId>,
    /// It is made by this commit.
    pub(crate) is_new: bool,
    pub(crate) atime: Time,
    pub(crate) before: Time,
    /// None: that of the commit.
    pub(crate) after: Option<Time>,
}

/// A change in the view's upper tree, after the real tree has what is committed.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum UpperCleanup {
    /// Moves this out of the upper tree, with all that is in it.
    #[serde(rename = "Take")]
    MoveOut(#[serde(with = "stored_bytes::one")] Bytes),
    /// Clears the opaque mark of a directory, which now has the real one beneath it and hides none
    /// of its names.
    #[serde(rename = "Unmark")]
    ClearOpaque(#[serde(with = "stored_bytes::one")] Bytes),
    /// Marks a new directory in such a one as opaque instead.
    #[serde(rename = "Mark")]
    MakeOpaque(#[serde(with = "stored_bytes::one")] Bytes),
}

/// A file of the view of which the real tree has a name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Link {
    /// Its inode in the view.
    pub(crate) number: u64,
    /// The same file in the real tree, where it is before directories move.
    #[serde(with = "stored_bytes::one")]
    pub(crate) place: Bytes,
    pub(crate) id: InodeId,
    /// Where it is in the view.
    #[serde(with = "stored_bytes::one")]
    pub(crate) path: Bytes,
}

/// A directory that is made writable for its owner while the commit works.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WritableDir {
    /// Where it is before directories move.
    #[serde(with = "stored_bytes::one")]
    pub(crate) before: Bytes,
    /// Where it is afterwards.
    #[serde(with = "stored_bytes::one")]
    pub(crate) after: Bytes,
    pub(crate) id: InodeId,
    /// Its mode before the commit, and after it.
    pub(crate) modes: [u32; 2],
}

/// All steps of a commit.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    /// The part that all hidden names have in common.
    pub(crate) id: String,
    /// The changes, as they are shown to the user.
    pub(crate) changes: Vec<Change>,
    pub(crate) moves: Vec<Move>,
    #[serde(rename = "acts")]
    pub(crate) replacements: Vec<Replace>,
    #[serde(rename = "touches")]
    pub(crate) set_attrs: Vec<SetAttrs>,
    #[serde(rename = "moments")]
    pub(crate) mtimes: Vec<RestoreMtime>,
    #[serde(rename = "sweeps")]
    pub(crate) cleanups: Vec<UpperCleanup>,
    /// Files of the view that have other names.
    pub(crate) links: Vec<Link>,
    /// The directories of the real tree in which names change, as they are before directories move.
    #[serde(with = "stored_bytes::list_with")]
    pub(crate) before: Vec<(Bytes, InodeId)>,
    /// The same afterwards.
    #[serde(with = "stored_bytes::list_with")]
    pub(crate) after: Vec<(Bytes, InodeId)>,
    /// The running kernel: devices are numbered anew by the next one.
    pub(crate) boot: String,
    /// When it began, by the clock that file systems use.
    pub(crate) began: Time,
    /// Directories that are made writable while the commit works.
    #[serde(default)]
    pub(crate) opened: Vec<WritableDir>,
    /// Paths that others changed too, and that were overwritten by force.
    #[serde(default, with = "stored_bytes::list")]
    pub(crate) contested: Vec<Bytes>,
    /// Paths that the commit had put in place and others changed before it was resumed.
    #[serde(default, with = "stored_bytes::list")]
    pub(crate) edited: Vec<Bytes>,
    /// An owner that cannot be set is left out.
    pub(crate) any_owner: bool,
    /// When it was done.
    pub(crate) done: Option<Time>,
}

impl Replace {
    /// The paths that it makes, each with its stamp.
    pub(crate) fn made(&self) -> HashMap<&[u8], Option<&Stamp>> {
        let stamps = self.stamps.iter().map(Option::as_ref);
        let stamps = stamps.chain(std::iter::repeat(None));
        let items = self.items.iter().map(|item| &**item);
        items.zip(stamps).collect()
    }
}

impl Journal {
    /// Makes equal paths of a journal that was read share their bytes.
    pub(crate) fn share_paths(&mut self) {
        let share = |one: &mut Bytes, with: &Bytes| {
            if one == with {
                *one = Bytes::clone(with);
            }
        };
        for replace in &mut self.replacements {
            share(&mut replace.before, &replace.hidden);
            if let Some(top) = replace.items.first_mut() {
                share(top, &replace.path);
            }
            if let Some((place, _)) = &mut replace.snapshot {
                share(place, &replace.path);
            }
        }
    }

    /// Where directories move to.
    pub(crate) fn moved_to(&self) -> HashSet<&[u8]> {
        self.moves.iter().map(|moved| &moved.to[..]).collect()
    }

    /// The paths that are as the view knows them from now on, because this commit or its rollback
    /// wrote them; contested paths are left out. `below`: with all that is below them.
    pub(crate) fn known<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a Bytes>,
        since: Time,
        below: bool,
    ) -> Vec<KnownSince> {
        let contested = self.contested();
        let known = |path: &Bytes| {
            (!is_within(&contested, path, below)).then(|| KnownSince {
                path: path.clone(),
                since,
                below,
            })
        };
        paths.into_iter().filter_map(known).collect()
    }

    /// The contested paths, in order.
    pub(crate) fn contested(&self) -> BTreeSet<&[u8]> {
        self.contested.iter().map(|path| &**path).collect()
    }

    /// Forgets devices, which have other numbers by now.
    pub(crate) fn forget_devices(&mut self) {
        let replacements = self.replacements.iter_mut();
        let stamps = replacements.flat_map(|replace| replace.stamps.iter_mut().flatten());
        for id in stamps.filter_map(|stamp| stamp.id.as_mut()) {
            id.device = None;
        }
        let replacements = self.replacements.iter_mut();
        let replacements = replacements
            .flat_map(|replace| {
                let copy = replace.copy.as_deref_mut();
                [replace.new.as_mut(), replace.old.as_mut(), copy]
            })
            .flatten();
        let mtimes = self
            .mtimes
            .iter_mut()
            .filter_map(|restore| restore.id.as_mut());
        let ids = replacements.chain(mtimes);
        let ids = ids.chain(self.moves.iter_mut().map(|moved| &mut moved.id));
        let ids = ids.chain(self.set_attrs.iter_mut().map(|attrs| &mut attrs.id));
        let ids = ids.chain(self.links.iter_mut().map(|link| &mut link.id));
        let ids = ids.chain(self.opened.iter_mut().map(|dir| &mut dir.id));
        let dirs = self.before.iter_mut().chain(&mut self.after);
        for id in ids.chain(dirs.map(|(_, id)| id)) {
            id.device = None;
        }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.replacements.is_empty() && self.set_attrs.is_empty()
    }
}

/// Whether one of these is at a path, or with `below` below it.
pub(crate) fn is_within(all: &BTreeSet<&[u8]>, path: &[u8], below: bool) -> bool {
    let inside = [path, b"/"].concat();
    let first = || all.range(&inside[..]..).next();
    all.contains(path) || below && first().is_some_and(|first| first.starts_with(&inside))
}

/// Since when a path is as the view knows it, whatever commits did to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct KnownSince {
    #[serde(with = "stored_bytes::one")]
    pub(crate) path: Bytes,
    pub(crate) since: Time,
    /// And what is below.
    pub(crate) below: bool,
}

/// When a view took what it has at a path, whatever replaced that in the view since.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct TakenAt {
    #[serde(with = "stored_bytes::one")]
    pub(crate) path: Bytes,
    pub(crate) since: Time,
}

/// Which kernel runs; empty if it does not say.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}
