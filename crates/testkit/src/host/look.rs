// SPDX-License-Identifier: MIT OR Apache-2.0
//! Inspects the tree of a case and the descriptors of its tasks on the host, for a snapshot.

use openpath_abi::{Errno, Stat, fcntl as f, mode};

use crate::outcome::RawDesc;
use crate::scan::{self, Entry, LIST, LONGEST};
use crate::snapshot::{TreeReader, Xattrs, relative};
use crate::sys::{self, XattrOf};

/// Calls getdents64(2) once and parses the records.
///
/// # Errors
/// As the kernel's; `EBADMSG` if a record is broken.
pub(super) fn entries(fd: i32, max: usize) -> Result<Vec<Entry>, Errno> {
    scan::records(&sys::getdents64(fd, max)?).map_err(|_| Errno::EBADMSG)
}

/// The calling thread's descriptor with this number, if it is open.
pub(super) fn descriptor(fd: i32) -> Option<RawDesc> {
    let own = sys::fcntl(fd, f::F_GETFD, 0).ok()?;
    let stat = sys::fstat(fd).ok();
    let stands = sys::lseek(fd, 0, f::SEEK_CUR);
    let is_dir = stat.is_some_and(|s| mode::is_dir(s.mode));
    Some(RawDesc {
        fd,
        cloexec: own & i64::from(f::FD_CLOEXEC) != 0,
        flags: sys::fcntl(fd, f::F_GETFL, 0).unwrap_or(-1),
        pos: stands.map(|at| if is_dir { i64::from(at != 0) } else { at }),
        stat: stat.filter(|s| mode::file_type(s.mode) != 0),
    })
}

/// Inspects a tree from the root of the case.
pub(super) struct Look {
    pub(super) root: i32,
}

impl Look {
    /// Does work with a file opened for reading, without changing its times.
    fn with<T>(
        &self,
        path: &[u8],
        flags: u32,
        work: impl FnOnce(i32) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        let flags = flags
            | f::O_RDONLY.bits()
            | f::O_NOATIME.bits()
            | f::O_NOFOLLOW.bits()
            | f::O_NONBLOCK.bits();
        let fd = super::fd(sys::openat(self.root, relative(path), flags, 0))?;
        let done = work(fd);
        sys::close(fd)?;
        done
    }
}

impl Look {
    /// All entries of the directory that is inspected.
    pub(super) fn list_here(&mut self) -> Result<Vec<Entry>, Errno> {
        self.list(b"")
    }
}

impl TreeReader for Look {
    fn lstat(&mut self, path: &[u8]) -> Result<Stat, Errno> {
        sys::fstatat(
            self.root,
            path,
            (f::AT_SYMLINK_NOFOLLOW | f::AT_EMPTY_PATH).bits(),
        )
    }

    fn list(&mut self, path: &[u8]) -> Result<Vec<Entry>, Errno> {
        self.with(path, f::O_DIRECTORY.bits(), |fd| {
            let mut all = Vec::new();
            loop {
                let raw = sys::getdents64(fd, LIST)?;
                all.extend(scan::records(&raw).map_err(|_| Errno::EBADMSG)?);
                // No record is longer, so the end is reached if one more record would fit.
                if raw.len() + LONGEST <= LIST {
                    return Ok(all);
                }
            }
        })
    }

    fn data(&mut self, path: &[u8], max: usize) -> Result<Vec<u8>, Errno> {
        self.with(path, 0, |fd| sys::pread(fd, max, 0))
    }

    fn body(&mut self, path: &[u8]) -> Result<Vec<u8>, Errno> {
        sys::readlinkat(self.root, path)
    }

    fn xattrs(&mut self, path: &[u8]) -> Result<Xattrs, Errno> {
        sys::fchdir(self.root)?;
        let of = XattrOf::LPath(relative(path));
        let list = sys::listxattr(of)?;
        let names = list.split(|&b| b == 0).filter(|n| !n.is_empty());
        names
            .map(|n| Ok((n.to_vec(), sys::getxattr(of, n)?)))
            .collect()
    }
}
