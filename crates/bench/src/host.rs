// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sets up the file systems of the host kernel that openpath is compared with: a tmpfs and an ext4
//! directory, each entered as the root directory. It also makes directories that are removed when
//! dropped, and runs programs to their end.
//!
//! Both sides get the same absolute paths of the same depth; the host resolves them from a root
//! that is the file system under test. tmpfs keeps no negative dentries, so a failed open is also
//! measured against ext4, which does.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::statfs;
use rustix::mount::{
    MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount,
};
use rustix::process::{chroot, fchdir};

use crate::common::*;
use crate::window;

/// The host file systems of one run. Dropping it restores the process's own mount namespace and
/// root directory, as far as possible.
pub(crate) struct Host {
    /// The ext4 directory, or why there is none.
    pub(crate) ext4: Result<Root, String>,
    pub(crate) tmpfs: Root,
    home: File,
    cwd: PathBuf,
}

/// A directory that can become the root, removed when dropped.
pub(crate) struct Root {
    dir: File,
    mounted: bool,
    place: Scratch,
}

impl Host {
    /// Makes a private mount namespace with both file systems in it.
    pub(crate) fn new() -> Result<Self, Error> {
        // Another root directory hides its counter.
        window::stolen();
        let cwd = std::env::current_dir().host("working directory")?;
        let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
        sys::unshare_mounts().host("private mount namespace")?;
        mount_change("/", private).host("private mount namespace")?;
        // Opened earlier, it would lead back to the mounts that we left.
        let home = File::open("/").host("open /")?;
        let place = Scratch::new(&std::env::temp_dir()).host("scratch directory")?;
        mount_tmpfs(place.path())?;
        let tmpfs = Root::open(place, true).host("open tmpfs")?;
        let ext4 = find_ext4(tmpfs.path());
        Ok(Self {
            ext4: ext4.map_err(|e| format!("no writable ext4 here, and none was made: {e}")),
            tmpfs,
            home,
            cwd,
        })
    }

    /// The available file systems, with their names in rows.
    pub(crate) fn roots(&self) -> impl Iterator<Item = (&'static str, &Root)> + Clone {
        let ext4 = self.ext4.iter().map(|root| ("ext4", root));
        ext4.chain([("tmpfs", &self.tmpfs)])
    }

    /// Returns to the process's first root directory.
    pub(crate) fn leave(&self) -> Result<(), Error> {
        let home = fchdir(&self.home).and_then(|()| chroot("."));
        home.host("leave the root directory")?;
        std::env::set_current_dir(&self.cwd).host("leave the root directory")
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.leave();
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if self.mounted {
            let _ = unmount(self.path(), UnmountFlags::DETACH);
        }
    }
}

impl Root {
    fn open(place: Scratch, mounted: bool) -> io::Result<Self> {
        Ok(Self {
            dir: File::open(place.path())?,
            mounted,
            place,
        })
    }

    /// Its path from the process's first root directory.
    pub(crate) fn path(&self) -> &Path {
        self.place.path()
    }

    /// Makes this the root and the working directory.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        let entered = fchdir(&self.dir).and_then(|()| chroot("."));
        entered.host("enter the root directory")
    }

    /// Creates the directories and files of `chains`; the caller must be outside any root.
    pub(crate) fn grow(&self, chains: &[Chain]) -> Result<(), Error> {
        self.enter()?;
        Kernel.grow(chains)
    }

    /// Removes everything below, by a fresh mount if it is a mount.
    pub(crate) fn remount(&mut self) -> Result<(), Error> {
        let _ = unmount(self.path(), UnmountFlags::DETACH);
        mount_tmpfs(self.path())?;
        self.dir = File::open(self.path()).host("mount tmpfs anew")?;
        Ok(())
    }
}

pub(crate) fn mount_tmpfs(target: &Path) -> Result<(), Error> {
    let data = c"size=90%,nr_inodes=0,mode=755";
    let mounted = mount("tmpfs", target, "tmpfs", MountFlags::empty(), data);
    mounted.host("mount tmpfs")
}

/// Finds a scratch directory on ext4: in the temporary directory, in the working directory, or in
/// an image in `images`.
fn find_ext4(images: &Path) -> io::Result<Root> {
    let near = std::env::current_dir().unwrap_or_default().join("target");
    for folder in [std::env::temp_dir(), PathBuf::from("/var/tmp"), near] {
        if statfs(&folder).is_ok_and(|of| of.f_type == libc::EXT4_SUPER_MAGIC)
            && let Ok(place) = Scratch::new(&folder)
        {
            return Root::open(place, false);
        }
    }
    let (image, place) = (
        images.join("ext4.img"),
        Scratch::new(&std::env::temp_dir())?,
    );
    File::create(&image)?.set_len(256 << 20)?;
    run(Command::new("mkfs.ext4").arg("-qF").arg(&image))?;
    let mut mount = Command::new("mount");
    run(mount.arg("-o").arg("loop").args([&*image, place.path()]))?;
    Root::open(place, true)
}

/// A directory of the host for this process alone, removed when dropped.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    /// Makes an empty directory in `folder`; its path has no symbolic link.
    pub(crate) fn new(folder: &Path) -> io::Result<Self> {
        const MOST: usize = 1000;
        fs::create_dir_all(folder)?;
        let (folder, process) = (fs::canonicalize(folder)?, std::process::id());
        for n in 0..MOST {
            let path = folder.join(format!("openpath-bench-scratch-{process}-{n}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(why) if why.kind() == ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        }
        Err(ErrorKind::AlreadyExists.into())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Runs a program without input; returns what it wrote to standard output and standard error.
///
/// # Errors
/// If it cannot be started, with that kind of error, or if it fails; the message has its name.
pub(crate) fn run(command: &mut Command) -> io::Result<[String; 2]> {
    let program = command.get_program().to_string_lossy().into_owned();
    let done = command.stdin(Stdio::null()).output();
    let done = done.map_err(|e| io::Error::new(e.kind(), format!("{program}: {e}")))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
    let (said, complained, status) = (text(&done.stdout), text(&done.stderr), done.status);
    if status.success() {
        return Ok([said, complained]);
    }
    let why = format!("{program}: {status}: {complained}");
    Err(io::Error::other(why))
}
