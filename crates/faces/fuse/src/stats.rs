// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counts the FUSE requests of a mount by kind, for [`Stats`] and `openpath stats`.

use openpath_sync::Word;

macro_rules! requests {
    ($($name:ident = $text:literal,)*) => {
        /// A kind of request.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Request { $($name),* }

        /// The name of each kind.
        const NAMES: &[&str] = &[$($text),*];
    };
}

requests! {
    Lookup = "lookup",
    Absent = "lookup of absent names",
    Forget = "forget",
    Getattr = "getattr",
    Setattr = "setattr",
    Readlink = "readlink",
    Make = "mknod, mkdir, symlink",
    Create = "create",
    Link = "link",
    Remove = "unlink, rmdir",
    Rename = "rename",
    Open = "open, opendir",
    Close = "flush, release",
    Read = "read",
    Write = "write",
    Lost = "write kept back and lost",
    Sync = "fsync",
    List = "readdir",
    Space = "fallocate, lseek, copy_file_range",
    Lock = "getlk, setlk",
    Attribute = "xattr",
    Ioctl = "ioctl",
    Statfs = "statfs",
    Interrupt = "interrupt",
    Malformed = "malformed",
}

/// A word for each kind, and one for requests by rings.
pub(crate) struct Counts {
    kinds: Vec<Word>,
    /// Requests that came by rings.
    by_ring: Word,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            kinds: NAMES.iter().map(|_| Word::new(0)).collect(),
            by_ring: Word::new(0),
        }
    }
}

impl Counts {
    pub(crate) fn add(&self, kind: Request, n: u64) {
        self.kinds[kind as usize].add(n);
    }

    /// A request came by a ring.
    pub(crate) fn count_ring_request(&self) {
        self.by_ring.add(1);
    }
}

/// The requests of a mount, and its nodes.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Requests since the mount, by kind.
    pub requests: Vec<(&'static str, u64)>,
    /// Requests that came by rings.
    pub by_rings: u64,
    /// Files, directories and links that the kernel knows.
    pub nodes: usize,
}

impl Stats {
    pub(crate) fn new(counts: &Counts, nodes: usize) -> Self {
        let words = counts.kinds.iter().map(Word::get);
        Self {
            requests: NAMES.iter().copied().zip(words).collect(),
            by_rings: counts.by_ring.get(),
            nodes,
        }
    }

    /// Writes from the writeback cache that failed: their data is lost.
    #[must_use]
    pub fn lost_writes(&self) -> u64 {
        self.of(NAMES[Request::Lost as usize])
    }

    /// The number of requests of the kind with this name.
    #[must_use]
    pub fn of(&self, name: &str) -> u64 {
        let found = self.requests.iter().find(|(kind, _)| *kind == name);
        found.map_or(0, |(_, n)| *n)
    }
}
