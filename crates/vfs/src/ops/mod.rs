// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements system calls on paths and descriptors, one file for each family; all are methods of
//! [`crate::Task`]. Opens, data calls and descriptor tables have modules of their own.
//!
//! The path calls share these steps:
//! 1. The path is copied (`check_path`) and walked ([`resolve`] or [`resolve_parent`]).
//! 2. A change begins at the mount ([`PinnedPath::begin_write`]), and the directory or file is
//!    locked.
//! 3. Permissions are checked, the backend makes the change, and the dentry cache follows.

mod access;
mod attr;
mod beneath;
mod child;
mod create;
mod cwd;
mod deny_write;
mod dir;
mod fcntl;
mod fs;
mod inotify;
mod leases;
mod link;
mod locks;
mod mounts;
mod owner;
mod pipe;
mod readlink;
mod rename;
mod stat;
mod times;
mod tried;
mod truncate;
mod unlink;
mod xattr;

pub use beneath::Beneath;
pub use deny_write::RunningProgram;
pub use dir::DirEntry;
pub use leases::LeaseInfo;
pub use locks::{LockFace, LockWait};
pub use mounts::{LSMT_ROOT, MountAttr};

use crate::file::PathStart;
use crate::inode::Inode;
use crate::object::MountData;
use crate::open::check_path;
use crate::path::PathIds;
use crate::target::Target;
use crate::task::Core;
use crate::walk::{self, Last, lflag};
use openpath_abi::fcntl::{AT_EMPTY_PATH, AT_SYMLINK_NOFOLLOW};
use openpath_abi::{AtFlags, Errno};
use openpath_sync::{Pin, Sample};

/// A place that a walk ended at, pinned until this is dropped (`struct path` with its references).
pub(crate) struct PinnedPath<'t> {
    pub(crate) core: &'t Core,
    pin: Option<Pin>,
    /// The dentry's sample when it was pinned.
    pub(crate) sample: Sample,
}

impl<'t> PinnedPath<'t> {
    pub(crate) fn new(core: &'t Core, pin: Pin, sample: Sample) -> Self {
        Self {
            core,
            pin: Some(pin),
            sample,
        }
    }

    fn pin(&self) -> Result<&Pin, Errno> {
        self.pin.as_ref().ok_or(Errno::ENOENT)
    }

    /// The mount and the dentry.
    pub(crate) fn path_ids(&self) -> PathIds {
        self.pin
            .as_ref()
            .map_or_else(PathIds::default, |p| PathIds {
                mount: p.mount(),
                dentry: p.dentry(),
            })
    }

    /// The inode there.
    ///
    /// # Errors
    /// `ENOENT` if it is a name without an inode.
    #[inline(always)]
    pub(crate) fn inode(&self) -> Result<&Inode, Errno> {
        self.core
            .vfs
            .dcache
            .store
            .dentry_payload(self.pin()?)
            .ok_or(Errno::ENOENT)
    }

    /// A further reference to the inode there.
    ///
    /// # Errors
    /// `ENOENT` if it is a name without an inode.
    pub(crate) fn share_inode(&self) -> Result<std::sync::Arc<Inode>, Errno> {
        self.core
            .vfs
            .dcache
            .store
            .share_dentry_payload(self.pin()?)
            .ok_or(Errno::ENOENT)
    }

    /// The mount it was reached through.
    ///
    /// # Errors
    /// `ENOENT` for a place outside of any mount.
    #[inline(always)]
    pub(crate) fn mount(&self) -> Result<&MountData, Errno> {
        self.core
            .vfs
            .dcache
            .store
            .mount_payload(self.pin()?)
            .ok_or(Errno::ENOENT)
    }

    /// The flags of that mount, now.
    pub(crate) fn mount_flags(&self) -> Sample {
        self.core
            .vfs
            .mounts
            .at(self.path_ids().mount)
            .word()
            .sample()
    }

    /// The pin itself, to be kept.
    pub(crate) fn into_pin(mut self) -> Option<Pin> {
        self.pin.take()
    }
}

impl Drop for PinnedPath<'_> {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(pin) = self.pin.take() {
            self.core.pins.release(pin);
        }
    }
}

/// Walks `path` to its end (`user_path_at`). `flags` are those of [`lflag`].
///
/// # Errors
/// `ENOENT` (empty path without [`lflag::EMPTY`]), `ENAMETOOLONG`, those of the walk.
#[inline(always)]
pub(crate) fn resolve<'t>(
    core: &'t Core,
    at: PathStart<'_>,
    path: &[u8],
    flags: u32,
) -> Result<PinnedPath<'t>, Errno> {
    check_path(path, flags & lflag::EMPTY != 0)?;
    let (pin, sample) = walk::lookup(core, at, path, flags)?;
    Ok(PinnedPath::new(core, pin, sample))
}

/// The directory of a path's last component, and that component.
pub(crate) struct Parent<'t> {
    /// The directory.
    pub(crate) dir: PinnedPath<'t>,
    /// The kind of component, and whether a slash follows it.
    pub(crate) last: Last,
    /// Its name.
    pub(crate) name: Vec<u8>,
}

/// Walks to the directory of the last component of `path` (`filename_parentat`). `flags` are those
/// of [`lflag`].
///
/// # Errors
/// `ENOENT` (empty path), `ENAMETOOLONG`, those of the walk.
pub(crate) fn resolve_parent<'t>(
    core: &'t Core,
    at: PathStart<'_>,
    path: &[u8],
    flags: u32,
) -> Result<Parent<'t>, Errno> {
    check_path(path, false)?;
    let (pin, last, name) = walk::lookup_parent(core, at, path, flags)?;
    let sample = core.vfs.dcache.at(pin.dentry()).word().sample();
    Ok(Parent {
        dir: PinnedPath::new(core, pin, sample),
        last,
        name,
    })
}

impl Parent<'_> {
    /// Whether a rule of the mount keeps the name in place, as a mount point stays. Held: the
    /// directory's names.
    ///
    /// # Errors
    /// Those of [`PinnedPath::mount`].
    pub(crate) fn has_to_stay(&self, core: &Core) -> Result<bool, Errno> {
        let (mount, path_ids) = (self.dir.mount()?, self.dir.path_ids());
        Ok(core.has_to_stay(path_ids.mount, mount, path_ids.dentry, &self.name))
    }
}

impl PinnedPath<'_> {
    /// The inode and mount there.
    ///
    /// # Errors
    /// `ENOENT` if it is a name without an inode.
    #[inline(always)]
    pub(crate) fn target(&self) -> Result<Target<'_>, Errno> {
        Ok(Target {
            core: self.core,
            inode: self.inode()?,
            mount: self.mount()?,
            path_ids: self.path_ids(),
        })
    }
}

/// The walk flags of a call with these `AT_*` flags.
#[inline(always)]
pub(crate) fn at_lookup(at_flags: AtFlags) -> u32 {
    let mut lookup = 0;
    if !at_flags.contains(AT_SYMLINK_NOFOLLOW) {
        lookup |= lflag::FOLLOW;
    }
    if at_flags.contains(AT_EMPTY_PATH) {
        lookup |= lflag::EMPTY;
    }
    lookup
}
