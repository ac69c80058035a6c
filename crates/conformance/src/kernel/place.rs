// SPDX-License-Identifier: MIT OR Apache-2.0
//! Makes the directory in which the kernel runs the cases: on a fresh file system, or below a
//! directory that the user names.

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::thread::UnshareFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A kind of place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// A fresh ext4 in a file, by a loop device; needs mkfs.ext4(8) and mount(8).
    Ext4,
    /// A fresh tmpfs.
    Tmpfs,
    /// A directory below this one. File systems other than tmpfs are assumed to keep negative
    /// dentries.
    Directory(PathBuf),
}

/// A prepared place.
#[derive(Debug)]
pub(super) struct Ground {
    place: Place,
    /// A directory of ours in the host's tree.
    base: PathBuf,
    /// The directory of the cases.
    root: PathBuf,
    fresh: u32,
}

/// Size of the image of an ext4.
const IMAGE: u64 = 16 << 20;

impl Ground {
    pub(super) fn new(place: &Place) -> Result<Ground, String> {
        own_namespace().map_err(|why| format!("no mount namespace: {why}"))?;
        let parent = match place {
            Place::Directory(path) => path.clone(),
            _ => std::env::temp_dir(),
        };
        let thread = rustix::thread::gettid().as_raw_nonzero();
        let base = parent.join(format!("openpath-conformance-{thread}"));
        let root = base.join("tree");
        std::fs::create_dir(&base).map_err(|why| format!("{}: {why}", base.display()))?;
        let ground = Ground {
            place: place.clone(),
            base,
            root,
            fresh: 0,
        };
        std::fs::create_dir(&ground.root).map_err(|why| why.to_string())?;
        ground.furnish()?;
        Ok(ground)
    }

    fn furnish(&self) -> Result<(), String> {
        match self.place {
            Place::Directory(_) => Ok(()),
            Place::Tmpfs => {
                let flags = MountFlags::empty();
                rustix::mount::mount("none", &self.root, "tmpfs", flags, c"mode=755")
                    .map_err(|why| format!("tmpfs: {why}"))
            }
            Place::Ext4 => {
                let image = self.base.join("image");
                std::fs::File::create(&image)
                    .and_then(|file| file.set_len(IMAGE))
                    .map_err(|why| why.to_string())?;
                let options = ["-q", "-F", "-O", "^has_journal"];
                call(Command::new("mkfs.ext4").args(options).arg(&image))?;
                let mut mount = Command::new("mount");
                call(
                    mount
                        .args(["-o", "loop,relatime"])
                        .arg(&image)
                        .arg(&self.root),
                )
            }
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.root
    }

    pub(super) fn kind(&self) -> String {
        match &self.place {
            Place::Ext4 => "ext4".to_owned(),
            Place::Tmpfs => "tmpfs".to_owned(),
            Place::Directory(path) => path.display().to_string(),
        }
    }

    pub(super) fn is_never_cold(&self) -> Option<String> {
        (self.place == Place::Tmpfs).then(|| "names of tmpfs cannot be evicted".to_owned())
    }

    pub(super) fn is_shared(&self) -> Option<String> {
        let shared = matches!(self.place, Place::Directory(_));
        shared.then(|| "others use inodes of this file system".to_owned())
    }

    pub(super) fn keeps_negatives(&self) -> bool {
        const TMPFS_MAGIC: u64 = 0x0102_1994;
        let kind = rustix::fs::statfs(&self.root).map(|figures| figures.f_type);
        !kind.is_ok_and(|kind| kind.cast_unsigned() == TMPFS_MAGIC)
    }

    /// An empty directory of the same file system, outside every case.
    pub(super) fn fresh(&mut self) -> io::Result<PathBuf> {
        self.fresh += 1;
        let path = self.root.join(format!("fresh-{}", self.fresh));
        std::fs::create_dir(&path)?;
        Ok(path)
    }

    pub(super) fn evict(&self) -> io::Result<()> {
        match self.place {
            Place::Ext4 => Ok(rustix::mount::mount_remount(
                &self.root,
                MountFlags::RELATIME,
                "",
            )?),
            Place::Tmpfs => Err(io::ErrorKind::Unsupported.into()),
            Place::Directory(_) => {
                // A name that was used since the last time is dropped at the second.
                std::fs::write("/proc/sys/vm/drop_caches", "2")?;
                std::fs::write("/proc/sys/vm/drop_caches", "2")
            }
        }
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        // The rest is empty, or vanishes with the namespace.
        let _ = rustix::process::chdir("/");
        if !matches!(self.place, Place::Directory(_)) {
            let _ = rustix::mount::unmount(&self.root, UnmountFlags::DETACH);
        }
        let _ = std::fs::remove_dir_all(&self.base);
    }
}

/// Gives the calling thread a private mount namespace.
fn own_namespace() -> io::Result<()> {
    #[expect(
        deprecated,
        reason = "unsafe only with FILES, which closes descriptors of others"
    )]
    rustix::thread::unshare(UnshareFlags::NEWNS)?;
    let private = MountPropagationFlags::PRIVATE | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", private)?;
    rustix::process::umask(rustix::fs::Mode::empty());
    Ok(())
}

fn call(command: &mut Command) -> Result<(), String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let done = command.output().map_err(|why| format!("{name}: {why}"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).trim().to_owned();
    Err(format!("{name}: {said}"))
}
