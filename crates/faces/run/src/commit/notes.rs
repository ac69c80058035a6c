// SPDX-License-Identifier: MIT OR Apache-2.0
//! The files in which a view notes its commits; `journal` says what they are.
//!
//! # Rules
//! R1. All of them are found from the descriptor of the view's directory, and no symbolic link is
//!     followed. A file is written whole under a further name, made new and renamed into its place.
//! R2. Files are for their owner alone, and directories too: what a commit replaced keeps its own
//!     permissions, so the directory above it must not let anybody in.

use crate::Refusal;
use crate::commit::held::Held;
use crate::commit::journal::{Bytes, Journal, Known, State, Taken, boot};
use crate::commit::tree::{Tree, join};
use crate::kept::ViewDir;
use rustix::fd::AsFd as _;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The directory of a view, held.
#[derive(Clone)]
pub(crate) struct Notes {
    pub(crate) tree: Rc<Tree>,
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
        Ok(Notes { tree, path })
    }

    /// Who owns the view.
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

    /// Reads a file; `None`: there is none.
    fn read<T: DeserializeOwned>(&self, path: &[u8]) -> Result<Option<T>, Refusal> {
        let attempt = || -> io::Result<Option<Vec<u8>>> {
            let Some(held) = self.tree.hold(path)? else {
                return Ok(None);
            };
            if !held.facts.is_file() {
                return Err(Errno::INVAL.into());
            }
            let mut text = Vec::new();
            File::from(held.read()?).read_to_end(&mut text)?;
            Ok(Some(text))
        };
        let broken = |why: io::Error| {
            let why = io::Error::new(why.kind(), why);
            self.said_io(path, why)
        };
        match attempt().map_err(broken)? {
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

    /// Writes all of a file or nothing, to the disk (R1).
    fn write<T: Serialize>(&self, path: &[u8], value: &T) -> Result<(), Refusal> {
        let attempt = || -> io::Result<()> {
            let text = serde_json::to_vec(value)?;
            let (dir, name) = self.tree.spot(path)?;
            let beside = [name, b".new"].concat();
            match rustix::fs::unlinkat(&*dir, &beside, AtFlags::empty()) {
                Err(Errno::NOENT) => {}
                done => done?,
            }
            let flags =
                OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mode = Mode::from_raw_mode(0o600);
            let mut file = File::from(rustix::fs::openat(&*dir, &beside, flags, mode)?);
            file.write_all(&text)?;
            file.sync_all()?;
            rustix::fs::renameat(&*dir, &beside, &*dir, name)?;
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let dir = rustix::fs::openat(&*dir, ".", flags, Mode::empty())?;
            Ok(rustix::fs::fsync(dir)?)
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
