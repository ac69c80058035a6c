// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a commit is going to do, on the disk before it is done.
//!
//! # Layout
//! | in the view's directory | is |
//! |---|---|
//! | `next` | a commit that is being prepared: `commit` is still the one before |
//! | `commit` | the commit that is being carried out, or the last one, which can be undone |
//! | `.../journal` | all that is to be done, as JSON |
//! | `.../state` | how far it is, one word |
//! | `.../old/N` | what an act took out of the real tree |
//! | `.../view/N` | what was taken out of the view, being committed |
//! | `known` | since when paths are as the view knows them, whatever commits did to them |
//! | `taken` | when the view took what its last run found in it |
//!
//! # States
//! Preparing -> Applying -> Settling -> Done; from the second and on also -> Recalling -> Undoing
//! -> nothing. Any other state than Done at the next start is that of an interrupted commit.
//!
//! # Rules
//! R1. Whether an act is done is told by which inode has the name, so that it can be tried again.

use crate::change::Change;
use crate::facts::{Attributes, Id, Time};
use crate::seen::Seen;
use crate::stamp::Stamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap, HashSet};

/// A path, from the root of its tree.
pub(crate) type Bytes = Vec<u8>;

/// How far a commit is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) enum State {
    /// New files are being made under hidden names.
    Preparing,
    /// Names are being exchanged for those.
    Applying,
    /// What was replaced is being put away, and what is committed taken out of the view.
    Settling,
    /// It can be undone.
    Done,
    /// It is being undone: what was put away is brought back under hidden names.
    Recalling,
    /// It is being undone: names are exchanged.
    Undoing,
}

/// A directory that has another place.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Move {
    /// Where it was.
    pub(crate) from: Bytes,
    /// Where it comes to be.
    pub(crate) to: Bytes,
    /// Where it waits, under a hidden name, while others go.
    pub(crate) stage: Bytes,
    pub(crate) id: Id,
}

/// A name that comes to stand for something else.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Act {
    /// The name, once directories have moved.
    pub(crate) path: Bytes,
    /// The hidden name beside it.
    pub(crate) hidden: Bytes,
    /// The hidden name, before they moved.
    pub(crate) before: Bytes,
    /// What it is going to stand for, waiting under the hidden name; of number 0: not made yet.
    pub(crate) new: Option<Id>,
    /// What it stands for now, and is going to have the hidden name.
    pub(crate) old: Option<Id>,
    /// A copy of that, which an undo makes under a hidden name.
    pub(crate) copy: Option<Id>,
    /// What is to be made for it, directories first; none of what moved.
    pub(crate) items: Vec<Bytes>,
    /// What these have once they are made; none of a directory, nor of a file that was there.
    #[serde(default)]
    pub(crate) stamps: Vec<Option<Stamp>>,
    /// What the real tree had under the name when all this was planned, and where that was; none if
    /// it moves.
    pub(crate) seen: Option<(Bytes, Seen)>,
}

/// A file that gets other attributes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Touch {
    pub(crate) path: Bytes,
    /// Where it is before directories move.
    pub(crate) place: Bytes,
    pub(crate) id: Id,
    /// When it had changed last, when all this was planned.
    pub(crate) ctime: Time,
    pub(crate) before: Attributes,
    pub(crate) after: Attributes,
}

/// A directory of which the time of change is set when all is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Moment {
    pub(crate) path: Bytes,
    pub(crate) path_before: Bytes,
    /// Of one that is new: which inode it is once it is made.
    pub(crate) id: Option<Id>,
    /// It is made by this commit.
    pub(crate) is_new: bool,
    pub(crate) atime: Time,
    pub(crate) before: Time,
    /// None: that of the commit.
    pub(crate) after: Option<Time>,
}

/// What leaves the view.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Sweep {
    /// This, with all that is in it.
    Take(Bytes),
    /// The mark of a directory that now has the real one beneath it, and nothing of that hidden.
    Unmark(Bytes),
    /// A new directory in such a one gets the mark instead.
    Mark(Bytes),
}

/// A file of the view of which the real tree has a name.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Link {
    /// Its inode in the view.
    pub(crate) number: u64,
    /// The same file in the real tree, where it is before directories move.
    pub(crate) place: Bytes,
    pub(crate) id: Id,
    /// Where it is in the view.
    pub(crate) path: Bytes,
}

/// A directory that is opened.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Opened {
    /// Where it is before directories move.
    pub(crate) before: Bytes,
    /// Where it is afterwards.
    pub(crate) after: Bytes,
    pub(crate) id: Id,
    /// Its mode, and that which it has once all is committed.
    pub(crate) modes: [u32; 2],
}

/// All that is to be done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Journal {
    /// What all hidden names have.
    pub(crate) id: String,
    /// What it is told as.
    pub(crate) changes: Vec<Change>,
    pub(crate) moves: Vec<Move>,
    pub(crate) acts: Vec<Act>,
    pub(crate) touches: Vec<Touch>,
    pub(crate) moments: Vec<Moment>,
    pub(crate) sweeps: Vec<Sweep>,
    /// Files of the view that have other names.
    pub(crate) links: Vec<Link>,
    /// The directories of the real tree in which names change, as they are before directories move.
    pub(crate) before: Vec<(Bytes, Id)>,
    /// The same afterwards.
    pub(crate) after: Vec<(Bytes, Id)>,
    /// The running kernel: devices are numbered anew by the next one.
    pub(crate) boot: String,
    /// When it began, by the clock that file systems use.
    pub(crate) began: Time,
    /// Directories that get permissions of their owner for the time of the work.
    #[serde(default)]
    pub(crate) opened: Vec<Opened>,
    /// What others had changed as well, which was forced.
    #[serde(default)]
    pub(crate) contested: Vec<Bytes>,
    /// What others had changed of what was in place when an interrupted commit went on.
    #[serde(default)]
    pub(crate) edited: Vec<Bytes>,
    /// Owners that cannot be given are let go.
    pub(crate) any_owner: bool,
    /// When it was done.
    pub(crate) done: Option<Time>,
}

impl Act {
    /// What it makes, each with its stamp.
    pub(crate) fn made(&self) -> HashMap<&[u8], Option<&Stamp>> {
        let stamps = self.stamps.iter().map(Option::as_ref);
        let stamps = stamps.chain(std::iter::repeat(None));
        let items = self.items.iter().map(Vec::as_slice);
        items.zip(stamps).collect()
    }
}

impl Journal {
    /// Where directories come to be that move.
    pub(crate) fn moved_to(&self) -> HashSet<&[u8]> {
        self.moves.iter().map(|moved| &moved.to[..]).collect()
    }

    /// What is as the view knows it from now on: what this commit touched, or its going back, but
    /// for what others had changed as well. `below`: with what is below.
    pub(crate) fn known<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a Bytes>,
        since: Time,
        below: bool,
    ) -> Vec<Known> {
        let contested = self.contested();
        let known = |path: &Bytes| {
            (!is_within(&contested, path, below)).then(|| Known {
                path: path.clone(),
                since,
                below,
            })
        };
        paths.into_iter().filter_map(known).collect()
    }

    /// What others had changed as well, in order.
    pub(crate) fn contested(&self) -> BTreeSet<&[u8]> {
        self.contested.iter().map(Vec::as_slice).collect()
    }

    /// Forgets devices, which have other numbers by now.
    pub(crate) fn forget_devices(&mut self) {
        let acts = self.acts.iter_mut();
        let acts = acts.flat_map(|act| [&mut act.new, &mut act.old, &mut act.copy]);
        let moments = self.moments.iter_mut().map(|moment| &mut moment.id);
        let ids = acts.chain(moments).flatten();
        let ids = ids.chain(self.moves.iter_mut().map(|moved| &mut moved.id));
        let ids = ids.chain(self.touches.iter_mut().map(|touch| &mut touch.id));
        let ids = ids.chain(self.links.iter_mut().map(|link| &mut link.id));
        let ids = ids.chain(self.opened.iter_mut().map(|dir| &mut dir.id));
        let dirs = self.before.iter_mut().chain(&mut self.after);
        for id in ids.chain(dirs.map(|(_, id)| id)) {
            id.device = None;
        }
    }

    /// Has the real tree all of it already?
    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.acts.is_empty() && self.touches.is_empty()
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
pub(crate) struct Known {
    pub(crate) path: Bytes,
    pub(crate) since: Time,
    /// And what is below.
    pub(crate) below: bool,
}

/// When a view took what it has at a path, whatever replaced that in the view since.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Taken {
    pub(crate) path: Bytes,
    pub(crate) since: Time,
}

/// Which kernel runs; empty if it does not say.
pub(crate) fn boot() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default()
}
