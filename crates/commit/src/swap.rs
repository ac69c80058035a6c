// SPDX-License-Identifier: MIT OR Apache-2.0
//! One name of the real tree, exchanged for what was made for it, and put back.
//!
//! # Rules
//! R1. Each can be called again after an interruption: inodes tell what is done.
//! R2. Both names are held before they are exchanged, must be the inodes that the journal has, and
//!     are compared again afterwards (`rename`).

use crate::facts::Id;
use crate::held::Held;
use crate::journal::Act;
use crate::rename::{self, Name};
use rustix::fs::AtFlags;
use rustix::io::{Errno, Result};

/// The names that an act works on.
pub(crate) struct Names<'a> {
    /// The name that comes to stand for something else.
    pub(crate) name: Name<'a>,
    /// The hidden name beside it.
    pub(crate) hidden: Name<'a>,
    /// A further one, for file systems that cannot exchange two names.
    pub(crate) aside: Name<'a>,
}

fn open(name: Name<'_>) -> Result<Option<Held>> {
    Held::open(name.0, name.1)
}

fn is(held: Option<&Held>, id: Option<Id>) -> bool {
    held.zip(id).is_some_and(|(held, id)| held.id().is(&id))
}

impl Names<'_> {
    /// Has the name stand for what is new, and the hidden one for what was there.
    ///
    /// # Errors
    /// `ESTALE`: a name leads to another inode. What the file system says.
    pub(crate) fn forth(&self, act: &Act) -> Result<()> {
        let (there, mut waits) = (open(self.name)?, open(self.hidden)?);
        if act.new.is_some() && is(there.as_ref(), act.new) {
            if is(waits.as_ref(), act.new) && !waits.is_some_and(|waits| waits.facts.is_dir()) {
                // A rename that was interrupted between a link and an unlink.
                rustix::fs::unlinkat(self.hidden.0, self.hidden.1, AtFlags::empty())?;
            }
            waits = open(self.hidden)?;
            if waits.is_none()
                && let Some(aside) = open(self.aside)?.filter(|aside| is(Some(aside), act.old))
            {
                rename::held(self.aside, self.hidden, &aside)?;
            }
            return Ok(());
        }
        match (act.new, act.old) {
            (None, _) if there.is_none() => Ok(()),
            (None, Some(_)) if is(there.as_ref(), act.old) => {
                let there = there.ok_or(Errno::STALE)?;
                rename::held(self.name, self.hidden, &there)
            }
            (Some(_), _) if is(waits.as_ref(), act.new) => {
                let waits = waits.ok_or(Errno::STALE)?;
                match there {
                    Some(there) if is(Some(&there), act.old) => self.exchange(&there, &waits),
                    None if act.old.is_none() => rename::held(self.hidden, self.name, &waits),
                    // Where exchanging was given up in the middle.
                    None => {
                        let aside = open(self.aside)?.filter(|aside| is(Some(aside), act.old));
                        let aside = aside.ok_or(Errno::STALE)?;
                        rename::held(self.hidden, self.name, &waits)?;
                        rename::held(self.aside, self.hidden, &aside)
                    }
                    Some(_) => Err(Errno::STALE),
                }
            }
            _ => Err(Errno::STALE),
        }
    }

    /// Exchanges both; a file system that cannot has no such name for a moment.
    fn exchange(&self, there: &Held, waits: &Held) -> Result<()> {
        match rename::exchange(self.name, self.hidden, (there, waits)) {
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                rename::held(self.name, self.aside, there)?;
                rename::held(self.hidden, self.name, waits)?;
                rename::held(self.aside, self.hidden, there)
            }
            done => done,
        }
    }

    /// Has the name stand for what it stood for before; which inode was there, if it was exchanged
    /// now.
    ///
    /// # Errors
    /// `ESTALE`: what was kept is not there, or a name leads to another inode. What the file
    /// system says.
    pub(crate) fn back(&self, act: &Act) -> Result<Option<Id>> {
        if let Some(aside) = open(self.aside)?.filter(|aside| is(Some(aside), act.old)) {
            // Where exchanging was given up in the middle.
            if act.new.is_some()
                && open(self.hidden)?.is_none()
                && let Some(there) = open(self.name)?
            {
                rename::held(self.name, self.hidden, &there)?;
            }
            rename::held(self.aside, self.name, &aside)?;
            return Ok(None);
        }
        let (there, waits) = (open(self.name)?, open(self.hidden)?);
        match (there, waits) {
            (Some(there), Some(waits)) if is(Some(&waits), act.old) => {
                let id = there.id();
                if there.same(&waits)? {
                    // A rename that was interrupted between a link and an unlink.
                    rustix::fs::unlinkat(self.hidden.0, self.hidden.1, AtFlags::empty())?;
                    return Ok(None);
                }
                match rename::exchange(self.name, self.hidden, (&there, &waits)) {
                    Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                        rename::held(self.hidden, self.aside, &waits)?;
                        rename::held(self.name, self.hidden, &there)?;
                        rename::held(self.aside, self.name, &waits)?;
                    }
                    done => done?,
                }
                Ok(Some(id))
            }
            (None, Some(waits)) if is(Some(&waits), act.old) => {
                rename::held(self.hidden, self.name, &waits).map(|()| None)
            }
            (Some(there), None) if act.old.is_none() && is(Some(&there), act.new) => {
                rename::held(self.name, self.hidden, &there).map(|()| None)
            }
            // It was put back before; what waits now is what was made.
            (there, _) if is(there.as_ref(), act.old) => Ok(None),
            (_, Some(waits)) if act.old.is_some() && !is(Some(&waits), act.new) => {
                Err(Errno::STALE)
            }
            _ => Ok(None),
        }
    }
}
