// SPDX-License-Identifier: MIT OR Apache-2.0
//! Removes a view in steps, so that no half of one is ever taken for a view, and finishes a discard
//! that was interrupted.
//!
//! # States
//! Whole -> discarding: `view.toml` is renamed into the directory `.openpath-discarded` beside it,
//! in one step. From then on there is no view. The next run under the name, or any discard,
//! finishes. All other names of ours follow into it, and are removed there.
//!
//! # Rules
//! R1. Only names of ours are moved and removed. What others have put into the directory stays, and
//!     the directory with it.
//! R2. The lock is held throughout; its file is removed last.
//! R3. Once `view.toml` is in `.openpath-discarded`, that directory goes last of all but the lock:
//!     by it a later discard knows that the names beside it are ours.

use super::lock::ViewLock;
use super::safe_path::IfMissing;
use super::state::{State, damaged, needs_manual_removal, state};
use super::{
    DISCARDED, INFO, LOCK, WORK, fresh, lock, name, name_of, named_views, no_such_view, own_names,
    step_failed,
};
use crate::host::names::names_in;
use crate::host::view_dir::ViewDir;
use crate::journal::committed;
use crate::report::refusal::Refusal;
use rustix::fd::AsFd as _;
use rustix::fs::AtFlags;
use rustix::io::Errno;
use std::io;

/// Asked before each step; an error ends everything where it is, as a signal would.
pub(super) type Step<'a> = &'a mut dyn FnMut() -> io::Result<()>;

/// Removes a view with all that is in it; what it has committed cannot be undone any more. What
/// interrupted discards left of named views is removed as well. `removed` is called before each
/// name.
///
/// # Errors
/// There is none; another process uses it; it belongs to another user; a commit of it was
/// interrupted; it is damaged, and not in the directory of named views; what the file system says.
pub fn discard(name: &str, removed: &mut dyn FnMut()) -> Result<(), Refusal> {
    let done = discard_steps(name, &mut || Ok(()), removed);
    finish_discards();
    done
}

pub(super) fn discard_steps(
    name: &str,
    step: Step<'_>,
    removed: &mut dyn FnMut(),
) -> Result<(), Refusal> {
    let at = name::open(name, IfMissing::ReturnNone)?.filter(|at| fresh::is_view(name, at));
    let at = at.ok_or_else(|| no_such_view(name))?;
    match state(&at) {
        State::Empty => return Err(no_such_view(name)),
        State::Damaged(why) if needs_manual_removal(name, &at) => {
            return Err(damaged(name, &at, &why));
        }
        _ => {}
    }
    let held = lock::lock_to_discard(&at)?;
    match state(&at) {
        State::Empty => return Err(no_such_view(name)),
        State::Whole(_) => committed::check_uninterrupted(&at, name_of)?,
        State::Damaged(why) if needs_manual_removal(name, &at) => {
            return Err(damaged(name, &at, &why));
        }
        State::Discarding | State::Damaged(_) => {}
    }
    remove(held, step, removed).map_err(|why| step_failed(name, "be discarded", &why))
}

/// Finishes discards of named views that were interrupted.
fn finish_discards() {
    for (_, at) in named_views().unwrap_or_default() {
        let left = || matches!(state(&at), State::Discarding | State::Empty);
        if left()
            && let Ok(held) = lock::lock_to_discard(&at)
            && left()
        {
            // The list shows what is left.
            let _left = remove(held, &mut || Ok(()), &mut || {});
        }
    }
}

/// Removes a whole view, or what is left of one, if its directory holds nothing but ours. `removed`
/// is called before each name.
pub(super) fn remove(held: ViewLock, step: Step<'_>, removed: &mut dyn FnMut()) -> io::Result<()> {
    let dir = held.dir().clone();
    step()?;
    // R3
    if dir.has(INFO)? || !dir.has(DISCARDED)? {
        let going = match dir.subdir(DISCARDED)? {
            // Left by a discard that ended before it began.
            Some(left) => left,
            None => match dir.make_subdir(DISCARDED) {
                Err(why) if is_full(&why) => reuse_work(&dir, step)?,
                made => made?,
            },
        };
        clear(&going, removed)?;
        step()?;
        follow(&dir, &going, INFO)?;
        dir.sync()?;
    }
    finish(&held, step, removed)?;
    step()?;
    dir.remove_file(LOCK)?;
    step()?;
    drop(held);
    remove_empty(&dir)
}

/// There is no room for a directory.
fn is_full(why: &io::Error) -> bool {
    let why = Errno::from_io_error(why);
    matches!(why, Some(Errno::NOSPC | Errno::DQUOT))
}

/// Makes [`DISCARDED`] of the overlay's work directory, which takes no room. If the discard ends
/// here, the next run of the view makes another one, as soon as there is room.
fn reuse_work(dir: &ViewDir, step: Step<'_>) -> io::Result<ViewDir> {
    let work = dir.subdir(WORK)?.ok_or(Errno::NOSPC)?;
    clear(&work, &mut || {})?;
    step()?;
    rustix::fs::renameat(dir, WORK, dir, DISCARDED)?;
    Ok(work)
}

/// Removes all that is in a directory of ours.
fn clear(dir: &ViewDir, removed: &mut dyn FnMut()) -> io::Result<()> {
    for name in names_in(dir.as_fd())? {
        remove_tree(dir, name, removed)?;
    }
    Ok(())
}

/// Finishes what another discard began; the lock stays.
pub(super) fn finish(held: &ViewLock, step: Step<'_>, removed: &mut dyn FnMut()) -> io::Result<()> {
    let dir = held.dir();
    let Some(going) = dir.subdir(DISCARDED)? else {
        return Ok(());
    };
    for name in own_names().filter(|name| ![LOCK, DISCARDED].contains(name)) {
        step()?;
        follow(dir, &going, name)?;
        dir.remove_file(&format!("{name}.new"))?;
    }
    for name in own_names() {
        step()?;
        remove_tree(&going, name, removed)?;
    }
    step()?;
    remove_tree(dir, DISCARDED, removed)
}

/// Moves a name of ours, if it is there.
fn follow(dir: &ViewDir, going: &ViewDir, name: &str) -> io::Result<()> {
    match rustix::fs::renameat(dir, name, going, name) {
        Err(Errno::NOENT) => Ok(()),
        done => Ok(done?),
    }
}

/// Removes a tree, of which directories may have lost their permissions; `removed` is called before
/// each name.
fn remove_tree(dir: &ViewDir, name: impl AsRef<[u8]>, removed: &mut dyn FnMut()) -> io::Result<()> {
    let keep_going = &mut || {
        removed();
        true
    };
    Ok(crate::host::remove::remove(
        dir.as_fd(),
        name.as_ref(),
        keep_going,
    )?)
}

/// Removes the directory itself, if it is empty and may be removed.
fn remove_empty(dir: &ViewDir) -> io::Result<()> {
    let place = dir.kernel_path();
    let Some(name) = place.file_name() else {
        return Ok(());
    };
    let parent = rustix::fs::openat(
        dir,
        "..",
        crate::host::view_dir::HOLD,
        rustix::fs::Mode::empty(),
    )?;
    let (here, there) = (
        dir.stat()?,
        rustix::fs::statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW),
    );
    if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino)) {
        match rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR) {
            // R1, or a directory that was the user's before it was a view's.
            Err(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY | Errno::ACCESS | Errno::PERM)
            | Err(Errno::ROFS | Errno::NOENT) => {}
            done => done?,
        }
    }
    Ok(())
}
