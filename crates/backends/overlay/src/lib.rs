// SPDX-License-Identifier: MIT OR Apache-2.0
//! Trees stacked on one another as a file system of openpath: some that are read, and one that
//! takes what is changed.
//!
//! # Kernel analogue
//! overlayfs, with `xino=on` and redirects, and without an index: what shows, what is copied up
//! when, and how the upper tree says it. A directory of the host as upper tree can be mounted by
//! Linux afterwards (`userxattr`), and the other way round.
//!
//! # Layout
//! The upper tree has two directories in its root: one is shown, in the other things are made
//! before they are put in place by one rename. A character device 0:0 hides the name it has in the
//! lower trees; a guest's own one is stored so that it differs (see `whiteout`). What else is to be
//! known is kept as marks (see `marks`).
//!
//! # Locks
//! | class | protects |
//! |---|---|
//! | `Stacked` | a file being copied up; then inodes of the layers, as `InodeNames` there |
//! | `StackedTable` | inodes by those they stand for |
//! | `StackedList` | listings between two calls |
//! | `StackedAttr` | attributes being brought over from beneath |
//!
//! # Rules
//! R1. The upper tree belongs to one overlay alone, while that lives. Lower trees belong to nobody.
//! R2. What may wait is done with no lock held but those of the files that the call is about.
//! R3. An errno of a layer is passed on as it is.
//!
//! # Limits
//! * A file with several names in a lower tree is a file for each of them once one is changed, as
//!   on Linux without an index.
//! * What is copied up is charged to no tenant.
//! * Whiteouts that are no devices (of overlays inside of overlays on the host) are not known.
//!
//! ```
//! use openpath_abi::fcntl::{O_CREAT, O_RDONLY, O_WRONLY};
//! use openpath_mem::{MemFs, MemOptions};
//! use openpath_overlay::{OverlayFs, OverlayOptions};
//! use openpath_vfs::{Cred, Vfs};
//!
//! // The lower tree, filled by way of a Vfs of its own.
//! let base = MemFs::new(MemOptions::default());
//! let maker = Vfs::builder().build(base.clone())?.task(Cred::root())?;
//! let fd = maker.open(b"/hello", O_WRONLY | O_CREAT, 0o644)?;
//! maker.write(fd, b"below")?;
//!
//! let tree = OverlayFs::new(OverlayOptions {
//!     lowers: vec![base],
//!     upper: Some(MemFs::new(MemOptions::default())),
//!     ..OverlayOptions::default()
//! })?;
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

mod aside;
mod attrs;
mod change;
mod changes;
mod copied;
mod copying;
mod data;
mod face;
mod find;
mod fs;
mod layer;
mod list;
mod marks;
mod node;
mod open;
mod options;
mod raise;
mod rename;
mod superblock;
mod taken;
mod told;
mod whiteout;

pub use attrs::{Sides, SidesByPath};
pub use changes::{Change, ChangeKind};
pub use copied::Copied;
pub use copying::Copying;
pub use options::{Marks, OverlayOptions};
pub use superblock::OverlayFs;
