// SPDX-License-Identifier: MIT OR Apache-2.0
//! Holds and syncs the file systems that a commit works on.
//!
//! # Rules
//! R1. Each is held by a descriptor from before the first change. syncfs(2) reports what could not
//!     be written since its descriptor was opened, once for each descriptor, so another process
//!     that syncs does not take the error away.
//! R2. A file system that cannot be held is an error, found before anything is done. sync(2) needs
//!     no descriptor, but reports nothing.
//!
//! # Limits
//! * syncfs(2) reports errors from Linux 5.8 on.

use crate::host::names::split;
use crate::host::tree::Tree;
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, Result};
use std::cell::RefCell;

/// File systems, by device.
#[derive(Default)]
pub(crate) struct HeldFilesystems {
    held: RefCell<Vec<((u32, u32), OwnedFd)>>,
}

impl HeldFilesystems {
    /// Holds the file system of a directory, if there is one.
    ///
    /// # Errors
    /// `EACCES`: no directory of it may be read, and this one takes no files (R2).
    pub(crate) fn hold(&self, tree: &Tree, path: &[u8]) -> Result<()> {
        let Some(stat) = tree.stat(path)?.filter(|stat| stat.is_dir()) else {
            return Ok(());
        };
        let mut held = self.held.borrow_mut();
        if !held.iter().any(|(device, _)| *device == stat.device) {
            held.push((stat.device, open(tree, path, stat.device)?));
        }
        Ok(())
    }

    /// Syncs all held file systems.
    ///
    /// # Errors
    /// Something could not be written since they were held.
    pub(crate) fn sync(&self) -> Result<()> {
        #[cfg(any(test, feature = "fault-injection"))]
        seam::reached()?;
        for (_, held) in &*self.held.borrow() {
            rustix::fs::syncfs(held)?;
        }
        Ok(())
    }
}

/// A descriptor in a file system, for which some permission is needed.
fn open(tree: &Tree, path: &[u8], device: (u32, u32)) -> Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut at = path;
    loop {
        let dir = tree.dir(at)?;
        match rustix::fs::openat(&*dir, ".", flags, Mode::empty()) {
            Err(Errno::ACCESS) if !at.is_empty() => at = split(at).0,
            Err(Errno::ACCESS) => break,
            opened => return opened,
        }
        if tree.stat(at)?.is_none_or(|above| above.device != device) {
            break;
        }
    }
    // A file without a name, removed with its descriptor.
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    let dir = tree.dir(path)?;
    let made = rustix::fs::openat(&*dir, ".", flags, Mode::from_raw_mode(0o600));
    made.map_err(|_| Errno::ACCESS)
}

/// A failing disk, for tests.
#[cfg(any(test, feature = "fault-injection"))]
pub(crate) mod seam {
    use rustix::io::{Errno, Result};
    use std::cell::Cell;

    thread_local! {
        static FAILS: Cell<bool> = const { Cell::new(false) };
    }

    /// The next sync of this thread fails.
    pub fn fail_next_sync() {
        FAILS.set(true);
    }

    pub(super) fn reached() -> Result<()> {
        match FAILS.take() {
            true => Err(Errno::IO),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::HeldFilesystems;
    use crate::host::tree::Tree;
    use std::os::unix::fs::{PermissionsExt as _, chown};
    use std::path::PathBuf;

    /// Threads of an ordinary user are asked, which root alone can make.
    #[test]
    fn directory_that_may_not_be_read_is_brought_to_the_disk_by_a_descriptor() {
        if !rustix::process::geteuid().is_root() {
            let line = b"directory_that_may_not_be_read: SKIPPED, it needs root\n";
            std::io::Write::write_all(&mut std::io::stderr(), line).ok();
            return;
        }
        let top = std::env::temp_dir().join(format!("openpath-unread-{}", std::process::id()));
        std::fs::create_dir_all(&top).unwrap();
        let dirs = ["shut", "shut/open", "none"].map(|path| top.join(path));
        for (dir, mode) in dirs.iter().zip([0o300, 0o300, 0o100]) {
            std::fs::create_dir(dir).unwrap();
            chown(dir, Some(1000), Some(1000)).unwrap();
            std::fs::set_permissions(dir, std::fs::Permissions::from_mode(mode)).unwrap();
        }
        let hold = move |top: PathBuf, path: &'static [u8]| {
            let thread = std::thread::spawn(move || {
                let user = rustix::process::Uid::from_raw(1000);
                // The tree begins at the directory: nothing above it can be read instead.
                let tree = Tree::open(&top).unwrap();
                rustix::thread::set_thread_res_uid(user, user, user).unwrap();
                let disks = HeldFilesystems::default();
                disks.hold(&tree, path)?;
                disks.sync()
            });
            thread.join().unwrap()
        };
        assert_eq!(hold(dirs[0].clone(), b""), Ok(()));
        assert_eq!(hold(dirs[0].clone(), b"/open"), Ok(()));
        assert_eq!(hold(dirs[2].clone(), b""), Err(rustix::io::Errno::ACCESS));
        std::fs::remove_dir_all(&top).unwrap();
    }
}
