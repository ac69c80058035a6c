// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits how many opens wait at a time for leases of other processes, in all trees that share the
//! limit.
//!
//! Such an open waits in the thread that serves the call, for up to `lease-break-time` (45 s). A
//! program with few threads would otherwise stand still once another user holds as many leases.

use openpath_sync::Word;
use std::sync::Arc;

/// How many opens may wait for leases at a time, over all trees that share this; by default any
/// number. An open beyond it fails with `EAGAIN`.
///
/// ```
/// use openpath_host::{HostOptions, LeaseWaits};
///
/// // One thread of four stays free.
/// let waits = LeaseWaits::at_most(3);
/// let options = HostOptions::default().lease_waits(waits.clone());
/// # drop(options);
/// ```
#[derive(Clone, Debug, Default)]
pub struct LeaseWaits(Option<Arc<Slots>>);

#[derive(Debug)]
struct Slots {
    max: u64,
    used: Word,
}

/// An open that waits.
pub(crate) struct LeaseWait<'a>(Option<&'a Slots>);

impl LeaseWaits {
    /// At most `max` opens.
    #[must_use]
    pub fn at_most(max: usize) -> Self {
        let max = u64::try_from(max).unwrap_or(u64::MAX);
        let used = Word::new(0);
        Self(Some(Arc::new(Slots { max, used })))
    }

    /// Begins a wait, unless there are as many as may be.
    pub(crate) fn begin(&self) -> Option<LeaseWait<'_>> {
        let Some(slots) = self.0.as_deref() else {
            return Some(LeaseWait(None));
        };
        loop {
            let used = slots.used.get();
            if used >= slots.max {
                return None;
            }
            if slots.used.swap_if(used, used + 1) {
                return Some(LeaseWait(Some(slots)));
            }
        }
    }
}

impl Drop for LeaseWait<'_> {
    fn drop(&mut self) {
        if let Some(slots) = self.0 {
            slots.used.sub(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LeaseWaits;

    #[test]
    fn no_more_opens_wait_than_may() {
        let waits = LeaseWaits::at_most(2);
        let shared = waits.clone();
        let first = waits.begin();
        let second = shared.begin();
        assert!(first.is_some() && second.is_some());
        assert!(waits.begin().is_none());
        drop(first);
        assert!(shared.begin().is_some());
        assert!(LeaseWaits::default().begin().is_some());
    }
}
