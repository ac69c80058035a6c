// SPDX-License-Identifier: MIT OR Apache-2.0
//! Converts a part of an ordinary user's upper tree between the format of this program and that of
//! the kernel's overlay.
//!
//! This program keeps modes and types in the attribute `user.openpath.attr`, and all files as 0600
//! and 0700. The kernel keeps them in the inode, so a file of mode 0000 can only be read with
//! capabilities: these functions run in a user namespace (`part`), but for [`keep_acls`].
//!
//! # Rules
//! R1. Each step leaves an entry that one of both formats describes: an entry with the attribute is
//!     in ours, whatever its mode, and any other one is as it stands. So a conversion that was
//!     interrupted is begun anew, in either direction.
//! R2. While the overlay uses the part, the command can set the attribute itself, as a run inside
//!     it does. So all attributes with our prefix get another one before the first entry is
//!     converted back ([`set_aside`]). In our format they are escaped. They get our prefix again
//!     once no entry has our format ([`put_back`]).
//! R3. An entry whose attributes leave no room for ours stays as it stands, with all permissions of
//!     its owner: without them nothing could read it. A list that has no room is given up, and with
//!     it what the mode allows others: the list may have denied that to some.
//! R4. A whiteout, a FIFO or a socket is a file of its own type in the kernel's format, and so it
//!     stays: both formats have it.

use crate::attributes::acl;
use crate::attributes::own_attr::{ESCAPED, KEPT, OWN, parse};
use crate::attributes::xattrs::{self, Xattrs};
use crate::host::descriptors::path_by_number;
use crate::host::dir_stack::DirStack;
use crate::host::names::names_in;
use openpath_abi::mode::{self, S_IALLUGO, S_IFMT, S_ISVTX};
use openpath_vfs::Acl;
use rustix::fd::{AsFd as _, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags, Stat, XattrFlags};
use rustix::io::{Errno, Result};
use std::collections::HashMap;

/// The modes of files and directories in our format.
const FILE: u32 = 0o600;
const DIR: u32 = 0o700;
/// The permissions of all but the owner.
const OTHERS: u32 = 0o077;
/// Attributes of fewer bytes than this leave room for ours on each file system: if there is none,
/// the file system is full.
const FULL: usize = 512;
/// The prefix of the command's attributes with our prefix, between the formats (R2).
const ASIDE: &[u8] = b"user.openpath-aside.";
/// The name of a file that is made to replace another one.
const NEW: &str = "new";

/// An entry of a tree: its directory, its name there, its descriptor.
struct Entry<'a> {
    /// `None`: the top of the tree.
    name: Option<(BorrowedFd<'a>, &'a [u8])>,
    path: String,
    stat: Stat,
}

impl<'a> Entry<'a> {
    fn new(name: Option<(BorrowedFd<'a>, &'a [u8])>, file: &OwnedFd) -> Result<Entry<'a>> {
        Ok(Entry {
            name,
            path: path_by_number(file),
            stat: rustix::fs::fstat(file)?,
        })
    }

    fn file_type(&self) -> FileType {
        FileType::from_raw_mode(self.stat.st_mode)
    }

    /// Whether our format keeps its mode in an attribute.
    fn has_attribute(&self) -> bool {
        matches!(
            self.file_type(),
            FileType::RegularFile | FileType::Directory
        )
    }

    /// The value of our attribute.
    fn kept(&self) -> Result<Option<(u32, u32, u32, u64)>> {
        let mut value = [0; 64];
        match rustix::fs::getxattr(&*self.path, KEPT, &mut value[..]) {
            Ok(length) => Ok(value.get(..length).and_then(parse)),
            Err(Errno::NODATA | Errno::RANGE) => Ok(None),
            Err(why) => Err(why),
        }
    }

    fn chmod(&self, bits: u32) -> Result<()> {
        if self.stat.st_mode & S_IALLUGO == bits {
            return Ok(());
        }
        rustix::fs::chmod(&*self.path, Mode::from_raw_mode(bits))
    }

    /// Whether there is no room for an attribute because the entry has so many others (R3).
    fn is_full(&self, why: Errno) -> Result<bool> {
        if !matches!(why, Errno::NOSPC | Errno::DQUOT | Errno::TOOBIG) {
            return Ok(false);
        }
        let all = Xattrs::read(&self.path)?;
        let bytes = all.iter().map(|(name, value)| name.len() + value.len());
        // Where the file system has no room for anything, there will be some.
        let room = rustix::fs::statvfs(&*self.path)?;
        let has_room = room.f_bavail > 0 && (room.f_files == 0 || room.f_favail > 0);
        Ok(has_room && bytes.sum::<usize>() >= FULL)
    }

    /// Gives all attributes with a prefix another one. Where the longer name has no
    /// room, the attribute goes (R3).
    fn rename_attributes(&self, (from, to): (&[u8], &[u8])) -> Result<()> {
        let all = Xattrs::read(&self.path)?;
        for (name, value) in all.iter() {
            let Some(rest) = name.strip_prefix(from) else {
                continue;
            };
            let new = [to, rest].concat();
            let set = || rustix::fs::setxattr(&*self.path, &*new, value, XattrFlags::empty());
            match set() {
                Err(why) if self.is_full(why)? => {
                    xattrs::remove(&self.path, name)?;
                    let _has_room = set();
                }
                done => {
                    done?;
                    xattrs::remove(&self.path, name)?;
                }
            }
        }
        Ok(())
    }

    /// The mode of the host's file in our format.
    fn own_mode(&self) -> u32 {
        match self.file_type() {
            FileType::Directory => DIR,
            _ => FILE,
        }
    }
}

/// Visits a directory and all that is in it. Directories come before what is in them.
fn walk(top: OwnedFd, visit: &mut dyn FnMut(&Entry<'_>) -> Result<()>) -> Result<()> {
    visit(&Entry::new(None, &top)?)?;
    let mut left = vec![names_in(top.as_fd())?];
    let mut stack = DirStack::new(top)?;
    while let Some(names) = left.last_mut() {
        let Some(name) = names.pop() else {
            left.pop();
            stack.leave()?;
            continue;
        };
        let dir = stack.dir()?;
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(dir, &*name, flags, Mode::empty())?;
        let entry = Entry::new(Some((dir, &name)), &file)?;
        visit(&entry)?;
        if entry.file_type() == FileType::Directory {
            left.push(names_in(file.as_fd())?);
            stack.enter(file)?;
        }
    }
    Ok(())
}

/// Converts a directory of our format, and all that is in it, to the kernel's. `scratch` is an
/// empty directory in the same file system.
///
/// # Errors
/// `EOPNOTSUPP`: the kernel's format has no such entry. What the file system says.
pub(super) fn to_kernel(top: OwnedFd, scratch: BorrowedFd<'_>) -> Result<()> {
    let (uid, gid) = (
        rustix::process::geteuid().as_raw(),
        rustix::process::getegid().as_raw(),
    );
    refuse_shared(top.try_clone().map_err(|_| Errno::MFILE)?, (uid, gid))?;
    walk(top, &mut |entry| {
        if !entry.has_attribute() {
            return Ok(());
        }
        let Some((bits, owner, group, rdev)) = entry.kept()? else {
            return Ok(());
        };
        let all = Xattrs::read(&entry.path)?;
        let is_ours = |name: &[u8]| name.starts_with(OWN) && name != KEPT;
        let is_lost = |name: &[u8]| is_ours(name) && !name.starts_with(ESCAPED);
        if (owner, group) != (uid, gid) || all.keys().any(is_lost) {
            return Err(Errno::OPNOTSUPP);
        }
        if bits & S_IFMT != entry.stat.st_mode & S_IFMT {
            return replace_special(entry, bits, rdev, scratch);
        }
        // What the directory of views gave it is not the view's.
        for name in all.keys().filter(|name| acl::is_acl(name)) {
            xattrs::remove(&entry.path, name)?;
        }
        // R2
        entry.rename_attributes((ESCAPED, ASIDE))?;
        rustix::fs::chmod(&*entry.path, Mode::from_raw_mode(bits & S_IALLUGO))?;
        xattrs::remove(&entry.path, KEPT)
    })
}

/// Gives the attributes that were set aside our prefix again, for the command that set them (R2).
///
/// # Errors
/// What the file system says.
pub(super) fn put_back(top: OwnedFd) -> Result<()> {
    rename_all(top, (ASIDE, OWN))
}

/// Sets aside all attributes with our prefix, which the command has set (R2).
///
/// # Errors
/// What the file system says.
pub(super) fn set_aside(top: OwnedFd) -> Result<()> {
    rename_all(top, (OWN, ASIDE))
}

fn rename_all(top: OwnedFd, prefixes: (&[u8], &[u8])) -> Result<()> {
    walk(top, &mut |entry| match entry.has_attribute() {
        true => entry.rename_attributes(prefixes),
        false => Ok(()),
    })
}

/// Refuses a file that has names outside of the directory too, where our own tree serves it, and
/// one that belongs to another user or group on the host.
fn refuse_shared(top: OwnedFd, own: (u32, u32)) -> Result<()> {
    let mut left: HashMap<u64, u64> = HashMap::new();
    walk(top, &mut |entry| {
        let Stat {
            st_ino, st_nlink, ..
        } = entry.stat;
        if (entry.stat.st_uid, entry.stat.st_gid) != own {
            return Err(Errno::OPNOTSUPP);
        }
        if st_nlink > 1 && entry.file_type() == FileType::RegularFile {
            let rest = left.entry(st_ino).or_insert(st_nlink);
            *rest -= 1;
            if *rest == 0 {
                left.remove(&st_ino);
            }
        }
        Ok(())
    })?;
    match left.is_empty() {
        true => Ok(()),
        false => Err(Errno::OPNOTSUPP),
    }
}

/// Replaces a file that stands for one of another type (R4).
fn replace_special(entry: &Entry<'_>, bits: u32, rdev: u64, scratch: BorrowedFd<'_>) -> Result<()> {
    let is_whiteout = mode::is_chr(bits) && rdev == 0 && bits & S_ISVTX == 0;
    let file_type = FileType::from_raw_mode(bits);
    let is_pipe = matches!(file_type, FileType::Fifo | FileType::Socket);
    let Some((dir, name)) = entry.name else {
        return Err(Errno::OPNOTSUPP);
    };
    if !(is_whiteout || is_pipe && entry.stat.st_nlink == 1) {
        return Err(Errno::OPNOTSUPP);
    }
    match rustix::fs::unlinkat(scratch, NEW, rustix::fs::AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => {}
        Err(why) => return Err(why),
    }
    let bits = Mode::from_raw_mode(bits & S_IALLUGO);
    rustix::fs::mknodat(scratch, NEW, file_type, bits, 0)?;
    rustix::fs::chmodat(scratch, NEW, bits, rustix::fs::AtFlags::empty())?;
    rustix::fs::renameat(scratch, NEW, dir, name)
}

/// Converts a directory of the kernel's format, and all that is in it, to ours.
///
/// # Errors
/// What the file system says.
pub(super) fn from_kernel(top: OwnedFd) -> Result<()> {
    walk(top, &mut |entry| {
        if !entry.has_attribute() {
            return Ok(());
        }
        if entry.kept()?.is_none() {
            let Stat {
                st_mode,
                st_uid,
                st_gid,
                ..
            } = entry.stat;
            let value = format!("{st_mode} {st_uid} {st_gid} 0");
            let flags = XattrFlags::empty();
            match rustix::fs::setxattr(&*entry.path, KEPT, value.as_bytes(), flags) {
                // R3
                Err(why) if entry.is_full(why)? => {
                    return entry.chmod(st_mode & S_IALLUGO | entry.own_mode());
                }
                done => done?,
            }
        }
        entry.rename_attributes((ASIDE, ESCAPED))?;
        entry.chmod(entry.own_mode())
    })
}

/// Keeps the access control lists that the kernel gave entries of our format in attributes of ours.
/// This process must see the numbers in lists as they are, so it is in no user namespace of a view.
///
/// # Errors
/// What the file system says.
pub(super) fn keep_acls(top: OwnedFd) -> Result<()> {
    walk(top, &mut |entry| {
        if !entry.has_attribute() {
            return Ok(());
        }
        let all = Xattrs::read(&entry.path)?;
        if !acl::has_acl(&all) {
            return Ok(());
        }
        let kept = entry.kept()?;
        let mut has_room = kept.is_some();
        if let Some((bits, ..)) = kept {
            for (name, list) in all.iter().filter(|(name, _)| acl::is_acl(name)) {
                let is_kept = keep_acl(entry, (name, list), bits)?;
                has_room &= is_kept || name != acl::ACCESS;
            }
        }
        let flags = XattrFlags::empty();
        let host = match (has_room, kept) {
            (true, _) => entry.stat.st_mode,
            (false, None) => entry.stat.st_mode & !OTHERS,
            (false, Some((bits, uid, gid, rdev))) => {
                let value = format!("{} {uid} {gid} {rdev}", bits & !OTHERS);
                rustix::fs::setxattr(&*entry.path, KEPT, value.as_bytes(), flags)?;
                entry.stat.st_mode
            }
        };
        acl::apply(&entry.path, &Xattrs::default(), host)
    })
}

/// Keeps a list of an entry with these mode bits. Returns false if there is no room (R3).
fn keep_acl(entry: &Entry<'_>, (name, list): (&[u8], &[u8]), bits: u32) -> Result<bool> {
    let list = match name == acl::ACCESS {
        true => {
            // The change to our mode has moved the mask.
            let list = Acl::parse(list).map_err(|_| Errno::INVAL)?;
            list.ok_or(Errno::INVAL)?.after_chmod(bits).encode()
        }
        false => list.to_vec(),
    };
    let flags = XattrFlags::empty();
    match rustix::fs::setxattr(&*entry.path, acl::kept_name(name), &list, flags) {
        Err(why) if entry.is_full(why)? => Ok(false),
        done => done.map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use super::{from_kernel, set_aside, to_kernel, walk};
    use crate::attributes::own_attr::KEPT;
    use rustix::fd::{AsFd as _, OwnedFd};
    use rustix::fs::{Mode, OFlags, XattrFlags};
    use std::fs;
    use std::path::{Path, PathBuf};

    fn open(dir: &Path) -> OwnedFd {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        rustix::fs::open(dir, flags, Mode::empty()).unwrap()
    }

    fn chmod(path: &Path, bits: u32) {
        rustix::fs::chmod(path, Mode::from_raw_mode(bits)).unwrap();
    }

    fn keep(path: &Path, mode: u32) {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        let value = format!("{mode} {} {} 0", uid.as_raw(), gid.as_raw());
        rustix::fs::setxattr(path, KEPT, value.as_bytes(), XattrFlags::empty()).unwrap();
    }

    /// The type and mode of each entry on the host, and its attribute.
    fn entries(top: &Path) -> Vec<(u32, Option<u32>)> {
        let mut all = Vec::new();
        walk(open(top), &mut |entry| {
            let kept = match entry.has_attribute() {
                true => entry.kept()?.map(|kept| kept.0),
                false => None,
            };
            all.push((entry.stat.st_mode, kept));
            Ok(())
        })
        .unwrap();
        all.sort_unstable();
        all
    }

    /// A directory of our format with a file, a whiteout and a FIFO, and one for new files.
    fn part(name: &str) -> (PathBuf, PathBuf) {
        let dir = std::env::temp_dir().join(format!("openpath-{name}-{}", std::process::id()));
        fs::create_dir_all(dir.join("part/in")).unwrap();
        fs::create_dir_all(dir.join("scratch")).unwrap();
        let top = dir.join("part");
        for (path, mode) in [
            ("in/file", 0o104_750),
            ("in/gone", 0o020_000),
            ("fifo", 0o010_640),
        ] {
            fs::write(top.join(path), "").unwrap();
            chmod(&top.join(path), 0o600);
            keep(&top.join(path), mode);
        }
        for (path, mode) in [("in", 0o040_555), (".", 0o040_755)] {
            chmod(&top.join(path), 0o700);
            keep(&top.join(path), mode);
        }
        (top, dir)
    }

    #[test]
    fn conversion_there_and_back_keeps_types_and_modes() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (top, dir) = part("convert");
        to_kernel(open(&top), open(&dir.join("scratch")).as_fd()).unwrap();
        let kernel = [0o010_640, 0o020_000, 0o040_555, 0o040_755, 0o104_750];
        assert_eq!(entries(&top), kernel.map(|mode| (mode, None)));
        // What a command forges.
        keep(&top.join("in/file"), 0o020_000);
        set_aside(open(&top)).unwrap();
        from_kernel(open(&top)).unwrap();
        let own = [
            (0o010_640, None),
            (0o020_000, None),
            (0o040_700, Some(0o040_555)),
            (0o040_700, Some(0o040_755)),
            (0o100_600, Some(0o104_750)),
        ];
        assert_eq!(entries(&top), own);
        from_kernel(open(&top)).unwrap();
        assert_eq!(entries(&top), own);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn interrupted_conversion_is_undone() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (top, dir) = part("interrupt");
        // A mode of the kernel's format is set, and the attribute is still there.
        chmod(&top.join("in/file"), 0o4750);
        chmod(&top.join("in"), 0o555);
        rustix::fs::removexattr(top.join("in"), KEPT).unwrap();
        from_kernel(open(&top)).unwrap();
        let own = [
            (0o040_700, Some(0o040_555)),
            (0o040_700, Some(0o040_755)),
            (0o100_600, Some(0o010_640)),
            (0o100_600, Some(0o020_000)),
            (0o100_600, Some(0o104_750)),
        ];
        assert_eq!(entries(&top), own);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn entry_of_another_owner_is_refused() {
        let (top, dir) = part("owner");
        let value = b"33188 4711 4711 0";
        rustix::fs::setxattr(top.join("in/file"), KEPT, value, XattrFlags::empty()).unwrap();
        let refused = to_kernel(open(&top), open(&dir.join("scratch")).as_fd());
        assert_eq!(refused, Err(rustix::io::Errno::OPNOTSUPP));
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn file_with_a_name_outside_is_refused_and_stays() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (top, dir) = part("own-linked");
        let scratch = dir.join("scratch");
        fs::hard_link(top.join("in/file"), top.join("second")).unwrap();
        to_kernel(open(&top), open(&scratch).as_fd()).unwrap();
        set_aside(open(&top)).unwrap();
        from_kernel(open(&top)).unwrap();
        let before = entries(&top);
        fs::hard_link(top.join("in/file"), scratch.join("outside")).unwrap();
        let refused = to_kernel(open(&top), open(&scratch).as_fd());
        assert_eq!(refused, Err(rustix::io::Errno::OPNOTSUPP));
        assert_eq!(entries(&top), before);
        fs::remove_dir_all(dir).unwrap();
    }
}
