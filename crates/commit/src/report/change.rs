// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines a change that a command made in its view: its kind, its path, and the attributes before
//! and after.

use crate::report::path_bytes::PathBytes;
use serde::{Deserialize, Serialize};

/// What became of a name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ChangeKind {
    /// It was not there.
    Added,
    /// Its data or its type changed, or another directory replaces it.
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

/// The type of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum FileType {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A device, FIFO or socket.
    Other,
}

/// A file that is neither a regular file, a directory nor a symbolic link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum SpecialFile {
    /// A block device, with its major and minor number.
    BlockDevice(u32, u32),
    /// A character device, with its major and minor number.
    CharacterDevice(u32, u32),
    /// A FIFO.
    Fifo,
    /// A UNIX socket.
    Socket,
}

/// How the access control lists of a file changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub enum AclChange {
    /// It had none, and has some.
    Set,
    /// It had some, and has none.
    Removed,
    /// It has others.
    Changed,
}

/// User and group.
pub type Owner = (u32, u32);

/// The attributes that differ, of a name that existed before and still does. Of a new file, and of
/// one with another type than before: what a plain new file of the caller would not have.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AttrDiff {
    /// The permission bits; of a new file, it has set-id bits.
    pub mode: bool,
    /// The owner before and now; of a new file, the caller and the owner.
    pub owner: Option<(Owner, Owner)>,
    /// The time of change, of a file with the data that it had.
    pub times: bool,
    /// The access control lists.
    pub lists: Option<AclChange>,
    /// Names of other extended attributes.
    pub xattrs: Vec<PathBytes>,
}

/// A name that a run changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Where, in the view.
    pub path: PathBytes,
    /// What became of it.
    pub kind: ChangeKind,
    /// Its type; of one that is gone, the type it had.
    #[serde(rename = "what")]
    pub file_type: FileType,
    /// Its type before; of one that was not there, its type now.
    #[serde(rename = "what_before")]
    pub file_type_before: FileType,
    /// Its size now; 0 of one that is gone.
    pub size: u64,
    /// Its size before; 0 of one that was not there.
    pub size_before: u64,
    /// Permission bits now; those from before of one that is gone.
    pub mode: u32,
    /// Permission bits before; 0 of one that was not there.
    pub mode_before: u32,
    /// Its data changed; not set for a name that is new or gone.
    pub data: bool,
    /// The attributes that changed.
    pub differs: AttrDiff,
    /// How many names were below a directory that is gone or has another type now.
    pub below: u64,
    /// It was renamed over another file, which is gone.
    pub replaces: bool,
    /// Where a symbolic link leads now.
    pub target: Option<PathBytes>,
    /// What a device, FIFO or socket is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub special: Option<SpecialFile>,
}

impl Change {
    /// A name, and what became of it; its types and sizes are not known yet.
    #[must_use]
    pub fn bare(path: PathBytes, kind: ChangeKind) -> Change {
        Change {
            path,
            kind,
            file_type: FileType::Other,
            file_type_before: FileType::Other,
            size: 0,
            size_before: 0,
            mode: 0,
            mode_before: 0,
            data: false,
            differs: AttrDiff::default(),
            below: 0,
            replaces: false,
            target: None,
            special: None,
        }
    }

    /// Whether it has no file of the same type before it.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.kind == ChangeKind::Added || self.file_type != self.file_type_before
    }
}
