// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a run changed.

use crate::path_bytes::PathBytes;
use serde::{Deserialize, Serialize};

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// It was not there.
    Added,
    /// Its data is another, or what it is; another directory replaces it.
    Modified,
    /// It is gone.
    Deleted,
    /// It was there under another name.
    Renamed {
        /// Under which.
        from: PathBytes,
    },
    /// Its data is as it was; mode, owner, times or attributes are not, or an equal file replaces
    /// it.
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

/// What became of the access control lists of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Lists {
    /// It had none, and has some.
    Set,
    /// It had some, and has none.
    Removed,
    /// It has others.
    Changed,
}

/// User and group.
pub type Owner = (u32, u32);

/// Attributes that are not as they were, of a name that was there and still is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differs {
    /// The permission bits.
    pub mode: bool,
    /// The owner before and now.
    pub owner: Option<(Owner, Owner)>,
    /// The time of change, of a file with the data that it had.
    pub times: bool,
    /// The access control lists.
    pub lists: Option<Lists>,
    /// Names of other extended attributes.
    pub xattrs: Vec<PathBytes>,
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
    /// What it was; of one that was not there, what it is.
    pub what_before: What,
    /// Its size now; 0 of one that is gone.
    pub size: u64,
    /// Its size before; 0 of one that was not there.
    pub size_before: u64,
    /// Permission bits now; those from before of one that is gone.
    pub mode: u32,
    /// Permission bits before; 0 of one that was not there.
    pub mode_before: u32,
    /// Its data is another than before; of a name that is new or gone, not set.
    pub data: bool,
    /// Which attributes are others than before.
    pub differs: Differs,
    /// Names that were below a directory that is gone or no directory any more.
    pub below: u64,
    /// It was renamed to a name that something else had, which is gone.
    pub replaces: bool,
    /// Where a symbolic link leads now.
    pub target: Option<PathBytes>,
}

impl Change {
    /// A name, and what became of it; what it is and was is not known yet.
    #[must_use]
    pub fn bare(path: PathBytes, kind: Kind) -> Change {
        Change {
            path,
            kind,
            what: What::Other,
            what_before: What::Other,
            size: 0,
            size_before: 0,
            mode: 0,
            mode_before: 0,
            data: false,
            differs: Differs::default(),
            below: 0,
            replaces: false,
            target: None,
        }
    }
}
