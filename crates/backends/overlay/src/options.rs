// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the options of an overlay: its layers, where it keeps its marks, and what it records,
//! syncs and allows.

use crate::progress::CopyUpObserver;
use openpath_vfs::{Clock, SuperBlock, SystemClock};
use std::fmt;
use std::sync::Arc;

/// The prefix of the attributes in which the overlay keeps its marks of a file, in the upper tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Marks {
    /// `user.overlay.*`, which any user may set on files and directories (`userxattr`). Linux
    /// follows no redirects there, and links and special files keep no numbers. Whoever owns a file
    /// of a lower tree can set them there as well.
    #[default]
    User,
    /// `trusted.overlay.*`, the default of Linux. For a directory of the host the process must be
    /// the host's root.
    Trusted,
}

impl Marks {
    /// The prefix of all marks.
    #[must_use]
    pub fn prefix(self) -> &'static [u8] {
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
#[non_exhaustive]
pub struct OverlayOptions {
    /// The trees that are read, topmost first; at least one, and 200 at most (`lowerdir=`).
    pub lowers: Vec<Arc<SuperBlock>>,
    /// The tree that takes the changes; without one the overlay is read-only. It belongs to this
    /// overlay alone.
    pub upper: Option<Arc<SuperBlock>>,
    /// Directory in the root of the upper tree that is shown (`upperdir=`). If it is missing, it is
    /// made with the attributes of the topmost lower root.
    pub upper_dir: Vec<u8>,
    /// Directory beside it in which files are staged before they are installed (`workdir=`).
    /// Leftovers of a crash are removed when the overlay is made.
    pub work_dir: Vec<u8>,
    /// The prefix of the marks that the overlay sets in the upper tree and reads in all layers.
    pub marks: Marks,
    /// Whether a directory of a lower tree can be renamed; else that is `EXDEV` (`redirect_dir=`).
    pub redirects: bool,
    /// A character device 0:0 is a file, as on any other file system: mknod(2) and
    /// `RENAME_WHITEOUT` make one, and one in a lower tree hides nothing. Else, as in Linux, both
    /// are refused, and one in a lower tree is a whiteout. With trusted marks, attributes of lower
    /// files that have the names of marks are plain ones as well.
    pub null_devices: bool,
    /// Whether the time at which a name of the lower trees was first replaced is recorded, and the
    /// attributes of a directory when it is copied up.
    pub records_taken: bool,
    /// Whether a whiteout for a name that only lower trees have is made in its place, by one call
    /// of the upper tree, instead of being staged: for trees that make a device 0:0 in one step.
    pub direct_whiteouts: bool,
    /// Whether a file is synced before it is installed, and its directory afterwards.
    pub syncs: bool,
    /// How many entries of merged directories are cached between two calls of a listing.
    pub listed_max: usize,
    /// Nothing may be changed.
    pub read_only: bool,
    /// Name of the file system type, as `/proc/mounts` shows it.
    pub kind: &'static str,
    /// The clock for times of files that are copied up because they are opened.
    pub clock: Arc<dyn Clock>,
    /// The observer of copy-ups.
    pub copying: Option<Arc<dyn CopyUpObserver>>,
}

impl OverlayOptions {
    /// The marks of lower trees; `None`: their attributes are all plain ones.
    pub(crate) fn lower_marks(&self) -> Option<Marks> {
        let is_plain = self.null_devices && self.marks == Marks::Trusted;
        (!is_plain).then_some(self.marks)
    }
}

impl fmt::Debug for OverlayOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OverlayOptions")
            .field("lowers", &self.lowers.len())
            .field("upper", &self.upper.is_some())
            .field("upper_dir", &self.upper_dir)
            .field("work_dir", &self.work_dir)
            .field("marks", &self.marks)
            .field("redirects", &self.redirects)
            .field("null_devices", &self.null_devices)
            .field("records_taken", &self.records_taken)
            .field("direct_whiteouts", &self.direct_whiteouts)
            .field("syncs", &self.syncs)
            .field("listed_max", &self.listed_max)
            .field("read_only", &self.read_only)
            .field("kind", &self.kind)
            .finish_non_exhaustive()
    }
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
            records_taken: false,
            direct_whiteouts: false,
            syncs: false,
            listed_max: 1 << 16,
            read_only: false,
            kind: "overlay",
            clock: Arc::new(SystemClock),
            copying: None,
        }
    }
}

openpath_vfs::setters! {
    OverlayOptions {
        lowers: Vec<Arc<SuperBlock>>,
        upper: Option<Arc<SuperBlock>>,
        upper_dir: Vec<u8>,
        work_dir: Vec<u8>,
        marks: Marks,
        redirects: bool,
        null_devices: bool,
        records_taken: bool,
        direct_whiteouts: bool,
        syncs: bool,
        listed_max: usize,
        read_only: bool,
        kind: &'static str,
        clock: Arc<dyn Clock>,
        copying: Option<Arc<dyn CopyUpObserver>>,
    }
}
