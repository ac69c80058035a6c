// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an overlay as a file system of openpath: lower trees that are read, and an upper tree
//! that takes the changes.
//!
//! # Kernel analogue
//! overlayfs, with `xino=on` and redirects, and without an index: the merged view, copy-up, and the
//! format of the upper tree. Linux can mount a directory of the host that was an upper tree
//! afterwards (`userxattr`), and the other way round.
//!
//! # Layout
//! The upper tree has two directories in its root: one is shown, in the other files are staged
//! before one rename installs them. A character device 0:0 is a whiteout, which hides its name in
//! the lower trees; a guest's own device is stored differently (see `whiteout`). Other state is
//! kept in marks (see `marks`).
//!
//! # Locks
//! | class | protects |
//! |---|---|
//! | `Stacked` | the copy-up of a file; then inodes of the layers, as `InodeNames` there |
//! | `StackedTable` | inodes by their layer inodes |
//! | `StackedList` | listings between two calls |
//! | `StackedAttr` | the copying of attributes from a layer inode |
//!
//! # Rules
//! R1. The upper tree belongs to one overlay alone, while that lives. Lower trees can be shared.
//! R2. A call that may wait is made with no lock held but those of the files that it is about.
//! R3. An errno of a layer is passed on as it is.
//!
//! # Limits
//! * A file with several names in a lower tree becomes a file for each of them once one is changed,
//!   as on Linux without an index.
//! * Copied-up data is charged to no tenant.
//! * Whiteouts that are no devices (of overlays inside of overlays on the host) are not recognised.
//!
//! ```
//! use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_WRONLY};
//! use openpath_mem::{MemFs, MemOptions};
//! use openpath_overlay::{OverlayFs, OverlayOptions};
//! use openpath_vfs::{Cred, Vfs};
//!
//! // The lower tree, filled through a Vfs of its own.
//! let base = MemFs::new(MemOptions::default());
//! let maker = Vfs::builder().build(base.clone())?.task(Cred::root())?;
//! let fd = maker.open(b"/hello", O_WRONLY | O_CREAT, 0o644)?;
//! maker.write(fd, b"below")?;
//!
//! let upper = MemFs::new(MemOptions::default());
//! let options = OverlayOptions::default().lowers(vec![base]).upper(Some(upper));
//! let tree = OverlayFs::new(options)?;
//! let task = Vfs::builder().build(tree)?.task(Cred::root())?;
//! let fd = task.open(b"/hello", O_WRONLY, 0)?;
//! task.write(fd, b"above")?;
//! let mut buf = [0; 5];
//! let read = |task: &openpath_vfs::Task, buf: &mut [u8]| {
//!     let fd = task.open(b"/hello", O_RDONLY, 0)?;
//!     task.read(fd, buf)
//! };
//! assert_eq!((read(&task, &mut buf), &buf), (Ok(5), b"above"));
//! assert_eq!((read(&maker, &mut buf), &buf), (Ok(5), b"below"));
//! # Ok::<(), openpath_abi::Errno>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

mod adopt;
mod attrs;
mod change_list;
mod changes;
mod copy_up;
mod counts;
mod data;
mod fs;
mod invalidation;
mod layer;
mod lent;
mod list;
mod listings;
mod lookup;
mod marks;
mod merged_lookup;
mod moved;
mod names;
mod node;
mod open;
mod ops;
mod options;
mod origin_mark;
mod progress;
mod rename;
mod staged;
mod superblock;
mod taken;
mod whiteout;

pub use attrs::{Sides, SidesByPath};
pub use change_list::{Change, ChangeKind, ChangeRef, Changes};
pub use counts::CopyUpCounts;
pub use options::{Marks, OverlayOptions};
pub use origin_mark::origin_number;
pub use progress::CopyUpObserver;
pub use superblock::OverlayFs;
