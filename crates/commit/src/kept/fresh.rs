// SPDX-License-Identifier: MIT OR Apache-2.0
//! Decides whether a directory that the user names is a view, and whether one may begin in it:
//! other files in it are the user's, and a discard must not remove them.
//!
//! # Rules
//! R1. A directory that the user names becomes a view only if it is empty. A discard would remove
//!     files of the user's that have names of ours.
//! R2. A directory that is refused is left as it is: no lock is made in it.
//! R3. It is a view if it has `view.toml`, or what an interrupted discard leaves. In the directory
//!     of named views all directories are views.

use super::state::{State, damaged, has, state};
use super::{DISCARDED, INFO, LOCK, name};
use crate::attributes::owner::is_own;
use crate::host::view_dir::ViewDir;
use crate::report::refusal::Refusal;

/// Whether the directory of this name is a view, if only a damaged one (R3).
pub(super) fn is_view(name: &str, at: &ViewDir) -> bool {
    !name::is_path(name) || has(at, INFO) || has(at, DISCARDED)
}

/// Checks that a run may go on in the directory of this name, or begin in it.
///
/// # Errors
/// R1; it is a damaged view that the user named by its directory.
pub(super) fn check(name: &str, at: &ViewDir) -> Result<(), Refusal> {
    if !name::is_path(name) {
        return Ok(());
    }
    match state(at) {
        State::Whole(_) | State::Discarding => return Ok(()),
        State::Damaged(why) if is_view(name, at) => return Err(damaged(name, at, &why)),
        State::Empty | State::Damaged(_) => {}
    }
    // Another process may have made the view meanwhile.
    if is_fresh(at)? || matches!(state(at), State::Whole(_)) {
        return Ok(());
    }
    Err(Refusal::usage(format!(
        "{} is no view and not empty: name an empty directory or a new one",
        at.path().display()
    )))
}

/// Whether the directory is empty, or has only what an interrupted start of a run leaves: the lock,
/// and the description that did not get its name.
fn is_fresh(at: &ViewDir) -> Result<bool, Refusal> {
    let begun = format!("{INFO}.new");
    let names = at.names().map_err(|why| at.failed(why))?;
    let is_begun = |name: &Vec<u8>| [LOCK.as_bytes(), begun.as_bytes()].contains(&&name[..]);
    Ok(names.is_empty() || names.iter().all(is_begun) && has_own_lock(at))
}

/// Whether the lock is as openpath makes it: empty, private, without a second name.
fn has_own_lock(at: &ViewDir) -> bool {
    let Ok(Some(file)) = at.open_file(LOCK) else {
        return false;
    };
    rustix::fs::fstat(&file).is_ok_and(|stat| {
        let is_plain = stat.st_size == 0 && stat.st_nlink == 1;
        is_plain && is_own(stat.st_uid) && stat.st_mode & 0o7777 == 0o600
    })
}
