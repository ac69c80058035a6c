// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and writes the records of commits in a view's directory: journal, state, and the times of
//! `known` and `taken`. `journal` describes them.
//!
//! # Rules
//! R1. All of them are opened from the descriptor of the view's directory, read and replaced as its
//!     control files are (`ViewDir`). No symbolic link is followed, and a file of another user is
//!     an error.
//! R2. Files and directories are for their owner alone. Backups keep their own permissions, so the
//!     directory above them must be closed to others.
//! R3. A file that is too long is neither written nor read.

use crate::attributes::file_stat::Time;
use crate::host::marks;
use crate::host::names::{join, split};
use crate::host::tree::Tree;
use crate::host::view_dir::ViewDir;
use crate::journal::{Bytes, Journal, KnownSince, State, TakenAt, boot};
use crate::report::path_bytes::PathBytes;
use crate::report::refusal::Refusal;
use rustix::fd::AsFd as _;
use rustix::fs::Mode;
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// The file with what a run with the kernel's overlay kept in place (`scan::places`).
pub(crate) const PLACES: &str = "places";
/// The file with the paths below which the time of the begin counts.
pub(crate) const PARTS: &str = "parts";
/// The longest record, in bytes: a commit with the most changes that are listed needs less.
const RECORD_MAX: u64 = 8 << 30;
/// A record is read and written in pieces of this size: its text is never in memory as a whole.
const BUFFER: usize = 1 << 16;

/// The held directory of a view.
#[derive(Clone, Debug)]
pub(crate) struct Records {
    pub(crate) tree: Rc<Tree>,
    dir: ViewDir,
    /// Its path, for messages.
    pub(crate) path: PathBuf,
}

impl Records {
    /// The records of a view.
    ///
    /// # Errors
    /// No further descriptor can be opened.
    pub(crate) fn of(dir: &ViewDir) -> Result<Records, Refusal> {
        let path = dir.path().to_owned();
        let held = dir.descriptor().map_err(|why| record_failed(&path, why))?;
        let tree = Rc::new(Tree::at(held));
        let dir = dir.clone();
        Ok(Records { tree, dir, path })
    }

    /// When the last run with the kernel's overlay began, until its files have times of their own.
    pub(crate) fn begun(&self) -> Result<Option<Time>, Refusal> {
        self.read(b"/begun")
    }

    /// The directories below which that time counts; empty: everywhere.
    pub(crate) fn parts(&self) -> Result<Vec<PathBytes>, Refusal> {
        Ok(self.read(b"/parts")?.unwrap_or_default())
    }

    /// The earlier one of two begins counts, and in the directories of both.
    pub(crate) fn set_begun(&self, begun: Time, parts: &[PathBytes]) -> Result<(), Refusal> {
        let before = match self.begun()? {
            Some(_) => Some(self.parts()?),
            None => None,
        };
        match before {
            Some(before) if before.is_empty() => {}
            _ if parts.is_empty() => self.forget(PARTS)?,
            before => {
                let mut all = before.unwrap_or_default();
                all.extend_from_slice(parts);
                all.sort();
                all.dedup();
                self.write(b"/parts", &all)?;
            }
        }
        self.write(b"/begun", &begun)
    }

    pub(crate) fn forget_begun(&self) -> Result<(), Refusal> {
        // In this order: a time without its paths would count everywhere.
        self.forget("begun")?;
        self.forget(PARTS)
    }

    /// Removes a file, if there is one.
    pub(crate) fn forget(&self, name: &str) -> Result<(), Refusal> {
        let gone = self.dir.remove_file(name);
        gone.map_err(|why| self.failed_io(name.as_bytes(), why))
    }

    /// A directory of it, as a tree.
    pub(crate) fn below(&self, path: &[u8]) -> Result<Tree, Refusal> {
        let fail = |why| self.failed(path, why);
        let held = self.tree.hold(path).map_err(fail)?;
        let held = held.ok_or_else(|| fail(Errno::NOENT))?;
        if !held.stat.is_dir() {
            return Err(fail(Errno::NOTDIR));
        }
        Ok(Tree::at(held.into_fd()))
    }

    /// The upper tree.
    pub(crate) fn upper(&self) -> Result<Tree, Refusal> {
        let mut tree = self.below(b"/upper")?;
        tree.marks = marks::marks_of(&self.dir)?;
        Ok(tree)
    }

    /// The same; `None`: the view has not run yet.
    pub(crate) fn upper_if_any(&self) -> Result<Option<Tree>, Refusal> {
        let held = self.tree.hold(b"/upper");
        match held.map_err(|why| self.failed(b"/upper", why))? {
            Some(_) => self.upper().map(Some),
            None => Ok(None),
        }
    }

    pub(crate) fn failed(&self, path: &[u8], why: Errno) -> Refusal {
        self.failed_io(path, why.into())
    }

    /// The directory of a file, and the file's name in it; `None`: there is no such directory.
    fn locate(&self, path: &[u8]) -> io::Result<Option<(ViewDir, String)>> {
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
    pub(crate) fn read<T: DeserializeOwned>(&self, path: &[u8]) -> Result<Option<T>, Refusal> {
        let attempt = || -> io::Result<Option<T>> {
            let Some((dir, name)) = self.locate(path)? else {
                return Ok(None);
            };
            let Some(file) = dir.open_limited(&name, RECORD_MAX)? else {
                return Ok(None);
            };
            let text = BufReader::with_capacity(BUFFER, file);
            Ok(Some(serde_json::from_reader(text)?))
        };
        attempt().map_err(|why| self.failed_io(path, why))
    }

    fn failed_io(&self, path: &[u8], why: io::Error) -> Refusal {
        use std::os::unix::ffi::OsStrExt as _;
        let path = path.strip_prefix(b"/").unwrap_or(path);
        record_failed(&self.path.join(std::ffi::OsStr::from_bytes(path)), why)
    }

    /// Writes all of a file or nothing, to the disk (R1, R3).
    pub(crate) fn write<T: Serialize>(&self, path: &[u8], value: &T) -> Result<(), Refusal> {
        let attempt = || -> io::Result<()> {
            let (dir, name) = self.locate(path)?.ok_or(Errno::NOENT)?;
            dir.replace_by(&name, |file| {
                let left = RECORD_MAX;
                let mut text = BufWriter::with_capacity(BUFFER, Limited { file, left });
                serde_json::to_writer(&mut text, value)?;
                text.flush()
            })
        };
        attempt().map_err(|why| self.failed_io(path, why))
    }
}

/// A file that gets no longer than this (R3).
struct Limited<'f> {
    file: &'f mut File,
    left: u64,
}

impl Write for Limited<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let left = self.left.checked_sub(bytes.len() as u64);
        self.left = left.ok_or(Errno::FBIG)?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn record_failed(path: &Path, why: io::Error) -> Refusal {
    Refusal::step(&path.display().to_string(), why)
}

/// The directory of a commit.
#[derive(Clone, Debug)]
pub(crate) struct CommitDir {
    /// The view's directory.
    pub(crate) records: Records,
    /// `next` or `commit` in it.
    pub(crate) name: &'static [u8],
}

impl CommitDir {
    /// The existing commit, and its state.
    pub(crate) fn find(records: &Records) -> Result<Option<(CommitDir, State)>, Refusal> {
        for name in [&b"/next"[..], b"/commit"] {
            let records = records.clone();
            if let Some(state) = records.read(&join(name, b"state"))? {
                return Ok(Some((CommitDir { records, name }, state)));
            }
        }
        Ok(None)
    }

    /// A directory for a commit that is to be prepared.
    pub(crate) fn next(records: &Records) -> Result<CommitDir, Refusal> {
        let commit_dir = CommitDir {
            records: records.clone(),
            name: b"/next",
        };
        let attempt = || -> rustix::io::Result<()> {
            records.tree.remove(commit_dir.name)?;
            for path in [&b"/next"[..], b"/next/old", b"/next/view"] {
                let (dir, name) = records.tree.locate(path)?;
                // R2
                rustix::fs::mkdirat(dir.as_fd(), name, Mode::from_raw_mode(0o700))?;
            }
            Ok(())
        };
        attempt().map_err(|why| records.failed(commit_dir.name, why))?;
        Ok(commit_dir)
    }

    /// Whether the commit has not replaced the previous one yet.
    pub(crate) fn is_next(&self) -> bool {
        self.name == b"/next"
    }

    pub(crate) fn read(&self) -> Result<Journal, Refusal> {
        let path = join(self.name, b"journal");
        let journal: Option<Journal> = self.records.read(&path)?;
        let mut journal = journal.ok_or_else(|| self.records.failed(&path, Errno::NOENT))?;
        journal.share_paths();
        if journal.boot != boot() {
            journal.forget_devices();
        }
        Ok(journal)
    }

    pub(crate) fn write(&self, journal: &Journal) -> Result<(), Refusal> {
        self.records.write(&join(self.name, b"journal"), journal)
    }

    pub(crate) fn enter(&self, state: State) -> Result<(), Refusal> {
        self.records.write(&join(self.name, b"state"), &state)
    }

    /// The held directory as a tree.
    pub(crate) fn store(&self) -> Result<Tree, Refusal> {
        self.records.below(self.name)
    }
}

impl TakenAt {
    pub(crate) fn read(records: &Records) -> Result<Vec<TakenAt>, Refusal> {
        Ok(records.read(b"/taken")?.unwrap_or_default())
    }

    pub(crate) fn write(records: &Records, all: &[TakenAt]) -> Result<(), Refusal> {
        records.write(b"/taken", &all)
    }
}

impl KnownSince {
    pub(crate) fn read(records: &Records) -> Result<Vec<KnownSince>, Refusal> {
        Ok(records.read(b"/known")?.unwrap_or_default())
    }

    /// Adds some to the known ones.
    pub(crate) fn add(records: &Records, more: Vec<KnownSince>) -> Result<(), Refusal> {
        let mut all = KnownSince::read(records)?;
        let paths: HashSet<&Bytes> = more.iter().map(|known| &known.path).collect();
        all.retain(|known| !paths.contains(&known.path));
        all.extend(more);
        records.write(b"/known", &all)
    }
}
