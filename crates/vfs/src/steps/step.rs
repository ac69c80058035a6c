// SPDX-License-Identifier: MIT OR Apache-2.0
//! Defines the steps that an explanation records of a call, each with its facts by name.

use super::Check;
use crate::perm::Decider;
use crate::reason::Reason;
use openpath_abi::Errno;

/// A place of a walk.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WalkPosition {
    /// Its path from the task's root. If the root does not lead there, the path begins at the top
    /// of the tree of mounts that it is in.
    pub path: Vec<u8>,
    /// Number of the mount (`STATX_MNT_ID_UNIQUE`).
    pub mount: u64,
    /// Number of the inode; 0 for a name without one.
    pub ino: u64,
    /// Type of the file (`S_IFMT`); 0 for a name without one.
    pub kind: u32,
}

/// A permission that was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Permission {
    /// What for: 4 read, 2 write, 1 execute or search.
    pub asked: u32,
    /// The inode's mode.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The rule that decided.
    pub by: Decider,
    /// The decision.
    pub granted: bool,
}

/// The cached state of a name before its lookup.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cached {
    /// It exists.
    Positive,
    /// It does not exist.
    Negative,
    /// Not cached.
    Missing,
    /// It does not exist: all names of the directory are cached, and it is not among them.
    Complete,
    /// An entry that the backend wants to confirm at each use.
    Revalidate,
    /// An entry that was being changed.
    Busy,
}

/// A change that the call would make and its explanation does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SkippedChange {
    /// A file would be made.
    Create,
    /// A file without a name would be made.
    CreateUnnamed,
    /// The file would be opened.
    Open,
    /// The file would be opened when its peer comes; the call waits.
    Wait,
    /// The file would be truncated and opened.
    Truncate,
    /// The access time of a link would move; the walk goes on.
    TouchLink,
}

/// A step of a call.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Step {
    /// The walk stands here: at its start, at the root an absolute link leads to, or back in the
    /// directory of a link.
    At(WalkPosition),
    /// A permission was asked for.
    Asked(Permission),
    /// A name was looked up: its cached state, and its type (`S_IFMT`; `None`: it does not exist).
    Name {
        /// The name.
        name: Vec<u8>,
        /// Its cached state.
        cached: Cached,
        /// The type of its file.
        kind: Option<u32>,
    },
    /// The root of a mount there was entered.
    Mount(WalkPosition),
    /// A link was followed.
    Link {
        /// Its body; empty for a magic one.
        body: Vec<u8>,
        /// Which one of the walk it was, from 1.
        number: u32,
        /// It leads where its backend says, not where a body does.
        magic: bool,
    },
    /// `..` led here.
    Up(WalkPosition),
    /// `..` stayed where it was: at the root.
    Top,
    /// The walk started over.
    Again(Reason),
    /// A change that the call would make. Except at `TouchLink`, the explanation stops there.
    Skipped(SkippedChange),
    /// A check failed.
    Refused {
        /// Which one.
        check: Check,
        /// With what error.
        errno: Errno,
    },
    /// The walk ended here.
    End(WalkPosition),
}

/// A fact of a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Value {
    /// Bytes that a caller or a backend chose.
    Bytes(Vec<u8>),
    /// A word of ours.
    Word(&'static str),
    /// A number.
    Number(u64),
    /// Mode bits.
    Octal(u32),
    /// Yes or no.
    Flag(bool),
}

/// A fact and its name.
pub type Field = (&'static str, Value);

impl WalkPosition {
    fn fields(&self) -> Vec<Field> {
        vec![
            ("path", Value::Bytes(self.path.clone())),
            ("mount", Value::Number(self.mount)),
            ("inode", Value::Number(self.ino)),
            ("type", Value::Word(kind_name(self.kind))),
        ]
    }
}

impl Permission {
    /// The access that was asked for, in words.
    #[must_use]
    pub const fn access_name(&self) -> &'static str {
        match self.asked & 7 {
            0 => "nothing",
            1 => "execute or search",
            2 => "write",
            3 => "write and search",
            4 => "read",
            5 => "read and execute",
            6 => "read and write",
            _ => "all",
        }
    }
}

impl Cached {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Positive => "cached",
            Self::Negative => "cached as absent",
            Self::Missing => "not cached",
            Self::Complete => "not in a directory cached whole",
            Self::Revalidate => "cached, to be confirmed",
            Self::Busy => "cached, being changed",
        }
    }
}

impl SkippedChange {
    /// A word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::CreateUnnamed => "create without a name",
            Self::Open => "open",
            Self::Wait => "wait for a peer and open",
            Self::Truncate => "truncate and open",
            Self::TouchLink => "move the access time of the link",
        }
    }
}

/// The name of a file type.
pub(crate) const fn kind_name(kind: u32) -> &'static str {
    use openpath_abi::mode;
    match kind {
        0 => "nothing",
        mode::S_IFREG => "regular file",
        mode::S_IFDIR => "directory",
        mode::S_IFLNK => "link",
        mode::S_IFIFO => "FIFO",
        mode::S_IFSOCK => "socket",
        mode::S_IFCHR => "character device",
        mode::S_IFBLK => "block device",
        _ => "unknown",
    }
}

impl Step {
    /// The kind of step.
    #[must_use]
    pub const fn verb(&self) -> &'static str {
        match self {
            Self::At(_) => "at",
            Self::Asked(_) => "asked",
            Self::Name { .. } => "name",
            Self::Mount(_) => "mount",
            Self::Link { .. } => "link",
            Self::Up(_) | Self::Top => "up",
            Self::Again(_) => "again",
            Self::Skipped(_) => "would",
            Self::Refused { .. } => "refused",
            Self::End(_) => "end",
        }
    }

    /// Its facts, for any output format.
    #[must_use]
    pub fn fields(&self) -> Vec<Field> {
        match self {
            Self::At(place) | Self::Mount(place) | Self::Up(place) | Self::End(place) => {
                place.fields()
            }
            Self::Top => vec![("stays", Value::Flag(true))],
            Self::Asked(p) => vec![
                ("asked", Value::Word(p.access_name())),
                ("mode", Value::Octal(p.mode & 0o7777)),
                ("uid", Value::Number(u64::from(p.uid))),
                ("gid", Value::Number(u64::from(p.gid))),
                ("by", Value::Word(p.by.name())),
                ("granted", Value::Flag(p.granted)),
            ],
            Self::Name { name, cached, kind } => vec![
                ("name", Value::Bytes(name.clone())),
                ("cache", Value::Word(cached.name())),
                ("type", Value::Word(kind_name(kind.unwrap_or(0)))),
            ],
            Self::Link {
                body,
                number,
                magic,
            } => vec![
                ("body", Value::Bytes(body.clone())),
                ("number", Value::Number(u64::from(*number))),
                ("magic", Value::Flag(*magic)),
            ],
            Self::Again(why) => vec![("reason", Value::Word(why.name()))],
            Self::Skipped(would) => vec![("change", Value::Word(would.name()))],
            Self::Refused { check, errno } => vec![
                ("check", Value::Word(check.name())),
                ("errno", Value::Word(errno.name())),
            ],
        }
    }
}
