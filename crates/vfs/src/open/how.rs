// SPDX-License-Identifier: MIT OR Apache-2.0
//! Translates the flags of open(2) and openat2(2) into an `OpenOp`, and checks them
//! (`build_open_how`, `build_open_flags`).

use crate::config::Profile;
use crate::file_ops::{QUICK, TRIED};
use crate::perm::{MAY_APPEND, MAY_READ, MAY_WRITE};
use crate::walk::lflag;
use openpath_abi::fcntl::{
    O_ACCMODE, O_APPEND, O_ASYNC, O_CLOEXEC, O_CREAT, O_DIRECT, O_DIRECTORY, O_DSYNC, O_EMPTYPATH,
    O_EXCL, O_LARGEFILE, O_NOATIME, O_NOCTTY, O_NOFOLLOW, O_NONBLOCK, O_PATH, O_SYNC, O_SYNC_ONLY,
    O_TMPFILE, O_TMPFILE_ONLY, O_TRUNC,
};
use openpath_abi::limits::PAGE_SIZE;
use openpath_abi::mode::{S_IALLUGO, S_IFREG};
use openpath_abi::resolve::{
    RESOLVE_ALL, RESOLVE_BENEATH, RESOLVE_CACHED, RESOLVE_IN_ROOT, RESOLVE_NO_MAGICLINKS,
    RESOLVE_NO_SYMLINKS, RESOLVE_NO_XDEV,
};
use openpath_abi::{Errno, OFlags, OpenHow, ResolveFlags};

/// Flags that mean something in every profile (`VALID_OPEN_FLAGS`).
const VALID: OFlags = OFlags::union_of(&[
    O_ACCMODE,
    O_CREAT,
    O_EXCL,
    O_NOCTTY,
    O_TRUNC,
    O_APPEND,
    O_NONBLOCK,
    O_SYNC,
    O_DSYNC,
    O_ASYNC,
    O_DIRECT,
    O_LARGEFILE,
    O_DIRECTORY,
    O_NOFOLLOW,
    O_NOATIME,
    O_CLOEXEC,
    O_PATH,
    O_TMPFILE,
]);

/// Flags that mean something with `O_PATH`.
const VALID_WITH_PATH: OFlags = OFlags::union_of(&[O_DIRECTORY, O_NOFOLLOW, O_PATH, O_CLOEXEC]);

/// An open, decided as far as its arguments decide it (`struct open_flags`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct OpenOp {
    /// `O_*`, as the opened file will keep them but for what is dropped after the open.
    pub(crate) flags: OFlags,
    /// Type and permission bits of a file to be made.
    pub(crate) mode: u32,
    /// Which access must be allowed.
    pub(crate) access: u32,
    /// How to walk.
    pub(crate) lookup: u32,
}

impl OpenOp {
    /// The same open, as a try.
    pub(super) fn tried(self) -> Self {
        Self {
            flags: self.flags | QUICK | TRIED,
            lookup: self.lookup | lflag::CACHED,
            ..self
        }
    }

    /// Whether all bits of `flag` are asked for.
    #[inline(always)]
    pub(crate) fn has(&self, flag: OFlags) -> bool {
        self.flags.contains(flag)
    }
}

/// Flags that are never refused by themselves.
const PLAIN: OFlags = OFlags::union_of(&[
    O_ACCMODE,
    O_NOCTTY,
    O_NONBLOCK,
    O_LARGEFILE,
    O_DIRECTORY,
    O_NOFOLLOW,
    O_NOATIME,
    O_CLOEXEC,
]);

/// The access that each access mode asks for.
const ACCESS: [u32; 4] = [
    MAY_READ,
    MAY_WRITE,
    MAY_READ | MAY_WRITE,
    MAY_READ | MAY_WRITE,
];

/// The open that plain flags of open(2) ask for, without going through the rules.
#[inline(always)]
pub(super) fn plain(flags: OFlags) -> Option<OpenOp> {
    if flags.intersects(!PLAIN) {
        return None;
    }
    // Directory and no-follow are neighbours in both words.
    let lookup = flags.bits() >> 15 & lflag::DIRECTORY | !flags.bits() >> 17 & lflag::FOLLOW;
    let access = ACCESS[(flags & O_ACCMODE).bits() as usize];
    Some(OpenOp {
        flags: flags | O_LARGEFILE,
        mode: 0,
        access,
        lookup,
    })
}

/// openat2 only, from Linux 7.2 on: any file that is not regular is `EFTYPE`.
const OPENAT2_REGULAR: u64 = 1 << 32;

/// Flags valid under `profile`.
fn valid(profile: Profile) -> u64 {
    let more = O_EMPTYPATH.only_if(profile >= Profile::V7_2);
    let regular = if profile >= Profile::V7_2 {
        OPENAT2_REGULAR
    } else {
        0
    };
    u64::from(VALID | more) | regular
}

/// The meaning of open(2), openat(2) and creat(2) flags: unknown ones are dropped.
pub(crate) fn lenient(flags: OFlags, mode: u32, profile: Profile) -> OpenHow {
    let mut flags = u64::from(flags | O_LARGEFILE) & valid(profile);
    if flags & u64::from(O_PATH) != 0 {
        flags &= u64::from(VALID_WITH_PATH);
    }
    let creates = flags & u64::from(O_CREAT | O_TMPFILE_ONLY) != 0;
    let mode = if creates {
        u64::from(mode & S_IALLUGO)
    } else {
        0
    };
    OpenHow {
        flags,
        mode,
        resolve: ResolveFlags::empty(),
    }
}

/// The meaning of openat2(2) flags: nothing is dropped, and files may be large.
pub(crate) fn strict(how: &OpenHow) -> OpenHow {
    let large = if how.flags & u64::from(O_PATH) == 0 {
        u64::from(O_LARGEFILE)
    } else {
        0
    };
    OpenHow {
        flags: how.flags | large,
        ..*how
    }
}

/// The `open_how` in the `size` bytes that a caller says it has, of which `bytes` can be read
/// (`copy_struct_from_user`).
///
/// # Errors
/// `EINVAL` (smaller than the first version), `E2BIG` (larger than a page), `EFAULT` (not
/// readable), `E2BIG` (unknown fields that are not zero).
pub(crate) fn from_bytes(bytes: &[u8], size: usize) -> Result<OpenHow, Errno> {
    if size < OpenHow::SIZE_VER0 {
        return Err(Errno::EINVAL);
    }
    if size > PAGE_SIZE {
        return Err(Errno::E2BIG);
    }
    let readable = bytes.get(..size).ok_or(Errno::EFAULT)?;
    if readable[OpenHow::SIZE_VER0..].iter().any(|&b| b != 0) {
        return Err(Errno::E2BIG);
    }
    let word = |at: usize| {
        let mut w = [0u8; 8];
        w.copy_from_slice(&readable[at..at + 8]);
        u64::from_ne_bytes(w)
    };
    Ok(OpenHow {
        flags: word(0),
        mode: word(8),
        resolve: ResolveFlags::from_bits_retain(word(16)),
    })
}

/// Checks an open's arguments and decides what they ask for.
///
/// # Errors
/// `EINVAL`: unknown flags, unknown resolve bits, `BENEATH` with `IN_ROOT`, a mode without a file
/// to make or outside of 07777, `O_CREAT` with `O_DIRECTORY`, `O_TMPFILE` not for writing, anything
/// but path flags with `O_PATH`. Then `EAGAIN`: `RESOLVE_CACHED` with what cannot be done from the
/// cache.
#[inline(always)]
pub(crate) fn build(how: &OpenHow, profile: Profile) -> Result<OpenOp, Errno> {
    if how.flags & !valid(profile) != 0 || how.resolve.intersects(!RESOLVE_ALL) {
        return Err(Errno::EINVAL);
    }
    let both = RESOLVE_BENEATH | RESOLVE_IN_ROOT;
    if how.resolve.contains(both) {
        return Err(Errno::EINVAL);
    }
    let mut flags = OFlags::from_bits_retain((how.flags & u64::from(u32::MAX)) as u32);
    let mode = if flags.intersects(O_CREAT | O_TMPFILE_ONLY) {
        if how.mode & !u64::from(S_IALLUGO) != 0 {
            return Err(Errno::EINVAL);
        }
        how.mode as u32 | S_IFREG
    } else if how.mode != 0 {
        return Err(Errno::EINVAL);
    } else {
        0
    };
    if flags.contains(O_DIRECTORY | O_CREAT) {
        return Err(Errno::EINVAL);
    }
    let regular = how.flags & OPENAT2_REGULAR != 0;
    if regular && flags.contains(O_DIRECTORY) {
        return Err(Errno::EINVAL);
    }
    let mut access = ACCESS[(flags & O_ACCMODE).bits() as usize];
    if flags.contains(O_TMPFILE_ONLY)
        && (flags & (O_TMPFILE | O_CREAT) != O_TMPFILE || access & MAY_WRITE == 0)
    {
        return Err(Errno::EINVAL);
    }
    if flags.contains(O_PATH) {
        if flags.intersects(!VALID_WITH_PATH) {
            return Err(Errno::EINVAL);
        }
        access = 0;
    }
    if flags.contains(O_SYNC_ONLY) {
        flags |= O_DSYNC;
    }
    if flags.contains(O_TRUNC) {
        access |= MAY_WRITE;
    }
    if flags.contains(O_APPEND) {
        access |= MAY_APPEND;
    }
    let quick = QUICK.only_if(how.resolve.contains(RESOLVE_CACHED));
    Ok(OpenOp {
        flags: flags | quick,
        mode,
        access,
        lookup: lookup_flags(flags, how.resolve)? | if regular { lflag::REGULAR } else { 0 },
    })
}

fn lookup_flags(flags: OFlags, resolve: ResolveFlags) -> Result<u32, Errno> {
    // A name that must be absent is not followed, but the file does not remember that as a flag.
    let exclusive = flags.contains(O_CREAT | O_EXCL);
    let mut lookup = 0;
    let mut map = |on: bool, flag: u32| lookup |= if on { flag } else { 0 };
    map(flags.contains(O_DIRECTORY), lflag::DIRECTORY);
    map(!flags.contains(O_NOFOLLOW) && !exclusive, lflag::FOLLOW);
    map(flags.contains(O_EMPTYPATH), lflag::EMPTY);
    map(resolve.contains(RESOLVE_NO_XDEV), lflag::NO_XDEV);
    map(
        resolve.contains(RESOLVE_NO_MAGICLINKS),
        lflag::NO_MAGICLINKS,
    );
    map(
        resolve.contains(RESOLVE_NO_SYMLINKS),
        lflag::NO_SYMLINKS | lflag::NO_MAGICLINKS,
    );
    map(resolve.contains(RESOLVE_BENEATH), lflag::BENEATH);
    map(resolve.contains(RESOLVE_IN_ROOT), lflag::IN_ROOT);
    if resolve.contains(RESOLVE_CACHED) {
        // Making or truncating a file may always wait.
        if flags.intersects(O_TRUNC | O_CREAT | O_TMPFILE_ONLY) {
            return Err(Errno::EAGAIN);
        }
        map(true, lflag::CACHED);
    }
    Ok(lookup)
}

#[cfg(test)]
mod tests {
    use super::*;
    use openpath_abi::fcntl::{O_RDONLY, O_RDWR, O_WRONLY};

    #[test]
    fn plain_flags_mean_the_same_with_and_without_the_rules() {
        for bits in 0..1u32 << 10 {
            let pick = [
                O_WRONLY,
                O_RDWR,
                O_NOCTTY,
                O_NONBLOCK,
                O_LARGEFILE,
                O_DIRECTORY,
                O_NOFOLLOW,
                O_NOATIME,
                O_CLOEXEC,
                O_CREAT,
            ];
            let flags = pick.iter().enumerate().filter(|(i, _)| bits >> i & 1 != 0);
            let flags = flags.fold(O_RDONLY, |all, (_, flag)| all | *flag);
            let ruled = build(&lenient(flags, 0o600, Profile::V6_18), Profile::V6_18);
            match plain(flags) {
                Some(op) => assert_eq!(Ok(op), ruled),
                None => assert!(flags.contains(O_CREAT)),
            }
        }
    }

    #[test]
    fn regular_files_alone_can_be_asked_for_from_7_2_on() {
        let how = |flags: OFlags| OpenHow {
            flags: u64::from(flags) | OPENAT2_REGULAR,
            mode: 0,
            resolve: ResolveFlags::empty(),
        };
        assert_eq!(build(&how(O_RDONLY), Profile::V6_18), Err(Errno::EINVAL));
        assert_eq!(build(&how(O_DIRECTORY), Profile::V7_2), Err(Errno::EINVAL));
        let op = build(&how(O_RDONLY), Profile::V7_2);
        assert!(op.is_ok_and(|op| op.lookup & lflag::REGULAR != 0));
    }
}
