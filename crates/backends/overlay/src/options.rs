// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an overlay is made with.

use crate::copying::Copying;
use openpath_vfs::{Clock, SuperBlock, SystemClock};
use std::sync::Arc;

/// Under which names the overlay keeps what it knows of a file with the file, in the upper tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Marks {
    /// `user.overlay.*`, which anyone may set on files and directories (`userxattr`). Linux follows
    /// no redirects there, and links and special files keep no numbers.
    #[default]
    User,
    /// `trusted.overlay.*`, as Linux has it by default. A directory of the host then takes the
    /// host's root.
    Trusted,
}

impl Marks {
    /// What all their names begin with.
    pub(crate) fn prefix(self) -> &'static [u8] {
        match self {
            Self::User => b"user.overlay.",
            Self::Trusted => b"trusted.overlay.",
        }
    }
}

/// How to make an overlay.
///
/// Linux: the mount options of overlayfs.
#[derive(Clone)]
pub struct OverlayOptions {
    /// The trees that are read, topmost first; at least one, and 200 at most (`lowerdir=`).
    pub lowers: Vec<Arc<SuperBlock>>,
    /// The tree that takes the changes; without one nothing can be changed. It belongs to this
    /// overlay alone.
    pub upper: Option<Arc<SuperBlock>>,
    /// Directory in the root of the upper tree that is shown (`upperdir=`). If there is none it is
    /// made, with the attributes of the topmost lower root.
    pub upper_dir: Vec<u8>,
    /// Directory beside it in which things are made before they are put in place (`workdir=`). What
    /// a crash left in it is removed when the overlay is made.
    pub work_dir: Vec<u8>,
    /// What the overlay notes with files of the upper tree, and looks for in all of them.
    pub marks: Marks,
    /// Whether a directory that is in a lower tree can be renamed; else that is `EXDEV`
    /// (`redirect_dir=`).
    pub redirects: bool,
    /// A character device 0:0 is a file, as on any other file system: mknod(2) and
    /// `RENAME_WHITEOUT` make one, and one in a lower tree hides nothing. Else, as in Linux, both
    /// are refused, and one in a lower tree is a whiteout.
    pub null_devices: bool,
    /// When a name was taken from the lower trees is noted with what replaces its copy, and the
    /// attributes of a directory with its copy.
    pub notes_taken: bool,
    /// A file is brought to stable storage before it is put in place, and the directory after.
    pub syncs: bool,
    /// How many entries of merged directories are remembered between two calls that list them.
    pub listed_max: usize,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Name of the file system type, as `/proc/mounts` shows it.
    pub kind: &'static str,
    /// Whose time a file gets that is copied up because it is opened.
    pub clock: Arc<dyn Clock>,
    /// Who is told how far copying up is.
    pub copying: Option<Arc<dyn Copying>>,
}

impl Default for OverlayOptions {
    fn default() -> Self {
        Self {
            lowers: Vec::new(),
            upper: None,
            upper_dir: b"upper".to_vec(),
            work_dir: b"work".to_vec(),
            marks: Marks::default(),
            redirects: true,
            null_devices: false,
            notes_taken: false,
            syncs: false,
            listed_max: 1 << 16,
            read_only: false,
            kind: "overlay",
            clock: Arc::new(SystemClock),
            copying: None,
        }
    }
}
