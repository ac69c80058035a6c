// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the files and bytes that were copied up so far.

use openpath_sync::Word;

/// Copy-ups since the overlay was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CopyUpCounts {
    /// Files, directories and links.
    pub files: u64,
    /// Bytes of files, holes included.
    pub bytes: u64,
}

/// The counters of an overlay.
#[derive(Default)]
pub(crate) struct Counts {
    files: Word,
    bytes: Word,
}

impl Counts {
    pub(crate) fn file(&self) {
        self.files.add(1);
    }

    pub(crate) fn bytes(&self, n: u64) {
        self.bytes.add(n);
    }

    /// The current counts.
    pub(crate) fn now(&self) -> CopyUpCounts {
        CopyUpCounts {
            files: self.files.get(),
            bytes: self.bytes.get(),
        }
    }
}
