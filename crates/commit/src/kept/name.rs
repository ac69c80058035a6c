// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resolves the name of a view to its directory, and opens or makes that directory.
//!
//! A plain name is a directory in `openpath/views` of the user's state directory
//! (`$XDG_STATE_HOME`, or `~/.local/state`). A name with a slash is a directory itself.

use super::lock::owned;
use super::safe_path::{self, IfMissing};
use crate::host::view_dir::ViewDir;
use crate::report::refusal::{Refusal, RefusalKind};
use std::path::{Path, PathBuf};

/// The longest name.
const NAME_MAX: usize = 64;
/// How often a directory is made again that another process removes at once.
const TRIES: u32 = 16;
/// The part of the state directory that is ours.
const OWN: &str = "openpath";
/// The views in it.
const VIEWS: &str = "views";

/// Whether the name is that of a directory.
pub(super) fn is_path(name: &str) -> bool {
    name.contains('/')
}

/// The directory of a name, whether or not it exists; an error for what is no name.
pub(super) fn path(name: &str) -> Result<PathBuf, Refusal> {
    if is_path(name) {
        return std::path::absolute(name).map_err(|why| Refusal::step(name, why));
    }
    if let Some((user, view)) = of_user(name) {
        return Err(Refusal::usage(format!(
            "`{name}` is how root names a running view of user {user}, for exec, stats and locks: \
             to do anything else with it, run openpath as that user, and call the view `{view}`"
        )));
    }
    if !is_name(name) && Path::new(name).is_dir() {
        return Err(Refusal::usage(format!(
            "`{name}` is no name of a view: a view in a directory is named with a slash, as `{}`",
            match name {
                "." | ".." => format!("{name}/"),
                _ => format!("./{name}"),
            }
        )));
    }
    if !is_name(name) {
        return Err(Refusal::usage(format!(
            "`{name}` cannot be the name of a view: letters, digits, `-`, `_` and `.`, \
             {NAME_MAX} at most"
        )));
    }
    Ok(state_home()?.join(OWN).join(VIEWS).join(name))
}

/// Opens the directory of a name, and checks that it belongs to this user; `None` if there is none
/// and it is not made.
pub(super) fn open(name: &str, if_missing: IfMissing) -> Result<Option<ViewDir>, Refusal> {
    let path = path(name)?;
    let dir = if is_path(name) {
        let dir = safe_path::open(&path, if_missing)?;
        dir.map(|dir| ViewDir::from_fd(dir, path))
    } else {
        match views(if_missing)? {
            Some(views) => open_or_make(&views, name, if_missing)?,
            None => None,
        }
    };
    match dir {
        Some(dir) => owned(&dir).map(|()| Some(dir)),
        None => Ok(None),
    }
}

/// The directory with all named views.
pub(super) fn views(if_missing: IfMissing) -> Result<Option<ViewDir>, Refusal> {
    let state = state_home()?;
    let Some(dir) = safe_path::open_trusted(&state, if_missing)? else {
        return Ok(None);
    };
    let mut dir = ViewDir::from_fd(dir, state);
    for name in [OWN, VIEWS] {
        let Some(next) = open_or_make(&dir, name, if_missing)? else {
            return Ok(None);
        };
        owned(&next)?;
        next.close_to_others().map_err(|why| next.failed(why))?;
        dir = next;
    }
    Ok(Some(dir))
}

/// The directory with all that openpath keeps for this user; `None` where there is no place for it.
#[must_use]
pub fn state_dir() -> Option<PathBuf> {
    state_home().ok().map(|state| state.join(OWN))
}

/// A directory in another, made if it is to be.
fn open_or_make(
    dir: &ViewDir,
    name: &str,
    if_missing: IfMissing,
) -> Result<Option<ViewDir>, Refusal> {
    let failed = |why| Refusal::step(&dir.path().join(name).display().to_string(), why);
    if let Some(found) = dir.subdir(name).map_err(failed)? {
        return Ok(Some(found));
    }
    if if_missing == IfMissing::ReturnNone {
        return Ok(None);
    }
    // Another process may remove it while it is empty.
    let mut made = dir.make_subdir(name);
    for _ in 0..TRIES {
        match &made {
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => made = dir.make_subdir(name),
            _ => break,
        }
    }
    match made {
        Err(why) if why.kind() == std::io::ErrorKind::AlreadyExists => {
            dir.subdir(name).map_err(failed)
        }
        Err(why) if is_refused(&why) => Err(Refusal::new(
            RefusalKind::Unsupported,
            format!(
                "views cannot be kept by name here, as inside another run: {} cannot be made \
                 ({why}); leave --name out, or name a directory by `--upper DIR`",
                dir.path().join(name).display()
            ),
        )),
        made => made.map(Some).map_err(failed),
    }
}

fn is_refused(why: &std::io::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    matches!(why.kind(), PermissionDenied | ReadOnlyFilesystem)
}

/// The number of a user before the name of a view, and that name.
fn of_user(name: &str) -> Option<(u32, &str)> {
    let (user, view) = name.split_once(':')?;
    let user = user.parse().ok()?;
    is_name(view).then_some((user, view))
}

pub(super) fn is_name(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    !name.is_empty() && name.len() <= NAME_MAX && !name.starts_with('.') && name.bytes().all(plain)
}

/// The user's state directory.
fn state_home() -> Result<PathBuf, Refusal> {
    let absolute = |name: &str| {
        let path = std::env::var_os(name).map(PathBuf::from);
        path.filter(|path| path.is_absolute())
    };
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(Path::new(".local/state"))))
        .ok_or_else(|| {
            Refusal::new(
                RefusalKind::Unsupported,
                "no place for views: set HOME or XDG_STATE_HOME",
            )
        })
}

#[cfg(test)]
mod tests {
    use super::path;

    #[test]
    fn names_stay_below_their_directory() {
        for wrong in ["", "..", ".x", "a b", &"x".repeat(65)] {
            assert!(path(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn name_with_the_number_of_a_user_is_refused_with_the_user_to_become() {
        let why = path("1000:task-7").unwrap_err().to_string();
        assert!(why.contains("run openpath as that user"), "{why}");
        let why = path("1000:a b").unwrap_err().to_string();
        assert!(why.contains("cannot be the name"), "{why}");
    }
}
