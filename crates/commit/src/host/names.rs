// SPDX-License-Identifier: MIT OR Apache-2.0
//! Splits, joins and compares paths, and lists the names in a directory.

use crate::host::descriptors::reopen_readable;
use rustix::fd::BorrowedFd;
use rustix::io::Result;

/// The names in a directory, in order.
pub(crate) fn names_in(dir: BorrowedFd<'_>) -> Result<Vec<Vec<u8>>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::new(reopen_readable(dir)?)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(name);
        }
    }
    names.sort();
    Ok(names)
}

/// A path's directory and its last name.
pub(crate) fn split(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (b"", path),
    }
}

/// A path and the directories above it, the nearest first, without the root.
pub(crate) fn at_and_above(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    let above = std::iter::successors(Some(path), |path| Some(split(path).0));
    above.take_while(|path| !path.is_empty())
}

/// A name in a directory.
pub(crate) fn join(dir: &[u8], name: &[u8]) -> Vec<u8> {
    [dir, b"/", name].concat()
}

/// Whether `path` is `top` or below it.
#[must_use]
pub fn is_below(path: &[u8], top: &[u8]) -> bool {
    let rest = path.strip_prefix(top);
    rest.is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}
