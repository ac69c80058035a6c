// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds readers that stay in one read section for long: it scans their slots twice, and the
//! readers need no clock.
//!
//! A scan advances the epoch, so a section that begins later carries another number. A slot with
//! the same number in two scans is therefore still in the section that the first scan saw.

use super::reader::{Observation, READERS};
use std::borrow::Cow;
use std::time::{Duration, Instant};

/// A reader that has been in one section for some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stalled {
    /// The name it was registered with.
    pub name: Cow<'static, str>,
    /// When a scan first saw it in this section; it entered before.
    pub since: Instant,
}

/// Scans all readers, and calls `each` for those seen in the same section before.
fn scan(mut each: impl FnMut(&Cow<'static, str>, Instant, Instant)) {
    // If the fence is refused this is a guess, and only a report depends on it.
    let _fenced = READERS.begin_grace();
    let now = Instant::now();
    for slot in READERS.slots() {
        let entered = slot.entered();
        let mut diagnostics = slot.diagnostics.lock();
        match &diagnostics.seen {
            Some(seen) if entered != 0 && seen.entered == entered => {
                each(&diagnostics.name, seen.at, now)
            }
            _ => diagnostics.seen = (entered != 0).then_some(Observation { entered, at: now }),
        }
    }
}

/// Records which readers are in a section now, for a later [`stalled`].
pub(super) fn record() {
    scan(|_, _, _| ());
}

/// Readers known to have been in one section for longer than `older_than`.
///
/// Each call scans once, and a section counts from the first scan that saw it. So call this
/// regularly. Costs one heavy fence and a read of every slot.
///
/// Linux: the RCU CPU stall detector.
pub fn stalled(older_than: Duration) -> Vec<Stalled> {
    let mut found = Vec::new();
    scan(|name, since, now| {
        if now.duration_since(since) >= older_than {
            found.push(Stalled {
                name: name.clone(),
                since,
            });
        }
    });
    found
}
