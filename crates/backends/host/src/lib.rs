// SPDX-License-Identifier: MIT OR Apache-2.0
//! Shows a directory of the host as a file system of openpath.
//!
//! # Kernel analogue
//! A network file system: names and attributes are cached here, the truth is elsewhere, and a
//! policy decides how long an answer is valid.
//!
//! | policy | names, misses, attributes | a cached open | changes by others are seen |
//! |---|---|---|---|
//! | [`Policy::Exclusive`] | cached | no call of the host | never |
//! | [`Policy::Notify`] | cached until an inotify event | no call of the host | after a moment |
//! | [`Policy::Revalidate`] | asked for at each use | a look at each name | at once |
//! | [`Policy::None`] | the same, and no file stays open | the same, and open and close | at once |
//!
//! Data is never cached: reads and writes are the host's, by a descriptor that all opens of a
//! file share. Times, sizes and blocks are right at once after our own changes, under every policy.
//!
//! # Staying inside
//! An `O_PATH` descriptor holds the directory. From there on each call is about one component in a
//! directory that is held, and follows no link; or it opens a path of such components. Paths are
//! opened by openat2(2) with `RESOLVE_BENEATH`, `RESOLVE_NO_MAGICLINKS` and `RESOLVE_NO_SYMLINKS`,
//! or where the host refuses that, by openat(2) with `O_NOFOLLOW`, step by step. A file that is
//! opened by a path is compared with its identity. The core follows links, inside the tree.
//!
//! # Locks
//! | class | protects |
//! |---|---|
//! | `HostEvents` | the processing of events: over calls of the host and of the core |
//! | `HostListing` | the position of a directory's handle: over a listing |
//! | `HostAttr` | attributes during a refresh: over a look at the host |
//! | `HostHandles`, `HostPlace`, `HostTable` | bookkeeping of handles, aliases and inodes |
//! | `HostDevices`, `HostWatches`, `HostPool` | bookkeeping of devices, watches and the pool |
//!
//! # Rules
//! R1. Over a call of the host no lock is held but of the inode that the call is about: a host that
//!     hangs delays the callers that use that file, and no others.
//! R2. No inode, node or handle is dropped while a lock of this crate is held.
//! R3. An errno of the host is passed on as it is.
//!
//! # Limits
//! * Calls of the host are made with the process's own rights; the core checks guests' rights.
//! * A file that others moved, and whose handle was evicted, is `ESTALE` where it is open, unless
//!   the tree knows another name of it.
//! * A file with two names, one of which is in a directory without a watch: see `events`.
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
//! let options = HostOptions::default().policy(Policy::Exclusive);
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
#![deny(missing_debug_implementations)]

mod acl;
mod adopt;
#[cfg(feature = "io-uring")]
mod async_io;
mod attr;
mod create;
mod data;
mod enforced;
mod events;
mod handles;
#[cfg(feature = "io-uring")]
mod kernel_ring;
mod lease_waits;
mod list;
mod lookup;
mod node;
mod open;
mod ops;
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
mod unlink;
mod watches;
mod xattr;

pub use enforced::{EnforcedFlags, HELD};
pub use lease_waits::LeaseWaits;
pub use options::{Crossing, HostOptions, Interruption, Ownership, Policy, Reach};
pub use superblock::HostFs;
