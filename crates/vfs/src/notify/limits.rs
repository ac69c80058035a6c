// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts and limits notification groups and watches by user, keeps the list of all groups, and
//! numbers the moves whose two events belong together.
//!
//! # Kernel analogue
//! `struct ucounts` with `UCOUNT_INOTIFY_INSTANCES` and `UCOUNT_INOTIFY_WATCHES`.

use super::NotifyGroup;
use crate::lock_order::NotifyCounts;
use openpath_sync::{Mutex, Word, Word32};
use std::collections::HashMap;
use std::sync::{Arc, Weak};

/// The counts of one user.
#[derive(Default)]
struct UserCounts {
    instances: u32,
    watches: u32,
}

/// Users and groups.
#[derive(Default)]
struct NotifyState {
    users: HashMap<u32, UserCounts>,
    groups: Vec<Weak<NotifyGroup>>,
}

/// The watchers of one `Vfs`.
#[derive(Default)]
pub(crate) struct Notify {
    /// How many watches there are: read by every event, so nothing that changes often is near.
    watches: Word,
    rest: Box<ColdPart>,
}

#[derive(Default)]
struct ColdPart {
    state: Mutex<NotifyState, NotifyCounts>,
    /// The last number that paired two events.
    cookie: Word32,
}

impl Notify {
    /// Whether any inode of the `Vfs` is watched.
    #[inline(always)]
    pub(crate) fn is_active(&self) -> bool {
        self.watches.get() != 0
    }

    /// A number that pairs the two events of a move (`fsnotify_get_cookie`); never 0.
    pub(crate) fn next_cookie(&self) -> u32 {
        loop {
            let cookie = self.rest.cookie.add(1).wrapping_add(1);
            if cookie != 0 {
                return cookie;
            }
        }
    }

    /// Counts one more group of this user; whether `limit` allows it.
    pub(crate) fn add_instance(&self, uid: u32, limit: u32) -> bool {
        let mut state = self.rest.state.lock();
        let counts = state.users.entry(uid).or_default();
        let allowed = counts.instances < limit;
        counts.instances += u32::from(allowed);
        state.forget(uid);
        allowed
    }

    /// Counts one group of this user less.
    pub(crate) fn end_instance(&self, uid: u32) {
        let mut state = self.rest.state.lock();
        state.groups.retain(|group| group.strong_count() != 0);
        if let Some(counts) = state.users.get_mut(&uid) {
            counts.instances -= 1;
        }
        state.forget(uid);
    }

    /// Enters a group in the list that unmounts go through.
    pub(crate) fn register(&self, group: &Arc<NotifyGroup>) {
        self.rest.state.lock().groups.push(Arc::downgrade(group));
    }

    /// All groups.
    pub(crate) fn groups(&self) -> Vec<Arc<NotifyGroup>> {
        let state = self.rest.state.lock();
        state.groups.iter().filter_map(Weak::upgrade).collect()
    }

    /// Counts one more watch of this user; whether `limit` allows it.
    pub(crate) fn add_watch(&self, uid: u32, limit: u32) -> bool {
        let allowed = {
            let mut state = self.rest.state.lock();
            let counts = state.users.entry(uid).or_default();
            let allowed = counts.watches < limit;
            counts.watches += u32::from(allowed);
            state.forget(uid);
            allowed
        };
        if allowed {
            self.watches.add(1);
        }
        allowed
    }

    /// Counts `count` watches of this user less.
    pub(crate) fn end_watches(&self, uid: u32, count: u32) {
        if count == 0 {
            return;
        }
        self.watches.sub(u64::from(count));
        let mut state = self.rest.state.lock();
        if let Some(counts) = state.users.get_mut(&uid) {
            counts.watches -= count;
        }
        state.forget(uid);
    }
}

impl NotifyState {
    /// Forgets a user without groups and watches.
    fn forget(&mut self, uid: u32) {
        let idle = |counts: &UserCounts| counts.instances == 0 && counts.watches == 0;
        if self.users.get(&uid).is_some_and(idle) {
            self.users.remove(&uid);
        }
    }
}
