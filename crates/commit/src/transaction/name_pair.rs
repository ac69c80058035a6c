// SPDX-License-Identifier: MIT OR Apache-2.0
//! Does one step of a commit: puts a new file in place of an old one, and takes it back.
//!
//! The new file was made before in the same directory, under a temporary name of the commit's own,
//! the hidden name. [`NamePair::install`] exchanges the two names, so the hidden name then keeps
//! the old file; [`NamePair::restore`] exchanges them again. Without a new or an old file it is a
//! plain rename.
//!
//! # Rules
//! R1. Each call can be repeated after an interruption: inodes show what is done.
//! R2. The files of both names are held before the exchange, must be the inodes of the journal, and
//!     are compared again afterwards (`rename`).

use crate::attributes::file_stat::{InodeId, are_one};
use crate::host::held_file::HeldFile;
use crate::host::rename::{self, Name};
use crate::journal::Replace;
use rustix::fs::AtFlags;
use rustix::io::{Errno, Result};

/// The names of a replacement.
pub(crate) struct NamePair<'a> {
    /// The name that gets the new file.
    pub(crate) name: Name<'a>,
    /// The hidden name beside it.
    pub(crate) hidden: Name<'a>,
    /// A further one, for file systems that cannot exchange two names.
    pub(crate) aside: Name<'a>,
}

fn open(name: Name<'_>) -> Result<Option<HeldFile>> {
    HeldFile::open(name.0, name.1)
}

fn has_id(held: Option<&HeldFile>, id: Option<InodeId>) -> bool {
    are_one(held.map(HeldFile::id), id)
}

impl NamePair<'_> {
    /// Gives the name the new file, and the hidden name the old one.
    ///
    /// # Errors
    /// `ESTALE`: a name leads to another inode. What the file system says.
    pub(crate) fn install(&self, replace: &Replace) -> Result<()> {
        let (there, mut waits) = (open(self.name)?, open(self.hidden)?);
        if replace.new.is_some() && has_id(there.as_ref(), replace.new) {
            if has_id(waits.as_ref(), replace.new)
                && !waits.is_some_and(|waits| waits.stat.is_dir())
            {
                // A rename that was interrupted between a link and an unlink.
                rustix::fs::unlinkat(self.hidden.0, self.hidden.1, AtFlags::empty())?;
            }
            waits = open(self.hidden)?;
            if waits.is_none()
                && let Some(aside) =
                    open(self.aside)?.filter(|aside| has_id(Some(aside), replace.old))
            {
                rename::checked(self.aside, self.hidden, &aside)?;
            }
            return Ok(());
        }
        match (replace.new, replace.old) {
            (None, _) if there.is_none() => Ok(()),
            (None, Some(_)) if has_id(there.as_ref(), replace.old) => {
                let there = there.ok_or(Errno::STALE)?;
                rename::checked(self.name, self.hidden, &there)
            }
            (Some(_), _) if has_id(waits.as_ref(), replace.new) => {
                let waits = waits.ok_or(Errno::STALE)?;
                match there {
                    Some(there) if has_id(Some(&there), replace.old) => {
                        self.exchange(&there, &waits)
                    }
                    None if replace.old.is_none() => {
                        rename::checked(self.hidden, self.name, &waits)
                    }
                    // Interrupted in the middle of an exchange by renames.
                    None => {
                        let aside =
                            open(self.aside)?.filter(|aside| has_id(Some(aside), replace.old));
                        let aside = aside.ok_or(Errno::STALE)?;
                        rename::checked(self.hidden, self.name, &waits)?;
                        rename::checked(self.aside, self.hidden, &aside)
                    }
                    Some(_) => Err(Errno::STALE),
                }
            }
            _ => Err(Errno::STALE),
        }
    }

    /// Exchanges both; on a file system that cannot, the name is missing for a moment.
    fn exchange(&self, there: &HeldFile, waits: &HeldFile) -> Result<()> {
        match rename::exchange(self.name, self.hidden, (there, waits)) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rename::checked(self.name, self.aside, there)?;
                rename::checked(self.hidden, self.name, waits)?;
                rename::checked(self.aside, self.hidden, there)
            }
            done => done,
        }
    }

    /// Whether the name leads to the new file, which an undo must have taken from it.
    pub(crate) fn has_new(&self, replace: &Replace) -> Result<bool> {
        Ok(replace.new != replace.old && has_id(open(self.name)?.as_ref(), replace.new))
    }

    /// Gives the name its old file again; returns the inode that it had, if it was exchanged now.
    ///
    /// # Errors
    /// `ESTALE`: the backup is missing, or a name leads to another inode. Errors of the file
    /// system.
    pub(crate) fn restore(&self, replace: &Replace) -> Result<Option<InodeId>> {
        if let Some(aside) = open(self.aside)?.filter(|aside| has_id(Some(aside), replace.old)) {
            // Interrupted in the middle of an exchange by renames.
            if replace.new.is_some()
                && open(self.hidden)?.is_none()
                && let Some(there) = open(self.name)?
            {
                rename::checked(self.name, self.hidden, &there)?;
            }
            rename::checked(self.aside, self.name, &aside)?;
            return Ok(None);
        }
        let (there, waits) = (open(self.name)?, open(self.hidden)?);
        match (there, waits) {
            (Some(there), Some(waits)) if has_id(Some(&waits), replace.old) => {
                let id = there.id();
                if there.is_same_inode(&waits)? {
                    // A rename that was interrupted between a link and an unlink.
                    rustix::fs::unlinkat(self.hidden.0, self.hidden.1, AtFlags::empty())?;
                    return Ok(None);
                }
                match rename::exchange(self.name, self.hidden, (&there, &waits)) {
                    Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                        rename::checked(self.hidden, self.aside, &waits)?;
                        rename::checked(self.name, self.hidden, &there)?;
                        rename::checked(self.aside, self.name, &waits)?;
                    }
                    done => done?,
                }
                Ok(Some(id))
            }
            (None, Some(waits)) if has_id(Some(&waits), replace.old) => {
                rename::checked(self.hidden, self.name, &waits).map(|()| None)
            }
            (Some(there), None) if replace.old.is_none() && has_id(Some(&there), replace.new) => {
                rename::checked(self.name, self.hidden, &there).map(|()| None)
            }
            // It was restored before; the new file waits now.
            (there, _) if has_id(there.as_ref(), replace.old) => Ok(None),
            (_, Some(waits)) if replace.old.is_some() && !has_id(Some(&waits), replace.new) => {
                Err(Errno::STALE)
            }
            _ => Ok(None),
        }
    }
}
