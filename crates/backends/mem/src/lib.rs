// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements an in-memory file system for openpath, with the semantics of Linux's tmpfs.
//!
//! # Kernel analogue
//! tmpfs with `huge=never`: results of operations, changes of times, sizes, link counts and block
//! counts, charges against the limits, and the order in which a directory lists its entries (the
//! newest first). Tenants are charged in place of its quota of users and groups.
//!
//! # Locks
//! | class | protects |
//! |---|---|
//! | `MemDir` | the names in one directory |
//! | `MemData` | the data of one regular file, its size and its seals |
//! | `MemXattr` | the extended attributes of one inode |
//!
//! # Rules
//! R1. None of these locks is held while another one of this crate is taken, or while a caller's
//!     code runs. The exception is the code that `with_pages` lends pages to, which must not call
//!     into a tree in memory.
//! R2. An inode is never dropped while one of these locks is held.
//! R3. Counters of the whole tree are single words; a drop gives back what was taken from them and
//!     charged to a tenant.
//!
//! # Guarantees
//! G1. Pages of deleted data go back to the system at once, except a reserve for the next files:
//!     half as many as are in use, and at least 4 MiB. [`openpath_vfs::Vfs::trim`] gives the
//!     reserve back.
//!
//! # Limits
//! * `SEEK_DATA` and `SEEK_HOLE` stay right in the last page below 2^63, where the kernel
//!   overflows.
//! * Pages that fallocate(2) preallocates are counted, but take no memory before they are written.
//! * Positions in a directory rise along the listing; the kernel's own do not. Neither repeats.
//!
//! ```
//! use openpath_mem::{MemFs, MemOptions};
//!
//! let tree = MemFs::new(MemOptions::default().size(1 << 20));
//! assert!(tree.root().is_dir());
//! assert_eq!(tree.ops().statfs()?.blocks, 256);
//! # Ok::<(), openpath_abi::Errno>(())
//! ```
//!
//! Device nodes lead to the drivers of the `Vfs`. An embedder can add its own:
//!
//! ```
//! use openpath_abi::{Errno, fcntl::O_RDONLY, mode::S_IFCHR, stat::makedev};
//! use openpath_mem::{MemFs, MemOptions};
//! use openpath_vfs::{Cred, DeviceKind, DeviceOps, FileOps, Io, Opening, Vfs};
//! use std::{any::Any, sync::Arc};
//!
//! /// Reads as its minor number, over and over.
//! struct Echo(u8);
//!
//! /// Makes one for each opening.
//! struct Driver;
//!
//! impl DeviceOps for Driver {
//!     fn open(&self, opening: &Opening<'_>) -> Result<Box<dyn FileOps>, Errno> {
//!         Ok(Box::new(Echo(opening.minor as u8)))
//!     }
//! }
//!
//! impl FileOps for Echo {
//!     fn as_any(&self) -> &dyn Any {
//!         self
//!     }
//!     fn read(&self, buf: &mut [u8], _: &Io<'_>) -> Option<Result<usize, Errno>> {
//!         buf.fill(self.0);
//!         Some(Ok(buf.len()))
//!     }
//!     fn write(&self, _: &[u8], _: &Io<'_>) -> Option<Result<usize, Errno>> {
//!         Some(Err(Errno::EPERM))
//!     }
//! }
//!
//! let vfs = Vfs::builder()
//!     .device(DeviceKind::Char, 240, 0..=9, Arc::new(Driver))
//!     .build(MemFs::new(MemOptions::default()))?;
//! let task = vfs.task(Cred::root())?;
//! task.mknod(b"/echo", S_IFCHR | 0o444, makedev(240, 7))?;
//! let fd = task.open(b"/echo", O_RDONLY, 0)?;
//! let mut buf = [0; 3];
//! assert_eq!((task.read(fd, &mut buf), buf), (Ok(3), [7; 3]));
//! # Ok::<(), Errno>(())
//! ```

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

mod budget;
mod copy;
mod data;
mod dir;
mod entries;
mod file;
mod ioctl;
mod make;
mod memory;
mod node;
mod ops;
mod options;
mod page_map;
mod preallocated;
mod rename;
mod seal;
mod space;
mod superblock;
mod symlink;
mod xattr;
mod xattr_map;

pub use options::{Charging, MemOptions};
pub use superblock::MemFs;

/// The program of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../../README.md")]
struct Readme;
