// SPDX-License-Identifier: MIT OR Apache-2.0
//! Implements [`Host`] for the running Linux kernel, through system calls.
//!
//! # Rules
//! * It needs root. The thread that makes a [`Kernel`] gets a mount namespace, a current directory
//!   and a umask of its own, and no other thread is affected. Give the kernel a thread for itself,
//!   and let the thread end with it.
//! * To evict names, it remounts the file system of the case, which drops only that file system's
//!   names. In a directory of another file system it drops everything, by
//!   `/proc/sys/vm/drop_caches`. Names of tmpfs cannot be evicted: they are the file system.

mod place;
mod swap;

pub use place::Place;

use crate::errno::Errno;
use crate::host::{At, Host, Knowledge, Need, Node};
use crate::how::How;
use place::Ground;
use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::fs::{Timespec, Timestamps, UTIME_OMIT};
use rustix::mount::UnmountFlags;
use rustix::thread::{Gid, Uid};
use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};
use swap::Swapper;

/// openat2(2) with a null pointer for the path, which safe Rust cannot pass.
pub type NullOpen = fn(dirfd: i32, how: How) -> Result<i32, Errno>;

/// The running kernel, in a place that belongs to it.
#[derive(Debug)]
pub struct Kernel {
    case: PathBuf,
    cases: u32,
    open: BTreeMap<i32, OwnedFd>,
    mounts: Vec<Vec<u8>>,
    swapper: Option<Swapper>,
    null_open: Option<NullOpen>,
    /// Dropped last, because open descriptors prevent the unmount.
    ground: Ground,
}

const EOVERFLOW: Errno = Errno(75);

fn errno(from: rustix::io::Errno) -> Errno {
    Errno(from.raw_os_error())
}

fn bits(mode: u32) -> Mode {
    Mode::from_raw_mode(mode)
}

impl Kernel {
    /// The kernel in this place.
    ///
    /// # Errors
    /// Those of making the place, which needs root.
    pub fn new(place: &Place) -> Result<Kernel, String> {
        Ok(Kernel {
            ground: Ground::new(place)?,
            case: PathBuf::new(),
            cases: 0,
            open: BTreeMap::new(),
            mounts: Vec::new(),
            swapper: None,
            null_open: None,
        })
    }

    /// The same, with a function that can pass a null pointer.
    #[must_use]
    pub fn with_null_open(self, null_open: NullOpen) -> Kernel {
        Kernel {
            null_open: Some(null_open),
            ..self
        }
    }

    fn at(&self, at: At) -> Result<BorrowedFd<'_>, Errno> {
        match at {
            At::Cwd => Ok(CWD),
            At::Bad => Ok(fs::ABS),
            At::Fd(fd) => self.fd(fd).map(AsFd::as_fd),
        }
    }

    fn fd(&self, fd: i32) -> Result<&OwnedFd, Errno> {
        self.open.get(&fd).ok_or(Errno(9))
    }

    fn begin_case(&mut self) -> std::io::Result<()> {
        self.cases += 1;
        self.case = self.ground.path().join(format!("case-{}", self.cases));
        std::fs::create_dir(&self.case)?;
        std::fs::set_permissions(&self.case, Permissions::from_mode(0o755))?;
        Ok(rustix::process::chdir(&self.case)?)
    }

    fn end_case(&mut self) -> Result<(), String> {
        self.open.clear();
        let mut left = Vec::new();
        if let Some(Err(why)) = self.swapper.take().map(Swapper::stop) {
            left.push(format!("a rename failed: {}", errno(why)));
        }
        while let Some(path) = self.mounts.pop() {
            if let Err(why) = rustix::mount::unmount(path.as_slice(), UnmountFlags::empty()) {
                left.push(format!("{}: {}", path.escape_ascii(), errno(why)));
                // Later cases must not be disturbed.
                let _ = rustix::mount::unmount(path.as_slice(), UnmountFlags::DETACH);
            }
        }
        let gone = rustix::process::chdir(self.ground.path())
            .map_err(std::io::Error::from)
            .and_then(|()| std::fs::remove_dir_all(&self.case));
        if let Err(why) = gone {
            left.push(why.to_string());
        }
        if left.is_empty() {
            Ok(())
        } else {
            Err(left.join("; "))
        }
    }
}

impl Host for Kernel {
    fn name(&self) -> String {
        let name = rustix::system::uname();
        format!(
            "{} {} on {}",
            name.sysname().to_string_lossy(),
            name.release().to_string_lossy(),
            self.ground.kind()
        )
    }

    fn lacks(&self, need: Need) -> Option<String> {
        match need {
            Need::Cold => self.ground.is_never_cold(),
            Need::NullPath if self.null_open.is_none() => {
                Some("safe Rust passes no null pointer".to_owned())
            }
            Need::Nodes => self.ground.is_shared(),
            Need::Proc => {
                let here = std::fs::exists("/proc/self").unwrap_or(false);
                (!here).then(|| "proc is not mounted at /proc".to_owned())
            }
            _ => None,
        }
    }

    fn knowledge(&self) -> Knowledge {
        Knowledge {
            negatives: self.ground.keeps_negatives(),
            directories: false,
            refusals: false,
        }
    }

    fn is_disturbed(&self) -> bool {
        true
    }

    fn begin(&mut self) -> Result<Vec<u8>, String> {
        self.begin_case().map_err(|why| why.to_string())?;
        Ok(self.case.clone().into_os_string().into_vec())
    }

    fn end(&mut self) -> Result<(), String> {
        self.end_case()
    }

    fn openat2(&mut self, at: At, path: Option<&[u8]>, how: How) -> Result<i32, Errno> {
        let dir = self.at(at)?;
        let Some(path) = path else {
            let null_open = self.null_open.ok_or(Errno(38))?;
            // An open by a null pointer makes no descriptor, so the number needs no owner.
            return null_open(dir.as_raw_fd(), how);
        };
        // The present interface passes no more bits: this is no answer of the kernel.
        let narrow = |bits: u64| u32::try_from(bits).map_err(|_| EOVERFLOW);
        let flags = OFlags::from_bits_retain(narrow(how.flags)?);
        let mode = Mode::from_bits_retain(narrow(how.mode)?);
        let resolve = ResolveFlags::from_bits_retain(how.resolve);
        let fd = fs::openat2(dir, path, flags, mode, resolve).map_err(errno)?;
        let number = fd.as_raw_fd();
        self.open.insert(number, fd);
        Ok(number)
    }

    fn close(&mut self, fd: i32) -> Result<(), Errno> {
        self.open.remove(&fd).map(drop).ok_or(Errno(9))
    }

    fn read(&mut self, fd: i32, buf: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::read(self.fd(fd)?, buf).map_err(errno)
    }

    fn stat(&mut self, path: &[u8]) -> Result<(), Errno> {
        fs::statat(CWD, path, AtFlags::empty())
            .map(drop)
            .map_err(errno)
    }

    fn make(&mut self, path: &[u8], node: Node<'_>, mode: u32) -> Result<(), Errno> {
        let made = match node {
            Node::Dir => fs::mkdirat(CWD, path, bits(mode)),
            Node::Link(target) => fs::symlinkat(target, CWD, path),
            Node::Fifo => fs::mknodat(CWD, path, FileType::Fifo, bits(mode), 0),
            Node::File(data) => {
                let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY;
                fs::openat(CWD, path, flags, bits(mode))
                    .and_then(|file| rustix::io::write(file, data).map(drop))
            }
        };
        made.map_err(errno)
    }

    fn remove(&mut self, path: &[u8]) -> Result<(), Errno> {
        match fs::unlinkat(CWD, path, AtFlags::empty()) {
            Err(rustix::io::Errno::ISDIR) => fs::unlinkat(CWD, path, AtFlags::REMOVEDIR),
            done => done,
        }
        .map_err(errno)
    }

    fn rename(&mut self, old: &[u8], new: &[u8], exchange: bool) -> Result<(), Errno> {
        let flags = if exchange {
            RenameFlags::EXCHANGE
        } else {
            RenameFlags::empty()
        };
        fs::renameat_with(CWD, old, CWD, new, flags).map_err(errno)
    }

    fn chmod(&mut self, path: &[u8], mode: u32) -> Result<(), Errno> {
        fs::chmodat(CWD, path, bits(mode), AtFlags::empty()).map_err(errno)
    }

    fn set_atime(&mut self, path: &[u8], seconds: i64) -> Result<(), Errno> {
        let now = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let times = Timestamps {
            last_access: Timespec {
                tv_sec: now.as_secs().cast_signed() + seconds,
                tv_nsec: 0,
            },
            last_modification: Timespec {
                tv_sec: 0,
                tv_nsec: UTIME_OMIT,
            },
        };
        fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).map_err(errno)
    }

    fn mount(&mut self, path: &[u8]) -> Result<(), Errno> {
        // A tree of the same file system: it answers by the same rules, and can be evicted.
        let fresh = self
            .ground
            .fresh()
            .map_err(|why| Errno(why.raw_os_error().unwrap_or(5)))?;
        let fresh = fresh.as_os_str().as_bytes();
        self.bind(fresh, path)
    }

    fn bind(&mut self, source: &[u8], target: &[u8]) -> Result<(), Errno> {
        rustix::mount::mount_bind(source, target).map_err(errno)?;
        self.mounts.push(target.to_vec());
        Ok(())
    }

    fn umount(&mut self, path: &[u8]) -> Result<(), Errno> {
        rustix::mount::unmount(path, UnmountFlags::empty()).map_err(errno)?;
        if let Some(last) = self.mounts.iter().rposition(|mounted| mounted == path) {
            self.mounts.remove(last);
        }
        Ok(())
    }

    fn act_as(&mut self, uid: u32) -> Result<(), Errno> {
        use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
        let to_user = || set_thread_res_uid(None, Uid::from_raw(uid), None);
        let to_group = || set_thread_res_gid(None, Gid::from_raw(uid), None);
        // The group comes first while that is still allowed, and last when it is allowed again.
        let done = if uid == 0 {
            to_user().and_then(|()| to_group())
        } else {
            to_group().and_then(|()| to_user())
        };
        done.map_err(errno)
    }

    fn evict(&mut self) -> Result<(), Errno> {
        self.ground
            .evict()
            .map_err(|why| Errno(why.raw_os_error().unwrap_or(5)))
    }

    fn free_nodes(&mut self) -> Result<u64, Errno> {
        fs::statvfs(self.ground.path())
            .map(|figures| figures.f_ffree)
            .map_err(errno)
    }

    fn start_swapping(&mut self, one: &[u8], other: &[u8]) -> Result<(), Errno> {
        self.swapper = Some(Swapper::start(one, other).map_err(errno)?);
        Ok(())
    }

    fn stop_swapping(&mut self) -> Result<u64, Errno> {
        let swapper = self.swapper.take().ok_or(Errno(22))?;
        swapper.stop().map_err(errno)
    }
}
