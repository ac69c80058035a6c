// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds, for an explanation, the fastest lane that answers a path (path cache, plain lane,
//! lock-free walk, or walk with references) by trying each.
//!
//! The lock-free walk is tried as `RESOLVE_CACHED` does: it then calls no backend and changes
//! nothing, and reports where it would have to leave.

use crate::file::PathStart;
use crate::reason::{Reason, Reasons};
use crate::steps::WalkPosition;
use crate::task::Core;
use crate::walk::{
    LastKind, Mode, Walk, WalkError, WalkText, lflag,
    plain::{self, PlainResult},
};
use openpath_abi::Errno;

/// The lane that answers a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Lane {
    /// The whole path was in the path cache.
    PathCache,
    /// All its names were cached, and nothing but names was on the way.
    Plain,
    /// The lock-free walk, by all its rules.
    LockFree,
    /// A walk with references.
    References,
}

impl Lane {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PathCache => "path cache",
            Self::Plain => "plain lane",
            Self::LockFree => "lock-free walk",
            Self::References => "walk with references",
        }
    }
}

/// How far the fast lanes came.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FastPath {
    /// The lane that answers.
    pub lane: Lane,
    /// Why the lock-free walk was left, if it was begun and left.
    pub left: Option<Reason>,
    /// Where it stood then.
    pub at: Option<WalkPosition>,
    /// Whether a call that must not wait goes on from there, asking a backend that answers at once.
    pub goes_on: bool,
}

/// The purpose of the last component.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LastUse {
    /// It is entered.
    Enter,
    /// It is entered if it exists, else made.
    Create,
}

/// Tries the fast lanes for `path`.
pub(super) fn ask(
    core: &Core,
    at: PathStart<'_>,
    path: &[u8],
    flags: u32,
    last: LastUse,
) -> FastPath {
    let none = |lane| FastPath {
        lane,
        left: None,
        at: None,
        goes_on: false,
    };
    if !core.lock_free.get() && flags & lflag::CACHED == 0 {
        return none(Lane::References);
    }
    if !path.is_empty() {
        let kept = plain::is_kept(core, at, path);
        match plain::walk(core, at, path, flags) {
            PlainResult::Absent if last == LastUse::Create => {}
            PlainResult::End(_) | PlainResult::Absent if kept => return none(Lane::PathCache),
            PlainResult::End(_) | PlainResult::Absent => return none(Lane::Plain),
            PlainResult::Leave => {}
        }
    }
    let (before, gave_up) = (core.reasons.read(), core.gave_up.get());
    core.step_log.take_try();
    let fast = walk(core, at, path, flags, last, &before);
    // This is no walk of a call.
    core.reasons.put_back(&before);
    core.gave_up.set(gave_up);
    fast
}

fn walk(
    core: &Core,
    at: PathStart<'_>,
    path: &[u8],
    flags: u32,
    last: LastUse,
    before: &Reasons,
) -> FastPath {
    let done = FastPath {
        lane: Lane::LockFree,
        left: None,
        at: None,
        goes_on: false,
    };
    let flags = flags | lflag::CACHED | lflag::LOCK_FREE;
    let mut walk = match Walk::begin(core, at, path, flags, Mode::Fast) {
        Ok(walk) => walk,
        Err(WalkError::Errno(errno)) if errno != Errno::EAGAIN => return done,
        Err(_) => {
            return FastPath {
                lane: Lane::References,
                left: core.reasons.read().first_since(before),
                at: None,
                goes_on: core.step_log.take_try(),
            };
        }
    };
    let mut text = WalkText::new(path);
    let ended = enter(&mut walk, &mut text, last);
    text.done(core);
    let path_ids = walk.at;
    drop(walk);
    let left = core.reasons.read().first_since(before);
    let goes_on = core.step_log.take_try();
    match ended {
        Ok(true) => done,
        Ok(false) => FastPath {
            lane: Lane::References,
            left: Some(Reason::Create),
            at: Some(WalkPosition::of(core, path_ids)),
            goes_on,
        },
        Err(WalkError::Errno(errno)) if errno != Errno::EAGAIN => done,
        Err(_) => FastPath {
            lane: Lane::References,
            left,
            at: Some(WalkPosition::of(core, path_ids)),
            goes_on,
        },
    }
}

/// Goes to the end; whether it exists, for a name that may have to be made.
fn enter(walk: &mut Walk<'_>, text: &mut WalkText<'_>, how: LastUse) -> Result<bool, WalkError> {
    if text.bytes().is_empty() {
        return Ok(true);
    }
    loop {
        let last = walk.walk_to_last(text)?;
        let makes = how == LastUse::Create && last.kind == LastKind::Norm;
        if makes && last.slash {
            return Ok(true);
        }
        let link = if makes {
            if !walk.step_if_positive(text.bytes(), last.start, last.end)? {
                return Ok(false);
            }
            walk.at_link() && walk.wants(lflag::FOLLOW)
        } else {
            walk.step_last(text, &last)?
        };
        if !link {
            return Ok(true);
        }
        walk.follow_last(text)?;
    }
}
