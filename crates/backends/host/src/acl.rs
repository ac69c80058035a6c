// SPDX-License-Identifier: MIT OR Apache-2.0
//! Access control lists: the host's where ownership is passed through, else kept beside the owner.
//!
//! # Layout
//! With [`Ownership::Xattr`] the attributes `user.openpath.acl_access` and
//! `user.openpath.acl_default` hold what `system.posix_acl_*` would.
//!
//! # Rules
//! R1. The lists of an inode are read before it can be found, and again whenever its change time
//!     moved: the host moves it with each change of a list. A change time less than [`SETTLED`] old
//!     may not move with the next change, so the lists are read again until it is older.
//! R2. Lists that are reached by a name count if the name led to the same file, with the same mode
//!     and owners, before and after they were read, and that file did not change in between. Others
//!     may change it all the time, as a directory in which they make files: so the last look is
//!     what the next one is compared with, and not the first.
//! R3. Where the lists cannot be read, owner alone may access the file until they can.
//! R4. A new file has exactly the lists that the core gave it, whatever the host made of the
//!     directory it was made in.

use crate::handles::number;
use crate::options::Ownership;
use crate::pool::Handle;
use crate::sys::{Facts, errno, look};
use crate::tree::Tree;
use openpath_abi::xattr::{XATTR_LIST_MAX, XATTR_SIZE_MAX};
use openpath_abi::{Errno, mode};
use openpath_vfs::{Acl, AclEntry, AclKind, AclTag, Acls, Patience};
use rustix::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags, XattrFlags};
use std::sync::Arc;

pub(crate) const WAIT: Patience = Patience::Wait;
const KINDS: [AclKind; 2] = [AclKind::Access, AclKind::Default];
/// How often a file is looked at that others change meanwhile.
const TRIES: usize = 16;
/// Room for a list of names, at first.
const NAMES_ROOM: usize = 256;

/// Where a file's lists are read from.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    /// A descriptor at the file; with [`Ownership::Xattr`] one that can be read.
    Fd(BorrowedFd<'a>),
    /// A name in a directory.
    Name(&'a Handle, &'a [u8]),
}

/// The attribute that keeps a list where ownership is kept in attributes.
fn own_name(kind: AclKind) -> &'static str {
    match kind {
        AclKind::Access => "user.openpath.acl_access",
        AclKind::Default => "user.openpath.acl_default",
    }
}

/// What the host says of a call by a descriptor that is a place alone.
const PLACE: rustix::io::Errno = rustix::io::Errno::BADF;

impl At<'_> {
    fn path(self) -> Vec<u8> {
        match self {
            At::Fd(fd) => format!("/proc/self/fd/{}", fd.as_raw_fd()).into_bytes(),
            At::Name(dir, name) => {
                let dir = format!("/proc/self/fd/{}/", number(dir));
                [dir.as_bytes(), name].concat()
            }
        }
    }

    /// A call by the descriptor, if it can be read, else by a path of `/proc`. With the last
    /// argument a link at its end is followed: the descriptor's own.
    fn by<T>(
        self,
        by_fd: impl FnOnce(BorrowedFd<'_>) -> rustix::io::Result<T>,
        by_path: impl FnOnce(Vec<u8>, bool) -> rustix::io::Result<T>,
    ) -> rustix::io::Result<T> {
        match self {
            At::Fd(fd) => match by_fd(fd) {
                Err(PLACE) => by_path(self.path(), true),
                done => done,
            },
            At::Name(..) => by_path(self.path(), false),
        }
    }

    fn names_into(self, room: &mut [u8]) -> rustix::io::Result<usize> {
        let room = std::cell::RefCell::new(room);
        self.by(
            |fd| rustix::fs::flistxattr(fd, &mut **room.borrow_mut()),
            |path, follow| match follow {
                true => rustix::fs::listxattr(path, &mut **room.borrow_mut()),
                false => rustix::fs::llistxattr(path, &mut **room.borrow_mut()),
            },
        )
    }

    /// The names of the attributes.
    fn names(self) -> rustix::io::Result<Vec<u8>> {
        let mut room = vec![0; NAMES_ROOM];
        loop {
            match self.names_into(&mut room) {
                Ok(len) => {
                    room.truncate(len);
                    return Ok(room);
                }
                Err(rustix::io::Errno::RANGE) if room.len() < XATTR_LIST_MAX => {
                    room.resize(XATTR_LIST_MAX, 0);
                }
                Err(rustix::io::Errno::OPNOTSUPP) => return Ok(Vec::new()),
                Err(error) => return Err(error),
            }
        }
    }

    fn value(self, kind: AclKind) -> rustix::io::Result<Vec<u8>> {
        let room = std::cell::RefCell::new(vec![0; XATTR_SIZE_MAX]);
        let name = kind.name();
        let len = self.by(
            |fd| rustix::fs::fgetxattr(fd, name, &mut **room.borrow_mut()),
            |path, follow| match follow {
                true => rustix::fs::getxattr(path, name, &mut **room.borrow_mut()),
                false => rustix::fs::lgetxattr(path, name, &mut **room.borrow_mut()),
            },
        )?;
        let mut value = room.into_inner();
        value.truncate(len);
        Ok(value)
    }

    /// The host's lists of it.
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
    /// As [`At::read`].
    pub(crate) fn write(self, kind: AclKind, acl: Option<&Acl>) -> Result<(), Errno> {
        let (name, flags) = (kind.name(), XattrFlags::empty());
        let Some(acl) = acl else {
            let done = self.by(
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
        let done = self.by(
            |fd| rustix::fs::fsetxattr(fd, name, &value, flags),
            |path, follow| match follow {
                true => rustix::fs::setxattr(path, name, &value, flags),
                false => rustix::fs::lsetxattr(path, name, &value, flags),
            },
        );
        done.map_err(errno)
    }
}

/// A list that says what the mode says.
pub(crate) fn plain(mode_bits: u32) -> Acl {
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

/// R3
pub(crate) fn closed(mode_bits: u32) -> Acls {
    let nobody = plain(mode_bits & 0o700);
    Acls {
        access: Some(Arc::new(nobody)),
        default: None,
    }
}

/// The lists that are kept with a file that can be read.
pub(crate) fn kept(file: impl AsFd) -> Result<Acls, Errno> {
    let mut acls = Acls::default();
    for kind in KINDS {
        let mut room = vec![0; XATTR_SIZE_MAX];
        match rustix::fs::fgetxattr(&file, own_name(kind), &mut room) {
            // What is no list is none of ours.
            Ok(len) => acls.set(kind, Acl::parse(&room[..len]).ok().flatten().map(Arc::new)),
            Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => {}
            Err(error) => return Err(errno(error)),
        }
    }
    Ok(acls)
}

/// Keeps a list with a file, or keeps it no more.
pub(crate) fn keep(file: impl AsFd, kind: AclKind, acl: Option<&Acl>) -> Result<(), Errno> {
    let done = match acl {
        Some(acl) => {
            let flags = XattrFlags::empty();
            rustix::fs::fsetxattr(file, own_name(kind), &acl.encode(), flags)
        }
        None => rustix::fs::fremovexattr(file, own_name(kind)),
    };
    match done {
        Err(rustix::io::Errno::NODATA) if acl.is_none() => Ok(()),
        done => done.map_err(errno),
    }
}

/// What `read` gives of the file of `facts`, at which `look` looks. R2
fn read_unchanged(
    facts: &Facts,
    read: impl Fn() -> Result<Acls, Errno>,
    look: impl Fn() -> Result<Facts, Errno>,
) -> Option<Acls> {
    let decides = |facts: &Facts| {
        let attr = &facts.attr;
        (facts.id, attr.mode, attr.uid, attr.gid)
    };
    let mut changed = facts.attr.ctime;
    for _ in 0..TRIES {
        let acls = read();
        let Ok(now) = look() else { continue };
        let unchanged = decides(&now) == decides(facts) && now.attr.ctime == changed;
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

    /// The lists of what the host said `facts` of; never fewer than it has (R3).
    pub(crate) fn acls(&self, facts: &Facts, at: At<'_>) -> Acls {
        if !self.has_acls() || facts.kind() == mode::S_IFLNK {
            return Acls::default();
        }
        if matches!(self.options.ownership, Ownership::Xattr { .. }) {
            return match at {
                At::Fd(fd) if self.is_kept_by_attribute(facts) => {
                    kept(fd).unwrap_or_else(|_| closed(facts.attr.mode))
                }
                _ => Acls::default(),
            };
        }
        let read = || match self.with_acls(facts, at, |at: At<'_>| at.read()) {
            // L33
            Err(Errno::EOPNOTSUPP) if facts.kind() != mode::S_IFREG => Ok(Acls::default()),
            read => read,
        };
        let found = match at {
            At::Fd(_) => read().ok(),
            At::Name(dir, name) => read_unchanged(facts, read, || look(dir, name, WAIT)),
        };
        found.unwrap_or_else(|| closed(facts.attr.mode))
    }

    /// Opens a regular file or directory for its lists, where this process has no `/proc`.
    ///
    /// Divergence: L33.
    ///
    /// # Errors
    /// Those of the host; `ESTALE`: something else is there.
    fn open_for_acls(&self, facts: &Facts, at: At<'_>) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let way = self.way;
        let file = match (at, &self.proc) {
            (At::Name(dir, name), _) => way.open(dir, name, flags, Mode::empty(), WAIT)?,
            (At::Fd(fd), _) if facts.kind() == mode::S_IFDIR => {
                way.open(fd, b".", flags, Mode::empty(), WAIT)?
            }
            (At::Fd(fd), Some(proc)) => {
                let flags = flags | OFlags::CLOEXEC;
                let name = fd.as_raw_fd().to_string();
                rustix::fs::openat(proc, name, flags, Mode::empty()).map_err(errno)?
            }
            (At::Fd(_), None) => return Err(Errno::EOPNOTSUPP),
        };
        if look(&file, b"", WAIT)?.id == facts.id {
            Ok(file)
        } else {
            Err(Errno::ESTALE)
        }
    }

    /// Does something with the lists by `/proc`, or by a descriptor that can be read.
    ///
    /// # Errors
    /// Those of `work`; `EOPNOTSUPP`: there is neither.
    pub(crate) fn with_acls<T>(
        &self,
        facts: &Facts,
        at: At<'_>,
        work: impl Fn(At<'_>) -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        match work(at) {
            Err(Errno::ENOENT) => {}
            done => return done,
        }
        if !matches!(facts.kind(), mode::S_IFREG | mode::S_IFDIR) {
            return Err(Errno::EOPNOTSUPP);
        }
        let file = self.open_for_acls(facts, at)?;
        work(At::Fd(file.as_fd()))
    }

    /// Gives a new file the lists it is to have (R4); its owner and mode are right.
    ///
    /// # Errors
    /// Those of the host; `EOPNOTSUPP` where it has no lists and the file is to have some.
    pub(crate) fn give_acls(
        &self,
        facts: &Facts,
        at: At<'_>,
        wanted: Option<&Acls>,
        mode_bits: u32,
    ) -> Result<(), Errno> {
        if !self.has_acls() || facts.kind() == mode::S_IFLNK {
            return Ok(());
        }
        let none = Acls::default();
        let wanted = wanted.unwrap_or(&none);
        let by_attribute = matches!(self.options.ownership, Ownership::Xattr { .. });
        if by_attribute {
            let At::Fd(fd) = at else { return Ok(()) };
            let kinds = KINDS
                .into_iter()
                .filter_map(|kind| Some((kind, wanted.get(kind)?)));
            return kinds
                .into_iter()
                .try_for_each(|(kind, acl)| keep(fd, kind, Some(acl)));
        }
        let give = |at: At<'_>| {
            let has = at.read()?;
            for kind in KINDS {
                if has.get(kind) == wanted.get(kind) {
                    continue;
                }
                match (kind, wanted.get(kind)) {
                    (AclKind::Access, None) => at.write(kind, Some(&plain(mode_bits)))?,
                    (_, acl) => at.write(kind, acl.map(|acl| &**acl))?,
                }
            }
            Ok(())
        };
        match self.with_acls(facts, at, give) {
            // Without a way to its lists the host has given it none that could be seen.
            Err(Errno::EOPNOTSUPP) if wanted.is_empty() => Ok(()),
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
        let facts = look(std::fs::File::open("/").unwrap(), b"", WAIT).unwrap();
        let made = Cell::new(0);
        let acls = || {
            Ok(Acls {
                access: Some(Arc::new(plain(0o755))),
                default: None,
            })
        };
        read_unchanged(&facts, acls, || {
            let mut now = facts;
            made.set(count.min(made.get() + 1));
            now.attr.ctime.sec += made.get();
            Ok(now)
        })
    }

    #[test]
    fn directory_that_changes_between_two_looks_is_not_closed() {
        for count in [0, 1, 3] {
            let acls = read_while_files_are_made(count);
            assert!(acls.is_some_and(|acls| acls.access.is_some()), "{count}");
        }
        assert!(read_while_files_are_made(i64::MAX).is_none());
    }

    #[test]
    fn lists_of_another_file_do_not_count() {
        let facts = look(std::fs::File::open("/").unwrap(), b"", WAIT).unwrap();
        let other = look(std::fs::File::open("/proc").unwrap(), b"", WAIT).unwrap();
        let mut opened = facts;
        opened.attr.mode ^= 0o007;
        for now in [other, opened] {
            let read = read_unchanged(&facts, || Ok(Acls::default()), || Ok(now));
            assert!(read.is_none());
        }
    }
}
