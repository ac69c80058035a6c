// SPDX-License-Identifier: MIT OR Apache-2.0
//! The host kernel as a face: a tmpfs of its own for each case, in a mount namespace of its own.
//!
//! # States
//! `HostWorld` is made once in a process that may not do anything else: it leaves the mount
//! namespace of its parent and makes an empty tmpfs its only mount. `Host` is one case: between
//! `begin` and its drop a fresh tmpfs lies over that one, and is the root of the process.
//!
//! # Rules
//! * R1. Between operations the process keeps the credentials of the last `cred`, saved uid 0
//!   apart. The kernel compares credentials by address in one place (linkat(2) of an empty path),
//!   so a picture, which is taken as root, replaces them; the other face does the same.
//! * R2. Before each operation the clock of the kernel is moved on (`tick`), so that a time set
//!   by an operation is never equal to one set by an earlier one.
//! * R3. No operation reaches the file systems of the host: they are not in the namespace. A case
//!   may leave its chroot by `..`, and then stands in its own root, because that lies on the root
//!   of the namespace.
//! * R4. What would unmount the root of the case is not executed, and is a named skip.

mod apply;
mod look;

use openpath_abi::{Errno, fcntl as f, mount as m};

use crate::face::Face;
use crate::op::{Dir, Op, SLOTS, Slot};
use crate::outcome::{Ids, Outcome, Stamps};
use crate::scan::{self, Scan};
use crate::sys;
use crate::tree::{Depth, Tree};

/// A number that is never an open descriptor.
const BAD_FD: i32 = 9999;
const CLONE_NEWNS: u32 = 0x2_0000;
/// Mount options of every tmpfs: what would depend on the machine is said.
pub const TMPFS_OPTIONS: &[u8] = b"mode=0755,huge=never,size=1g,nr_inodes=1m";

/// What all cases of a process share.
#[derive(Debug)]
pub struct HostWorld {
    /// The root of the namespace, below every case.
    base: i32,
    base_mount: u64,
    clock: i32,
}

fn fd(r: Result<i64, Errno>) -> Result<i32, Errno> {
    r.map(|v| i32::try_from(v).unwrap_or(BAD_FD))
}

impl HostWorld {
    /// Leaves the parent's mount namespace, and everything that is mounted in it.
    ///
    /// # Errors
    /// `EPERM` without the right to do so, or what the kernel says.
    pub fn enter() -> Result<HostWorld, Errno> {
        use std::os::unix::ffi::OsStrExt as _;
        let place = std::env::temp_dir();
        let place = place.as_os_str().as_bytes();
        sys::unshare(CLONE_NEWNS)?;
        sys::mount(b"none", b"/", b"", m::MS_REC | m::MS_PRIVATE, b"")?;
        sys::mount(b"base", place, b"tmpfs", 0, TMPFS_OPTIONS)?;
        sys::chdir(place)?;
        sys::pivot_root(b".", b".")?;
        sys::umount2(b".", m::MNT_DETACH)?;
        sys::chdir(b"/")?;
        let flags = f::O_PATH | f::O_DIRECTORY | f::O_CLOEXEC;
        let base = fd(sys::openat(f::AT_FDCWD, b"/", flags, 0))?;
        let base_mount = sys::statx(base, b"", f::AT_EMPTY_PATH, MNT_ID)?.mnt_id;
        let clock = fd(sys::memfd_create())?;
        Ok(HostWorld {
            base,
            base_mount,
            clock,
        })
    }

    /// Starts a case on an empty tmpfs.
    ///
    /// # Errors
    /// What the kernel says; the case has not begun.
    pub fn begin(&self) -> Result<Host<'_>, Errno> {
        let mut stamps = Stamps::default();
        stamps.start(self.tick());
        sys::mount(b"case", b"/", b"tmpfs", 0, TMPFS_OPTIONS)?;
        // `..` of the root is the root, and then what lies on it.
        sys::chroot(b"/..")?;
        sys::chdir(b"/")?;
        sys::umask(0o022)?;
        let flags = f::O_PATH | f::O_DIRECTORY | f::O_CLOEXEC;
        let root = fd(sys::openat(f::AT_FDCWD, b"/", flags, 0))?;
        let root_mount = sys::statx(root, b"", f::AT_EMPTY_PATH, MNT_ID)?.mnt_id;
        assert_ne!(
            root_mount, self.base_mount,
            "the case did not get a root of its own"
        );
        Ok(Host {
            world: self,
            root,
            root_mount,
            slots: [None; SLOTS],
            scans: std::array::from_fn(|_| Scan::default()),
            uid: 0,
            stamps,
            ids: Ids::default(),
        })
    }

    /// Takes away all that lies on the root of the namespace.
    fn clear(&self) {
        let _ = sys::fchdir(self.base).and_then(|_| sys::chroot(b"."));
        let _ = sys::umask(0o022);
        let top = || sys::statx(f::AT_FDCWD, b"/..", 0, MNT_ID).map_or(0, |s| s.mnt_id);
        let mut left = 100;
        while top() != self.base_mount && left > 0 {
            let _ = sys::umount2(b"/..", m::MNT_DETACH);
            left -= 1;
        }
    }

    /// Moves the clock of tmpfs on.
    ///
    /// A file whose change time was looked at gets a time that differs from it, and no file gets
    /// an older one afterwards. Twice, because the first may be a tick that was used already.
    fn tick(&self) -> openpath_abi::Timespec {
        for _ in 0..2 {
            let _ = sys::fstat(self.clock);
            let _ = sys::pwrite(self.clock, b"t", 0);
        }
        sys::fstat(self.clock).unwrap_or_default().ctime
    }
}

const MNT_ID: u32 = openpath_abi::statx::STATX_MNT_ID;

/// One case on the host.
#[derive(Debug)]
pub struct Host<'w> {
    world: &'w HostWorld,
    root: i32,
    root_mount: u64,
    slots: [Option<i32>; SLOTS],
    scans: [Scan; SLOTS],
    uid: u32,
    stamps: Stamps,
    ids: Ids,
}

impl Host<'_> {
    fn slot(&self, s: Slot) -> i32 {
        self.slots[usize::from(s.0)].unwrap_or(BAD_FD)
    }

    fn dir(&self, d: Dir) -> i32 {
        match d {
            Dir::Cwd => f::AT_FDCWD,
            Dir::Slot(s) => self.slot(s),
            Dir::Bad => BAD_FD,
        }
    }

    fn put_back(&mut self, s: Slot) -> Outcome {
        self.scans[usize::from(s.0)].rewind();
        match self.slots[usize::from(s.0)].take() {
            Some(fd) => sys::close(fd).map(|_| ()).into(),
            None => Outcome::Err(Errno::EBADF),
        }
    }

    /// Would this operation unmount the root of the case? Follows links, as the call would (R4).
    fn is_root(&self, op: &Op) -> bool {
        let Op::Umount { path, flags } = op else {
            return false;
        };
        let nofollow = flags.low() & m::UMOUNT_NOFOLLOW != 0;
        let at_flags = if nofollow { f::AT_SYMLINK_NOFOLLOW } else { 0 };
        let root = openpath_abi::statx::STATX_ATTR_MOUNT_ROOT;
        sys::statx(f::AT_FDCWD, &path.0, at_flags, MNT_ID)
            .is_ok_and(|s| s.mnt_id == self.root_mount && s.attributes & root != 0)
    }

    /// Takes on the credentials of a user; saved uid 0 brings root back.
    fn become_user(&mut self, uid: u32) -> Result<(), Errno> {
        sys::setresuid(0, 0, 0)?;
        sys::setgroups(groups(uid))?;
        sys::setresgid(uid, uid, 0)?;
        sys::setresuid(uid, uid, 0)?;
        self.uid = uid;
        Ok(())
    }

    /// Does something as root, then goes back (R1).
    fn as_root<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        if self.uid == 0 {
            return work(self);
        }
        let _ = sys::setresuid(0, 0, 0);
        let done = work(self);
        let _ = sys::setresuid(self.uid, self.uid, 0);
        done
    }
}

/// The supplementary groups of a test user.
#[must_use]
pub fn groups(uid: u32) -> &'static [u32] {
    if uid == 1000 { &[2000] } else { &[] }
}

impl Face for Host<'_> {
    fn apply(&mut self, _at: usize, op: &Op) -> Outcome {
        for scan in &mut self.scans {
            scan.touch(op);
        }
        self.stamps.start(self.world.tick());
        self.dispatch(op)
    }

    fn skip(&mut self, _at: usize, op: &Op) {
        self.stamps.start(self.world.tick());
        let _ = self.is_root(op);
    }

    fn snapshot(&mut self, depth: Depth) -> Tree {
        self.as_root(|host| {
            let mut ids = std::mem::take(&mut host.ids);
            if depth == Depth::Deep {
                let _ = sys::fchdir(host.root).and_then(|_| sys::chroot(b"."));
            }
            let mut eye = look::Look { root: host.root };
            let tree = crate::eye::picture(&mut eye, &mut ids, &host.stamps, depth);
            host.ids = ids;
            tree
        })
    }

    fn finish(&mut self) -> Vec<String> {
        for (slot, scan) in self.slots.iter().zip(&mut self.scans) {
            let (Some(fd), true) = (slot, scan.open()) else {
                continue;
            };
            while scan.open() {
                // What is lost or doubled is the kernel's own affair; that it was read is not.
                match look::entries(*fd, 4096) {
                    Ok(got) => drop(scan.feed(got)),
                    Err(_) => scan.rewind(),
                }
            }
        }
        Vec::new()
    }
}

impl Drop for Host<'_> {
    fn drop(&mut self) {
        let _ = sys::setresuid(0, 0, 0);
        let _ = sys::setresgid(0, 0, 0);
        let _ = sys::setgroups(&[]);
        for s in self.slots.iter().flatten().chain([&self.root]) {
            let _ = sys::close(*s);
        }
        self.world.clear();
    }
}

/// What `scan` needs to read a descriptor.
struct Reader(i32);

impl scan::Readable for Reader {
    fn seek(&mut self, off: i64) -> Result<(), Errno> {
        sys::lseek(self.0, off, f::SEEK_SET).map(|_| ())
    }

    fn entries(&mut self, max: usize) -> Result<Vec<scan::Entry>, Errno> {
        look::entries(self.0, max)
    }
}
