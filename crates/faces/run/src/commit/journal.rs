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
//! -> nothing. Whoever finds another state than Done finds a commit that was interrupted.
//!
//! # Rules
//! R1. Whether an act is done is told by which inode has the name, so that it can be tried again.

use crate::Refusal;
use crate::change::Change;
use crate::commit::facts::{Attributes, Time};
use crate::commit::seen::Seen;
use crate::commit::tree::is_below;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

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
    pub(crate) ino: u64,
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
    /// What it is going to stand for, waiting under the hidden name; 0: not made yet.
    pub(crate) new: Option<u64>,
    /// What it stands for now, and is going to have the hidden name.
    pub(crate) old: Option<u64>,
    /// What is to be made for it, directories first; none of what moved.
    pub(crate) items: Vec<Bytes>,
    /// What the real tree had under the name when all this was planned, and where that was; none if
    /// it moves.
    pub(crate) seen: Option<(Bytes, Seen)>,
}

/// A file whose attributes change.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Touch {
    pub(crate) path: Bytes,
    /// Where it is before directories move.
    pub(crate) place: Bytes,
    pub(crate) ino: u64,
    pub(crate) before: Attributes,
    pub(crate) after: Attributes,
}

/// A directory whose time of change is set when all is done.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Moment {
    pub(crate) path: Bytes,
    pub(crate) path_before: Bytes,
    /// 0: it is new.
    pub(crate) ino: u64,
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
    /// Files of the view that have other names: their inode there, the same file in the real tree,
    /// and in the view.
    pub(crate) links: Vec<(u64, Bytes, Bytes)>,
    /// What others had changed as well, which was forced.
    #[serde(default)]
    pub(crate) contested: Vec<Bytes>,
    /// Owners that cannot be given are let go.
    pub(crate) any_owner: bool,
    /// When it was done.
    pub(crate) done: Option<Time>,
}

impl Journal {
    /// What is as the view knows it from now on: what this commit touched, or its going back, but
    /// for what others had changed as well. `below`: with what is below.
    pub(crate) fn known<'a>(
        &self,
        paths: impl IntoIterator<Item = &'a Bytes>,
        since: Time,
        below: bool,
    ) -> Vec<Known> {
        let known = |path: &Bytes| {
            let within = |other: &Bytes| other == path || below && is_below(other, path);
            (!self.contested.iter().any(within)).then(|| Known {
                path: path.clone(),
                since,
                below,
            })
        };
        paths.into_iter().filter_map(known).collect()
    }

    /// Has the real tree all of it already?
    pub(crate) fn is_empty(&self) -> bool {
        self.moves.is_empty() && self.acts.is_empty() && self.touches.is_empty()
    }
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

/// A commit's place on the disk.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The view's directory.
    pub(crate) view: PathBuf,
    /// `next` or `commit` in it.
    pub(crate) dir: PathBuf,
}

impl Place {
    /// The commit that there is, and how far it is.
    pub(crate) fn find(view: &Path) -> Result<Option<(Place, State)>, Refusal> {
        for name in ["next", "commit"] {
            let dir = view.join(name);
            let place = Place {
                view: view.to_owned(),
                dir,
            };
            let state = place.dir.join("state");
            match std::fs::read(&state) {
                Err(why) if why.kind() == io::ErrorKind::NotFound => {}
                text => {
                    let state = read(text, &state)?;
                    return Ok(Some((place, state)));
                }
            }
        }
        Ok(None)
    }

    /// A place for a commit that is to be prepared.
    pub(crate) fn next(view: &Path) -> Result<Place, Refusal> {
        let dir = view.join("next");
        let place = Place {
            view: view.to_owned(),
            dir,
        };
        let made = std::fs::remove_dir_all(&place.dir)
            .or_else(|why| match why.kind() {
                io::ErrorKind::NotFound => Ok(()),
                _ => Err(why),
            })
            .and_then(|()| std::fs::create_dir(&place.dir))
            .and_then(|()| std::fs::create_dir(place.dir.join("old")))
            .and_then(|()| std::fs::create_dir(place.dir.join("view")));
        made.map_err(|why| said(&place.dir, &why))?;
        Ok(place)
    }

    /// Is the commit being prepared, or has it not taken its place yet?
    pub(crate) fn is_next(&self) -> bool {
        self.dir.ends_with("next")
    }

    pub(crate) fn read(&self) -> Result<Journal, Refusal> {
        let path = self.dir.join("journal");
        read(std::fs::read(&path), &path)
    }

    pub(crate) fn write(&self, journal: &Journal) -> Result<(), Refusal> {
        write(&self.dir.join("journal"), journal)
    }

    pub(crate) fn enter(&self, state: State) -> Result<(), Refusal> {
        write(&self.dir.join("state"), &state)
    }
}

impl Taken {
    pub(crate) fn read(view: &Path) -> Result<Vec<Taken>, Refusal> {
        read_all(&view.join("taken"))
    }

    pub(crate) fn write(view: &Path, all: &[Taken]) -> Result<(), Refusal> {
        write(&view.join("taken"), &all)
    }
}

impl Known {
    pub(crate) fn read(view: &Path) -> Result<Vec<Known>, Refusal> {
        read_all(&view.join("known"))
    }

    /// Adds some to those that are known.
    pub(crate) fn add(view: &Path, more: Vec<Known>) -> Result<(), Refusal> {
        let mut all = Known::read(view)?;
        let paths: HashSet<&Bytes> = more.iter().map(|known| &known.path).collect();
        all.retain(|known| !paths.contains(&known.path));
        all.extend(more);
        write(&view.join("known"), &all)
    }
}

/// Reads what may not be there yet.
fn read_all<T: DeserializeOwned>(path: &Path) -> Result<Vec<T>, Refusal> {
    match std::fs::read(path) {
        Err(why) if why.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        text => read(text, path),
    }
}

fn read<T: DeserializeOwned>(text: io::Result<Vec<u8>>, path: &Path) -> Result<T, Refusal> {
    let text = text.map_err(|why| said(path, &why))?;
    serde_json::from_slice(&text).map_err(|why| Refusal::step(&path.display().to_string(), why))
}

/// Writes all of a file or nothing, to the disk.
fn write<T: Serialize>(path: &Path, value: &T) -> Result<(), Refusal> {
    let attempt = || -> io::Result<()> {
        let text = serde_json::to_vec(value)?;
        let beside = path.with_extension("new");
        let mut file = File::create(&beside)?;
        file.write_all(&text)?;
        file.sync_all()?;
        std::fs::rename(&beside, path)?;
        match path.parent() {
            Some(dir) => File::open(dir)?.sync_all(),
            None => Ok(()),
        }
    };
    attempt().map_err(|why| said(path, &why))
}

fn said(path: &Path, why: &io::Error) -> Refusal {
    Refusal::step(&path.display().to_string(), why)
}
