// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the plain lane: it walks a path of cached names without links or dots in one tight
//! loop.
//!
//! It answers only if it is certain, and leaves every other path to [`super::Walk`] from the start.
//! It pins nothing and writes nothing but the stack.
//!
//! A path that enters mounts is walked in legs, one for each mount: behind a mount the path cache
//! is asked for the rest from the mount's root. A path without mounts is one leg and pays nothing
//! for that.
//!
//! # Rules
//! R1. As in the walk: the child is sampled before its parent is checked for a change
//!     (`Life::is_unchanged`). A directory that was proved to have no such child is checked after
//!     that.
//! R2. As in the walk (R4 there): the covered directory and its mount are checked for a change
//!     after the search for their cover, and the mount above after its root was sampled.

use super::{PathIds, lflag};
use crate::dcache::{Dcache, FindResult, NAME_MAX};
use crate::file::PathStart;
use crate::mount::MountLookup;
use crate::name::NameKey;
use crate::object::{dflag, mflag};
use crate::path_cache::Hit;
use crate::task::Core;
use openpath_sync::{Certificate, Pin, Sample};

/// Where a plain path ends.
#[derive(Clone, Copy)]
pub(crate) struct PlainEnd {
    pub(crate) at: PathIds,
    pub(crate) mount: Sample,
    pub(crate) dentry: Sample,
}

impl PlainEnd {
    /// What was found from here on, in the same mount.
    #[inline(always)]
    fn to(&self, hit: &Hit) -> Self {
        Self {
            at: PathIds {
                mount: self.at.mount,
                dentry: hit.target,
            },
            mount: self.mount,
            dentry: hit.state,
        }
    }

    /// Pins it, if it is still so.
    #[inline(always)]
    pub(crate) fn pin(&self, core: &Core) -> Option<Pin> {
        core.pins
            .try_pin(self.at.mount, self.mount, self.at.dentry, self.dentry)
    }

    /// As [`PlainEnd::pin`], for an open: a taker of a lease sees the pin.
    #[inline(always)]
    pub(crate) fn pin_opened(&self, core: &Core) -> Option<Pin> {
        core.pins
            .try_pin_opened(self.at.mount, self.mount, self.at.dentry, self.dentry)
    }
}

/// The plain lane's answer for a path.
pub(crate) enum PlainResult {
    /// It ends here: a name that exists, not a link, in the topmost mount.
    End(PlainEnd),
    /// It does not exist.
    Absent,
    /// Not plain: walk it.
    Leave,
}

/// Flags of a directory on the way that end the plain lane.
const MIDDLE: u64 = dflag::NEGATIVE
    | dflag::NOT_DIR
    | dflag::LINK
    | dflag::MOUNTED
    | dflag::SLOW_SEARCH
    | dflag::REVALIDATE;
/// Flags of the last name that end it.
const LAST: u64 = dflag::NEGATIVE | dflag::LINK | dflag::MOUNTED | dflag::REVALIDATE;
/// Flags of the start that end it; a mount on it is not entered.
const START: u64 = MIDDLE & !dflag::MOUNTED;

/// Walks `path` from `at` if it is plain.
#[inline(always)]
pub(crate) fn walk(core: &Core, at: PathStart<'_>, path: &[u8], flags: u32) -> PlainResult {
    if !core.lock_free.get() || flags & lflag::SCOPED != 0 && leaves_scope(path, flags) {
        return PlainResult::Leave;
    }
    let start = match (path.first(), at) {
        (Some(b'/'), _) => core.root.get(),
        (Some(_), PathStart::Cwd) => core.cwd.get(),
        (Some(_), PathStart::File(file)) => file.path_ids(),
        _ => return PlainResult::Leave,
    };
    let _section = core.reader.enter();
    let start = PlainEnd {
        at: start,
        mount: core.vfs.mounts.at(start.mount).word().sample(),
        dentry: core.vfs.dcache.at(start.dentry).word().sample(),
    };
    if start.mount.needs_slow_path(mflag::NOT_PLAIN) || start.dentry.needs_slow_path(START) {
        return PlainResult::Leave;
    }
    let Some(hit) = leg(core, &start, path) else {
        return PlainResult::Leave;
    };
    let end = start.to(&hit);
    if !hit.state.needs_slow_path(LAST) {
        PlainResult::End(end)
    } else if is_absent(hit.state) {
        PlainResult::Absent
    } else {
        let mut end = end;
        match across(core, &mut end, path, hit.rest, flags) {
            Some(true) => PlainResult::End(end),
            Some(false) => PlainResult::Absent,
            None => PlainResult::Leave,
        }
    }
}

/// Whether a plain path may not be answered for a walk that stays in its scope: names alone never
/// lead out of where they start, but a root does, and with `IN_ROOT` it is another one.
#[cold]
fn leaves_scope(path: &[u8], flags: u32) -> bool {
    flags & lflag::IN_ROOT != 0 || path.first() == Some(&b'/')
}

/// Whether an entry says for certain that its name does not exist.
#[inline(always)]
fn is_absent(state: Sample) -> bool {
    state.is_steady() && state.has(dflag::NEGATIVE) && !state.has(dflag::REVALIDATE)
}

/// Whether the path cache has `path`, as [`walk`] would ask it.
#[cold]
pub(crate) fn is_kept(core: &Core, at: PathStart<'_>, path: &[u8]) -> bool {
    // As in `walk`, where a function for both costs an open with `O_CREAT` four instructions.
    let start = match (path.first(), at) {
        (Some(b'/'), _) => core.root.get(),
        (Some(_), PathStart::Cwd) => core.cwd.get(),
        (Some(_), PathStart::File(file)) => file.path_ids(),
        _ => return false,
    };
    let (dcache, paths) = (&core.vfs.dcache, &core.vfs.paths);
    let sb = || core.vfs.mounts.at(start.mount).sb.get();
    let query = paths.admits(dcache, start.dentry, sb, path);
    query.is_some_and(|query| paths.find(dcache, &query, path).is_some())
}

/// Goes on from a covered directory that the first `gone` bytes of `path` lead to. Whether the
/// path's target exists, and where, if the rest is plain.
///
/// The place is handed over in memory, so that paths without mounts keep theirs in registers.
#[cold]
#[inline(never)]
fn across(
    core: &Core,
    at: &mut PlainEnd,
    path: &[u8],
    mut gone: usize,
    flags: u32,
) -> Option<bool> {
    if flags & lflag::NO_XDEV != 0 {
        return None;
    }
    loop {
        if !at.dentry.has(dflag::MOUNTED) || at.dentry.needs_slow_path(LAST & !dflag::MOUNTED) {
            return None;
        }
        let root = cross(core, *at)?;
        let Some(rest) = path.get(gone..).filter(|rest| !rest.is_empty()) else {
            *at = root;
            return (!root.dentry.needs_slow_path(LAST & !dflag::MOUNTED)).then_some(true);
        };
        if root.dentry.needs_slow_path(START) {
            return None;
        }
        let hit = leg(core, &root, rest)?;
        *at = root.to(&hit);
        if !hit.state.needs_slow_path(LAST) {
            return Some(true);
        }
        if is_absent(hit.state) {
            return Some(false);
        }
        gone += hit.rest;
    }
}

/// From a covered place to the root of the topmost mount on it; to itself if it is covered only in
/// other mounts. `None` if something changed.
#[inline(always)]
fn cross(core: &Core, mut at: PlainEnd) -> Option<PlainEnd> {
    let (mounts, dcache) = (&core.vfs.mounts, &core.vfs.dcache);
    while at.dentry.has(dflag::MOUNTED) {
        let cover = mounts.cover(at.at.mount, at.at.dentry);
        // R2: the place was still the one meant.
        if !mounts.at(at.at.mount).word().is_unchanged(at.mount)
            || !dcache.at(at.at.dentry).word().is_unchanged(at.dentry)
        {
            return None;
        }
        let (mount, sample, root) = match cover {
            MountLookup::None => break,
            MountLookup::Mount(mount, sample, root) => (mount, sample, root),
            MountLookup::Changed => return None,
        };
        let dentry = dcache.at(root).word().sample();
        // R2: the mount still holds its root, so what was sampled is its root.
        if sample.needs_slow_path(mflag::NOT_PLAIN) || !mounts.at(mount).word().is_unchanged(sample)
        {
            return None;
        }
        at = PlainEnd {
            at: PathIds {
                mount,
                dentry: root,
            },
            mount: sample,
            dentry,
        };
    }
    Some(at)
}

/// The target of `path` within the mount it starts in: its end, or a covered directory.
#[inline(always)]
fn leg(core: &Core, start: &PlainEnd, path: &[u8]) -> Option<Hit> {
    let (dcache, paths) = (&core.vfs.dcache, &core.vfs.paths);
    let sb = || core.vfs.mounts.at(start.at.mount).sb.get();
    let Some(query) = paths.admits(dcache, start.at.dentry, sb, path) else {
        return run(dcache, start.at.dentry, start.dentry, path, |_, _| ());
    };
    if let Some(hit) = paths.find(dcache, &query, path) {
        return Some(hit);
    }
    let hit = run(dcache, start.at.dentry, start.dentry, path, |dir, miss| {
        paths.note(dcache, &query, path, dir, miss);
    })?;
    if hit.target != 0 {
        paths.note(dcache, &query, path, hit, Certificate::default());
    }
    Some(hit)
}

/// The last name's entry, negative or not, or that of a covered directory on the way, if every
/// step to it is plain.
///
/// Where a name is absent from a directory all of whose names are cached, [`Hit::ABSENT`], after
/// `absent` was told of the directory and of what shows it.
#[inline(always)]
fn run(
    dcache: &Dcache,
    mut parent: u32,
    mut parent_was: Sample,
    path: &[u8],
    absent: impl FnOnce(Hit, Certificate),
) -> Option<Hit> {
    let view = dcache.view();
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
        let (child, entry, sample) = match dcache.look(&view, parent, key, &path[start..end]) {
            FindResult::Entry(child, entry, sample) => (child, entry, sample),
            FindResult::Absent(probe)
                if parent_was.has(dflag::COMPLETE)
                    && end - start <= NAME_MAX
                    && dcache.at(parent).word().is_unchanged(parent_was) =>
            {
                let dir = Hit {
                    target: parent,
                    state: parent_was,
                    rest: path.len(),
                };
                absent(dir, probe.certificate(&view));
                return Some(Hit::ABSENT);
            }
            _ => return None,
        };
        // R1: the child was sampled before this question about its parent.
        if !dcache.at(parent).word().is_unchanged(parent_was) {
            return None;
        }
        let hit = Hit {
            target: child,
            state: sample,
            rest: end,
        };
        if end == path.len() {
            entry.touch();
            return Some(hit);
        }
        if sample.needs_slow_path(MIDDLE) {
            let covered = !sample.needs_slow_path(MIDDLE & !dflag::MOUNTED);
            return covered.then_some(hit);
        }
        (parent, parent_was) = (child, sample);
        pos = end + 1;
        while path.get(pos) == Some(&b'/') {
            pos += 1;
        }
    }
}
