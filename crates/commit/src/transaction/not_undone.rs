// SPDX-License-Identifier: MIT OR Apache-2.0
//! Describes a change that a rollback cannot put back, and why: [`crate::rollback::out_of_reach`]
//! finds it.

use crate::report::path_bytes::PathBytes;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// A change that a rollback cannot put back.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NotUndone {
    /// The path of the change.
    pub path: PathBytes,
    /// Why it cannot be put back.
    pub reason: NotUndoneReason,
    /// Where the old content is.
    pub kept: Option<PathBuf>,
    /// The hidden name that the old content has in the directory that is out of reach, if the
    /// commit had replaced it.
    pub hidden: Option<PathBytes>,
}

/// Why a change cannot be put back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotUndoneReason {
    /// Its directory was moved, removed or replaced.
    Directory,
    /// The old content is not where the commit left it.
    OldContent,
    /// The file or directory itself was moved, removed or replaced.
    File,
}

/// What is out of reach, by number in the journal.
#[derive(Default, Debug)]
pub(crate) struct OutOfReach {
    pub(crate) replacements: BTreeMap<usize, NotUndoneReason>,
    pub(crate) moves: BTreeMap<usize, NotUndoneReason>,
    pub(crate) set_attrs: BTreeMap<usize, NotUndoneReason>,
}

impl OutOfReach {
    pub(crate) fn is_empty(&self) -> bool {
        self.replacements.is_empty() && self.moves.is_empty() && self.set_attrs.is_empty()
    }
}
