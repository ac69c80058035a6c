// SPDX-License-Identifier: MIT OR Apache-2.0
//! The probe of an explanation: finds the fastest lane that answers a path, by trying each.
//!
//! The lock-free walk is tried as `RESOLVE_CACHED` does: it then calls no backend and changes
//! nothing, and reports where it would have to leave.

use crate::file::At;
use crate::reason::{Reason, Reasons};
use crate::story::Place;
use crate::task::Core;
use crate::walk::{
    Fail, LastKind, Mode, Text, Walk, lflag,
    plain::{self, Plain},
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
pub struct Fast {
    /// The lane that answers.
    pub lane: Lane,
    /// Why the lock-free walk was left, if it was begun and left.
    pub left: Option<Reason>,
    /// Where it stood then.
    pub at: Option<Place>,
    /// Whether a call that must not wait goes on from there, asking a backend that answers at once.
    pub goes_on: bool,
}

/// The purpose of the last component.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Last {
    /// It is entered.
    Enter,
    /// It is entered if it exists, else made.
    Create,
}

/// Tries the fast lanes for `path`.
pub(super) fn ask(core: &Core, at: At<'_>, path: &[u8], flags: u32, last: Last) -> Fast {
    let none = |lane| Fast {
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
            Plain::Absent if last == Last::Create => {}
            Plain::End(_) | Plain::Absent if kept => return none(Lane::PathCache),
            Plain::End(_) | Plain::Absent => return none(Lane::Plain),
            Plain::Leave => {}
        }
    }
    let (before, gave_up) = (core.reasons.read(), core.gave_up.get());
    core.story.take_try();
    let fast = walk(core, at, path, flags, last, &before);
    // This is no walk of a call.
    core.reasons.put_back(&before);
    core.gave_up.set(gave_up);
    fast
}

fn walk(core: &Core, at: At<'_>, path: &[u8], flags: u32, last: Last, before: &Reasons) -> Fast {
    let done = Fast {
        lane: Lane::LockFree,
        left: None,
        at: None,
        goes_on: false,
    };
    let flags = flags | lflag::CACHED | lflag::LOCK_FREE;
    let mut walk = match Walk::begin(core, at, path, flags, Mode::Fast) {
        Ok(walk) => walk,
        Err(Fail::Errno(errno)) if errno != Errno::EAGAIN => return done,
        Err(_) => {
            return Fast {
                lane: Lane::References,
                left: core.reasons.read().first_since(before),
                at: None,
                goes_on: core.story.take_try(),
            };
        }
    };
    let mut text = Text::new(path);
    let ended = enter(&mut walk, &mut text, last);
    text.done(core);
    let spot = walk.at;
    drop(walk);
    let left = core.reasons.read().first_since(before);
    let goes_on = core.story.take_try();
    match ended {
        Ok(true) => done,
        Ok(false) => Fast {
            lane: Lane::References,
            left: Some(Reason::Create),
            at: Some(Place::of(core, spot)),
            goes_on,
        },
        Err(Fail::Errno(errno)) if errno != Errno::EAGAIN => done,
        Err(_) => Fast {
            lane: Lane::References,
            left,
            at: Some(Place::of(core, spot)),
            goes_on,
        },
    }
}

/// Goes to the end; whether it exists, for a name that may have to be made.
fn enter(walk: &mut Walk<'_>, text: &mut Text<'_>, how: Last) -> Result<bool, Fail> {
    if text.bytes().is_empty() {
        return Ok(true);
    }
    loop {
        let last = walk.walk_to_last(text)?;
        let makes = how == Last::Create && last.kind == LastKind::Norm;
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
