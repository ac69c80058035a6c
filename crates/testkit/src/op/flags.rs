// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines arguments that are sets of named bits, or one of several named numbers.

use serde::{Deserialize, Serialize};

use super::args::Arg;
use openpath_abi::{
    access as a, falloc as fa, fcntl as f, inotify as i, mount as m, poll as p, rename as rn,
    resolve as r,
};

/// Writes `value` as names joined by `|`, the remaining bits in hexadecimal; `0` if it is empty.
fn put_flags(names: &[(&str, u64)], value: u64, out: &mut String) {
    let mut left = value;
    let mut words: Vec<String> = Vec::new();
    for (name, bits) in names {
        if *bits != 0 && left & bits == *bits {
            left &= !bits;
            words.push((*name).to_owned());
        }
    }
    if left != 0 {
        words.push(format!("{left:#x}"));
    } else if words.is_empty() {
        let nothing = names
            .iter()
            .find(|(_, bits)| *bits == 0)
            .map_or("0", |(name, _)| name);
        words.push(nothing.to_owned());
    }
    out.push_str(&words.join("|"));
}

fn get_flags(names: &[(&str, u64)], word: &str) -> Result<u64, String> {
    word.split('|').try_fold(0, |sum, part| {
        let named = names
            .iter()
            .find(|(name, _)| *name == part)
            .map(|(_, bits)| *bits);
        let number = || match part.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok(),
            None => part.parse().ok(),
        };
        let bits = named
            .or_else(number)
            .ok_or_else(|| format!("not a flag: {part}"))?;
        Ok(sum | bits)
    })
}

/// Defines a type of flags with names.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident { $($word:literal = $bits:expr),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name(pub u64);

        impl $name {
            /// The names, in the order of writing.
            pub const NAMES: &'static [(&'static str, u64)] = &[$(($word, ($bits) as u64)),*];

            /// The low 32 bits, which most calls take.
            #[must_use]
            pub fn low(self) -> u32 {
                (self.0 & 0xffff_ffff) as u32
            }
        }

        impl Arg for $name {
            fn put(&self, out: &mut String) {
                put_flags(Self::NAMES, self.0, out);
            }
            fn get(word: &str) -> Result<Self, String> {
                get_flags(Self::NAMES, word).map($name)
            }
            fn simpler(&self) -> Vec<Self> {
                let single = (0..64).map(|b| 1u64 << b).filter(|b| self.0 & b != 0);
                single.map(|b| $name(self.0 & !b)).collect()
            }
        }
    )*};
}

flags! {
    /// `O_*`.
    OFlags {
        "ACC3" = f::O_ACCMODE.bits(), "WRONLY" = f::O_WRONLY.bits(), "RDWR" = f::O_RDWR.bits(),
        "RDONLY" = 0,
        "TMPFILE" = f::O_TMPFILE.bits(), "TMPFILE_ONLY" = f::O_TMPFILE_ONLY.bits(),
        "CREAT" = f::O_CREAT.bits(), "EXCL" = f::O_EXCL.bits(), "TRUNC" = f::O_TRUNC.bits(),
        "PATH" = f::O_PATH.bits(),
        "DIRECTORY" = f::O_DIRECTORY.bits(), "NOFOLLOW" = f::O_NOFOLLOW.bits(),
        "APPEND" = f::O_APPEND.bits(),
        "NONBLOCK" = f::O_NONBLOCK.bits(), "NOATIME" = f::O_NOATIME.bits(),
        "CLOEXEC" = f::O_CLOEXEC.bits(),
        "SYNC" = f::O_SYNC.bits(), "DSYNC" = f::O_DSYNC.bits(), "DIRECT" = f::O_DIRECT.bits(),
        "ASYNC" = f::O_ASYNC.bits(),
        "NOCTTY" = f::O_NOCTTY.bits(), "LARGEFILE" = f::O_LARGEFILE.bits(),
    }
    /// `RESOLVE_*`.
    Resolve {
        "NO_XDEV" = r::RESOLVE_NO_XDEV.bits(), "NO_MAGICLINKS" = r::RESOLVE_NO_MAGICLINKS.bits(),
        "NO_SYMLINKS" = r::RESOLVE_NO_SYMLINKS.bits(), "BENEATH" = r::RESOLVE_BENEATH.bits(),
        "IN_ROOT" = r::RESOLVE_IN_ROOT.bits(), "CACHED" = r::RESOLVE_CACHED.bits(),
    }
    /// `AT_*`; `REMOVEDIR` and `EACCESS` are the same bit.
    AtFlags {
        "NOFOLLOW" = f::AT_SYMLINK_NOFOLLOW.bits(), "REMOVEDIR" = f::AT_REMOVEDIR.bits(),
        "EACCESS" = f::AT_EACCESS.bits(), "FOLLOW" = f::AT_SYMLINK_FOLLOW.bits(),
        "NO_AUTOMOUNT" = f::AT_NO_AUTOMOUNT.bits(), "EMPTY" = f::AT_EMPTY_PATH.bits(),
    }
    /// `RENAME_*`.
    RFlags {
        "NOREPLACE" = rn::RENAME_NOREPLACE.bits(), "EXCHANGE" = rn::RENAME_EXCHANGE.bits(),
        "WHITEOUT" = rn::RENAME_WHITEOUT.bits(),
    }
    /// `R_OK`, `W_OK`, `X_OK`.
    Access { "R" = a::R_OK, "W" = a::W_OK, "X" = a::X_OK }
    /// `MS_*` that apply to our mounts.
    MsFlags {
        "RDONLY" = m::MS_RDONLY, "NOSUID" = m::MS_NOSUID, "NODEV" = m::MS_NODEV,
        "NOEXEC" = m::MS_NOEXEC, "NOSYMFOLLOW" = m::MS_NOSYMFOLLOW, "NOATIME" = m::MS_NOATIME,
        "NODIRATIME" = m::MS_NODIRATIME, "STRICTATIME" = m::MS_STRICTATIME, "REC" = m::MS_REC,
        "RELATIME" = m::MS_RELATIME, "SHARED" = m::MS_SHARED, "PRIVATE" = m::MS_PRIVATE,
        "SLAVE" = m::MS_SLAVE, "UNBINDABLE" = m::MS_UNBINDABLE,
    }
    /// Flags of open_tree(2) and mount_setattr(2).
    TreeFlags {
        "CLONE" = 1, "CLOEXEC" = f::O_CLOEXEC.bits(), "NOFOLLOW" = f::AT_SYMLINK_NOFOLLOW.bits(),
        "NO_AUTOMOUNT" = f::AT_NO_AUTOMOUNT.bits(), "EMPTY" = f::AT_EMPTY_PATH.bits(),
        "RECURSIVE" = 0x8000,
    }
    /// `MOVE_MOUNT_*`.
    MoveFlags {
        "F_SYMLINKS" = 1, "F_AUTOMOUNTS" = 2, "F_EMPTY" = 4, "T_SYMLINKS" = 0x10,
        "T_AUTOMOUNTS" = 0x20, "T_EMPTY" = 0x40, "SET_GROUP" = 0x100, "BENEATH" = 0x200,
    }
    /// `MOUNT_ATTR_*`; the access time is one of several values: 0 for relatime.
    AttrFlags {
        "RDONLY" = 1, "NOSUID" = 2, "NODEV" = 4, "NOEXEC" = 8, "ATIME_MASK" = 0x70,
        "NOATIME" = 0x10, "STRICTATIME" = 0x20, "NODIRATIME" = 0x80, "NOSYMFOLLOW" = 0x20_0000,
    }
    /// `MNT_*` and `UMOUNT_NOFOLLOW`.
    UFlags {
        "FORCE" = m::MNT_FORCE.bits(), "DETACH" = m::MNT_DETACH.bits(),
        "EXPIRE" = m::MNT_EXPIRE.bits(),
        "NOFOLLOW" = m::UMOUNT_NOFOLLOW.bits(),
    }
    /// `XATTR_CREATE` and `XATTR_REPLACE`.
    XFlags { "CREATE" = 1, "REPLACE" = 2 }
    /// Flags of close_range(2).
    RangeFlags { "UNSHARE" = f::CLOSE_RANGE_UNSHARE, "CLOEXEC" = f::CLOSE_RANGE_CLOEXEC }
    /// `RWF_*`.
    RwFlags {
        "HIPRI" = fa::RWF_HIPRI, "DSYNC" = fa::RWF_DSYNC, "SYNC" = fa::RWF_SYNC,
        "NOWAIT" = fa::RWF_NOWAIT, "APPEND" = fa::RWF_APPEND, "NOAPPEND" = fa::RWF_NOAPPEND,
        "ATOMIC" = fa::RWF_ATOMIC, "DONTCACHE" = fa::RWF_DONTCACHE,
        "NOSIGNAL" = fa::RWF_NOSIGNAL,
    }
    /// `FALLOC_FL_*`.
    FaMode {
        "KEEP" = fa::FALLOC_FL_KEEP_SIZE, "PUNCH" = fa::FALLOC_FL_PUNCH_HOLE,
        "STALE" = fa::FALLOC_FL_NO_HIDE_STALE, "COLLAPSE" = fa::FALLOC_FL_COLLAPSE_RANGE,
        "ZERO" = fa::FALLOC_FL_ZERO_RANGE, "INSERT" = fa::FALLOC_FL_INSERT_RANGE,
        "UNSHARE" = fa::FALLOC_FL_UNSHARE_RANGE, "WRITE_ZEROES" = fa::FALLOC_FL_WRITE_ZEROES,
    }
    /// `POLL*`.
    PollFlags {
        "IN" = p::POLLIN, "PRI" = p::POLLPRI, "OUT" = p::POLLOUT, "ERR" = p::POLLERR,
        "HUP" = p::POLLHUP, "NVAL" = p::POLLNVAL, "RDNORM" = p::POLLRDNORM,
        "RDBAND" = p::POLLRDBAND, "WRNORM" = p::POLLWRNORM, "WRBAND" = p::POLLWRBAND,
        "RDHUP" = p::POLLRDHUP,
    }
    /// `IN_*`.
    InFlags {
        "ALL" = i::IN_ALL_EVENTS, "CLOSE" = i::IN_CLOSE, "MOVE" = i::IN_MOVE,
        "ACCESS" = i::IN_ACCESS, "MODIFY" = i::IN_MODIFY, "ATTRIB" = i::IN_ATTRIB,
        "CLOSE_WRITE" = i::IN_CLOSE_WRITE, "CLOSE_NOWRITE" = i::IN_CLOSE_NOWRITE,
        "OPEN" = i::IN_OPEN, "MOVED_FROM" = i::IN_MOVED_FROM, "MOVED_TO" = i::IN_MOVED_TO,
        "CREATE" = i::IN_CREATE, "DELETE" = i::IN_DELETE, "DELETE_SELF" = i::IN_DELETE_SELF,
        "MOVE_SELF" = i::IN_MOVE_SELF, "UNMOUNT" = i::IN_UNMOUNT, "IGNORED" = i::IN_IGNORED,
        "ONLYDIR" = i::IN_ONLYDIR, "DONT_FOLLOW" = i::IN_DONT_FOLLOW,
        "EXCL_UNLINK" = i::IN_EXCL_UNLINK, "MASK_CREATE" = i::IN_MASK_CREATE,
        "MASK_ADD" = i::IN_MASK_ADD, "ISDIR" = i::IN_ISDIR, "ONESHOT" = i::IN_ONESHOT,
        "OVERFLOW" = i::IN_Q_OVERFLOW,
    }
    /// Plain bits in hexadecimal: the mask of statx(2).
    Bits {}
}

/// Defines a type in which each value has a name, and no other value can be written: the kernel
/// would take the argument of many others for an address.
macro_rules! named {
    ($($(#[$doc:meta])* $name:ident { $($word:literal = $bits:expr),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name(pub u32);

        impl $name {
            /// All of them, with their names.
            pub const NAMES: &'static [(&'static str, u32)] = &[$(($word, $bits)),*];
        }

        impl Arg for $name {
            fn put(&self, out: &mut String) {
                let name = Self::NAMES.iter().find(|(_, v)| *v == self.0);
                out.push_str(name.map_or("?", |(name, _)| name));
            }
            fn get(word: &str) -> Result<Self, String> {
                let found = Self::NAMES.iter().find(|(name, _)| *name == word);
                found
                    .map(|(_, v)| $name(*v))
                    .ok_or_else(|| format!("not known: {word}"))
            }
        }
    )*};
}

named! {
    /// Commands of fcntl(2) with a number as argument.
    Cmd {
        "DUPFD" = f::F_DUPFD, "DUPFD_CLOEXEC" = f::F_DUPFD_CLOEXEC, "GETFD" = f::F_GETFD,
        "SETFD" = f::F_SETFD,
        "CREATED_QUERY" = f::F_CREATED_QUERY, "SETOWN" = f::F_SETOWN, "GETOWN" = f::F_GETOWN,
        "SETSIG" = f::F_SETSIG, "GETSIG" = f::F_GETSIG, "ADD_SEALS" = f::F_ADD_SEALS,
        "GET_SEALS" = f::F_GET_SEALS, "SETPIPE_SZ" = f::F_SETPIPE_SZ,
        "GETPIPE_SZ" = f::F_GETPIPE_SZ, "NOSUCH" = 9999,
    }
    /// Requests of ioctl(2) that every file answers, and some that none does.
    Request {
        "FIOCLEX" = 0x5451, "FIONCLEX" = 0x5450, "FIONBIO" = 0x5421, "FIOASYNC" = 0x5452,
        "FIONREAD" = 0x541b, "FIOQSIZE" = 0x5460, "FIGETBSZ" = 2, "TCGETS" = 0x5401,
        "NOSUCH" = 0x7777,
    }
}
