// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out whether the directory of a view is empty, whole, being discarded or damaged, and says
//! how the user gets rid of a damaged one.

use super::{CHANGES, DISCARDED, INFO, INFO_MAX, ViewInfo, name};
use crate::host::view_dir::ViewDir;
use crate::journal::committed::{self, Committed};
use crate::report::refusal::{Refusal, RefusalKind};

/// What a directory holds.
pub(super) enum State {
    Empty,
    Whole(ViewInfo),
    Discarding,
    Damaged(String),
}

/// What a list says of a view after an interrupted discard.
pub(super) const DISCARD_INTERRUPTED: &str = "its discard was interrupted";

/// What a directory holds.
pub(super) fn state(dir: &ViewDir) -> State {
    let text = match dir.read(INFO, INFO_MAX) {
        Err(why) => return State::Damaged(format!("{INFO}: {why}")),
        Ok(None) if has(dir, DISCARDED) => return State::Discarding,
        Ok(None) => {
            return match CHANGES.iter().find(|name| has(dir, name)) {
                Some(name) => State::Damaged(format!("it has `{name}` and no `{INFO}`")),
                None => State::Empty,
            };
        }
        Ok(Some(text)) => text,
    };
    let info = str::from_utf8(&text)
        .map_err(|why| why.to_string())
        .and_then(|text| toml::from_str(text).map_err(|why| why.message().to_owned()));
    let used = CHANGES.iter().find(|name| has(dir, name));
    match (info, used) {
        (Err(why), _) => State::Damaged(format!("{INFO}: {why}")),
        (Ok(_), Some(name)) if !matches!(dir.subdir("upper"), Ok(Some(_))) => {
            State::Damaged(format!("it has `{name}` and no directory `upper`"))
        }
        (Ok(info), _) => State::Whole(info),
    }
}

pub(super) fn has(dir: &ViewDir, name: &str) -> bool {
    // What cannot be looked at is there.
    dir.has(name).unwrap_or(true)
}

/// Whether a directory that is held has lost its name.
pub(super) fn is_gone(dir: &ViewDir) -> bool {
    dir.stat().map_or(true, |stat| stat.st_nlink == 0)
}

pub(super) fn damaged(name: &str, at: &ViewDir, why: &str) -> Refusal {
    let remedy = remedy(name, at);
    Refusal::new(
        RefusalKind::Damaged,
        format!("the view {name} is damaged, {why}: {remedy}"),
    )
}

pub(super) fn remedy(name: &str, at: &ViewDir) -> String {
    if matches!(state(at), State::Discarding) || !needs_manual_removal(name, at) {
        return format!("`openpath discard {name}` removes it and what it changed");
    }
    let dir = at.path().display();
    format!(
        "what it changed is in {dir}/upper, and what its last commit replaced in {dir}/commit/old; \
         remove {dir} by hand"
    )
}

/// Whether a damaged view is removed by its user alone: files in a directory that the user named
/// need not be ours, and an interrupted commit keeps files of the real tree.
pub(super) fn needs_manual_removal(name: &str, at: &ViewDir) -> bool {
    let commit = committed::committed(at);
    name::is_path(name) || !matches!(commit, Ok(Committed::No | Committed::Yes))
}
