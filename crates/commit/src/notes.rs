// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files in which a view notes its commits; `journal` says what they are.
//!
//! # Rules
//! R1. All of them are found from the descriptor of the view's directory, read and replaced as its
//!     control files are (`ViewDir`): no symbolic link is followed, and a file of another user is
//!     an error.
//! R2. Files are for their owner alone, and directories too: what a commit replaced keeps its own
//!     permissions, so the directory above it must not let anybody in.
//! R3. A file that is too long is neither written nor read.

use crate::held::Held;
use crate::journal::{Bytes, Journal, Known, State, Taken, boot};
use crate::names::{join, split};
use crate::refusal::Refusal;
use crate::tree::Tree;
use crate::view_dir::ViewDir;
use rustix::fd::AsFd as _;
use rustix::fs::Mode;
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The longest file: a commit of as many changes as are told needs less.
const NOTE_MAX: u64 = 8 << 30;

/// The directory of a view, held.
#[derive(Clone)]
pub(crate) struct Notes {
    pub(crate) tree: Rc<Tree>,
    dir: ViewDir,
    /// Its path, for messages.
    pub(crate) path: PathBuf,
}

impl Notes {
    /// Those of a view.
    ///
    /// # Errors
    /// No further descriptor is to be had.
    pub(crate) fn of(dir: &ViewDir) -> Result<Notes, Refusal> {
        let path = dir.path().to_owned();
        let held = dir.descriptor().map_err(|why| said(&path, why))?;
        let tree = Rc::new(Tree::at(held));
        let dir = dir.clone();
        Ok(Notes { tree, dir, path })
    }

    /// The owner of the view.
    pub(crate) fn owner(&self) -> Result<u32, Refusal> {
        let facts = self.tree.look(b"").map_err(|why| self.said(b"", why))?;
        Ok(facts.map_or(u32::MAX, |facts| facts.uid))
    }

    /// A directory of it, as a tree.
    pub(crate) fn below(&self, path: &[u8]) -> Result<Tree, Refusal> {
        let said = |why| self.said(path, why);
        let held = self.tree.hold(path).map_err(said)?;
        let held = held.ok_or_else(|| said(Errno::NOENT))?;
        if !held.facts.is_dir() {
            return Err(said(Errno::NOTDIR));
        }
        Ok(Tree::at(held.into_fd()))
    }

    pub(crate) fn said(&self, path: &[u8], why: Errno) -> Refusal {
        use std::os::unix::ffi::OsStrExt as _;
        let path = path.strip_prefix(b"/").unwrap_or(path);
        said(
            &self.path.join(std::ffi::OsStr::from_bytes(path)),
            why.into(),
        )
    }

    /// The directory of a file, and the file's name in it; `None`: there is no such directory.
    fn spot(&self, path: &[u8]) -> io::Result<Option<(ViewDir, String)>> {
        let (dir, name) = split(path);
        let text = |bytes: &[u8]| {
            let text = std::str::from_utf8(bytes.strip_prefix(b"/").unwrap_or(bytes));
            text.map(str::to_owned)
                .map_err(|_| io::Error::from(Errno::INVAL))
        };
        let name = text(name)?;
        if dir.is_empty() {
            return Ok(Some((self.dir.clone(), name)));
        }
        Ok(self.dir.subdir(&text(dir)?)?.map(|dir| (dir, name)))
    }

    /// Reads a file; `None`: there is none (R1, R3).
    fn read<T: DeserializeOwned>(&self, path: &[u8]) -> Result<Option<T>, Refusal> {
        let attempt = || match self.spot(path)? {
            Some((dir, name)) => dir.read(&name, NOTE_MAX),
            None => Ok(None),
        };
        match attempt().map_err(|why| self.said_io(path, why))? {
            None => Ok(None),
            Some(text) => match serde_json::from_slice(&text) {
                Ok(value) => Ok(Some(value)),
                Err(why) => Err(self.said_io(path, why.into())),
            },
        }
    }

    fn said_io(&self, path: &[u8], why: io::Error) -> Refusal {
        use std::os::unix::ffi::OsStrExt as _;
        let path = path.strip_prefix(b"/").unwrap_or(path);
        said(&self.path.join(std::ffi::OsStr::from_bytes(path)), why)
    }

    /// Writes all of a file or nothing, to the disk (R1, R3).
    fn write<T: Serialize>(&self, path: &[u8], value: &T) -> Result<(), Refusal> {
        let attempt = || -> io::Result<()> {
            let text = serde_json::to_vec(value)?;
            if text.len() as u64 > NOTE_MAX {
                return Err(Errno::FBIG.into());
            }
            let (dir, name) = self.spot(path)?.ok_or(Errno::NOENT)?;
            dir.replace(&name, &text)
        };
        attempt().map_err(|why| self.said_io(path, why))
    }
}

fn said(path: &Path, why: io::Error) -> Refusal {
    Refusal::step(&path.display().to_string(), why)
}

/// A commit's place on the disk.
#[derive(Clone)]
pub(crate) struct Place {
    /// The view's directory.
    pub(crate) notes: Notes,
    /// `next` or `commit` in it.
    pub(crate) name: &'static [u8],
}

impl Place {
    /// The commit that there is, and how far it is.
    pub(crate) fn find(notes: &Notes) -> Result<Option<(Place, State)>, Refusal> {
        for name in [&b"/next"[..], b"/commit"] {
            let notes = notes.clone();
            if let Some(state) = notes.read(&join(name, b"state"))? {
                return Ok(Some((Place { notes, name }, state)));
            }
        }
        Ok(None)
    }

    /// A place for a commit that is to be prepared.
    pub(crate) fn next(notes: &Notes) -> Result<Place, Refusal> {
        let place = Place {
            notes: notes.clone(),
            name: b"/next",
        };
        let attempt = || -> rustix::io::Result<()> {
            notes.tree.remove(place.name)?;
            for path in [&b"/next"[..], b"/next/old", b"/next/view"] {
                let (dir, name) = notes.tree.spot(path)?;
                // R2
                rustix::fs::mkdirat(dir.as_fd(), name, Mode::from_raw_mode(0o700))?;
            }
            Ok(())
        };
        attempt().map_err(|why| notes.said(place.name, why))?;
        Ok(place)
    }

    /// Is the commit being prepared, or has it not taken its place yet?
    pub(crate) fn is_next(&self) -> bool {
        self.name == b"/next"
    }

    pub(crate) fn read(&self) -> Result<Journal, Refusal> {
        let path = join(self.name, b"journal");
        let journal: Option<Journal> = self.notes.read(&path)?;
        let mut journal = journal.ok_or_else(|| self.notes.said(&path, Errno::NOENT))?;
        if journal.boot != boot() {
            journal.forget_devices();
        }
        Ok(journal)
    }

    pub(crate) fn write(&self, journal: &Journal) -> Result<(), Refusal> {
        self.notes.write(&join(self.name, b"journal"), journal)
    }

    pub(crate) fn enter(&self, state: State) -> Result<(), Refusal> {
        self.notes.write(&join(self.name, b"state"), &state)
    }

    /// Its directory, held.
    pub(crate) fn store(&self) -> Result<Tree, Refusal> {
        self.notes.below(self.name)
    }
}

impl Taken {
    pub(crate) fn read(notes: &Notes) -> Result<Vec<Taken>, Refusal> {
        Ok(notes.read(b"/taken")?.unwrap_or_default())
    }

    pub(crate) fn write(notes: &Notes, all: &[Taken]) -> Result<(), Refusal> {
        notes.write(b"/taken", &all)
    }
}

impl Known {
    pub(crate) fn read(notes: &Notes) -> Result<Vec<Known>, Refusal> {
        Ok(notes.read(b"/known")?.unwrap_or_default())
    }

    /// Adds some to those that are known.
    pub(crate) fn add(notes: &Notes, more: Vec<Known>) -> Result<(), Refusal> {
        let mut all = Known::read(notes)?;
        let paths: HashSet<&Bytes> = more.iter().map(|known| &known.path).collect();
        all.retain(|known| !paths.contains(&known.path));
        all.extend(more);
        notes.write(b"/known", &all)
    }
}

/// Whether what is held belongs to this process's user.
pub(crate) fn is_own(held: &Held) -> bool {
    held.facts.uid == rustix::process::geteuid().as_raw()
}
