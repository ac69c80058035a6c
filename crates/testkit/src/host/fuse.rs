// SPDX-License-Identifier: MIT OR Apache-2.0
//! Mounts an openpath tree in memory as the root of a case on the host, by FUSE.
//!
//! The actors make the same calls as on a tmpfs. The serving threads belong to the supervisor and
//! stay in the namespace that no case changes; in the case's own namespace they would keep it, and
//! the mount in it, alive.

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use openpath_abi::{Errno, fcntl as f};
use openpath_fuse::{KernelClock, Opens, Options, Rings, Server, Session};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Vfs};
use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};

use super::{HostWorld, fd};
use crate::sys;

/// How to serve the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Serve {
    /// No opens, write-through.
    #[default]
    Plain,
    /// No opens, writeback cache.
    Writeback,
    /// All opens and releases, write-through.
    Opens,
    /// As the first, by ring threads, which the kernel must support.
    Rings,
}

/// A mount that the first actor of a case makes.
pub(super) struct Ground {
    /// The device, in the supervisor's table.
    pub(super) device: i32,
    /// Receives a message when it is mounted.
    pub(super) mounted: Sender<()>,
}

/// The session that serves a case.
#[derive(Debug)]
pub(super) struct Served(Option<JoinHandle<Option<Session>>>);

impl Drop for Served {
    fn drop(&mut self) {
        let session = self.0.take().and_then(|thread| thread.join().ok());
        if let Some(Some(session)) = session {
            // The case is over: its namespace, and with it the mount, is gone.
            let _ended = session.wait();
        }
    }
}

/// A descriptor that leads to the device where no host file system is visible.
///
/// # Errors
/// Those of open(2).
pub(super) fn device() -> Result<i32, Errno> {
    fd(sys::openat(
        f::AT_FDCWD,
        b"/dev/fuse",
        (f::O_PATH | f::O_CLOEXEC).bits(),
        0,
    ))
}

impl HostWorld {
    /// What the first actor of a case mounts, and the session that serves it afterwards.
    pub(super) fn ground(&self, serve: Serve) -> Result<(Ground, Served), Errno> {
        let errno = |e: rustix::io::Errno| Errno::checked(e.raw_os_error()).unwrap_or(Errno::EIO);
        let place = self.device?.to_string();
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&*self.own, place, flags, Mode::empty());
        let device = opened.map_err(errno)?;
        let (mounted, wait) = channel();
        let ground = Ground {
            device: device.as_raw_fd(),
            mounted,
        };
        let body = move || {
            wait.recv().ok()?;
            self::serve(device, serve)
        };
        let thread = std::thread::Builder::new().spawn(body);
        let thread = thread.map_err(|_| Errno::EAGAIN)?;
        Ok((ground, Served(Some(thread))))
    }
}

/// Serves an empty tree like those of the cases on tmpfs.
fn serve(device: OwnedFd, serve: Serve) -> Option<Session> {
    let tree = MemFs::new(
        MemOptions::default()
            .mode(0o755)
            .size(1 << 30)
            .inodes(1 << 20),
    );
    // Keeps these times in order with the times that identify operations.
    let clock = KernelClock::new().ok()?;
    let vfs = Vfs::builder().clock(Box::new(clock)).build(tree).ok()?;
    let task = vfs.task(Cred::root()).ok()?;
    let options = Options::default()
        .opens(match serve {
            Serve::Opens => Opens::Each,
            _ => Opens::Never,
        })
        .writeback(serve == Serve::Writeback)
        .rings(serve == Serve::Rings)
        .threads(2);
    let session = Server::new(&task, options).ok()?.serve(device).ok()?;
    // If rings are missing, the tree is not served and the case fails.
    let is_as_told = serve != Serve::Rings || session.handle().rings() == Rings::Used;
    is_as_told.then_some(session)
}
