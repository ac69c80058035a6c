// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Linux open path as a library: path walk, dentry cache, mounts, open and the other path
//! calls.
//!
//! A [`Vfs`] is what a kernel is to its programs, as a value. Its root is a [`SuperBlock`] of some
//! backend. Programs are [`Task`]s, whose methods are the system calls; an [`OpenFile`] is an open
//! file description.
//!
//! What a cached call does: it takes no lock, waits for nothing, calls no backend, and writes no
//! memory but its task's own. See the heads of `walk` and `dcache` for how.

#![forbid(unsafe_code)]

mod above;
mod acl;
mod atime;
mod buffer;
mod bytes;
mod clock;
mod config;
mod cred;
mod dcache;
mod device;
mod explain;
mod fd;
mod file;
mod forget;
mod inode;
mod instance;
mod interrupt;
mod io;
mod lease;
mod lock;
pub mod lock_order;
mod mount;
mod name;
mod named;
mod notify;
mod open;
mod ops;
mod path;
mod path_cache;
mod perm;
mod pipe;
mod pressure;
mod stand_in;
mod superblock;
mod task;
mod tenant;
mod tried;
mod walk;
mod weak_list;

pub use above::Above;
pub use acl::{Acl, AclEntry, AclKind, AclMatch, AclTag, Acls, SetAcl};
pub use bytes::Bytes;
pub use clock::{Clock, Entropy, FineClock, SystemClock, SystemEntropy};
pub use config::{Limits, Profile, Sysctl, Tuning};
pub use cred::Cred;
pub use device::{DeviceKind, DeviceOps, Opening};
pub use explain::{
    Cached, Check, Decider, ExplainOp, Explanation, Fast, Field, Lane, Permission, Place, Step,
    Value, Would,
};
#[doc(hidden)]
pub use fd::FdMap;
pub use fd::OwnerEx;
pub use file::{Fd, FileOps, Io, LastFile, OpenFile, Running};
pub use inode::{
    Attr, Cargo, Carried, Carrier, Extent, Found, Inode, InodeOps, Listed, NewInode, Patience,
    Rename, SetAttr, Way, flag,
};
pub use instance::{Usage, Vfs, VfsBuilder};
pub use interrupt::Interrupter;
pub use io::{Carriage, DataWait, fileattr};
pub use lease::{Layout, LeaseBreak, LeaseBreaks, LeaseFlavor, LeaseInfo, NoLayouts};
pub use lock::{FileLock, LockCall, LockFace, LockInfo, LockKind, LockOwner, LockWait};
pub use mount::{
    AbsentRules, AbsentRulesBuilder, MountFlags, MountInfo, Namespace, Propagation, mflag,
};
pub use ops::{Beneath, DirEntry, LSMT_ROOT, MountAttr};
pub use path::VfsPath;
pub use pressure::{Pressure, Relief, Shrinker};
pub use superblock::{Caching, SuperBlock, SuperBlockOps, SuperBlockOptions};
pub use task::Task;
pub use tenant::{Activity, Tenant, TenantLimits, TenantRef, TenantStats};
pub use tried::TryError;
pub use walk::{Reason, Reasons};

#[doc(inline)]
pub use openpath_sync::Census;
