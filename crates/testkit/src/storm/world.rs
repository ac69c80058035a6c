// SPDX-License-Identifier: MIT OR Apache-2.0
//! Builds the tree of the storm: jails side by side, and an outside that must stay invisible from
//! inside.
//!
//! # Layout
//! `/j0`, `/j1` ... are jails, each with directories `d0..d2`, in them `e0`, `e1`, a chain
//! `ferry/s/t` that comes and goes, and mount points `mp` and `mq`. Outside are `/out` and files in
//! `/`. The last jail is a mount, shared by all namespaces.
//!
//! # Files
//! Each file is of a family, which has a number. Its name is `f` or `g` with that number, as in
//! `f0` and `g0`, and the storm renames and links it within its family only. Its content is
//! `JAIL:FAMILY:INODE` and a newline; outside of the jails, `JAIL` is `out`.

use std::sync::Arc;
use std::time::Duration;

use openpath_abi::fcntl::{AT_FDCWD, AT_REMOVEDIR, O_CREAT, O_DIRECTORY, O_EXCL, O_WRONLY};
use openpath_abi::{AtFlags, Errno, dirent, mount as m};
use openpath_mem::{MemFs, MemOptions};
use openpath_vfs::{Cred, Fd, Limits, SuperBlock, Task, Tenant, TenantLimits, Tuning, Vfs};

use super::Rest;

/// How many jails there are.
pub const JAILS: usize = 3;
/// How many families of files.
pub(super) const FAMILIES: usize = 6;
/// The jail that is a mount of its own, which all namespaces share.
const SHARED: &[u8] = b"/j2";
/// Name of the file that exists only outside.
pub(super) const MARK: &[u8] = b"OUTSIDE";

/// The world before and after the storm.
pub(super) struct World {
    pub(super) vfs: Vfs,
    /// The tenants of the threads: one with room, and one whose limit of cached names hardly
    /// suffices.
    pub(super) tenants: [Arc<Tenant>; 2],
    root: Task,
}

/// A tree.
pub(super) fn tree() -> Arc<SuperBlock> {
    MemFs::new(
        MemOptions::default()
            .mode(0o755)
            .size(1 << 30)
            .inodes(1 << 20),
    )
}

/// The content of a file.
pub(super) fn content(jail: &str, family: usize, inode: u64) -> Vec<u8> {
    format!("{jail}:{family}:{inode}\n").into_bytes()
}

/// Makes a file of this jail and family, with its content.
///
/// # Errors
/// That of open(2), stat(2) or write(2).
pub(super) fn make_file(task: &Task, path: &[u8], jail: &str, family: usize) -> Result<(), Errno> {
    let file = Held(task, task.open(path, O_CREAT | O_EXCL | O_WRONLY, 0o644)?);
    let inode = task.fstat(file.1)?.ino;
    let text = content(jail, family, inode);
    task.pwrite(file.1, &text, 0).map(|_| ())
}

/// A descriptor of a task, closed when dropped.
pub(super) struct Held<'t>(pub(super) &'t Task, pub(super) Fd);

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Nothing else closes it, and its close cannot fail.
        let _ = self.0.close(self.1);
    }
}

impl World {
    pub(super) fn build(tuning: Tuning) -> Result<World, Errno> {
        let limits = Limits::default()
            .dentries_max(1 << 16)
            .mounts_max(1 << 12)
            // So few that they are reused again and again.
            .path_cache_entries(1 << 10);
        let vfs = Vfs::builder().limits(limits).tuning(tuning).build(tree())?;
        let root = vfs.task(Cred::root())?;
        let narrow = TenantLimits::default().positive_max(256).negative_max(64);
        let tenants = [TenantLimits::default(), narrow].map(|limits| vfs.tenant(limits));
        Ok(World { vfs, tenants, root })
    }

    /// Usage at rest, without unlinked and unused entries.
    pub(super) fn rest(&self) -> Rest {
        // A directory is evicted after its children, so this takes a few rounds.
        loop {
            let before = self.vfs.usage();
            self.vfs.shrink(1 << 16);
            self.vfs.collect();
            self.vfs.trim(Duration::from_secs(1));
            if self.vfs.usage() == before {
                break;
            }
        }
        let fs = self.root.statfs(b"/").unwrap_or_default();
        Rest {
            usage: self.vfs.usage(),
            blocks: fs.blocks - fs.bfree,
            inodes: fs.files - fs.ffree,
            charged: self.tenants.each_ref().map(|tenant| {
                let stats = tenant.stats();
                stats.bytes + stats.inodes
            }),
        }
    }

    pub(super) fn set_up(&self) -> Result<(), Errno> {
        let t = &self.root;
        let dir = |path: String| t.mkdirat(AT_FDCWD, path.as_bytes(), 0o755);
        dir("/out".to_owned())?;
        for place in ["", "/out"] {
            make_file(t, &[place.as_bytes(), b"/", MARK].concat(), "out", 0)?;
            for family in 0..FAMILIES {
                make_file(t, format!("{place}/f{family}").as_bytes(), "out", family)?;
                make_file(t, format!("{place}/g{family}").as_bytes(), "out", family)?;
            }
        }
        for j in 0..JAILS {
            dir(format!("/j{j}"))?;
            for d in 0..3 {
                dir(format!("/j{j}/d{d}"))?;
                for e in 0..2 {
                    dir(format!("/j{j}/d{d}/e{e}"))?;
                }
            }
            for part in ["d0/ferry", "d0/ferry/s", "d0/ferry/s/t", "mp", "mq"] {
                dir(format!("/j{j}/{part}"))?;
            }
        }
        super::pipes::set_up(t)?;
        // A mount in this one propagates to all namespaces.
        t.bind(SHARED, SHARED)?;
        t.set_propagation(SHARED, m::MS_SHARED)
    }

    /// Unmounts and removes everything.
    pub(super) fn clear(&self) -> Result<(), Errno> {
        for j in 0..JAILS {
            for point in ["mp", "mq"] {
                let path = format!("/j{j}/{point}");
                while self.root.umount(path.as_bytes(), m::MNT_DETACH).is_ok() {}
            }
        }
        while self.root.umount(SHARED, m::MNT_DETACH).is_ok() {}
        remove_below(&self.root, b"")
    }
}

/// Removes the contents of a directory.
fn remove_below(task: &Task, dir: &[u8]) -> Result<(), Errno> {
    let path = if dir.is_empty() { b"/" } else { dir };
    let mut entries = Vec::new();
    {
        let open = Held(task, task.open(path, O_DIRECTORY, 0)?);
        loop {
            let got = task.getdents64(open.1, 4096)?;
            if got.is_empty() {
                break;
            }
            entries.extend(got);
        }
    }
    for entry in entries.iter().filter(|e| e.name != b"." && e.name != b"..") {
        let path = [dir, b"/", &entry.name].concat();
        if entry.kind == dirent::DT_DIR {
            remove_below(task, &path)?;
            task.unlinkat(AT_FDCWD, &path, AT_REMOVEDIR)?;
        } else {
            task.unlinkat(AT_FDCWD, &path, AtFlags::empty())?;
        }
    }
    Ok(())
}
