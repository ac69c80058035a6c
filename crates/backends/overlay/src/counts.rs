// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an overlay copied up so far.

use openpath_sync::Word;

/// What an overlay copied up since it was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Copied {
    /// Files, directories and links.
    pub files: u64,
    /// Bytes of files, holes included.
    pub bytes: u64,
}

/// The same, while it is counted.
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

    /// The counts by now.
    pub(crate) fn now(&self) -> Copied {
        Copied {
            files: self.files.get(),
            bytes: self.bytes.get(),
        }
    }
}
