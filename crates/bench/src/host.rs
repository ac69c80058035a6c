// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up the file systems of the host kernel that openpath is compared with: a tmpfs and an ext4
//! directory, each entered as the root directory.
//!
//! Both sides get the same absolute paths of the same depth; the host resolves them from a root
//! that is the file system under test. tmpfs keeps no negative dentries, so a failed open is also
//! measured against ext4, which does.

use std::ffi::CString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::calls::{Calls, Kernel};
use crate::error::Error;
use crate::paths::Chain;
use crate::{harness, process, sys};

/// The host file systems of one run. Dropping it restores the process's own mount namespace and
/// root directory, as far as possible.
pub(crate) struct Host {
    /// The tmpfs.
    pub(crate) tmpfs: Root,
    /// The ext4 directory, or why there is none.
    pub(crate) ext4: Result<Root, String>,
    home: File,
    cwd: PathBuf,
    base: PathBuf,
}

/// A directory that can become the root.
pub(crate) struct Root {
    dir: File,
    path: PathBuf,
    mounted: bool,
}

impl Host {
    /// Makes a private mount namespace with both file systems in it.
    pub(crate) fn new() -> Result<Self, Error> {
        // Another root directory hides its counter.
        harness::stolen();
        let cwd = std::env::current_dir().map_err(|e| Error::host("working directory", e))?;
        sys::private_mounts().map_err(|e| Error::host("private mount namespace", e))?;
        // Opened earlier, it would lead back to the mounts that we left.
        let home = File::open("/").map_err(|e| Error::host("open /", e))?;
        let base = std::env::temp_dir().join(format!("openpath-bench-{}", std::process::id()));
        let place = base.join("tmpfs");
        fs::create_dir_all(&place).map_err(|e| Error::host("scratch directory", e))?;
        sys::mount_tmpfs(&c_path(&place)).map_err(|e| Error::host("mount tmpfs", e))?;
        let tmpfs = Root::open(place, true).map_err(|e| Error::host("open tmpfs", e))?;
        let ext4 = find_ext4(&base);
        Ok(Self {
            tmpfs,
            ext4,
            home,
            cwd,
            base,
        })
    }

    /// The available file systems, with their names in rows.
    pub(crate) fn roots(&self) -> impl Iterator<Item = (&'static str, &Root)> + Clone {
        let ext4 = self.ext4.iter().map(|root| ("ext4", root));
        ext4.chain([("tmpfs", &self.tmpfs)])
    }

    /// Returns to the process's first root directory.
    pub(crate) fn leave(&self) -> Result<(), Error> {
        sys::enter_root(self.home.as_fd())
            .and_then(|()| std::env::set_current_dir(&self.cwd))
            .map_err(|e| Error::host("leave the root directory", e))
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.leave();
        for root in self.ext4.iter().chain([&self.tmpfs]) {
            if root.mounted {
                sys::umount(&c_path(&root.path));
            }
            let _ = fs::remove_dir_all(&root.path);
        }
        let _ = fs::remove_dir_all(&self.base);
    }
}

impl Root {
    fn open(path: PathBuf, mounted: bool) -> io::Result<Self> {
        Ok(Self {
            dir: File::open(&path)?,
            path,
            mounted,
        })
    }

    /// Its path from the process's first root directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes this the root and the working directory.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        sys::enter_root(self.dir.as_fd()).map_err(|e| Error::host("enter the root directory", e))
    }

    /// Creates the directories and files of `chains`; the caller must be outside any root.
    pub(crate) fn grow(&self, chains: &[Chain]) -> Result<(), Error> {
        self.enter()?;
        Kernel.grow(chains)
    }

    /// Removes everything below, by a fresh mount if it is a mount.
    pub(crate) fn remount(&mut self) -> Result<(), Error> {
        let place = c_path(&self.path);
        sys::umount(&place);
        let again = sys::mount_tmpfs(&place).and_then(|()| File::open(&self.path));
        self.dir = again.map_err(|e| Error::host("mount tmpfs anew", e))?;
        Ok(())
    }
}

fn c_path(path: &Path) -> CString {
    CString::new(path.as_os_str().as_bytes()).unwrap_or_default()
}

/// Finds a scratch directory on ext4: the working directory, the temporary directory, or an image.
fn find_ext4(base: &Path) -> Result<Root, String> {
    let near = std::env::current_dir().unwrap_or_default().join("target");
    let name = base.file_name().unwrap_or_default();
    for place in [std::env::temp_dir(), PathBuf::from("/var/tmp"), near] {
        if kind_of(&place).as_deref() == Some("ext4") {
            let dir = place.join(name).join("ext4");
            if fs::create_dir_all(&dir).is_ok() {
                return Root::open(dir, false).map_err(|e| e.to_string());
            }
        }
    }
    let (image, dir) = (base.join("tmpfs/ext4.img"), base.join("ext4"));
    let make = || {
        File::create(&image)?.set_len(256 << 20)?;
        fs::create_dir_all(&dir)?;
        process::run(Command::new("mkfs.ext4").arg("-qF").arg(&image))?;
        let mut mount = Command::new("mount");
        process::run(mount.arg("-o").arg("loop").args([&image, &dir]))
    };
    make().map_err(|e| format!("no writable ext4 here, and none was made: {e}"))?;
    Root::open(dir, true).map_err(|e| e.to_string())
}

/// The type of the file system `path` is on, from the mount table.
fn kind_of(path: &Path) -> Option<String> {
    let dev = fs::metadata(path).ok()?.dev();
    let number = format!("{}:{}", libc::major(dev), libc::minor(dev));
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let mut lines = table.lines();
    let line = lines.find(|line| line.split(' ').nth(2) == Some(&number))?;
    let (kind, _) = line.split_once(" - ")?.1.split_once(' ')?;
    Some(kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kind_of_proc_is_proc() {
        assert_eq!(kind_of(Path::new("/proc")).as_deref(), Some("proc"));
    }
}
