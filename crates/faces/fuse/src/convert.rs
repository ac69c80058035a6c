// SPDX-License-Identifier: MIT OR Apache-2.0
//! Between our words and those of the library that speaks with the kernel.

use crate::nodes::ROOT;
use fuser::{FileAttr, FileType, INodeNo, TimeOrNow};
use openpath_abi::mode::{
    S_IALLUGO, S_IFBLK, S_IFCHR, S_IFDIR, S_IFIFO, S_IFLNK, S_IFMT, S_IFSOCK,
};
use openpath_abi::{Errno, Statx, TimeSet, Timespec, dirent, stat};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// An error number.
pub(crate) fn errno(errno: Errno) -> fuser::Errno {
    fuser::Errno::from_i32(errno.raw())
}

/// A time, as the library has it; what it cannot hold is the epoch.
fn time(at: Timespec) -> SystemTime {
    let nsec = Duration::from_nanos(u64::from(at.nsec));
    let whole = Duration::from_secs(at.sec.unsigned_abs());
    let second = if at.sec < 0 {
        UNIX_EPOCH.checked_sub(whole)
    } else {
        UNIX_EPOCH.checked_add(whole)
    };
    let exact = second.and_then(|second| second.checked_add(nsec));
    exact.unwrap_or(UNIX_EPOCH)
}

/// A time that the kernel sent. Before the epoch the library counts the nanoseconds backwards as
/// well; here they go forwards again.
pub(crate) fn timespec(at: SystemTime) -> Timespec {
    match at.duration_since(UNIX_EPOCH) {
        Ok(after) => Timespec::new(after.as_secs().cast_signed(), after.subsec_nanos()),
        Err(before) => {
            let before = before.duration();
            let sec = before.as_secs().cast_signed().wrapping_neg();
            Timespec::new(sec, before.subsec_nanos())
        }
    }
}

/// What one time is to become.
pub(crate) fn time_set(at: Option<TimeOrNow>) -> TimeSet {
    match at {
        None => TimeSet::Omit,
        Some(TimeOrNow::Now) => TimeSet::Now,
        Some(TimeOrNow::SpecificTime(at)) => TimeSet::At(timespec(at)),
    }
}

fn kind(mode: u32) -> FileType {
    match mode & S_IFMT {
        S_IFDIR => FileType::Directory,
        S_IFLNK => FileType::Symlink,
        S_IFIFO => FileType::NamedPipe,
        S_IFSOCK => FileType::Socket,
        S_IFCHR => FileType::CharDevice,
        S_IFBLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// The type of an entry in a listing.
pub(crate) fn listed_kind(kind: u8) -> FileType {
    match kind {
        dirent::DT_DIR => FileType::Directory,
        dirent::DT_LNK => FileType::Symlink,
        dirent::DT_FIFO => FileType::NamedPipe,
        dirent::DT_SOCK => FileType::Socket,
        dirent::DT_CHR => FileType::CharDevice,
        dirent::DT_BLK => FileType::BlockDevice,
        _ => FileType::RegularFile,
    }
}

/// Attributes of the node with this number, which is the inode number that is shown; but for the
/// root, whose own is.
pub(crate) fn attributes(number: u64, attr: &Statx) -> FileAttr {
    let mode = u32::from(attr.mode);
    FileAttr {
        ino: INodeNo(if number == ROOT { attr.ino } else { number }),
        size: attr.size,
        blocks: attr.blocks,
        atime: time(attr.atime),
        mtime: time(attr.mtime),
        ctime: time(attr.ctime),
        crtime: time(attr.btime),
        kind: kind(mode),
        perm: (mode & S_IALLUGO) as u16,
        nlink: attr.nlink,
        uid: attr.uid,
        gid: attr.gid,
        // The kernel's 32 bits are those of `makedev`.
        rdev: stat::makedev(attr.rdev_major, attr.rdev_minor) as u32,
        blksize: attr.blksize,
        flags: 0,
    }
}

/// What is shown of the directory itself and the one above in a listing, which the kernel takes for
/// no answer that names a node.
pub(crate) fn shown_only(number: u64, kind: FileType) -> FileAttr {
    FileAttr {
        ino: INodeNo(number),
        kind,
        ..no_node()
    }
}

/// The answer for a name that does not exist: no node.
pub(crate) fn no_node() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        ..attributes(0, &Statx::default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_the_epoch_come_back_as_they_were() {
        // As the library makes it of -2 s and 3 ns.
        let sent = UNIX_EPOCH - Duration::new(2, 3);
        let got = timespec(sent);
        assert_eq!(got, Timespec::new(-2, 3));
        let shown = UNIX_EPOCH.duration_since(time(got)).expect("before");
        assert_eq!(shown, Duration::new(1, 999_999_997));
        for at in [Timespec::new(0, 0), Timespec::new(1 << 33, 999_999_999)] {
            assert_eq!(timespec(time(at)), at);
        }
    }
}
