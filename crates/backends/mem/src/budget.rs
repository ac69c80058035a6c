// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements a budget: a quantity with a limit, such as blocks, of which amounts are taken and
//! given back.

use openpath_abi::Errno;
use openpath_sync::BoundedCounter;

/// A quantity with a limit.
pub(crate) struct Budget {
    /// 0: no limit, and nothing is counted.
    limit: u64,
    used: BoundedCounter<1>,
}

impl Budget {
    /// A budget with nothing taken; a limit of 0 means none.
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            used: BoundedCounter::new([limit]),
        }
    }

    /// Takes `amount`.
    ///
    /// # Errors
    /// `ENOSPC` if less is left.
    pub(crate) fn take(&self, amount: u64) -> Result<(), Errno> {
        if self.limit == 0 || self.used.take(0, amount) {
            Ok(())
        } else {
            Err(Errno::ENOSPC)
        }
    }

    /// The most that can ever be taken.
    pub(crate) fn most(&self) -> u64 {
        if self.limit == 0 {
            u64::MAX
        } else {
            self.limit
        }
    }

    /// Gives back an amount that was taken.
    pub(crate) fn give(&self, amount: u64) {
        if self.limit != 0 {
            self.used.give(0, amount);
        }
    }

    /// What is left; without a limit, the largest number.
    pub(crate) fn left(&self) -> u64 {
        if self.limit == 0 {
            u64::MAX
        } else {
            self.limit - self.used.used(0)
        }
    }

    /// The limit and what is left of it; both 0 without a limit.
    pub(crate) fn limit_and_left(&self) -> (u64, u64) {
        (self.limit, self.left().min(self.limit))
    }
}
