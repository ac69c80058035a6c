// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements the Linux open path as a library: path walk, dentry cache, mounts, open and the other
//! path calls.
//!
//! A [`Vfs`] is to its programs what a kernel is, as a value. Its root is a [`SuperBlock`] of some
//! backend. Programs are [`Task`]s, whose methods are the system calls; an [`OpenFile`] is an open
//! file description.
//!
//! A cached call takes no lock, waits for nothing, calls no backend, and writes no memory but its
//! task's own. The heads of `walk` and `dcache` explain how.

#![forbid(unsafe_code)]
#![deny(missing_debug_implementations)]

mod absent;
mod acl;
mod atime;
mod buffer;
mod bytes;
mod clock;
mod config;
mod cred;
mod dcache;
mod debug;
mod device;
mod events;
mod explain;
mod fd;
mod fd_table;
mod file;
mod file_locks;
mod file_ops;
mod forget;
mod inode;
mod instance;
mod interrupt;
mod invalidation_listener;
mod io;
mod layout;
mod lease;
mod lock;
mod lock_call;
#[doc(hidden)]
pub mod lock_order;
mod mark;
mod mount;
mod name;
mod named;
mod namespace;
mod notify;
mod object;
mod open;
mod ops;
mod path;
mod path_cache;
mod perm;
mod pipe;
mod pressure;
mod proxy_task;
mod reason;
mod release;
mod setters;
mod shrinker;
mod steps;
mod superblock;
mod target;
mod task;
mod tenant;
mod tenant_lru;
mod tried;
mod vfs;
mod walk;
mod weak_list;

pub use absent::{AbsentRules, AbsentRulesBuilder};
pub use acl::{Acl, AclEntry, AclKind, AclMatch, AclTag, Acls, SetAcl};
pub use bytes::Bytes;
pub use clock::{Clock, Entropy, FineClock, SystemClock, SystemEntropy};
pub use config::{Limits, Profile, Sysctl, Tuning};
pub use cred::Cred;
pub use device::{DeviceKind, DeviceOps, Opening};
pub use explain::{ExplainOp, Explanation, FastPath, Lane};
#[doc(hidden)]
pub use fd_table::FdMap;
pub use file::{LastFile, OpenFile};
pub use file_ops::{Fd, FileOps, Io, OwnerEx};
pub use inode::{
    AsyncIo, Attr, Extent, Inode, InodeOps, IoCompletion, IoKind, IoRequest, ListedEntry,
    LookupResult, NewInode, Rename, SetAttr, WaitMode, flag,
};
pub use instance::Vfs;
pub use interrupt::Interrupter;
pub use invalidation_listener::InvalidationListener;
pub use io::{DataWait, PreparedIo, fileattr};
pub use layout::{Layout, NoLayouts};
pub use lease::{LeaseBreak, LeaseBreaks, LeaseFlavor};
pub use lock::LockInfo;
pub use lock_call::{FileLock, LockCall, LockKind, LockOwner};
pub use mount::{MountFlags, MountInfo, Propagation};
pub use namespace::Namespace;
pub use object::mflag;
pub use ops::{
    Beneath, DirEntry, LSMT_ROOT, LeaseInfo, LockFace, LockWait, MountAttr, RunningProgram,
};
pub use path::VfsPath;
pub use perm::Decider;
pub use pressure::{Pressure, Reclaimed};
pub use reason::{Reason, Reasons};
pub use shrinker::Shrinker;
pub use steps::{Cached, Check, Field, Permission, SkippedChange, Step, Value, WalkPosition};
pub use superblock::{Caching, SuperBlock, SuperBlockOps, SuperBlockOptions};
pub use task::Task;
pub use tenant::{Activity, Tenant, TenantLimits, TenantRef, TenantStats};
pub use tried::TryError;
pub use vfs::{Usage, VfsBuilder};

#[doc(inline)]
pub use openpath_sync::Census;
