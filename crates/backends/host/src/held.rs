// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mount flags of the host that a face enforces, and the mounts that may be entered because of it.
//!
//! A tree with mounts of the host in it is shown through one mount of a face, which has flags of
//! its own. `nosuid`, `nodev` and `noexec` of a mount of the host hold there only if the face
//! enforces them at that place. A mount with a flag that is not enforced is not entered.
//!
//! # States
//! A place is enforced -> lost, for good. It is lost when the face reports it
//! ([`HeldFlags::give_up`]), and when a directory on the way to it is missing or has become another
//! directory: the kernel drops what it has mounted below a name that changed its meaning.
//!
//! # Rules
//! R1. Paths begin at the root of the tree and have no slash at either end.
//! R2. The flags of a place hold below it, up to the next place. Below a lost place nothing is
//!     enforced.

use crate::sys::Id;
use openpath_abi::mount::{MOUNT_ATTR_NODEV, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID};
use openpath_sync::{Word, WriteOnce};
use std::collections::BTreeSet;
use std::fmt;

/// The flags that are enforced: `MOUNT_ATTR_NOSUID`, `MOUNT_ATTR_NODEV`, `MOUNT_ATTR_NOEXEC`, the
/// same bits as in statvfs(3) and mount(2).
pub const HELD: u64 = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

/// The places of a tree at which a face enforces mount flags.
#[derive(Debug, Default)]
pub struct HeldFlags {
    places: Vec<Place>,
    /// Directories on the way to places.
    anchors: Vec<Anchor>,
}

#[derive(Debug)]
struct Place {
    path: Vec<u8>,
    flags: u64,
    lost: Word,
}

struct Anchor {
    path: Vec<u8>,
    /// The directory that was there first.
    first: WriteOnce<Id>,
}

impl fmt::Debug for Anchor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path.escape_ascii().fmt(f)
    }
}

/// Whether `path` is `above` or lies below it.
fn is_within(path: &[u8], above: &[u8]) -> bool {
    above.is_empty()
        || path
            .strip_prefix(above)
            .is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

impl HeldFlags {
    /// Places by their paths, each with the flags that are enforced there.
    #[must_use]
    pub fn new(places: impl IntoIterator<Item = (Vec<u8>, u64)>) -> Self {
        let places: Vec<_> = places
            .into_iter()
            .map(|(path, flags)| Place {
                path: trimmed(&path),
                flags: flags & HELD,
                lost: Word::new(0),
            })
            .collect();
        let mut anchors = BTreeSet::new();
        for place in &places {
            let ends = place.path.iter().enumerate();
            let ends = ends.filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
            anchors.extend(ends.map(|end| place.path[..end].to_vec()));
        }
        let anchor = |path| Anchor {
            path,
            first: WriteOnce::default(),
        };
        Self {
            places,
            anchors: anchors.into_iter().map(anchor).collect(),
        }
    }

    /// The flags are not enforced at this place, nor below it; whether that is new.
    pub fn give_up(&self, path: &[u8]) -> bool {
        let mut any = false;
        for place in &self.places {
            any |= is_within(&place.path, path) && place.lost.swap_if(0, 1);
        }
        any
    }

    /// Whether a mount with these flags may be entered at `path`.
    #[must_use]
    pub fn admits(&self, path: &[u8], flags: u64) -> bool {
        let above = self.places.iter().filter(|p| is_within(path, &p.path));
        let nearest = above.max_by_key(|place| place.path.len());
        let enforced = nearest.map_or(0, |place| {
            if place.lost.get() == 0 {
                place.flags
            } else {
                0
            }
        });
        flags & HELD & !enforced == 0
    }

    /// Whether `path` is on the way to a place.
    pub(crate) fn leads_on(&self, path: &[u8]) -> bool {
        if path.is_empty() {
            return !self.places.is_empty();
        }
        self.anchor(path).is_some()
    }

    /// What was found at `path`, `None` for nothing: if it is on the way to a place and not what
    /// was there first, the place is lost. Whether one was lost by this.
    pub(crate) fn found(&self, path: &[u8], id: Option<Id>) -> bool {
        let Some(anchor) = self.anchor(path) else {
            return false;
        };
        let same = match (id, anchor.first.get()) {
            (Some(id), None) => *anchor.first.set(id) == id,
            (Some(id), Some(first)) => id == *first,
            (None, _) => false,
        };
        !same && self.give_up(path)
    }

    fn anchor(&self, path: &[u8]) -> Option<&Anchor> {
        let at = self.anchors.binary_search_by(|a| a.path[..].cmp(path));
        at.ok().map(|at| &self.anchors[at])
    }
}

/// A path without slashes at its ends.
fn trimmed(path: &[u8]) -> Vec<u8> {
    let begin = path.iter().position(|b| *b != b'/').unwrap_or(path.len());
    let end = path.iter().rposition(|b| *b != b'/');
    path[begin..end.map_or(begin, |at| at + 1)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::{HeldFlags, MOUNT_ATTR_NOEXEC, MOUNT_ATTR_NOSUID};

    #[test]
    fn mount_with_a_flag_that_is_not_enforced_is_not_admitted() {
        let both = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NOEXEC;
        let held = HeldFlags::new([
            (b"/run/".to_vec(), both),
            (b"/run/user/7".to_vec(), MOUNT_ATTR_NOSUID),
        ]);
        for (path, flags, admitted) in [
            (&b"run"[..], both, true),
            (b"run/lock", MOUNT_ATTR_NOEXEC, true),
            (b"run/user/7/x", MOUNT_ATTR_NOSUID, true),
            (b"run/user/7/x", MOUNT_ATTR_NOEXEC, false),
            (b"run/user/70", MOUNT_ATTR_NOEXEC, true),
            (b"runner", MOUNT_ATTR_NOEXEC, false),
            (b"", MOUNT_ATTR_NOSUID, false),
            (b"mnt", 0, true),
        ] {
            assert_eq!(held.admits(path, flags), admitted, "{path:?} {flags}");
        }
        assert!(held.leads_on(b"") && held.leads_on(b"run") && held.leads_on(b"run/user"));
        assert!(!held.leads_on(b"run/user/7") && !held.leads_on(b"mnt"));
        held.give_up(b"run/user");
        assert!(!held.admits(b"run/user/7/x", MOUNT_ATTR_NOSUID));
        assert!(held.admits(b"run", both));
    }

    #[test]
    fn place_below_a_directory_that_went_missing_is_lost() {
        let place = b"home/u/mnt".to_vec();
        let held = HeldFlags::new([(place.clone(), MOUNT_ATTR_NOSUID)]);
        assert!(!held.found(b"home/u/other", None));
        assert!(!held.found(b"home/u/mnt", None));
        assert!(held.admits(&place, MOUNT_ATTR_NOSUID));
        assert!(held.found(b"home/u", None));
        assert!(!held.found(b"home/u", None));
        assert!(!held.admits(&place, MOUNT_ATTR_NOSUID));
    }
}
