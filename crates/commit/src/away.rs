// SPDX-License-Identifier: MIT OR Apache-2.0
//! What was replaced, put away out of the real tree, and brought back into it; the two may be in
//! different file systems.
//!
//! # Rules
//! R1. A name is there whole or not at all, on both sides. A copy is made under a further name
//!     (`+`) and gets its own once it is on the disk; what was copied loses its name to another
//!     (`-`) once that is on the disk too, and only then is removed.
//! R2. So a commit that goes on, or back, takes what has the name; what has one of the others is
//!     nothing.
//! R3. Another user may be able to write in the real tree. What is taken from there must be what
//!     the journal has as old. A copy that is made there is known by its inode before it lets
//!     anybody in.

use crate::carry::{Carry, kept};
use crate::copy::copy_tree;
use crate::facts::Id;
use crate::held::Held;
use crate::messages::{changed, failed};
use crate::names::{join, names_in};
use crate::phase::Phase;
use crate::refusal::Refusal;
use crate::rename::{self, said};
use crate::tree::Tree;
use rustix::fd::AsFd as _;
use rustix::io::Errno;

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
    /// The number of its act.
    act: usize,
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
                Bundle {
                    act: number,
                    from,
                    to,
                }
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
        // R3
        self.place.write(&self.journal)?;
        for (_, bundle) in &copied {
            self.open_half(way, bundle)?;
        }
        // R1
        self.sync()?;
        for (done, bundle) in &copied {
            self.step(phase, *done, of)?;
            self.whole(way, bundle)?;
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

    /// What the real tree may have of an act that was replaced.
    fn olds(&self, bundle: &Bundle) -> [Option<Id>; 2] {
        let act = &self.journal.acts[bundle.act];
        [act.old, act.copy]
    }

    fn is_old(&self, held: &Held, bundle: &Bundle) -> bool {
        let id = held.id();
        self.olds(bundle).iter().flatten().any(|old| old.is(&id))
    }

    /// Renames it, or copies it; whether something is left where it was.
    fn bring(&mut self, way: Way, bundle: &Bundle) -> Result<bool, Refusal> {
        let fail = |why| said(&bundle.from, why);
        let (from, to) = self.trees(way);
        // What was left there on the other way.
        let left = [&bundle.to[..], b"-"].concat();
        match way {
            Way::Away => to.remove(&left).map_err(fail)?,
            Way::Back => self.remove_staged(&left, &self.olds(bundle))?,
        }
        let Some(held) = from.hold(&bundle.from).map_err(fail)? else {
            return Ok(from.look(&bundle.rest()).map_err(fail)?.is_some());
        };
        if way == Way::Away && !self.is_old(&held, bundle) {
            return Err(changed(&bundle.from));
        }
        if let Some(there) = to.hold(&bundle.to).map_err(fail)? {
            if way == Way::Back && !self.is_old(&there, bundle) {
                return Err(changed(&bundle.to));
            }
            return Ok(true);
        }
        let (old, new) = (from.spot(&bundle.from), to.spot(&bundle.to));
        let ((old_dir, old), (new_dir, new)) = (old.map_err(fail)?, new.map_err(fail)?);
        let done = rename::held((old_dir.as_fd(), old), (new_dir.as_fd(), new), &held);
        from.forget();
        to.forget();
        match done {
            Err(Errno::XDEV | Errno::ACCESS | Errno::PERM) => {}
            done => return done.map(|()| false).map_err(fail),
        }
        let half = bundle.half();
        let there = to.hold(&half).map_err(fail)?;
        if way == Way::Back && there.is_some_and(|there| self.is_old(&there, bundle)) {
            // It was copied whole before an interruption.
            return Ok(true);
        }
        match way {
            Way::Away => to.remove(&half).map_err(fail)?,
            Way::Back => self.remove_staged(&half, &[self.journal.acts[bundle.act].copy])?,
        }
        let (_, to) = match way {
            Way::Away => (&self.base, &self.store),
            Way::Back => (&self.store, &self.base),
        };
        let (dir, name) = to.spot(&half).map_err(fail)?;
        let watch = &mut *self.watch;
        let heard = &mut |bytes| watch.copied(bytes);
        let made = copy_tree(held, (dir.as_fd(), name), &bundle.from, heard)?;
        if way == Way::Back {
            self.journal.acts[bundle.act].copy = Some(made);
        }
        Ok(true)
    }

    /// Gives the topmost directory of a copy its attributes, which may let others in (R3).
    fn open_half(&self, way: Way, bundle: &Bundle) -> Result<(), Refusal> {
        let fail = |why| said(&bundle.from, why);
        let (from, to) = self.trees(way);
        let source = from.hold(&bundle.from).map_err(fail)?;
        let half = to.hold(&bundle.half()).map_err(fail)?;
        let (Some(source), Some(half)) = (source, half) else {
            return Ok(());
        };
        if !half.facts.is_dir() || !source.facts.is_dir() {
            return Ok(());
        }
        if way == Way::Back && !self.is_old(&half, bundle) {
            return Err(changed(&bundle.half()));
        }
        let attributes = source.attributes().map_err(fail)?;
        half.dress(&attributes, None, false).map_err(fail)
    }

    /// Gives a copy its own name.
    fn whole(&self, way: Way, bundle: &Bundle) -> Result<(), Refusal> {
        let fail = |why| said(&bundle.to, why);
        let (_, to) = self.trees(way);
        let Some(half) = to.hold(&bundle.half()).map_err(fail)? else {
            // It had its name before.
            return Ok(());
        };
        if way == Way::Back && !self.is_old(&half, bundle) {
            return Err(changed(&bundle.half()));
        }
        let (from, path) = (bundle.half(), &bundle.to);
        let (old, new) = (to.spot(&from), to.spot(path));
        let ((old_dir, old), (new_dir, new)) = (old.map_err(fail)?, new.map_err(fail)?);
        let done = rename::held((old_dir.as_fd(), old), (new_dir.as_fd(), new), &half);
        to.forget();
        done.map_err(fail)
    }

    /// Removes what was copied.
    fn clear(
        &mut self,
        way: Way,
        bundle: &Bundle,
        (phase, done, of): (Phase, u64, u64),
    ) -> Result<(), Refusal> {
        let fail = |why| said(&bundle.from, why);
        let (from, _) = self.trees(way);
        let rest = bundle.rest();
        if let Some(held) = from.hold(&bundle.from).map_err(fail)? {
            if way == Way::Away && !self.is_old(&held, bundle) {
                return Err(changed(&bundle.from));
            }
            let (old, new) = (from.spot(&bundle.from), from.spot(&rest));
            let ((old_dir, old), (new_dir, new)) = (old.map_err(fail)?, new.map_err(fail)?);
            let done = rename::held((old_dir.as_fd(), old), (new_dir.as_fd(), new), &held);
            from.forget();
            done.map_err(fail)?;
        }
        let Some(held) = from.hold(&rest).map_err(fail)? else {
            return Ok(());
        };
        if way == Way::Away && held.facts.is_dir() && !self.is_old(&held, bundle) {
            return Err(changed(&rest));
        }
        // What is in the directory that is held, and then its name.
        let from = match way {
            Way::Away => &self.base,
            Way::Back => &self.store,
        };
        let watch = &mut *self.watch;
        let mut goes_on = || watch.step(phase, done, of);
        let removed = remove_held(from, &rest, held, &mut goes_on);
        self.stopped |= removed == Err(Errno::CANCELED);
        removed.map_err(|why| failed(&bundle.from, why))
    }
}

/// Removes what is held, with all that is in it, and its name.
fn remove_held(
    tree: &Tree,
    path: &[u8],
    held: Held,
    goes_on: &mut dyn FnMut() -> bool,
) -> rustix::io::Result<()> {
    let (dir, name) = tree.spot(path)?;
    let is_dir = held.facts.is_dir();
    if is_dir {
        if held.facts.mode & 0o700 != 0o700 {
            // What follows says whether that matters.
            let _if_it_may = held.chmod(held.facts.mode | 0o700);
        }
        let names = names_in(held.fd())?;
        let within = Tree::at(held.into_fd());
        for name in names {
            within.remove_while(&join(b"", &name), goes_on)?;
        }
    }
    tree.forget();
    if !goes_on() {
        return Err(Errno::CANCELED);
    }
    let flags = match is_dir {
        true => rustix::fs::AtFlags::REMOVEDIR,
        false => rustix::fs::AtFlags::empty(),
    };
    rustix::fs::unlinkat(&*dir, name, flags)
}
