// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts FUSE at a directory, which makes the descriptor of `/dev/fuse` that a server serves, and
//! unmounts it.
//!
//! The superuser may mount, and any user in a user namespace and a mount namespace of their own.
//! The user ids of requests are those of the user namespace in which this was called.

use crate::options::Options;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

/// The device of FUSE.
const DEVICE: &str = "/dev/fuse";

/// Mounts FUSE at `dir` with `options`; returns the descriptor for [`crate::Server::serve`]. Until
/// that is called, users of the mount wait. Linux: mount(2), type `fuse`.
///
/// # Errors
/// Those of opening `/dev/fuse` (`ENOENT`, `EACCES`: not there, or not for this user) and of
/// mount(2) (`EPERM`: not for this user, `ENODEV`: no FUSE, `ENOENT`, `ENOTDIR`).
pub fn attach(dir: &Path, options: &Options) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let device = rustix::fs::open(DEVICE, flags, Mode::empty())
        .map_err(|errno| with(errno, "cannot open /dev/fuse"))?;
    let mut data = format!(
        "fd={},rootmode=40{:03o},user_id={},group_id={},default_permissions",
        device.as_raw_fd(),
        options.root_mode & 0o777,
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
    );
    if options.allow_other {
        data.push_str(",allow_other");
    }
    let mut flags = MountFlags::empty();
    if options.read_only {
        flags |= MountFlags::RDONLY;
    }
    if !options.trusted {
        flags |= MountFlags::NOSUID | MountFlags::NODEV;
    }
    let data = CString::new(data)?;
    let source = CString::new(options.source.as_str())?;
    rustix::mount::mount(&source, dir, "fuse.openpath", flags, data.as_c_str())
        .map_err(|errno| with(errno, &format!("cannot mount at {}", dir.display())))?;
    Ok(device)
}

/// Unmounts `dir`: at once, or when it is no longer in use (`lazily`). Linux: umount2(2).
///
/// # Errors
/// `EBUSY` (in use, unless `lazily`), `EINVAL` (nothing is mounted there), `EPERM`.
pub fn detach(dir: &Path, lazily: bool) -> io::Result<()> {
    use rustix::mount::UnmountFlags;
    let flags = if lazily {
        UnmountFlags::NOFOLLOW | UnmountFlags::DETACH
    } else {
        UnmountFlags::NOFOLLOW
    };
    rustix::mount::unmount(dir, flags)
        .map_err(|errno| with(errno, &format!("cannot unmount {}", dir.display())))
}

/// The path of a directory, independent of the working directory.
pub(crate) fn settled(dir: &Path) -> io::Result<std::path::PathBuf> {
    let settled = dir.canonicalize();
    settled.map_err(|e| io::Error::new(e.kind(), format!("cannot mount at {}: {e}", dir.display())))
}

fn with(errno: Errno, what: &str) -> io::Error {
    let error = io::Error::from(errno);
    io::Error::new(error.kind(), format!("{what}: {error}"))
}
