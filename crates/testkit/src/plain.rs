// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes a tmpfs of the host that is mounted nowhere, and an openpath tree over it, for cases that
//! compare openpath over the host with the host itself.

use std::sync::Arc;

use openpath_abi::Errno;
use openpath_host::{HostFs, HostOptions, Policy};
use openpath_vfs::SuperBlock;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use serde::{Deserialize, Serialize};

/// The most host descriptors per case: few, so that openpath closes and reopens some.
const HANDLES: usize = 24;

/// How far openpath trusts the file system: the policies of [`openpath_host`], by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Trust {
    /// [`Policy::Exclusive`].
    #[default]
    Exclusive,
    /// [`Policy::Notify`].
    Notify,
    /// [`Policy::Revalidate`].
    Revalidate,
    /// [`Policy::None`].
    None,
}

impl Trust {
    fn policy(self) -> Policy {
        match self {
            Self::Exclusive => Policy::Exclusive,
            Self::Notify => Policy::Notify,
            Self::Revalidate => Policy::Revalidate,
            Self::None => Policy::None,
        }
    }
}

fn errno(error: rustix::io::Errno) -> Errno {
    Errno::checked(error.raw_os_error()).unwrap_or(Errno::EIO)
}

/// A descriptor that leads to the descriptors of this process, even without `/proc`.
///
/// # Errors
/// Those of open(2).
pub fn own_descriptors() -> Result<OwnedFd, Errno> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    rustix::fs::open("/proc/self/fd", flags, Mode::empty()).map_err(errno)
}

/// An empty tmpfs.
#[derive(Debug)]
pub struct Plain {
    root: OwnedFd,
    own: Arc<OwnedFd>,
}

impl Plain {
    /// Makes one with the options of the host's cases.
    ///
    /// # Errors
    /// Those of fsopen(2), fsconfig(2) and fsmount(2).
    pub fn new(own: &Arc<OwnedFd>) -> Result<Plain, Errno> {
        let open = || -> rustix::io::Result<OwnedFd> {
            let fs = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC)?;
            for (key, value) in [
                ("mode", "0755"),
                ("huge", "never"),
                ("size", "1g"),
                ("nr_inodes", "1m"),
            ] {
                rustix::mount::fsconfig_set_string(&fs, key, value)?;
            }
            rustix::mount::fsconfig_create(&fs)?;
            let flags = FsMountFlags::FSMOUNT_CLOEXEC;
            rustix::mount::fsmount(&fs, flags, MountAttrFlags::empty())
        };
        Ok(Plain {
            root: open().map_err(errno)?,
            own: Arc::clone(own),
        })
    }

    /// An openpath tree over it.
    ///
    /// # Errors
    /// Those of [`HostFs::over`].
    pub fn tree(self, trust: Trust) -> Result<Arc<SuperBlock>, Errno> {
        HostFs::over(
            self.root,
            HostOptions::default()
                .policy(trust.policy())
                .handles_max(HANDLES)
                .kind("tmpfs")
                .descriptors(Some(self.own)),
        )
    }
}
