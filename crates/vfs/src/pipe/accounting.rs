// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts and limits the pages that the pipes of each user, and of the `Vfs`, may hold.
//!
//! # Kernel analogue
//! `user_struct.pipe_bufs`, `account_pipe_buffers`; `fs.pipe-user-pages-soft`,
//! `fs.pipe-user-pages-hard`.
//!
//! # Rules
//! R1. The count is of capacity, taken when a pipe is made or resized; writes are not checked.
//! R2. The soft limit makes new pipes small, and both stop a user without `CAP_SYS_RESOURCE` and
//!     `CAP_SYS_ADMIN`; the limit of the `Vfs` stops everyone.

use super::{SLOTS, SLOTS_MIN};
use crate::config::Limits;
use crate::cred::Cred;
use crate::lock_order::PipePages;
use openpath_abi::{Errno, caps};
use openpath_sync::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Pages by user, and in all.
#[derive(Default)]
struct Pages {
    users: HashMap<u32, u64>,
    all: u64,
}

/// The capacities of all pipes of a `Vfs`.
#[derive(Default)]
pub(crate) struct PipeAccounting(Mutex<Pages, PipePages>);

/// A pipe's capacity in slots, counted for a user until it is dropped.
pub(crate) struct PipeCharge {
    accounting: Arc<PipeAccounting>,
    user: u32,
    slots: u32,
}

/// Whether the limits of users do not apply to these credentials (`pipe_is_unprivileged_user`).
fn is_privileged(cred: &Cred) -> bool {
    cred.capable(caps::CAP_SYS_RESOURCE) || cred.capable(caps::CAP_SYS_ADMIN)
}

/// Whether `pages` exceed one of the limits; 0 is none.
fn is_over(limit: u32, pages: u64) -> bool {
    limit != 0 && pages > u64::from(limit)
}

impl Pages {
    /// Counts `new` slots in place of `old`; the user's pages then.
    ///
    /// # Errors
    /// `ENOMEM`: more than the `Vfs` may have.
    fn change(&mut self, user: u32, old: u32, new: u32, limits: &Limits) -> Result<u64, Errno> {
        let all = self.all - u64::from(old) + u64::from(new);
        if new > old && all > limits.pipe_pages_max {
            return Err(Errno::ENOMEM);
        }
        self.all = all;
        let pages = self.users.entry(user).or_default();
        *pages = *pages - u64::from(old) + u64::from(new);
        let pages = *pages;
        if pages == 0 {
            self.users.remove(&user);
        }
        Ok(pages)
    }

    /// Counts slots off again.
    fn end(&mut self, user: u32, slots: u32) {
        // A decrease is never refused.
        let _left = self.change(user, slots, 0, &Limits::default());
    }
}

impl PipeAccounting {
    /// The capacity of a new pipe (`alloc_pipe_info`).
    ///
    /// # Errors
    /// `ENOMEM`: the user or the `Vfs` has as much as allowed.
    pub(crate) fn share(
        self: &Arc<Self>,
        cred: &Cred,
        limits: &Limits,
    ) -> Result<PipeCharge, Errno> {
        let bound = cred.capable(caps::CAP_SYS_RESOURCE);
        let most = (limits.pipe_max_size >> 12).max(1);
        let mut slots = if bound { SLOTS } else { SLOTS.min(most) };
        let user = cred.uid;
        let mut pages = self.0.lock();
        let mut has = pages.change(user, 0, slots, limits)?;
        if is_over(limits.pipe_user_pages_soft, has) && !is_privileged(cred) {
            has = pages.change(user, slots, SLOTS_MIN, limits)?;
            slots = SLOTS_MIN;
        }
        if is_over(limits.pipe_user_pages_hard, has) && !is_privileged(cred) {
            pages.end(user, slots);
            return Err(Errno::ENOMEM);
        }
        drop(pages);
        Ok(PipeCharge {
            accounting: Arc::clone(self),
            user,
            slots,
        })
    }
}

impl PipeCharge {
    /// How many slots.
    pub(super) fn slots(&self) -> u32 {
        self.slots
    }

    /// Changes the number of slots.
    ///
    /// # Errors
    /// `EPERM`: more than before, and more than the user may have. `ENOMEM`: more than the `Vfs`
    /// may have.
    pub(super) fn resize(&mut self, slots: u32, cred: &Cred, limits: &Limits) -> Result<(), Errno> {
        let mut pages = self.accounting.0.lock();
        let has = pages.change(self.user, self.slots, slots, limits)?;
        let over =
            is_over(limits.pipe_user_pages_hard, has) || is_over(limits.pipe_user_pages_soft, has);
        if slots > self.slots && over && !is_privileged(cred) {
            pages.change(self.user, slots, self.slots, limits)?;
            return Err(Errno::EPERM);
        }
        self.slots = slots;
        Ok(())
    }
}

impl Drop for PipeCharge {
    fn drop(&mut self) {
        self.accounting.0.lock().end(self.user, self.slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_gets_small_pipes_then_none_and_what_is_dropped_is_free_again() {
        let accounting = Arc::new(PipeAccounting::default());
        let limits = Limits {
            pipe_user_pages_soft: 20,
            pipe_user_pages_hard: 21,
            pipe_pages_max: 60,
            ..Limits::default()
        };
        let user = Cred::user(7, 7, &[]);
        let mut first = accounting.share(&user, &limits).expect("a share");
        let second = accounting.share(&user, &limits).expect("a share");
        let third = accounting.share(&user, &limits).expect("a share");
        assert_eq!([first.slots(), second.slots(), third.slots()], [16, 2, 2]);
        assert_eq!(first.resize(32, &user, &limits), Err(Errno::EPERM));
        assert_eq!(first.slots(), 16);
        let fourth = accounting.share(&user, &limits).map(drop);
        assert_eq!(fourth, Err(Errno::ENOMEM), "the hard limit");
        let root = Cred::root();
        assert_eq!(first.resize(32, &root, &limits), Ok(()));
        assert_eq!(first.resize(64, &root, &limits), Err(Errno::ENOMEM));
        assert_eq!(
            first.resize(1, &user, &limits),
            Ok(()),
            "less is always right"
        );
        drop((first, second, third));
        let pages = accounting.0.lock();
        assert_eq!((pages.all, pages.users.len()), (0, 0));
    }
}
