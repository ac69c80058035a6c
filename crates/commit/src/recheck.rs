// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a commit changes, looked at again right before.
//!
//! # Rules
//! R1. Everything is looked at before the first name is exchanged, and each name again before its
//!     own turn. What differs is left, and told.

use crate::carry::Carry;
use crate::journal::Act;
use crate::messages::{changed, failed};
use crate::refusal::Refusal;
use crate::seen::Seen;
use std::collections::HashSet;

impl Carry<'_> {
    /// Refuses if anything is not as it was planned for, no name being exchanged yet (R1).
    pub(crate) fn look_again(&self) -> Result<(), Refusal> {
        for moved in &self.journal.moves {
            let there = self.base.id(&moved.from);
            let there = there.map_err(|why| failed(&moved.from, why))?;
            if !there.is_some_and(|there| there.is(&moved.id)) {
                return Err(changed(&moved.from));
            }
        }
        for act in self.journal.acts.iter().filter(|act| !act.items.is_empty()) {
            let staged = self.base.id(&act.before);
            let staged = staged.map_err(|why| failed(&act.before, why))?;
            if !staged
                .zip(act.new)
                .is_some_and(|(staged, new)| staged.is(&new))
            {
                return Err(changed(&act.path));
            }
        }
        let moves = self.journal.moves.iter();
        let moves: HashSet<&[u8]> = moves.map(|moved| &moved.from[..]).collect();
        let leaves = |path: &[u8]| moves.contains(path);
        for act in &self.journal.acts {
            if let Some((place, seen)) = &act.seen
                && Seen::look(&self.base, place, &leaves)? != *seen
            {
                return Err(changed(place));
            }
        }
        for touch in &self.journal.touches {
            let (place, before) = (&touch.place, &touch.before);
            let said = |why| failed(place, why);
            let there = self.base.hold(place).map_err(said)?;
            let there = there.filter(|there| there.id().is(&touch.id));
            let there = there.ok_or_else(|| changed(place))?;
            let mut now = there.attributes().map_err(said)?;
            self.as_closed(&touch.id, &mut now, before.mode);
            let written = !there.facts.is_dir() && now.mtime != before.mtime;
            if written || !now.same(before) {
                return Err(changed(place));
            }
        }
        Ok(())
    }

    /// Refuses if what has a name is not as it was planned for, though it is the same (R1).
    pub(crate) fn look_at(&self, act: &Act) -> Result<(), Refusal> {
        let there = self.base.id(&act.path);
        let there = there.map_err(|why| failed(&act.path, why))?;
        if !there
            .zip(act.old)
            .is_some_and(|(there, old)| there.is(&old))
        {
            // It is exchanged already, or that finds out.
            return Ok(());
        }
        let Some((place, seen)) = &act.seen else {
            return Ok(());
        };
        // What leaves has left.
        let now = Seen::look(&self.base, &act.path, &|_| false)?;
        if now.is_same_but_for_shared(seen) {
            Ok(())
        } else {
            Err(changed(place))
        }
    }
}
