// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of operations: each is one word, and knows simpler values of itself.

use serde::{Deserialize, Serialize};

use super::text;
use openpath_abi::{access as a, fcntl as f, mount as m, rename as rn, resolve as r};

/// One argument of an operation.
pub trait Arg: Sized {
    /// Writes it as one word.
    fn put(&self, out: &mut String);
    /// Reads it back.
    ///
    /// # Errors
    /// A text that says what is wrong.
    fn get(word: &str) -> Result<Self, String>;
    /// Simpler values to try when a failing case is shrunk, simplest first.
    fn simpler(&self) -> Vec<Self> {
        Vec::new()
    }
}

/// How many descriptors a case may keep.
pub const SLOTS: usize = 6;

/// A kept descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slot(pub u8);

impl Arg for Slot {
    fn put(&self, out: &mut String) {
        out.push_str(&format!("s{}", self.0));
    }
    fn get(word: &str) -> Result<Self, String> {
        let number = word.strip_prefix('s').and_then(|n| n.parse().ok());
        match number {
            Some(k) if usize::from(k) < SLOTS => Ok(Slot(k)),
            _ => Err(format!("not a slot: {word}")),
        }
    }
}

/// Where an opened descriptor goes: kept in a slot, or closed at once (`-`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep(pub Option<Slot>);

impl Arg for Keep {
    fn put(&self, out: &mut String) {
        match self.0 {
            Some(slot) => slot.put(out),
            None => out.push('-'),
        }
    }
    fn get(word: &str) -> Result<Self, String> {
        if word == "-" {
            Ok(Keep(None))
        } else {
            Slot::get(word).map(|s| Keep(Some(s)))
        }
    }
    fn simpler(&self) -> Vec<Self> {
        if self.0.is_some() {
            vec![Keep(None)]
        } else {
            Vec::new()
        }
    }
}

/// Where a relative path starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Dir {
    /// `AT_FDCWD`.
    Cwd,
    /// A kept descriptor, open or not.
    Slot(Slot),
    /// A descriptor that is not open.
    Bad,
}

impl Arg for Dir {
    fn put(&self, out: &mut String) {
        match self {
            Dir::Cwd => out.push_str("cwd"),
            Dir::Bad => out.push_str("bad"),
            Dir::Slot(s) => s.put(out),
        }
    }
    fn get(word: &str) -> Result<Self, String> {
        match word {
            "cwd" => Ok(Dir::Cwd),
            "bad" => Ok(Dir::Bad),
            _ => Slot::get(word).map(Dir::Slot),
        }
    }
    fn simpler(&self) -> Vec<Self> {
        if *self == Dir::Cwd {
            Vec::new()
        } else {
            vec![Dir::Cwd]
        }
    }
}

/// A path, or any other byte string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Path(pub Vec<u8>);

impl From<&str> for Path {
    fn from(s: &str) -> Path {
        Path(s.as_bytes().to_vec())
    }
}

impl Arg for Path {
    fn put(&self, out: &mut String) {
        text::put(&self.0, out);
    }
    fn get(word: &str) -> Result<Self, String> {
        text::get(word).map(Path)
    }
    fn simpler(&self) -> Vec<Self> {
        let mut all: Vec<Vec<u8>> = Vec::new();
        let parts: Vec<&[u8]> = self.0.split(|&b| b == b'/').collect();
        if parts.len() > 1 && parts.len() <= 64 {
            for skip in 0..parts.len() {
                let kept: Vec<&[u8]> = (0..parts.len())
                    .filter(|&i| i != skip)
                    .map(|i| parts[i])
                    .collect();
                all.push(kept.join(&b'/'));
            }
        }
        if self.0.len() > 24 {
            all.push(self.0[..self.0.len() / 2].to_vec());
            all.push(self.0[self.0.len() / 2..].to_vec());
        }
        all.retain(|p| !p.is_empty() && p.len() < self.0.len());
        all.into_iter().map(Path).collect()
    }
}

/// What an extended attribute hangs on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Obj {
    /// `p:PATH`, links followed.
    Path(Path),
    /// `l:PATH`, last link not followed.
    LPath(Path),
    /// A kept descriptor.
    Slot(Slot),
}

impl Arg for Obj {
    fn put(&self, out: &mut String) {
        match self {
            Obj::Path(p) => {
                out.push_str("p:");
                p.put(out);
            }
            Obj::LPath(p) => {
                out.push_str("l:");
                p.put(out);
            }
            Obj::Slot(s) => s.put(out),
        }
    }
    fn get(word: &str) -> Result<Self, String> {
        if let Some(p) = word.strip_prefix("p:") {
            return Path::get(p).map(Obj::Path);
        }
        match word.strip_prefix("l:") {
            Some(p) => Path::get(p).map(Obj::LPath),
            None => Slot::get(word).map(Obj::Slot),
        }
    }
    fn simpler(&self) -> Vec<Self> {
        match self {
            Obj::Path(p) => p.simpler().into_iter().map(Obj::Path).collect(),
            Obj::LPath(p) => p.simpler().into_iter().map(Obj::LPath).collect(),
            Obj::Slot(_) => Vec::new(),
        }
    }
}

/// A decimal number.
impl Arg for i64 {
    fn put(&self, out: &mut String) {
        out.push_str(&self.to_string());
    }
    fn get(word: &str) -> Result<Self, String> {
        word.parse().map_err(|_| format!("not a number: {word}"))
    }
    fn simpler(&self) -> Vec<Self> {
        let mut all = vec![0, 1, self / 2];
        all.retain(|v| v.unsigned_abs() < self.unsigned_abs());
        all
    }
}

/// An octal mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mode(pub u64);

impl Arg for Mode {
    fn put(&self, out: &mut String) {
        out.push_str(&if self.0 == 0 {
            "0".to_owned()
        } else {
            format!("0{:o}", self.0)
        });
    }
    fn get(word: &str) -> Result<Self, String> {
        u64::from_str_radix(word, 8)
            .map(Mode)
            .map_err(|_| format!("not octal: {word}"))
    }
    fn simpler(&self) -> Vec<Self> {
        let kind = self.0 & 0o170000;
        let mut all = vec![Mode(kind), Mode(kind | 0o777), Mode(kind | 0o644)];
        all.retain(|m| m.0 != self.0 && (m.0 ^ kind).count_ones() < (self.0 ^ kind).count_ones());
        all
    }
}

/// A time of utimensat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Time {
    /// `UTIME_NOW`.
    Now,
    /// `UTIME_OMIT`.
    Omit,
    /// Seconds and nanoseconds, valid or not.
    At(i64, i64),
}

impl Arg for Time {
    fn put(&self, out: &mut String) {
        match self {
            Time::Now => out.push_str("now"),
            Time::Omit => out.push_str("omit"),
            Time::At(s, n) => out.push_str(&format!("{s}.{n}")),
        }
    }
    fn get(word: &str) -> Result<Self, String> {
        let bad = || format!("not a time: {word}");
        match word {
            "now" => Ok(Time::Now),
            "omit" => Ok(Time::Omit),
            _ => {
                let (s, n) = word.split_once('.').ok_or_else(bad)?;
                Ok(Time::At(
                    s.parse().map_err(|_| bad())?,
                    n.parse().map_err(|_| bad())?,
                ))
            }
        }
    }
    fn simpler(&self) -> Vec<Self> {
        if *self == Time::Omit {
            Vec::new()
        } else {
            vec![Time::Omit]
        }
    }
}

/// Writes `value` as names joined by `|`, the rest in hexadecimal; `0` if there is nothing.
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

/// Makes a type of flags with names.
macro_rules! flags {
    ($($(#[$doc:meta])* $name:ident { $($word:literal = $bits:expr),* $(,)? })*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub struct $name(pub u64);

        impl $name {
            /// The names, in the order of writing.
            pub const NAMES: &'static [(&'static str, u64)] = &[$(($word, ($bits) as u64)),*];

            /// The low 32 bits, which is what most calls take.
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
        "ACC3" = f::O_ACCMODE, "WRONLY" = f::O_WRONLY, "RDWR" = f::O_RDWR, "RDONLY" = 0,
        "TMPFILE" = f::O_TMPFILE, "TMPFILE_ONLY" = f::O_TMPFILE_ONLY,
        "CREAT" = f::O_CREAT, "EXCL" = f::O_EXCL, "TRUNC" = f::O_TRUNC, "PATH" = f::O_PATH,
        "DIRECTORY" = f::O_DIRECTORY, "NOFOLLOW" = f::O_NOFOLLOW, "APPEND" = f::O_APPEND,
        "NONBLOCK" = f::O_NONBLOCK, "NOATIME" = f::O_NOATIME, "CLOEXEC" = f::O_CLOEXEC,
        "SYNC" = f::O_SYNC, "DSYNC" = f::O_DSYNC, "DIRECT" = f::O_DIRECT, "ASYNC" = f::O_ASYNC,
        "NOCTTY" = f::O_NOCTTY, "LARGEFILE" = f::O_LARGEFILE,
    }
    /// `RESOLVE_*`.
    Resolve {
        "NO_XDEV" = r::RESOLVE_NO_XDEV, "NO_MAGICLINKS" = r::RESOLVE_NO_MAGICLINKS,
        "NO_SYMLINKS" = r::RESOLVE_NO_SYMLINKS, "BENEATH" = r::RESOLVE_BENEATH,
        "IN_ROOT" = r::RESOLVE_IN_ROOT, "CACHED" = r::RESOLVE_CACHED,
    }
    /// `AT_*`; `REMOVEDIR` and `EACCESS` are the same bit.
    AtFlags {
        "NOFOLLOW" = f::AT_SYMLINK_NOFOLLOW, "REMOVEDIR" = f::AT_REMOVEDIR,
        "EACCESS" = f::AT_EACCESS, "FOLLOW" = f::AT_SYMLINK_FOLLOW,
        "NO_AUTOMOUNT" = f::AT_NO_AUTOMOUNT, "EMPTY" = f::AT_EMPTY_PATH,
    }
    /// `RENAME_*`.
    RFlags {
        "NOREPLACE" = rn::RENAME_NOREPLACE, "EXCHANGE" = rn::RENAME_EXCHANGE,
        "WHITEOUT" = rn::RENAME_WHITEOUT,
    }
    /// `R_OK`, `W_OK`, `X_OK`.
    Access { "R" = a::R_OK, "W" = a::W_OK, "X" = a::X_OK }
    /// `MS_*`, those that make sense for a mount of ours.
    MsFlags {
        "RDONLY" = m::MS_RDONLY, "NOSUID" = m::MS_NOSUID, "NODEV" = m::MS_NODEV,
        "NOEXEC" = m::MS_NOEXEC, "NOSYMFOLLOW" = m::MS_NOSYMFOLLOW, "NOATIME" = m::MS_NOATIME,
        "NODIRATIME" = m::MS_NODIRATIME, "STRICTATIME" = m::MS_STRICTATIME, "REC" = m::MS_REC,
        "RELATIME" = m::MS_RELATIME,
    }
    /// `MNT_*` and `UMOUNT_NOFOLLOW`.
    UFlags {
        "FORCE" = m::MNT_FORCE, "DETACH" = m::MNT_DETACH, "EXPIRE" = m::MNT_EXPIRE,
        "NOFOLLOW" = m::UMOUNT_NOFOLLOW,
    }
    /// `XATTR_CREATE` and `XATTR_REPLACE`.
    XFlags { "CREATE" = 1, "REPLACE" = 2 }
    /// Plain bits in hexadecimal: the mask of statx(2).
    Bits {}
}
