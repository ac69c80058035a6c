// SPDX-License-Identifier: MIT OR Apache-2.0
//! Records when a name was first taken from the lower trees, for later comparison of the upper tree
//! with them.
//!
//! # Rules
//! R1. A name was taken when its entry in the upper tree was born. An entry that replaces it is
//!     younger, so the time is handed over: as the mark `taken`, or as the modification time of a
//!     whiteout.
//! R2. A whiteout, new or moved to another name, gets the time of the name. A file or a directory
//!     keeps its own time if that is earlier.
//!
//! # Limits
//! * An entry that cannot have the mark, such as a symbolic link in an ordinary user's tree, counts
//!   from its own birth.

use crate::fs::Fs;
use crate::layer::with_lock;
use crate::marks::TAKEN;
use crate::whiteout::is_whiteout;
use openpath_abi::{Errno, Timespec};
use openpath_vfs::{Inode, SetAttr};

impl Fs {
    /// When the name of an entry of the upper tree was taken; `None` if the overlay does not record
    /// it.
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn taken_at(&self, entry: &Inode) -> Result<Option<Timespec>, Errno> {
        if !self.options.records_taken {
            return Ok(None);
        }
        let noted = match is_whiteout(entry) {
            true => Some(entry.attr().mtime),
            false => self
                .options
                .marks
                .get(entry, TAKEN)?
                .and_then(|mark| parse(&mark)),
        };
        let born = entry.btime();
        Ok(Some(noted.map_or(born, |noted| noted.min(born))))
    }

    /// Gives an entry of the upper tree the time of its name, or of the name that it will have
    /// (R2).
    ///
    /// # Errors
    /// Those of the upper tree.
    pub(crate) fn record_taken(
        &self,
        entry: &Inode,
        taken: Option<Timespec>,
        now: Timespec,
    ) -> Result<(), Errno> {
        let Some(taken) = taken else {
            return Ok(());
        };
        if is_whiteout(entry) {
            let time = SetAttr {
                mtime: Some(taken),
                ctime: Some(now),
                ..SetAttr::default()
            };
            return with_lock(entry, |ops| ops.setattr(entry, &time));
        }
        if self.taken_at(entry)?.is_none_or(|own| own <= taken) {
            return Ok(());
        }
        let value = format!("{}.{:09}", taken.sec, taken.nsec);
        match self.options.marks.set(entry, TAKEN, value.as_bytes(), now) {
            Err(Errno::EPERM | Errno::EOPNOTSUPP) => Ok(()),
            done => done,
        }
    }
}

fn parse(mark: &[u8]) -> Option<Timespec> {
    let (sec, nsec) = std::str::from_utf8(mark).ok()?.split_once('.')?;
    Some(Timespec {
        sec: sec.parse().ok()?,
        nsec: nsec.parse().ok().filter(|nsec| *nsec < 1_000_000_000)?,
    })
}
