// SPDX-License-Identifier: MIT OR Apache-2.0
//! A directory of the host as a file system of openpath.
//!
//! # Kernel analogue
//! A network file system: names and attributes are cached here, the truth is elsewhere, and a
//! policy says for how long an answer holds.
//!
//! | policy | names, misses, attributes | a cached open | what others change is seen |
//! |---|---|---|---|
//! | [`Policy::Exclusive`] | kept | no call of the host | never |
//! | [`Policy::Notify`] | kept until inotify tells | no call of the host | after a moment |
//! | [`Policy::Revalidate`] | asked for at each use | a look at each name | at once |
//! | [`Policy::None`] | the same, and no file stays open | the same, and open and close | at once |
//!
//! Data is never kept: reads and writes are the host's, by a descriptor that all openings of a file
//! share. Times, sizes and blocks of our own changes are right at once under every policy.
//!
//! # Staying inside
//! The directory is held by an `O_PATH` descriptor. From there on, everything is one component in a
//! directory that is held, by calls that follow no link; or a path of such components below one, by
//! openat2(2) with `RESOLVE_BENEATH`, `RESOLVE_NO_MAGICLINKS` and `RESOLVE_NO_SYMLINKS`, or where
//! that is refused by openat(2) with `O_NOFOLLOW`, step by step. What is opened by a path is
//! compared with what it was when it was found. Links are followed by the core, inside the tree.
//!
//! # Locks
//! | class | protects |
//! |---|---|
//! | `HostEvents` | events being dealt with: over calls of the host and of the core |
//! | `HostListing` | where the handle of a directory stands: over a listing |
//! | `HostAttr` | attributes being brought up to date: over a look at the host |
//! | `HostHandles`, `HostPlace`, `HostTable`, `HostDevices`, `HostWatches`, `HostPool` | books |
//!
//! # Rules
//! R1. Over a call of the host no lock is held but of the inode that the call is about: a host that
//!     stands still holds up who asked for that file, and nobody else.
//! R2. No inode, node or handle is dropped while a lock of this crate is held.
//! R3. An errno of the host is passed on as it is.
//!
//! # Limits
//! * Calls of the host are made with the process's own rights; guests' are checked by the core.
//! * A file that others moved, and whose handle was given up, is `ESTALE` to who has it open,
//!   unless it has another name that was met here.
//! * A file by two names, one of which is in a directory without a watch: see `watch`.
//! * Attributes of links and special files need a `/proc` in the process's namespace.
//! * io_uring is used with the feature `io-uring`, for data that a ring moves, and nothing else.
//!
//! # Divergence: L81, L89
//!
//! ```
//! use openpath_abi::fcntl::O_RDONLY;
//! use openpath_host::{HostFs, HostOptions, Policy};
//! use openpath_vfs::{Cred, Vfs};
//!
//! let dir = std::env::temp_dir().join(format!("openpath-host-doc-{}", std::process::id()));
//! std::fs::create_dir_all(&dir)?;
//! std::fs::write(dir.join("hello"), "from the host")?;
//! let options = HostOptions { policy: Policy::Exclusive, ..HostOptions::default() };
//! let tree = HostFs::open(&dir, options).map_err(|e| std::io::Error::from_raw_os_error(e.raw()))?;
//! let vfs = Vfs::builder().build(tree).expect("a Vfs");
//! let task = vfs.task(Cred::root()).expect("a task");
//! let fd = task.open(b"/hello", O_RDONLY, 0).expect("open");
//! let mut buf = [0; 4];
//! assert_eq!((task.read(fd, &mut buf), &buf), (Ok(4), b"from"));
//! std::fs::remove_dir_all(&dir)?;
//! # Ok::<(), std::io::Error>(())
//! ```

#![forbid(unsafe_code)]

mod acl;
mod adopt;
mod attr;
#[cfg(feature = "io-uring")]
mod carrier;
mod create;
mod data;
mod events;
mod face;
mod handles;
mod held;
mod hook;
#[cfg(feature = "io-uring")]
mod kernel_ring;
mod list;
mod names;
mod node;
mod options;
mod owner;
mod pool;
mod refresh;
mod rename;
mod set_acl;
#[cfg(test)]
mod stall;
mod superblock;
mod sys;
mod tree;
mod watches;
mod xattr;

pub use held::{HELD, HeldFlags};
pub use options::{Crossing, HostOptions, Ownership, Policy, Reach};
pub use superblock::HostFs;
