// SPDX-License-Identifier: MIT OR Apache-2.0
//! Finds out whether a view has been committed, and whether that was interrupted, from the records
//! in its directory. Refuses a view whose commit was interrupted.

use crate::host::view_dir::ViewDir;
use crate::journal::State;
use crate::journal::records::{CommitDir, Records};
use crate::report::printable::printable;
use crate::report::refusal::{Refusal, RefusalKind};

/// Whether a view has been committed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Committed {
    /// There is nothing to be undone.
    No,
    /// A commit was interrupted.
    Interrupted,
    /// The last commit can be undone.
    Yes,
}

pub(crate) fn remedy(view: &str) -> String {
    let view = printable(view.as_bytes());
    format!("`openpath commit {view} --continue` goes on with it and `--abort` goes back")
}

/// Refuses a view of which a commit was interrupted.
pub(crate) fn check_uninterrupted(
    view: &ViewDir,
    name_of: fn(&ViewDir) -> String,
) -> Result<(), Refusal> {
    check_at(&Records::of(view)?, || name_of(view))
}

pub(crate) fn check_at(records: &Records, name: impl FnOnce() -> String) -> Result<(), Refusal> {
    match committed_at(records)? {
        Committed::Interrupted => Err(Refusal::new(
            RefusalKind::Interrupted,
            format!(
                "a commit of the view in {} was interrupted: {}",
                records.path.display(),
                remedy(&name())
            ),
        )),
        Committed::No | Committed::Yes => Ok(()),
    }
}

/// Whether the view in a directory has been committed.
pub(crate) fn committed(view: &ViewDir) -> Result<Committed, Refusal> {
    committed_at(&Records::of(view)?)
}

fn committed_at(records: &Records) -> Result<Committed, Refusal> {
    Ok(match CommitDir::find(records)? {
        None => Committed::No,
        Some((_, State::Done)) => Committed::Yes,
        Some(_) => Committed::Interrupted,
    })
}
