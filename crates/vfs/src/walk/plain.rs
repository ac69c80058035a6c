// SPDX-License-Identifier: MIT OR Apache-2.0
//! The plain lane: a path of cached names without links, dots or mounts, answered in one tight
//! loop.
//!
//! It answers only what it can answer for certain and leaves everything else, the start included,
//! to [`super::Walk`], which knows all the rules. Nothing is pinned here and nothing but the stack
//! is written.
//!
//! # Rules
//! R1. As in the walk: the child is sampled before its parent is asked `still`.

use super::{Spot, lflag};
use crate::dcache::{Dcache, dflag};
use crate::mount::mflag;
use crate::name::NameKey;
use crate::path_cache::Hit;
use crate::task::{At, Core};
use openpath_sync::{Pin, Sample};

/// Where a plain path ends.
#[derive(Clone, Copy)]
pub(crate) struct End {
    pub(crate) at: Spot,
    pub(crate) mount: Sample,
    pub(crate) dentry: Sample,
}

impl End {
    /// Pins it, if it is still so.
    #[inline(always)]
    pub(crate) fn pin(&self, core: &Core) -> Option<Pin> {
        core.pins
            .try_pin(self.at.mount, self.mount, self.at.dentry, self.dentry)
    }
}

/// What the plain lane says of a path.
pub(crate) enum Plain {
    /// It ends here: a name that exists, not a link, nothing mounted on it.
    End(End),
    /// It does not exist.
    Absent,
    /// Not plain: walk it.
    Leave,
}

/// What a directory on the way must not be, or be called into question by.
const MIDDLE: u64 = dflag::NEGATIVE
    | dflag::NOT_DIR
    | dflag::LINK
    | dflag::MOUNTED
    | dflag::SLOW_SEARCH
    | dflag::REVALIDATE;
/// What the last name must not be.
const LAST: u64 = dflag::NEGATIVE | dflag::LINK | dflag::MOUNTED | dflag::REVALIDATE;
/// What the start must not be; whatever is mounted on it is not entered.
const START: u64 = MIDDLE & !dflag::MOUNTED;

/// Walks `path` from `at` if it is plain.
#[inline(always)]
pub(crate) fn walk(core: &Core, at: At<'_>, path: &[u8], flags: u32) -> Plain {
    if !core.lock_free || flags & lflag::SCOPED != 0 {
        return Plain::Leave;
    }
    let start = match (path.first(), at) {
        (Some(b'/'), _) => core.root.get(),
        (Some(_), At::Cwd) => core.cwd.get(),
        (Some(_), At::File(file)) => file.spot(),
        _ => return Plain::Leave,
    };
    let _section = core.reader.enter();
    let dcache = &core.vfs.dcache;
    let slot = core.vfs.mounts.at(start.mount);
    let mount = slot.word().sample();
    let dentry = dcache.at(start.dentry).word().sample();
    if mount.odd(mflag::NOT_PLAIN) || dentry.odd(START) {
        return Plain::Leave;
    }
    let query = core
        .vfs
        .paths
        .admits(dcache, start.dentry, || slot.sb.get(), path);
    let place = |(dentry, sample)| End {
        at: Spot {
            mount: start.mount,
            dentry,
        },
        mount,
        dentry: sample,
    };
    if let Some(query) = query {
        if let Some(Hit { target, state }) = core.vfs.paths.find(dcache, &query, path) {
            return answer(state, place((target, state)));
        }
        let found = run(dcache, start.dentry, dentry, path);
        if let Some((target, state)) = found {
            core.vfs.paths.note(dcache, &query, path, target, state);
        }
        return found.map_or(Plain::Leave, |end| answer(end.1, place(end)));
    }
    run(dcache, start.dentry, dentry, path).map_or(Plain::Leave, |end| answer(end.1, place(end)))
}

#[inline(always)]
fn answer(state: Sample, end: End) -> Plain {
    if !state.odd(LAST) {
        Plain::End(end)
    } else if state.steady() && state.has(dflag::NEGATIVE) {
        Plain::Absent
    } else {
        Plain::Leave
    }
}

/// The last name's entry, negative or not, if every step to it is plain.
#[inline(always)]
fn run(
    dcache: &Dcache,
    mut parent: u32,
    mut parent_was: Sample,
    path: &[u8],
) -> Option<(u32, Sample)> {
    let mut pos = 0;
    while path.get(pos) == Some(&b'/') {
        pos += 1;
    }
    loop {
        let start = pos;
        let (key, end) = NameKey::parse(dcache.key, path, start);
        if key.is_empty_or_dots() {
            return None;
        }
        let (child, entry, sample) = dcache.find_entry(parent, key, &path[start..end])?;
        // R1: the child was sampled before this question about its parent.
        if !dcache.at(parent).word().still(parent_was) {
            return None;
        }
        if end == path.len() {
            entry.touch();
            return Some((child, sample));
        }
        if sample.odd(MIDDLE) {
            return None;
        }
        (parent, parent_was) = (child, sample);
        pos = end + 1;
        while path.get(pos) == Some(&b'/') {
            pos += 1;
        }
    }
}
