// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations: what both faces of the oracle are told to do.
//!
//! # Rules
//! * An operation is one line: its name, then its arguments, one word each, in the order of the
//!   fields. Writing and reading back gives the same operation.
//! * An operation names no descriptor number: open files live in slots (`s0` ...), and opening
//!   into a slot first closes what was in it.
//! * Contents are made from a seed, so that a line says all of them.

pub mod args;
pub mod text;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

pub use args::{
    Access, Arg, AtFlags, Bits, Dir, Keep, Mode, MsFlags, OFlags, Obj, Path, RFlags, Resolve,
    SLOTS, Slot, Time, UFlags, XFlags,
};

/// Makes the enum, its lines, and its simplifications.
macro_rules! ops {
    ($($(#[$doc:meta])* $op:ident = $word:literal { $($field:ident : $ty:ty),* })*) => {
        /// One operation.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[allow(missing_docs, reason = "the fields are the arguments of the call named")]
        pub enum Op {
            $($(#[$doc])* $op { $($field: $ty),* },)*
        }

        impl Op {
            /// The first word of each operation.
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            /// The first word of its line.
            #[must_use]
            pub fn word(&self) -> &'static str {
                match self { $(Op::$op { .. } => $word,)* }
            }

            /// The same operation with one argument made simpler, each way there is.
            #[must_use]
            pub fn simpler(&self) -> Vec<Op> {
                let mut all = Vec::new();
                match self {
                    $(Op::$op { $($field),* } => {
                        ops!(@simpler all $op [$($field)*] $($field)*);
                    })*
                }
                all
            }
        }

        impl fmt::Display for Op {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut line = String::from(self.word());
                match self {
                    $(Op::$op { $($field),* } => {
                        $(line.push(' '); $field.put(&mut line);)*
                    })*
                }
                f.write_str(&line)
            }
        }

        impl FromStr for Op {
            type Err = String;

            fn from_str(line: &str) -> Result<Op, String> {
                let mut words = line.split_whitespace();
                let word = words.next().ok_or("an empty line")?;
                let op = match word {
                    $($word => Op::$op {
                        $($field: Arg::get(words.next().ok_or(concat!(
                            $word, ": no ", stringify!($field)
                        ))?)?,)*
                    },)*
                    _ => return Err(format!("no such operation: {word}")),
                };
                match words.next() {
                    Some(extra) => Err(format!("{word}: too much: {extra}")),
                    None => Ok(op),
                }
            }
        }
    };
    (@simpler $all:ident $op:ident [$($every:ident)*]) => {};
    (@simpler $all:ident $op:ident [$($every:ident)*] $one:ident $($rest:ident)*) => {
        ops!(@one $all $op $one [$($every)*]);
        ops!(@simpler $all $op [$($every)*] $($rest)*);
    };
    (@one $all:ident $op:ident $one:ident [$($every:ident)*]) => {
        for simple in $one.simpler() {
            let mut copy = Op::$op { $($every: $every.clone()),* };
            if let Op::$op { $one: place, .. } = &mut copy {
                *place = simple;
            }
            $all.push(copy);
        }
    };
}

ops! {
    /// Become uid 0, 1000 or 1001, with that gid; 1000 is in group 2000 as well.
    Cred = "cred" { uid: i64 }
    /// umask(2).
    Umask = "umask" { mask: Mode }
    /// openat(2); the outcome is the file status flags.
    Open = "open" { keep: Keep, at: Dir, path: Path, flags: OFlags, mode: Mode }
    /// openat2(2) with a plain `open_how`.
    Openat2 = "openat2" {
        keep: Keep, at: Dir, path: Path, flags: OFlags, mode: Mode, resolve: Resolve }
    /// openat2(2) with a size, and a byte set in the tail if `tail` is not negative.
    Openat2Raw = "openat2raw" {
        at: Dir, path: Path, flags: OFlags, mode: Mode, resolve: Resolve, size: i64, tail: i64 }
    /// close(2).
    Close = "close" { slot: Slot }
    /// fcntl(2) `F_GETFL`.
    GetFl = "getfl" { slot: Slot }
    /// stat(2).
    Stat = "stat" { path: Path }
    /// lstat(2).
    Lstat = "lstat" { path: Path }
    /// fstat(2).
    Fstat = "fstat" { slot: Slot }
    /// newfstatat(2).
    Fstatat = "fstatat" { at: Dir, path: Path, flags: AtFlags }
    /// statx(2).
    Statx = "statx" { at: Dir, path: Path, flags: AtFlags, mask: Bits }
    /// access(2).
    Access = "access" { path: Path, mode: Access }
    /// faccessat2(2).
    Faccessat2 = "faccessat2" { at: Dir, path: Path, mode: Access, flags: AtFlags }
    /// mkdirat(2).
    Mkdir = "mkdir" { at: Dir, path: Path, mode: Mode }
    /// mknodat(2); the type is in the mode.
    Mknod = "mknod" { at: Dir, path: Path, mode: Mode, dev: Bits }
    /// unlinkat(2).
    Unlink = "unlink" { at: Dir, path: Path, flags: AtFlags }
    /// renameat2(2).
    Rename = "rename" { at: Dir, old: Path, at2: Dir, new: Path, flags: RFlags }
    /// linkat(2).
    Link = "link" { at: Dir, old: Path, at2: Dir, new: Path, flags: AtFlags }
    /// open(2) with `O_TMPFILE`, then linkat(2) with `AT_EMPTY_PATH` by the same credentials.
    Tmplink = "tmplink" { at: Dir, dir: Path, flags: OFlags, mode: Mode, new: Path }
    /// symlinkat(2).
    Symlink = "symlink" { target: Path, at: Dir, path: Path }
    /// readlinkat(2).
    Readlink = "readlink" { at: Dir, path: Path }
    /// fchmodat2(2).
    Chmod = "chmod" { at: Dir, path: Path, mode: Mode, flags: AtFlags }
    /// fchmod(2).
    Fchmod = "fchmod" { slot: Slot, mode: Mode }
    /// fchownat(2); -1 leaves an id as it is.
    Chown = "chown" { at: Dir, path: Path, uid: i64, gid: i64, flags: AtFlags }
    /// fchown(2).
    Fchown = "fchown" { slot: Slot, uid: i64, gid: i64 }
    /// utimensat(2).
    Utimens = "utimens" { at: Dir, path: Path, atime: Time, mtime: Time, flags: AtFlags }
    /// utimensat(2) without a path.
    Futimens = "futimens" { slot: Slot, atime: Time, mtime: Time }
    /// truncate(2).
    Truncate = "truncate" { path: Path, len: i64 }
    /// ftruncate(2).
    Ftruncate = "ftruncate" { slot: Slot, len: i64 }
    /// statfs(2), what of it is the same everywhere.
    Statfs = "statfs" { path: Path }
    /// Open a directory and read all of it with getdents64(2).
    Ls = "ls" { at: Dir, path: Path }
    /// getdents64(2) once; checks over the whole scan that nothing is lost or doubled.
    DirRead = "dirread" { slot: Slot, bytes: i64 }
    /// lseek(2) to the start of a directory.
    Rewind = "rewind" { slot: Slot }
    /// Read a directory, then again from each cookie: the rest must be the same.
    Cookies = "cookies" { slot: Slot }
    /// getcwd(2).
    Getcwd = "getcwd" {}
    /// chdir(2).
    Chdir = "chdir" { path: Path }
    /// fchdir(2).
    Fchdir = "fchdir" { slot: Slot }
    /// chroot(2).
    Chroot = "chroot" { path: Path }
    /// setxattr(2) and its relatives.
    SetXattr = "setxattr" { obj: Obj, name: Path, value: Path, flags: XFlags }
    /// getxattr(2) and its relatives.
    GetXattr = "getxattr" { obj: Obj, name: Path }
    /// listxattr(2) and its relatives; the outcome is sorted.
    ListXattr = "listxattr" { obj: Obj }
    /// removexattr(2) and its relatives.
    RemoveXattr = "removexattr" { obj: Obj, name: Path }
    /// pread64(2).
    Pread = "pread" { slot: Slot, len: i64, off: i64 }
    /// pwrite64(2).
    Pwrite = "pwrite" { slot: Slot, len: i64, off: i64, seed: i64 }
    /// read(2).
    Read = "read" { slot: Slot, len: i64 }
    /// write(2).
    Write = "write" { slot: Slot, len: i64, seed: i64 }
    /// lseek(2) of something that is no directory; whence as its number.
    Lseek = "lseek" { slot: Slot, off: i64, whence: i64 }
    /// mount(2) of a new tmpfs.
    Mount = "mount" { path: Path, flags: MsFlags }
    /// mount(2) with `MS_BIND`.
    Bind = "bind" { source: Path, target: Path, flags: MsFlags }
    /// mount(2) with `MS_REMOUNT | MS_BIND`: the flags of one mount.
    RemountBind = "remount_bind" { path: Path, flags: MsFlags }
    /// mount(2) with `MS_REMOUNT`: the flags of the file system.
    RemountSb = "remount_sb" { path: Path, flags: MsFlags }
    /// umount2(2).
    Umount = "umount" { path: Path, flags: UFlags }
}

/// The bytes that a write with this seed writes at this offset.
#[must_use]
pub fn content(seed: i64, off: i64, len: i64) -> Vec<u8> {
    let start = seed.wrapping_add(off);
    let letter = |i: i64| b'a' + start.wrapping_add(i).rem_euclid(23) as u8;
    (0..len.clamp(0, 1 << 20)).map(letter).collect()
}

/// A length as a face uses it: never negative, never absurd.
#[must_use]
pub fn size(len: i64) -> usize {
    usize::try_from(len.clamp(0, 1 << 20)).unwrap_or(0)
}

/// A plain `struct open_how`.
#[must_use]
pub fn how(flags: u64, mode: u64, resolve: u64) -> Vec<u8> {
    [flags, mode, resolve]
        .iter()
        .flat_map(|v| v.to_le_bytes())
        .collect()
}

/// The bytes of a `struct open_how` of this size; one byte of the tail set if asked for.
#[must_use]
pub fn raw_how(how: &[u8], len: i64, tail: i64) -> Vec<u8> {
    let mut bytes = how.to_vec();
    bytes.resize(size(len).max(how.len()), 0);
    if let Some(byte) = usize::try_from(tail)
        .ok()
        .and_then(|t| bytes.get_mut(how.len() + t))
    {
        *byte = 1;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_back_as_they_went() {
        for line in [
            "cred 1000",
            "open s1 cwd a/b/ RDWR|CREAT|EXCL 0644",
            "open - bad \"\" RDONLY 0",
            "openat2 - s0 /x ACC3|0x10000000000 010644 BENEATH|0x40",
            "rename cwd a s5 b NOREPLACE|0x8",
            "utimens cwd f now 1.999999999 NOFOLLOW|EMPTY",
            "setxattr l:a user.k \\xff CREATE",
            "getcwd",
            "lseek s1 -5 2",
        ] {
            let op: Op = line.parse().expect(line);
            assert_eq!(op.to_string().parse(), Ok(op), "{line}");
        }
        for bad in [
            "",
            "nosuch",
            "cred",
            "cred x",
            "close s9",
            "getcwd x",
            "open - cwd a FOO 0",
        ] {
            assert!(bad.parse::<Op>().is_err(), "{bad}");
        }
    }

    #[test]
    fn simpler_changes_one_argument() {
        let op: Op = "open s1 s2 a/b RDWR|CREAT 0640".parse().expect("a line");
        let simpler: Vec<String> = op.simpler().iter().map(Op::to_string).collect();
        assert!(simpler.contains(&"open - s2 a/b RDWR|CREAT 0640".to_owned()));
        assert!(simpler.contains(&"open s1 cwd a/b RDWR|CREAT 0640".to_owned()));
        assert!(simpler.contains(&"open s1 s2 b RDWR|CREAT 0640".to_owned()));
        assert!(simpler.contains(&"open s1 s2 a/b RDWR 0640".to_owned()));
    }
}
