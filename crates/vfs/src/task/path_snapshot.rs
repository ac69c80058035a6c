// SPDX-License-Identifier: MIT OR Apache-2.0
//! Computes the path from a task's root to a mount and dentry, as it is at one moment.
//!
//! # Kernel analogue
//! `prepend_path`, `d_path`.

use super::Core;
use crate::object::dflag;
use crate::path::PathIds;

/// The path of a place at one moment.
pub(crate) struct PathSnapshot {
    pub(crate) path: Vec<u8>,
    /// The task's root leads there.
    pub(crate) reachable: bool,
    /// Its name is gone.
    pub(crate) deleted: bool,
}

impl PathSnapshot {
    /// The path of `path_ids`, which the caller holds, from the root of `core`'s task.
    pub(crate) fn of(core: &Core, path_ids: PathIds) -> Self {
        let (moves, mounts) = (&core.vfs.renames, &core.vfs.mounts.changes);
        loop {
            let seen = (moves.sample_steady(), mounts.sample_steady());
            if let Some(place) = Self::look(core, path_ids)
                && moves.is_unchanged(seen.0)
                && mounts.is_unchanged(seen.1)
            {
                return place;
            }
            openpath_sync::relax();
        }
    }

    /// One attempt; `None` if an entry changed meanwhile.
    fn look(core: &Core, path_ids: PathIds) -> Option<Self> {
        let (dcache, mounts) = (&core.vfs.dcache, &core.vfs.mounts);
        let root = core.root.get();
        let flags = |dentry: u32| dcache.at(dentry).word().sample();
        let own = flags(path_ids.dentry);
        // From the place up, so the last name comes first.
        let mut names: Vec<Vec<u8>> = Vec::new();
        let mut at = path_ids;
        let reachable = loop {
            if at == root {
                break true;
            }
            if at.dentry == mounts.at(at.mount).root.get() {
                match mounts.below(at.mount) {
                    Some((mount, dentry)) => at = PathIds { mount, dentry },
                    None => break false,
                }
                continue;
            }
            if flags(at.dentry).has(dflag::ROOT) {
                // Moved out of what its mount shows: it has no path there.
                names.clear();
                break false;
            }
            let (name, parent) = dcache.name_of(at.dentry)?;
            names.push(name);
            at.dentry = parent;
        };
        let mut path = Vec::new();
        for name in names.iter().rev() {
            path.push(b'/');
            path.extend_from_slice(name);
        }
        if path.is_empty() {
            path.push(b'/');
        }
        Some(Self {
            path,
            reachable,
            deleted: own.has(dflag::UNHASHED) && !own.has(dflag::ROOT),
        })
    }
}
