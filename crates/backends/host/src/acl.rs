// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads and stores access control lists of files: the host's own lists where ownership is passed
//! through, else extended attributes beside the stored owner.
//!
//! # Layout
//! With [`Ownership::Xattr`] the attributes `user.openpath.acl_access` and
//! `user.openpath.acl_default` hold what `system.posix_acl_*` would.
//!
//! # Rules
//! R1. Lists that are read by name are valid if the name led to the same file, with the same mode
//!     and owners, before and after the reading, and that file did not change in between. Others
//!     may change it all the time, such as a directory in which they make files. So each look is
//!     compared with the last one and not with the first.
//! R2. While the lists cannot be read, only the owner may access the file.
//! R3. A new file has exactly the lists that the core gave it, whatever the host derived from the
//!     directory.

use crate::handles::fd_name;
use crate::options::Ownership;
use crate::pool::Handle;
use crate::sys::{HostStat, errno, stat_at};
use crate::tree::Tree;
use openpath_abi::xattr::{XATTR_LIST_MAX, XATTR_SIZE_MAX};
use openpath_abi::{Errno, mode};
use openpath_vfs::{Acl, AclEntry, AclKind, AclTag, Acls, WaitMode};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, XattrFlags};
use std::sync::Arc;

pub(crate) const WAIT: WaitMode = WaitMode::Wait;
const KINDS: [AclKind; 2] = [AclKind::Access, AclKind::Default];
/// How often a file is looked at that others change meanwhile.
const TRIES: usize = 16;
/// The first size of the buffer for a list of names.
const NAMES_SIZE: usize = 256;

/// Where a file's lists are read from.
#[derive(Clone, Copy)]
pub(crate) enum AclTarget<'a> {
    /// A descriptor on the file; with [`Ownership::Xattr`] a readable one.
    Fd(BorrowedFd<'a>),
    /// A name in a directory.
    Name(&'a Handle, &'a [u8]),
}

/// The attribute that stores a list where ownership is stored in attributes.
fn stored_name(kind: AclKind) -> &'static str {
    match kind {
        AclKind::Access => "user.openpath.acl_access",
        AclKind::Default => "user.openpath.acl_default",
    }
}

/// What the host answers to a call by an `O_PATH` descriptor.
const NOT_READABLE: rustix::io::Errno = rustix::io::Errno::BADF;

impl AclTarget<'_> {
    fn path(self) -> Vec<u8> {
        match self {
            AclTarget::Fd(fd) => format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes(),
            AclTarget::Name(dir, name) => {
                let dir = format!("/proc/self/fd/{}/", fd_name(dir));
                [dir.as_bytes(), name].concat()
            }
        }
    }

    /// Calls by the descriptor if it is readable, else by a path in `/proc`. With the last argument
    /// the link at the end of the path is followed: it is the descriptor's own.
    fn call<T>(
        self,
        by_fd: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<T>,
        by_path: impl FnOnce(Vec<u8>, bool) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        match self {
            AclTarget::Fd(fd) => match by_fd(fd) {
                Err(NOT_READABLE) => by_path(self.path(), true),
                done => done,
            },
            AclTarget::Name(..) => by_path(self.path(), false),
        }
    }

    fn list_into(self, buffer: &mut [u8]) -> rustix::io::Result<usize> {
        let buffer = std::cell::RefCell::new(buffer);
        self.call(
            |fd| rustix::fs::flistxattr(fd, &mut **buffer.borrow_mut()),
            |path, follow| match follow {
                true => rustix::fs::listxattr(path, &mut **buffer.borrow_mut()),
                false => rustix::fs::llistxattr(path, &mut **buffer.borrow_mut()),
            },
        )
    }

    /// The names of the attributes.
    fn names(self) -> rustix::io::Result<Vec<u8>> {
        let mut buffer = vec![0; NAMES_SIZE];
        loop {
            match self.list_into(&mut buffer) {
                Ok(len) => {
                    buffer.truncate(len);
                    return Ok(buffer);
                }
                Err(rustix::io::Errno::RANGE) if buffer.len() < XATTR_LIST_MAX => {
                    buffer.resize(XATTR_LIST_MAX, 0);
                }
                Err(rustix::io::Errno::OPNOTSUPP) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
    }

    fn value(self, kind: AclKind) -> rustix::io::Result<Vec<u8>> {
        let buffer = std::cell::RefCell::new(vec![0; XATTR_SIZE_MAX]);
        let name = kind.name();
        let len = self.call(
            |fd| rustix::fs::fgetxattr(fd, name, &mut **buffer.borrow_mut()),
            |path, follow| match follow {
                true => rustix::fs::getxattr(path, name, &mut **buffer.borrow_mut()),
                false => rustix::fs::lgetxattr(path, name, &mut **buffer.borrow_mut()),
            },
        )?;
        let mut value = buffer.into_inner();
        value.truncate(len);
        Ok(value)
    }

    /// The host's lists of the file.
    ///
    /// # Errors
    /// Those of the host; `ENOENT`: this process has no `/proc`.
    fn read(self) -> Result<Acls, Errno> {
        let names = self.names().map_err(errno)?;
        let mut acls = Acls::default();
        for kind in KINDS {
            if !names.split(|byte| *byte == 0).any(|n| n == kind.name()) {
                continue;
            }
            match self.value(kind) {
                Ok(value) => acls.set(kind, Acl::parse(&value)?.map(Arc::new)),
                Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => {}
                Err(error) => return Err(errno(error)),
            }
        }
        Ok(acls)
    }

    /// Sets a list on the host, or removes it.
    ///
    /// # Errors
    /// As [`AclTarget::read`].
    pub(crate) fn write(self, kind: AclKind, acl: Option<&Acl>) -> Result<(), Errno> {
        let (name, flags) = (kind.name(), XattrFlags::empty());
        let Some(acl) = acl else {
            let done = self.call(
                |fd| rustix::fs::fremovexattr(fd, name),
                |path, follow| match follow {
                    true => rustix::fs::removexattr(path, name),
                    false => rustix::fs::lremovexattr(path, name),
                },
            );
            return match done {
                Err(rustix::io::Errno::NODATA) => Ok(()),
                done => done.map_err(errno),
            };
        };
        let value = acl.encode();
        let done = self.call(
            |fd| rustix::fs::fsetxattr(fd, name, &value, flags),
            |path, follow| match follow {
                true => rustix::fs::setxattr(path, name, &value, flags),
                false => rustix::fs::lsetxattr(path, name, &value, flags),
            },
        );
        done.map_err(errno)
    }
}

/// The list that is equivalent to a mode.
pub(crate) fn acl_of_mode(mode_bits: u32) -> Acl {
    let entry = |tag, shift: u32| AclEntry {
        tag,
        perm: (mode_bits >> shift & 7) as u16,
    };
    Acl::new(vec![
        entry(AclTag::UserObj, 6),
        entry(AclTag::GroupObj, 3),
        entry(AclTag::Other, 0),
    ])
}

/// R2
pub(crate) fn owner_only(mode_bits: u32) -> Acls {
    let nobody = acl_of_mode(mode_bits & 0o700);
    Acls {
        access: Some(Arc::new(nobody)),
        default: None,
    }
}

/// The lists that are stored with a readable file.
pub(crate) fn stored_acls(file: impl AsFd) -> Result<Acls, Errno> {
    let mut acls = Acls::default();
    for kind in KINDS {
        let mut buffer = vec![0; XATTR_SIZE_MAX];
        match rustix::fs::fgetxattr(&file, stored_name(kind), &mut buffer) {
            // A value that is no list is not ours.
            Ok(len) => acls.set(
                kind,
                Acl::parse(&buffer[..len]).ok().flatten().map(Arc::new),
            ),
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(acls)
}

/// Stores a list with a file, or removes it.
pub(crate) fn store_acl(file: impl AsFd, kind: AclKind, acl: Option<&Acl>) -> Result<(), Errno> {
    let done = match acl {
        Some(acl) => {
            let flags = XattrFlags::empty();
            rustix::fs::fsetxattr(file, stored_name(kind), &acl.encode(), flags)
        }
        None => rustix::fs::fremovexattr(file, stored_name(kind)),
    };
    match done {
        Err(rustix::io::Errno::NODATA) if acl.is_none() => Ok(()),
        done => done.map_err(errno),
    }
}

/// What `read` gives of the file of `stat`, which `stat_at` looks at (R1).
fn read_unchanged(
    stat: &HostStat,
    read: impl Fn() -> Result<Acls, Errno>,
    stat_at: impl Fn() -> Result<HostStat, Errno>,
) -> Option<Acls> {
    let decides = |stat: &HostStat| {
        let attr = &stat.attr;
        (stat.id, attr.mode, attr.uid, attr.gid)
    };
    let mut changed = stat.attr.ctime;
    for _ in 0..TRIES {
        let acls = read();
        let Ok(now) = stat_at() else { continue };
        let unchanged = decides(&now) == decides(stat) && now.attr.ctime == changed;
        if let (Ok(acls), true) = (acls, unchanged) {
            return Some(acls);
        }
        changed = now.attr.ctime;
    }
    None
}

impl Tree {
    /// Whether files have lists here.
    pub(crate) fn has_acls(&self) -> bool {
        !matches!(self.options.ownership, Ownership::Squash { .. })
    }

    /// Whether the lists of a file are read when they are first needed. Two calls of the host are
    /// saved for each file that is only looked at, and for each whiteout of an overlay.
    pub(crate) fn defers_acls(&self, stat: &HostStat) -> bool {
        let is_file = stat.kind() == mode::S_IFREG && mode::is_reg(stat.attr.mode);
        let is_null = stat.kind() == mode::S_IFCHR && stat.rdev == 0;
        matches!(self.options.ownership, Ownership::PassThrough) && (is_file || is_null)
    }

    /// The lists of a file with these attributes; never fewer than it has (R2).
    pub(crate) fn acls(&self, stat: &HostStat, at: AclTarget<'_>) -> Acls {
        if !self.has_acls() || stat.kind() == mode::S_IFLNK {
            return Acls::default();
        }
        if matches!(self.options.ownership, Ownership::Xattr { .. }) {
            return match at {
                AclTarget::Fd(fd) if self.stores_attr(stat) => {
                    stored_acls(fd).unwrap_or_else(|_| owner_only(stat.attr.mode))
                }
                _ => Acls::default(),
            };
        }
        let read = || match self.with_acls(stat, at, |at: AclTarget<'_>| at.read()) {
            // L33
            Err(Errno::EOPNOTSUPP) if stat.kind() != mode::S_IFREG => Ok(Acls::default()),
            read => read,
        };
        let found = match at {
            AclTarget::Fd(_) => read().ok(),
            AclTarget::Name(dir, name) => read_unchanged(stat, read, || stat_at(dir, name, WAIT)),
        };
        found.unwrap_or_else(|| owner_only(stat.attr.mode))
    }

    /// Opens a regular file or directory for its lists, where this process has no `/proc`.
    ///
    /// Divergence: L33.
    ///
    /// # Errors
    /// Those of the host; `ESTALE`: something else is there.
    fn open_for_acls(&self, stat: &HostStat, at: AclTarget<'_>) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opener = self.opener;
        let file = match (at, &self.proc) {
            (AclTarget::Name(dir, name), _) => {
                opener.open(dir, name, flags, Mode::empty(), WAIT)?
            }
            (AclTarget::Fd(fd), _) if stat.kind() == mode::S_IFDIR => {
                opener.open(fd, b".", flags, Mode::empty(), WAIT)?
            }
            (AclTarget::Fd(fd), Some(proc)) => {
                let flags = flags | OFlags::CLOEXEC;
                let name = fd.as_raw_fd().to_string();
                rustix::fs::openat(proc, name, flags, Mode::empty()).map_err(errno)?
            }
            (AclTarget::Fd(_), None) => return Err(Errno::EOPNOTSUPP),
        };
        if stat_at(&file, b"", WAIT)?.id == stat.id {
            Ok(file)
        } else {
            Err(Errno::ESTALE)
        }
    }

    /// Runs `work` on the lists by `/proc`, or by a readable descriptor.
    ///
    /// # Errors
    /// Those of `work`; `EOPNOTSUPP`: there is neither.
    pub(crate) fn with_acls<T>(
        &self,
        stat: &HostStat,
        at: AclTarget<'_>,
        work: impl Fn(AclTarget<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match work(at) {
            Err(Errno::ENOENT) => {}
            done => return done,
        }
        if !matches!(stat.kind(), mode::S_IFREG | mode::S_IFDIR) {
            return Err(Errno::EOPNOTSUPP);
        }
        let file = self.open_for_acls(stat, at)?;
        work(AclTarget::Fd(file.as_fd()))
    }

    /// Gives a new file its lists (R3); its owner and mode are right. Returns whether that changed
    /// the file.
    ///
    /// # Errors
    /// Those of the host; `EOPNOTSUPP` where the host has no lists and the file needs some.
    pub(crate) fn give_acls(
        &self,
        stat: &HostStat,
        at: AclTarget<'_>,
        wanted: Option<&Acls>,
        mode_bits: u32,
    ) -> Result<bool, Errno> {
        if !self.has_acls() || stat.kind() == mode::S_IFLNK {
            return Ok(false);
        }
        let none = Acls::default();
        let wanted = wanted.unwrap_or(&none);
        let by_attribute = matches!(self.options.ownership, Ownership::Xattr { .. });
        if by_attribute {
            let AclTarget::Fd(fd) = at else {
                return Ok(false);
            };
            let kinds = KINDS
                .into_iter()
                .filter_map(|kind| Some((kind, wanted.get(kind)?)));
            kinds
                .into_iter()
                .try_for_each(|(kind, acl)| store_acl(fd, kind, Some(acl)))?;
            return Ok(!wanted.is_empty());
        }
        let give = |at: AclTarget<'_>| {
            let has = at.read()?;
            for kind in KINDS {
                if has.get(kind) == wanted.get(kind) {
                    continue;
                }
                match (kind, wanted.get(kind)) {
                    (AclKind::Access, None) => at.write(kind, Some(&acl_of_mode(mode_bits)))?,
                    (_, acl) => at.write(kind, acl.map(|acl| &**acl))?,
                }
            }
            Ok(has != *wanted)
        };
        match self.with_acls(stat, at, give) {
            // Where lists cannot be reached, the host gave it none that could be seen.
            Err(Errno::EOPNOTSUPP) if wanted.is_empty() => Ok(false),
            done => done,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// A directory in which another process makes `count` files, one before each look.
    fn read_while_files_are_made(count: i64) -> Option<Acls> {
        let stat = stat_at(std::fs::File::open("/").unwrap(), b"", WAIT).unwrap();
        let made = Cell::new(0);
        let acls = || {
            Ok(Acls {
                access: Some(Arc::new(acl_of_mode(0o755))),
                default: None,
            })
        };
        read_unchanged(&stat, acls, || {
            let mut now = stat;
            made.set(count.min(made.get() + 1));
            now.attr.ctime.sec += made.get();
            Ok(now)
        })
    }

    #[test]
    fn directory_that_changes_between_looks_keeps_its_lists() {
        for count in [0, 1, 3] {
            let acls = read_while_files_are_made(count);
            assert!(acls.is_some_and(|acls| acls.access.is_some()), "{count}");
        }
        assert!(read_while_files_are_made(i64::MAX).is_none());
    }

    #[test]
    fn lists_of_another_file_do_not_count() {
        let stat = stat_at(std::fs::File::open("/").unwrap(), b"", WAIT).unwrap();
        let other = stat_at(std::fs::File::open("/proc").unwrap(), b"", WAIT).unwrap();
        let mut opened = stat;
        opened.attr.mode ^= 0o007;
        for now in [other, opened] {
            let read = read_unchanged(&stat, || Ok(Acls::default()), || Ok(now));
            assert!(read.is_none());
        }
    }
}
