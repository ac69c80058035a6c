// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads the entries of a view's upper tree, with the files of the real tree at the same paths.
//!
//! # Rules
//! R1. A directory of the upper tree shows what is beneath it unless it is marked `opaque`; with
//!     `redirect` that is at another path.
//! R2. A new directory in one that shows a lower directory is always `opaque`. One that is not, and
//!     has nothing beneath, has lost its lower directory.
//! R3. A directory that both the view and others made is merged: the view cannot have meant to
//!     remove names that it never saw.
//! R4. An entry of which this user may not look at the file of the real tree is left out, with all
//!     below. No commit takes it.
//! R5. The mark `lower` tells which lower directory the view saw (`lower_mark`). Another directory
//!     under the name is not what the view saw, whatever its times are.

pub(crate) mod baseline;
pub(crate) mod lower_mark;
pub(crate) mod places;
pub(crate) mod taken_times;
pub(crate) mod upper_file;

use crate::attributes::file_stat::{FileStat, Time};
use crate::host::names::{join, split};
use crate::host::tree::Tree;
use crate::report::change::ChangeKind;
use crate::report::messages::failed;
use crate::report::phase::{Looker, Phase, Unobserved};
use crate::report::refusal::{Refusal, RefusalKind};
use crate::scan::baseline::Baseline;
use crate::scan::upper_file::UpperFile;
use crate::stored_bytes::Bytes;
use openpath_overlay::{Marks, Sides, SidesByPath, origin_number};
use rustix::io::Errno;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What an entry of the upper tree is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EntryKind {
    /// A whiteout.
    Whiteout,
    /// Anything but a directory.
    File,
    /// A directory that shows a lower directory.
    Merged,
    /// A directory with nothing beneath.
    New,
    /// The same where others made one in the real tree, which the view never saw. It shows nothing
    /// of it, and a commit merges both.
    Both,
    /// A directory whose lower directory is gone.
    Lost,
}

/// The lower directory that a directory shows, with its path.
type Beneath = Option<Box<(Bytes, FileStat)>>;

/// An entry of the upper tree.
pub(crate) struct Entry {
    /// Its path in the view.
    pub(crate) path: Bytes,
    /// The index of its directory among the entries; the root's is itself.
    pub(crate) parent: usize,
    pub(crate) upper_file: UpperFile,
    pub(crate) entry_kind: EntryKind,
    /// How it changed, if it is no directory.
    pub(crate) kind: Option<ChangeKind>,
    /// The path of its name in the real tree, if its directory is there.
    pub(crate) place: Option<Bytes>,
    /// The file of the real tree at that path.
    pub(crate) here: Option<FileStat>,
    /// Of a directory: the lower directory that it shows, with its path.
    beneath: Beneath,
    /// In a directory that both sides made (R3): when the view made the outermost of them. It has
    /// seen nothing there since.
    unseen_since: Option<Time>,
    /// Of a directory that shows a lower one: on which sides its attributes changed since it was
    /// copied up, if its copy records it.
    pub(crate) sides: Option<Sides>,
}

impl Entry {
    /// Of a directory: the lower directory that it shows, with its path.
    pub(crate) fn beneath(&self) -> Option<&(Bytes, FileStat)> {
        self.beneath.as_deref()
    }

    /// Whether it is a directory with another path in the real tree.
    pub(crate) fn is_moved(&self) -> bool {
        let beneath = self.beneath().map(|(path, _)| path);
        beneath.is_some() && beneath != self.place.as_ref()
    }

    /// Of a directory with a redirect: the path in the real tree to which that leads.
    pub(crate) fn redirect(&self) -> Option<Bytes> {
        redirect(&self.upper_file, self.place.as_ref())
    }

    /// Whether others replaced the lower directory that the view saw (R5); `None`: the view did not
    /// record which one that is.
    pub(crate) fn is_replaced(&self) -> Option<bool> {
        let (_, stat) = self.beneath()?;
        if let Some(mark) = self.upper_file.mark("lower") {
            return lower_mark::is_of(mark, stat).map(|same| !same);
        }
        // The kernel has copied it up. A directory that got its number later is younger.
        let seen = origin_number(self.upper_file.mark("origin")?)?;
        let (copied, born) = (self.upper_file.stat.btime?, stat.btime?);
        Some(seen != stat.ino || born >= copied)
    }

    /// When the view took it from the real tree.
    pub(crate) fn taken(&self) -> Option<Time> {
        let stat = &self.upper_file.stat;
        let mark = self.upper_file.mark("taken");
        let marked = mark.and_then(lower_mark::parse_time);
        let made = match self.entry_kind {
            // It may have hidden another name before; the overlay keeps an earlier time in `mtime`.
            EntryKind::Whiteout => Some(stat.ctime.min(stat.mtime)),
            _ => stat.btime,
        };
        let made = made.map(|made| marked.map_or(made, |marked| marked.min(made)));
        made.into_iter().chain(self.unseen_since).min()
    }
}

/// The path in the real tree to which a redirect leads; `place`: that of the name.
fn redirect(upper_file: &UpperFile, place: Option<&Bytes>) -> Option<Bytes> {
    match upper_file.mark("redirect")? {
        path @ [b'/', ..] => Some(path.into()),
        name => Some(join(split(place?).0, name).into()),
    }
}

/// The kinds of change, by path.
pub(crate) type Kinds<'a> = HashMap<&'a [u8], &'a ChangeKind>;

/// All entries, each directory before what is in it.
pub(crate) struct Scan {
    pub(crate) entries: Vec<Entry>,
    /// The prefix of the marks in the upper tree.
    pub(crate) marks: Marks,
    /// The paths of entries that are left out (R4).
    pub(crate) unreadable: Vec<Bytes>,
    /// Paths in the real tree that directories were moved from.
    pub(crate) sources: HashSet<Bytes>,
    /// These, with their paths in the view.
    moves: HashMap<Bytes, Bytes>,
}

impl Scan {
    /// Reads both trees. `kinds` has the kind of change by path, `sides` the sides on which the
    /// attributes of directories changed.
    pub(crate) fn new(
        base: &Tree,
        upper: &Tree,
        (kinds, sides): (&Kinds<'_>, &SidesByPath),
        baseline: &Baseline,
        looker: &mut Looker<'_>,
    ) -> Result<Scan, Refusal> {
        let mut scan = Self::read(base, upper, kinds, Some(baseline), looker)?;
        for entry in &mut scan.entries {
            entry.sides = sides.get(&entry.path[..]).copied();
        }
        Ok(scan)
    }

    /// The same without entries in directories with nothing beneath.
    pub(crate) fn above(base: &Tree, upper: &Tree) -> Result<Scan, Refusal> {
        let mut nobody = Unobserved;
        let mut looker = Looker::new(&mut nobody, Phase::Planning, 0);
        Self::read(base, upper, &Kinds::new(), None, &mut looker)
    }

    /// All entries, without the kinds of their changes.
    pub(crate) fn whole(base: &Tree, upper: &Tree, baseline: &Baseline) -> Result<Scan, Refusal> {
        let mut nobody = Unobserved;
        let mut looker = Looker::new(&mut nobody, Phase::Planning, 0);
        Self::read(base, upper, &Kinds::new(), Some(baseline), &mut looker)
    }

    fn read(
        base: &Tree,
        upper: &Tree,
        kinds: &Kinds<'_>,
        baseline: Option<&Baseline>,
        looker: &mut Looker<'_>,
    ) -> Result<Scan, Refusal> {
        let mut scan = Scan {
            entries: Vec::new(),
            unreadable: Vec::new(),
            sources: HashSet::new(),
            marks: upper.marks,
            moves: HashMap::new(),
        };
        let top = |why| failed(b"/", why);
        let held = upper.hold(b"").map_err(top)?;
        let held = held
            .ok_or_else(|| Refusal::new(RefusalKind::Damaged, "the view has lost its changes"))?;
        let upper_file = UpperFile::read(&held, upper.marks).map_err(top)?;
        let here = base.stat(b"").map_err(top)?;
        scan.entries.push(Entry {
            path: Rc::from([]),
            parent: 0,
            upper_file,
            entry_kind: EntryKind::Merged,
            kind: None,
            place: Some(Rc::from([])),
            here: here.clone(),
            beneath: here.map(|stat| Box::new((Rc::from([]), stat))),
            unseen_since: None,
            sides: None,
        });
        // Last in, first out: names in reverse keep all entries below one together, in order.
        let mut todo = vec![0];
        while let Some(at) = todo.pop() {
            let first = scan.entries.len();
            let path = scan.entries[at].path.clone();
            for name in upper.names(&path).map_err(|why| failed(&path, why))? {
                looker.next();
                match scan.entry((base, upper), (at, &name), kinds, baseline) {
                    Err(Errno::ACCESS) => scan.unreadable.push(join(&path, &name).into()),
                    Err(why) => return Err(failed(&join(&path, &name), why)),
                    Ok(entry) => scan.entries.extend(entry),
                }
            }
            let dirs = first..scan.entries.len();
            todo.extend(dirs.filter(|at| {
                let entry = &scan.entries[*at];
                entry.upper_file.stat.is_dir()
                    && (baseline.is_some() || entry.entry_kind == EntryKind::Merged)
            }));
        }
        for entry in &scan.entries {
            if let (true, Some((from, _))) = (entry.is_moved(), entry.beneath()) {
                scan.sources.insert(from.clone());
                scan.moves.insert(from.clone(), entry.path.clone());
            }
        }
        Ok(scan)
    }

    fn entry(
        &self,
        (base, upper): (&Tree, &Tree),
        (parent, name): (usize, &[u8]),
        kinds: &Kinds<'_>,
        baseline: Option<&Baseline>,
    ) -> rustix::io::Result<Option<Entry>> {
        let dir = &self.entries[parent];
        let path: Bytes = join(&dir.path, name).into();
        let Some(held) = upper.hold(&path)? else {
            return Ok(None);
        };
        let upper_file = UpperFile::read(&held, upper.marks)?;
        let place = dir.beneath().map(|(above, _)| match *above == dir.path {
            true => Rc::clone(&path),
            false => join(above, name).into(),
        });
        let here = match &place {
            Some(place) => base.stat(place)?,
            None => None,
        };
        let unseen_since = match (dir.entry_kind, baseline) {
            (EntryKind::Both, Some(baseline)) => Some(baseline.taken_at(&dir.path, dir.taken())),
            _ => None,
        };
        let (entry_kind, beneath) = if upper_file.is_whiteout {
            (EntryKind::Whiteout, None)
        } else if !upper_file.stat.is_dir() {
            (EntryKind::File, None)
        } else if upper_file.mark("opaque") == Some(b"y")
            || dir.entry_kind == EntryKind::Both && upper_file.mark("redirect").is_none()
        {
            match (baseline, &place, here.as_ref().filter(|here| here.is_dir())) {
                (Some(baseline), Some(place), Some(here))
                    if unseen_since.is_some()
                        || baseline.is_apart(
                            base,
                            (&path, upper_file.stat.btime),
                            place,
                            here,
                        )? =>
                {
                    (
                        EntryKind::Both,
                        Some(Box::new((place.clone(), here.clone()))),
                    )
                }
                _ => (EntryKind::New, None),
            }
        } else {
            Self::below(base, &upper_file, place.as_ref(), here.as_ref())?
        };
        let kind = kinds.get(&path[..]).map(|kind| (*kind).clone());
        Ok(Some(Entry {
            path,
            parent,
            upper_file,
            entry_kind,
            kind,
            place,
            here,
            beneath,
            unseen_since,
            sides: None,
        }))
    }

    /// The lower directory that a directory of the upper tree shows (R1, R2).
    fn below(
        base: &Tree,
        upper_file: &UpperFile,
        place: Option<&Bytes>,
        here: Option<&FileStat>,
    ) -> rustix::io::Result<(EntryKind, Beneath)> {
        let (path, stat) = match (redirect(upper_file, place), place) {
            (Some(path), _) => {
                let stat = base.stat(&path)?;
                (path, stat)
            }
            (None, Some(place)) => (place.clone(), here.cloned()),
            (None, None) => return Ok((EntryKind::New, None)),
        };
        match stat.filter(FileStat::is_dir) {
            Some(stat) => Ok((EntryKind::Merged, Some(Box::new((path, stat))))),
            None => Ok((EntryKind::Lost, None)),
        }
    }

    /// The path in the view of a path of the real tree, unless it is hidden there.
    pub(crate) fn shown(&self, real: &[u8]) -> Vec<u8> {
        let mut above = split(real).0;
        while !above.is_empty() {
            if let Some(to) = self.moves.get(above) {
                return [&to[..], &real[above.len()..]].concat();
            }
            above = split(above).0;
        }
        real.to_vec()
    }
}
