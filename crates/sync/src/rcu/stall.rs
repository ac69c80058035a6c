// SPDX-License-Identifier: MIT OR Apache-2.0
//! Naming the readers that sit in one section, without a clock on the readers' side.
//!
//! A look advances the epoch, so a section that begins later carries another number: a slot with
//! the same number at two looks is in the section it was in at the first.

use super::reader::{READERS, Sighting};
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// A reader that has been in one section for some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stalled {
    /// The name it was registered with.
    pub name: Cow<'static, str>,
    /// When it was first seen in this section; it entered before.
    pub since: Instant,
}

/// Looks at all readers, and calls `each` with those seen in the same section before, and when.
fn look(mut each: impl FnMut(&Cow<'static, str>, Instant, Instant)) {
    // A refused fence makes this a guess, and only a report hangs on it.
    let _fenced = READERS.begin_grace();
    let now = Instant::now();
    for slot in READERS.slots() {
        let entered = slot.entered();
        let mut cold = slot.cold.lock();
        match &cold.seen {
            Some(seen) if entered != 0 && seen.entered == entered => each(&cold.name, seen.at, now),
            _ => cold.seen = (entered != 0).then_some(Sighting { entered, at: now }),
        }
    }
}

/// Remembers who is in a section now, for a later [`stalled`].
pub(super) fn sample() {
    look(|_, _, _| ());
}

/// Readers known to have been in one section for longer than `older_than`.
///
/// Each call looks once; a section counts from the first look that met it, so call this from time
/// to time. Costs one heavy fence and a look at every slot.
///
/// Linux: the RCU CPU stall detector.
pub fn stalled(older_than: Duration) -> Vec<Stalled> {
    let mut found = Vec::new();
    look(|name, since, now| {
        if now.duration_since(since) >= older_than {
            found.push(Stalled {
                name: name.clone(),
                since,
            });
        }
    });
    found
}
