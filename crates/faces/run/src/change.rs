// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run changed.

use crate::plan::PathBytes;
use serde::{Deserialize, Serialize};

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// It was not there.
    Added,
    /// Its data is another, or what it is.
    Modified,
    /// It is gone.
    Deleted,
    /// It was there under another name.
    Renamed {
        /// Under which.
        from: PathBytes,
    },
    /// Its data is as it was; mode, owner, times or attributes are not.
    Attributes,
}

/// What a name is; of one that is gone, what it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum What {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, FIFO or socket.
    Other,
}

/// A name that a run changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Where, in the view.
    pub path: PathBytes,
    /// What became of it.
    pub kind: Kind,
    /// What it is.
    pub what: What,
    /// Its size now; 0 of one that is gone.
    pub size: u64,
    /// Its size before; 0 of one that was not there.
    pub size_before: u64,
    /// Permission bits now; those from before of one that is gone.
    pub mode: u32,
    /// Permission bits before.
    pub mode_before: u32,
    /// Its access control lists are others than before; not set of what is added or deleted.
    #[serde(default)]
    pub lists: bool,
}

impl Change {
    /// A name, and what became of it; what it is and was is not known yet.
    pub(crate) fn bare(path: PathBytes, kind: Kind) -> Change {
        Change {
            path,
            kind,
            what: What::Other,
            size: 0,
            size_before: 0,
            mode: 0,
            mode_before: 0,
            lists: false,
        }
    }
}
