// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was replaced, put away out of the real tree, and brought back into it; the two may be in
//! different file systems.
//!
//! # Rules
//! R1. A name is there whole or not at all, on both sides. A copy is made under a further name
//!     (`+`) and gets its own once it is on the disk; what was copied loses its name to another
//!     (`-`) once that is on the disk too, and only then is removed.
//! R2. So who goes on, or back, takes what has the name; what has one of the others is nothing.

use crate::Refusal;
use crate::commit::Phase;
use crate::commit::carry::{Carry, kept};
use crate::commit::copy::copy_tree;
use crate::commit::scan::failed;
use crate::commit::tree::Tree;
use rustix::fs::RenameFlags;
use rustix::io::Errno;

const WHOLE: RenameFlags = RenameFlags::NOREPLACE;

/// Where what was replaced goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// Out of the real tree.
    Away,
    /// Back under its hidden name.
    Back,
}

/// What goes from one name to another.
struct Bundle {
    from: Vec<u8>,
    to: Vec<u8>,
}

impl Bundle {
    /// What is copied, until it is whole.
    fn half(&self) -> Vec<u8> {
        [&self.to[..], b"+"].concat()
    }

    /// What is left of what was copied.
    fn rest(&self) -> Vec<u8> {
        [&self.from[..], b"-"].concat()
    }
}

impl Carry<'_> {
    /// Takes all that was replaced one way; done twice it is done once. `of`: the phase's steps.
    pub(crate) fn put_away(&mut self, way: Way, phase: Phase, of: u64) -> Result<(), Refusal> {
        let acts = self.journal.acts.iter().enumerate();
        let acts = acts.filter(|(_, act)| act.old.is_some());
        let bundles: Vec<Bundle> = acts
            .map(|(number, act)| {
                let (hidden, kept) = (act.hidden.clone(), kept("old", number));
                let (from, to) = match way {
                    Way::Away => (hidden, kept),
                    Way::Back => (kept, hidden),
                };
                Bundle { from, to }
            })
            .collect();
        let mut copied = Vec::new();
        for (done, bundle) in bundles.into_iter().enumerate() {
            self.step(phase, done as u64, of)?;
            if self.bring(way, &bundle)? {
                copied.push((done as u64, bundle));
            }
        }
        if copied.is_empty() {
            return Ok(());
        }
        // R1
        self.sync()?;
        for (done, bundle) in &copied {
            self.step(phase, *done, of)?;
            match self.trees(way).1.rename(&bundle.half(), &bundle.to, WHOLE) {
                // It had its name before.
                Err(Errno::NOENT) => {}
                done => done.map_err(|why| failed(&bundle.to, why))?,
            }
        }
        self.sync()?;
        for (done, bundle) in &copied {
            self.step(phase, *done, of)?;
            self.clear(way, bundle, (phase, *done, of))?;
        }
        Ok(())
    }

    /// Where it comes from, and where it goes.
    fn trees(&self, way: Way) -> (&Tree, &Tree) {
        match way {
            Way::Away => (&self.base, &self.store),
            Way::Back => (&self.store, &self.base),
        }
    }

    /// Renames it, or copies it; whether something is left where it was.
    fn bring(&mut self, way: Way, bundle: &Bundle) -> Result<bool, Refusal> {
        let said = |why| failed(&bundle.from, why);
        let (from, to) = match way {
            Way::Away => (&self.base, &self.store),
            Way::Back => (&self.store, &self.base),
        };
        // What was left there on the other way.
        to.remove(&[&bundle.to[..], b"-"].concat()).map_err(said)?;
        if from.look(&bundle.from).map_err(said)?.is_none() {
            return Ok(from.look(&bundle.rest()).map_err(said)?.is_some());
        }
        if to.look(&bundle.to).map_err(said)?.is_some() {
            return Ok(true);
        }
        match from.rename_to(&bundle.from, to, &bundle.to, WHOLE) {
            Err(Errno::XDEV | Errno::ACCESS | Errno::PERM) => {
                let half = bundle.half();
                to.remove(&half).map_err(said)?;
                let watch = &mut *self.watch;
                let source = (from, &bundle.from[..]);
                copy_tree(source, (to, &half), &mut |bytes| watch.copied(bytes))?;
                Ok(true)
            }
            done => done.map(|()| false).map_err(said),
        }
    }

    /// Removes what was copied.
    fn clear(
        &mut self,
        way: Way,
        bundle: &Bundle,
        (phase, done, of): (Phase, u64, u64),
    ) -> Result<(), Refusal> {
        let said = |why| failed(&bundle.from, why);
        let from = match way {
            Way::Away => &self.base,
            Way::Back => &self.store,
        };
        let rest = bundle.rest();
        match from.rename(&bundle.from, &rest, WHOLE) {
            // It lost its name before.
            Err(Errno::NOENT) => {}
            done => done.map_err(said)?,
        }
        let watch = &mut *self.watch;
        let removed = from.remove_while(&rest, &mut || watch.step(phase, done, of));
        self.stopped |= removed == Err(Errno::CANCELED);
        removed.map_err(said)
    }
}
