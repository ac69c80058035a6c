// SPDX-License-Identifier: MIT OR Apache-2.0
//! A commit that was cut short, and what others changed of it since.
//!
//! # Rules
//! R1. Going back replaces only what the commit itself put in place. A name that was exchanged and
//!     leads to something else since, or to a file that was written since, is a conflict.
//! R2. No time of the interruption is known. A file in place was changed since it came there if it
//!     is not as its stamp says (`stamp`). It was also changed if it changed later than what it
//!     replaced, which waits under the hidden name since the exchange. The same holds if it changed
//!     later than the end of a commit that is being undone. Of a file with several names neither is
//!     known.
//! R4. A commit that goes on keeps what others changed of what is in place, and notes it: the undo
//!     must not take it for the commit's.
//! R3. A name that the commit has not reached, or that was put back, is as others left it, and
//!     stays so.

use crate::carry::{Carry, kept, now};
use crate::conflicts::{Conflict, Did};
use crate::facts::{Facts, Id, Time};
use crate::journal::{Act, State, Sweep};
use crate::messages::{failed, told};
use crate::names::{is_below, join, split};
use crate::refusal::Refusal;
use crate::stamp::Stamp;
use std::collections::HashSet;

/// One exchange changes two inodes. Their times may be so far apart: some ticks of the kernel's
/// clock, in nanoseconds.
const ONE_EXCHANGE: i128 = 20_000_000;
/// The coarsest times that a file system keeps, in nanoseconds.
const COARSEST: i128 = 2_000_000_000;

fn nanoseconds(time: Time) -> i128 {
    i128::from(time.0) * 1_000_000_000 + i128::from(time.1)
}

/// Whether these are the attributes of this inode.
fn is(facts: Option<&Facts>, id: Option<Id>) -> bool {
    facts.zip(id).is_some_and(|(facts, id)| facts.id().is(&id))
}

impl Carry<'_> {
    /// What others changed since of what the commit, interrupted in this state, had done (R1).
    ///
    /// # Errors
    /// The real tree cannot be read.
    pub(crate) fn meanwhile(&self, state: State) -> Result<Vec<Conflict>, Refusal> {
        let mut found = Vec::new();
        if state == State::Preparing {
            return Ok(found);
        }
        let of_commit = self.paths_of_acts();
        let mut note = |path: &[u8], did| {
            found.push(Conflict {
                path: told(path),
                place: told(path),
                did,
                unseen: did == Did::Made && !of_commit.contains(path),
                in_view: false,
            });
        };
        let moved = self.journal.moved_to();
        for act in &self.journal.acts {
            if act.new.is_some() && act.items.is_empty() {
                // What moved may change: it moves back as it is.
                continue;
            }
            self.since_exchanged((act, &moved), state, &mut note)?;
        }
        for touch in &self.journal.touches {
            if self.is_touched(touch)? {
                note(&touch.path, Did::Changed);
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found.dedup_by(|a, b| a.path == b.path);
        Ok(found)
    }

    /// Notes what became of a name, if it was exchanged.
    fn since_exchanged(
        &self,
        (act, moved): (&Act, &HashSet<&[u8]>),
        state: State,
        note: &mut impl FnMut(&[u8], Did),
    ) -> Result<(), Refusal> {
        let look = |path: &[u8]| self.base.look(path).map_err(|why| failed(path, why));
        let (there, waits) = (look(&act.path)?, look(&act.hidden)?);
        let waits = waits.filter(|waits| is(Some(waits), act.old));
        // What was replaced is put away after all exchanges.
        let away = matches!(state, State::Settling | State::Recalling);
        let exchanged = act.old.is_some() && (away || waits.is_some());
        match there {
            Some(there) if act.new.is_some() && is(Some(&there), act.new) => {
                self.written_below((act, moved), (&there, waits.as_ref()), note)
            }
            Some(_) if exchanged && act.new.is_none() => {
                note(&act.path, Did::Made);
                Ok(())
            }
            Some(_) if exchanged => {
                note(&act.path, Did::Changed);
                Ok(())
            }
            None if exchanged && act.new.is_some() => {
                note(&act.path, Did::Removed);
                Ok(())
            }
            // R3
            _ => Ok(()),
        }
    }

    /// Notes what was written of what the commit put in place, or made in it (R2).
    fn written_below(
        &self,
        (act, moved): (&Act, &HashSet<&[u8]>),
        (top, waits): (&Facts, Option<&Facts>),
        note: &mut impl FnMut(&[u8], Did),
    ) -> Result<(), Refusal> {
        let apart = |waits: &Facts| nanoseconds(top.ctime) - nanoseconds(waits.ctime);
        if top.nlink == 1 && !top.is_dir() && waits.is_some_and(|w| apart(w) > ONE_EXCHANGE) {
            note(&act.path, Did::Changed);
            return Ok(());
        }
        let made = act.made();
        let mut todo = vec![act.path.clone()];
        while let Some(path) = todo.pop() {
            let said = |why| failed(&path, why);
            let Some(facts) = self.base.look(&path).map_err(said)? else {
                continue;
            };
            if moved.contains(&path[..]) || split(&path).1.starts_with(b".openpath-") {
                continue;
            }
            let stamp = made.get(&path[..]);
            if path != act.path && stamp.is_none() {
                note(&path, Did::Made);
            } else if facts.is_dir() {
                let names = self.base.names(&path).map_err(said)?;
                todo.extend(names.iter().map(|name| join(&path, name)));
            } else if self.is_written(&path, &facts, stamp.copied().flatten())? {
                note(&path, Did::Changed);
            }
        }
        Ok(())
    }

    /// Whether a file that the commit made was written since, or changed after it was done (R2).
    fn is_written(
        &self,
        path: &[u8],
        facts: &Facts,
        stamp: Option<&Stamp>,
    ) -> Result<bool, Refusal> {
        // A further name of a file that was there: what was written to it stays under the others.
        if self.is_link(&facts.id()) {
            return Ok(false);
        }
        if facts.nlink == 1 && self.journal.done.is_some_and(|done| facts.ctime > done) {
            return Ok(true);
        }
        if let Some(stamp) = stamp {
            return Ok(!self.is_as_made(path, stamp)?);
        }
        // A journal of an older version.
        let came_with = self.source(path)?.map(|source| source.mtime);
        let early = nanoseconds(self.journal.began) - COARSEST;
        let since = early <= nanoseconds(facts.mtime) && facts.mtime <= now();
        Ok(since && came_with != Some(facts.mtime))
    }

    /// Whether a file is as the commit made it; one that is gone is not.
    pub(crate) fn is_as_made(&self, path: &[u8], stamp: &Stamp) -> Result<bool, Refusal> {
        let said = |why| failed(path, why);
        match self.base.hold(path).map_err(said)? {
            Some(held) => stamp.is(&held).map_err(said),
            None => Ok(false),
        }
    }

    /// Notes what others changed of what an interrupted commit has in place (R4).
    ///
    /// # Errors
    /// The real tree cannot be read, or the journal not be written.
    pub(crate) fn note_edited(&mut self, state: State) -> Result<(), Refusal> {
        let found = self.meanwhile(state)?;
        let known: HashSet<&[u8]> = self.journal.edited.iter().map(Vec::as_slice).collect();
        let new = found.iter().map(|conflict| conflict.path.bytes());
        let new = new.filter(|path| !known.contains(path)).map(<[u8]>::to_vec);
        let new: Vec<_> = new.collect();
        if new.is_empty() {
            return Ok(());
        }
        self.journal.edited.extend(new);
        self.place.write(&self.journal)
    }

    /// What the view had at a path, in its place or taken out.
    fn source(&self, path: &[u8]) -> Result<Option<Facts>, Refusal> {
        let said = |why| failed(path, why);
        if let Some(facts) = self.upper.look(path).map_err(said)? {
            return Ok(Some(facts));
        }
        for (number, sweep) in self.journal.sweeps.iter().enumerate() {
            if let Sweep::Take(top) = sweep
                && is_below(path, top)
            {
                let taken = [&kept("view", number), &path[top.len()..]].concat();
                return self.store.look(&taken).map_err(said);
            }
        }
        Ok(None)
    }
}
